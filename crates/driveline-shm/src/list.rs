// SPDX-License-Identifier: Apache-2.0
//! The tools' view: asks every participant of a domain what it has.

use crate::error::ListError;
use crate::info::ParticipantInfo;
use crate::limits::{MAX_LISTING_LEN, MAX_MESSAGE_LEN};
use crate::sys::directory::{Directory, Kind};
use crate::sys::fork::GuardedFd;
use crate::sys::peer;
use crate::sys::socket::{self, Received};
use crate::wire::Message;
use driveline_types::{EndpointId, MonotonicNs};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

struct Query {
    socket: GuardedFd,
    text: Vec<u8>,
}

/// What a domain looks like from outside.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Those that have answered.
    pub participants: Vec<ParticipantInfo>,
    /// Processes that exist and have not answered in time: stopped, or far too busy. 0 stands for one of another PID
    /// namespace.
    pub silent: Vec<u32>,
}

/// Asks every live participant of the domain in `domain_dir` over its socket and returns what has come after at most
/// `timeout`. Participants that are stopped or too slow are left out; [`survey`] also tells of them. Blocks and allocates.
///
/// # Errors
/// If the directory cannot be read.
pub fn list(domain_dir: &Path, timeout: Duration) -> Result<Vec<ParticipantInfo>, ListError> {
    survey(domain_dir, timeout).map(|s| s.participants)
}

/// As [`list`], and tells who has not answered. Where somebody is stopped, it takes all of `timeout`.
///
/// # Errors
/// If the directory cannot be read.
pub fn survey(domain_dir: &Path, timeout: Duration) -> Result<Survey, ListError> {
    let unreadable = |source| ListError::Directory { path: domain_dir.to_owned(), source };
    let directory = Directory::open_existing(domain_dir).map_err(unreadable)?;
    let question = Message::List.encode().unwrap_or_default();
    let mut queries = Vec::new();
    for name in directory.names().map_err(unreadable)?.iter().filter(|n| n.kind == Kind::Info) {
        // Dead or unreachable ones have nothing to say.
        if let Ok(socket) = socket::dial(&directory, &name.text)
            && socket::send(&socket, &question, &[]).is_ok()
        {
            queries.push(Query { socket, text: Vec::new() });
        }
    }
    let deadline = MonotonicNs::now() + timeout;
    let mut buffer = vec![0; MAX_MESSAGE_LEN];
    let mut found = Vec::new();
    while !queries.is_empty() {
        let left = deadline.since(MonotonicNs::now());
        if left.is_zero() {
            break;
        }
        let wait = Timespec { tv_sec: left.as_secs().min(3600) as i64, tv_nsec: i64::from(left.subsec_nanos()) as _ };
        {
            let mut fds: Vec<PollFd<'_>> = queries.iter().map(|q| PollFd::new(&q.socket, PollFlags::IN)).collect();
            match poll(&mut fds, Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(ListError::System { action: "wait for the participants' answers", source: e.into() }),
            }
        }
        queries.retain_mut(|q| match advance(q, &mut buffer) {
            Progress::More => true,
            Progress::Done(info) => {
                found.extend(info);
                false
            }
        });
    }
    found.sort_by(|a: &ParticipantInfo, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    join(&mut found);
    let mut silent: Vec<u32> = queries.iter().map(|q| peer::process(&q.socket).unwrap_or(0)).collect();
    silent.sort_unstable();
    Ok(Survey { participants: found, silent })
}

enum Progress {
    More,
    Done(Option<ParticipantInfo>),
}

fn advance(q: &mut Query, buffer: &mut [u8]) -> Progress {
    loop {
        match socket::receive(&q.socket, buffer) {
            Ok(Received::Nothing) => return Progress::More,
            Ok(Received::Message(len, _)) => match buffer.get(..len).map(Message::decode) {
                Some(Ok(Message::Listing(part))) if part.is_empty() => return Progress::Done(serde_json::from_slice(&q.text).ok()),
                Some(Ok(Message::Listing(part))) if q.text.len() + part.len() <= MAX_LISTING_LEN => q.text.extend(part),
                _ => return Progress::Done(None),
            },
            Ok(Received::Closed | Received::Oversized) | Err(_) => return Progress::Done(None),
        }
    }
}

/// Adds what the subscribers say about themselves to what the publishers say about them.
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
