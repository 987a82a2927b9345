// SPDX-License-Identifier: Apache-2.0
//! Listing for tools: queries every participant of a domain.

use crate::control::{Reception, receive_message};
use crate::error::ListError;
use crate::info::ParticipantInfo;
use crate::limits::{MAX_FOREIGN_LISTED, MAX_LISTING_LEN, MAX_MESSAGE_LEN};
use crate::sys::blocking_tasks::{BlockingTasks, Foreign};
use crate::sys::descriptors;
use crate::sys::directory::{Directory, Kind, Name};
use crate::sys::peer;
use crate::sys::socket::{self, ConnectError};
use crate::wire::Message;
use driveline_types::{EndpointId, MonotonicNs};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

struct Query {
    socket: Foreign,
    name: Name,
    /// Number of earlier attempts that ended with a hang-up: a participant serves a limited number
    /// of tools at a time, and hangs up on others.
    tries: u32,
    text: Vec<u8>,
    /// True while the next part is being received on another thread of this process, which serves
    /// the other end's user (`sys::blocking_tasks`).
    elsewhere: bool,
}

/// Interval at which answers received on other threads are collected, and busy participants are
/// dialled again.
const LOOK: Duration = Duration::from_millis(5);

/// Maximum number of further attempts at a participant that hangs up.
const MAX_TRIES: u32 = 20;

/// State of a domain, seen from outside.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Participants that have answered.
    pub participants: Vec<ParticipantInfo>,
    /// Processes of this user or root that exist and have not answered in time: stopped, or far too
    /// busy. 0 stands for a process whose id is not known, such as one of another PID namespace.
    pub silent: Vec<u32>,
    /// The same for other users, including participants that were not queried because there are too
    /// many.
    pub silent_others: Vec<u32>,
}

/// Queries every live participant of the domain in `domain_dir` over its socket, at most 256 of
/// other users, and returns the answers that arrive within `timeout`. Stopped or slow participants
/// are missing; [`survey`] also returns those. Blocks and allocates.
///
/// # Errors
/// If the directory cannot be read, or the kernel refuses a system call.
pub fn list(domain_dir: &Path, timeout: Duration) -> Result<Vec<ParticipantInfo>, ListError> {
    survey(domain_dir, timeout).map(|s| s.participants)
}

/// Removes the sockets of dead processes from the domain directory, and returns the number of
/// removed sockets. For a launcher after one of its processes was killed. Participants also remove
/// such sockets: when they start, after a match has ended, and when they dial one. Blocks on files
/// only; allocates; any thread.
///
/// # Errors
/// If the directory cannot be read, or the kernel refuses a system call.
pub fn remove_dead(domain_dir: &Path) -> Result<usize, ListError> {
    let unreadable = |source| ListError::Directory { path: domain_dir.to_owned(), source };
    let directory = Directory::open_existing(domain_dir).map_err(unreadable)?;
    let blocking_tasks = BlockingTasks::new()
        .map_err(|source| ListError::System { action: "make an epoll instance", source })?;
    let names = directory.names().map_err(unreadable)?.names;
    let dead = names.iter().filter(|name| socket::is_dead(&directory, name, &blocking_tasks));
    Ok(dead.filter(|name| directory.remove(&name.text)).count())
}

/// As [`list`], and also returns the participants that have not answered. Takes all of `timeout` if
/// a participant is stopped.
///
/// # Errors
/// If the directory cannot be read, or the kernel refuses a system call.
pub fn survey(domain_dir: &Path, timeout: Duration) -> Result<Survey, ListError> {
    descriptors::raise_limit();
    let unreadable = |source| ListError::Directory { path: domain_dir.to_owned(), source };
    let directory = Directory::open_existing(domain_dir).map_err(unreadable)?;
    // Anything that other users send in place of an answer must not block the caller.
    let blocking_tasks = BlockingTasks::new()
        .map_err(|source| ListError::System { action: "make an epoll instance", source })?;
    let question = Message::List.encode().unwrap_or_default();
    let mut queries: Vec<Query> = Vec::new();
    let names =
        directory.names().map_err(unreadable)?.names.into_iter().filter(|n| n.kind == Kind::Info);
    // Another user may create very many names, so names of this user and of root come first.
    let (own, mut others): (Vec<_>, Vec<_>) = names.partition(|n| directory.is_of_trusted(&n.text));
    let mut silent_others = vec![0; others.len().saturating_sub(MAX_FOREIGN_LISTED)];
    others.truncate(MAX_FOREIGN_LISTED);
    let mut unasked: Vec<(Name, u32)> =
        own.into_iter().chain(others).map(|name| (name, 0)).collect();
    let deadline = MonotonicNs::real_now() + timeout;
    let mut buffer = vec![0; MAX_MESSAGE_LEN];
    let (mut found, mut silent) = (Vec::new(), Vec::new());
    let (sender, parts) = channel::<(RawFd, Reception)>();
    let mut over = false;
    loop {
        unasked.retain(|(name, tries)| {
            match socket::dial(&directory, &name.text, &blocking_tasks) {
                Ok(socket) => {
                    if socket::send(&socket, &question, &[]).is_ok() {
                        queries.push(Query {
                            socket,
                            name: name.clone(),
                            tries: *tries,
                            text: Vec::new(),
                            elsewhere: false,
                        });
                    }
                    false
                }
                // Its queue is full of other connections, or it is stopped.
                Err(ConnectError::Busy) => true,
                // This process is short of descriptors: queried when others have answered.
                Err(ConnectError::Other(e)) if descriptors::is_shortage(&e) => true,
                // Dead or unreachable participants do not answer.
                Err(_) => false,
            }
        });
        if over || queries.is_empty() && unasked.is_empty() {
            break;
        }
        let mut left = deadline.since(MonotonicNs::real_now());
        // One more check: on a busy machine this thread may run only after the deadline, and
        // answers may have arrived in time.
        over = left.is_zero();
        if !unasked.is_empty() || queries.iter().any(|q| q.elsewhere) {
            left = left.min(LOOK);
        }
        let wait = Timespec {
            tv_sec: left.as_secs().min(3600) as i64,
            tv_nsec: i64::from(left.subsec_nanos()) as _,
        };
        {
            let here = queries.iter().filter(|q| !q.elsewhere);
            let mut fds: Vec<PollFd<'_>> =
                here.map(|q| PollFd::new(&q.socket, PollFlags::IN)).collect();
            match poll(&mut fds, Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => {
                    return Err(ListError::System {
                        action: "wait for the participants' answers",
                        source: e.into(),
                    });
                }
            }
        }
        let mut received: HashMap<RawFd, Reception> = parts.try_iter().collect();
        queries.retain_mut(|q| match advance(q, &mut buffer, &mut received, &sender) {
            Progress::More => true,
            Progress::Done(info) => {
                found.extend(info);
                false
            }
            Progress::HungUp => {
                if q.tries < MAX_TRIES {
                    unasked.push((q.name.clone(), q.tries + 1));
                } else if !q.socket.user().is_trusted() {
                    silent_others.push(peer::process(&q.socket).unwrap_or(0));
                } else {
                    silent.push(peer::process(&q.socket).unwrap_or(0));
                }
                false
            }
        });
    }
    found.sort_by(|a: &ParticipantInfo, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    join(&mut found);
    for q in &queries {
        let pid = peer::process(&q.socket).unwrap_or(0);
        if q.socket.user().is_trusted() { silent.push(pid) } else { silent_others.push(pid) }
    }
    for (name, _) in &unasked {
        if directory.is_of_trusted(&name.text) { silent.push(0) } else { silent_others.push(0) }
    }
    silent.sort_unstable();
    silent_others.sort_unstable();
    Ok(Survey { participants: found, silent, silent_others })
}

enum Progress {
    More,
    Done(Option<ParticipantInfo>),
    /// Hung up without an answer.
    HungUp,
}

/// Takes the received parts of one answer: from this thread, or from the thread that receives for
/// the other end's user.
fn advance(
    q: &mut Query,
    buffer: &mut [u8],
    received: &mut HashMap<RawFd, Reception>,
    sender: &Sender<(RawFd, Reception)>,
) -> Progress {
    let id = q.socket.as_fd().as_raw_fd();
    loop {
        let received = if q.socket.is_harmless() {
            receive_message(&q.socket, buffer)
        } else if let Some(received) = received.remove(&id) {
            q.elsewhere = false;
            received
        } else if q.elsewhere || !is_readable(&q.socket) {
            return Progress::More;
        } else {
            q.elsewhere = true;
            let sender = sender.clone();
            q.socket.apart(move |socket| {
                drop(sender.send((id, receive_message(&socket, &mut vec![0; MAX_MESSAGE_LEN]))))
            });
            return Progress::More;
        };
        match received {
            Reception::Nothing => return Progress::More,
            Reception::Said(Ok(Message::Listing(part)), _) if part.is_empty() => {
                let of_this_user = q.socket.user().is_trusted();
                let info = serde_json::from_slice::<ParticipantInfo>(&q.text).ok();
                return Progress::Done(info.map(|info| ParticipantInfo { of_this_user, ..info }));
            }
            Reception::Ended if q.text.is_empty() => return Progress::HungUp,
            Reception::Said(Ok(Message::Listing(part)), _)
                if q.text.len() + part.len() <= MAX_LISTING_LEN =>
            {
                q.text.extend(part)
            }
            _ => return Progress::Done(None),
        }
    }
}

fn is_readable(socket: &Foreign) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&now)) == Ok(1)
}

/// Adds the subscriptions' own counters to the publishers' lists of matches.
fn join(found: &mut [ParticipantInfo]) {
    let mut edges: HashMap<(EndpointId, EndpointId), (u64, u64)> = HashMap::new();
    for s in found.iter().flat_map(|p| &p.subscriptions) {
        for e in &s.matches {
            edges.insert((e.publisher, s.id), (e.missed, e.overruns));
        }
    }
    for p in found.iter_mut().flat_map(|p| &mut p.publishers) {
        for m in &mut p.matches {
            if let Some(&(missed, overruns)) = edges.get(&(p.id, m.subscription)) {
                (m.missed, m.overruns) = (Some(missed), Some(overruns));
            }
        }
    }
}
