// SPDX-License-Identifier: Apache-2.0
//! The control thread: matches endpoints, detects deaths, answers tools, checks deadlines. It
//! sleeps in `epoll`, and no peer can make it wait: every socket is non-blocking, every connection
//! is a small state machine, and calls that a peer could block run on other threads
//! (`sys::blocking_tasks`).

mod deadlines;
mod dial;
mod discovery;
mod handshake;
mod hints;
mod info;
mod inlets;
mod match_limits;
mod outlets;
#[cfg(test)]
mod own_process_tests;
mod pins;
mod presence;
mod query;
mod reserve;
mod shortage;
mod watch;

use crate::inlet::Inlet;
use crate::limits::MAX_MESSAGE_LEN;
use crate::protocol::epoch::Changes;
use crate::publication::{PubMatch, Publication};
use crate::queue::{lock, try_lock};
use crate::sys::blocking_tasks::{BlockingTasks, Foreign};
use crate::sys::directory::{Directory, Kind, Name, Stamp};
use crate::sys::fork::GuardedFd;
use crate::sys::peer::User;
use crate::sys::socket;
use dial::{Dial, InletState};
use driveline_types::{EndpointId, MonotonicNs, TopicId};
pub(crate) use handshake::{Reception, receive_message};
use outlets::{Outlet, Peer};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::time::Timespec;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time from the end of a match to the search for names of dead processes. So one search covers all
/// matches of a process, and a process that ends in order has removed its names by then.
const SWEEP_AFTER: Duration = Duration::from_secs(1);
/// Duration for which a listener that cannot accept is not watched.
const REST: Duration = Duration::from_millis(500);

/// Requests of the application's threads to the control thread, and data that other threads have
/// received for it.
pub(crate) enum Command {
    AddPublication {
        publication: Arc<Publication>,
        changes: Changes<Vec<Arc<PubMatch>>>,
        listener: GuardedFd,
        name: String,
    },
    AddInlet(Arc<Inlet>),
    Remove(EndpointId),
    /// Data received from a connection of another user.
    Reception {
        key: u64,
        received: handshake::Reception,
    },
    /// Hints received on another thread.
    Hints {
        key: u64,
        hints: Vec<Option<Name>>,
    },
    Stop,
}

/// Queue of commands to the control thread.
#[derive(Debug)]
pub(crate) struct Commands {
    queue: Mutex<VecDeque<Command>>,
    signal: GuardedFd,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Command")
    }
}

impl Commands {
    pub(crate) fn new() -> io::Result<Self> {
        let signal = GuardedFd::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)?;
        Ok(Self { queue: Mutex::new(VecDeque::new()), signal })
    }

    pub(crate) fn send(&self, command: Command) {
        lock(&self.queue).push_back(command);
        // Can only fail if the counter is full, and then it is readable anyway.
        let _ = rustix::io::write(&self.signal, &1u64.to_ne_bytes());
    }

    fn drain(&self) -> VecDeque<Command> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.signal, &mut count);
        std::mem::take(&mut *lock(&self.queue))
    }
}

/// A descriptor in epoll. `Control::sources` has it under the number that epoll reports for it.
enum Source {
    Commands,
    Rescan,
    InfoListener,
    Listener(EndpointId),
    Peer(Peer),
    Dial(Dial),
    Info(query::Query),
}

impl Source {
    /// Returns the connection, if its first message has not arrived yet.
    fn undecided(&self) -> Option<&Foreign> {
        match self {
            Self::Peer(peer) => peer.undecided(),
            Self::Dial(dial) => dial.undecided(),
            Self::Info(query) => query.undecided(),
            _ => None,
        }
    }
}

/// State of the scans and checks of the directory.
#[derive(Debug, Default)]
pub(super) struct Discovery {
    pub(super) wanted: bool,
    pub(super) last: MonotonicNs,
    pub(super) next_check: MonotonicNs,
    pub(super) stamp: Option<Stamp>,
    /// The stamp has the clock tick's resolution: after a change, one more scan a second later
    /// finds later changes of the same tick.
    pub(super) again: bool,
    /// Time of the next removal of names of dead processes.
    pub(super) sweep_at: Option<MonotonicNs>,
    /// It was reported that the directory has more entries than are read.
    pub(super) cut: bool,
}

impl Discovery {
    /// Requests a scan of the directory, soon.
    pub(super) fn look(&mut self) {
        self.wanted = true;
    }

    /// Notes that a match has ended: its other end may be dead.
    pub(super) fn match_ended(&mut self, now: MonotonicNs) {
        self.sweep_at.get_or_insert(now + SWEEP_AFTER);
    }
}

/// Identity of the participant whose control thread this is.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) id: EndpointId,
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) directory: Directory,
    pub(crate) description: Mutex<String>,
    /// Names of this participant in the directory. Those of publishers are entered before other
    /// processes can see them.
    pub(crate) own_names: Mutex<HashSet<String>>,
}

impl Identity {
    /// Creates the socket by which other processes find a publisher. The name is registered first:
    /// the control thread may find it in the directory before it gets the command with the
    /// publisher, and must recognise it as this process's own.
    pub(crate) fn listen(&self, topic: TopicId, mode: u32) -> io::Result<(GuardedFd, String)> {
        let name = Name::random(Kind::Publisher(topic.0))?;
        lock(&self.own_names).insert(name.text.clone());
        match socket::listen_at(&self.directory, &name, mode) {
            Ok(listener) => Ok((listener, name.text)),
            Err(e) => {
                lock(&self.own_names).remove(&name.text);
                Err(e)
            }
        }
    }

    /// Removes all names of this participant from the directory, for a process that ends without
    /// its destructors. Does not wait while another thread uses the list of names: then the names
    /// stay, and the next process that searches the directory for dead names removes them.
    pub(crate) fn unlist_all(&self) {
        for name in try_lock(&self.own_names).iter().flat_map(|names| names.iter()) {
            self.directory.remove(name);
        }
    }

    /// Removes the name that [`Self::listen`] registered.
    pub(crate) fn unlist(&self, name: &str) {
        self.directory.remove(name);
        lock(&self.own_names).remove(name);
    }
}

/// Creates the socket for hints.
fn rescan_socket(
    directory: &Directory,
    name: &Name,
    mode: u32,
    blocking_tasks: &Arc<BlockingTasks>,
) -> io::Result<Foreign> {
    let socket = socket::datagram_at(directory, name, mode)?;
    let safe = !directory.is_shared() || socket::take_descriptors(&socket, false);
    let mut socket = Foreign::connection(socket, User::UNKNOWN, blocking_tasks);
    if safe {
        socket.is_no_threat();
    }
    Ok(socket)
}

pub(crate) struct Control {
    identity: Arc<Identity>,
    commands: Arc<Commands>,
    blocking_tasks: Arc<BlockingTasks>,
    sources: HashMap<u64, Source>,
    next_source: u64,
    rescan: Foreign,
    rescan_name: String,
    info_listener: GuardedFd,
    info_name: String,
    outlets: HashMap<EndpointId, Outlet>,
    inlets: HashMap<EndpointId, InletState>,
    discovery: Discovery,
    /// True while the directory, or a name in it, is lost and cannot be restored; set when this was
    /// reported.
    lost: bool,
    attention: hints::Attention,
    reserve: reserve::Reserve,
    buffer: Box<[u8]>,
    /// Listeners that could not accept, and the time until which they are not watched.
    resting: Vec<u64>,
    rested_at: MonotonicNs,
    /// Time of the next action without an event. Recomputed each round.
    due: Option<MonotonicNs>,
    now: MonotonicNs,
}

impl Control {
    pub(crate) fn new(identity: Arc<Identity>, commands: Arc<Commands>) -> io::Result<Self> {
        let blocking_tasks = BlockingTasks::new()?;
        let mode = if identity.directory.is_shared() { 0o666 } else { 0o600 };
        let rescan_name = Name::random(Kind::Rescan)?;
        let rescan = rescan_socket(&identity.directory, &rescan_name, mode, &blocking_tasks)?;
        let info_name = Name::random(Kind::Info)?;
        let info_listener = socket::listen_at(&identity.directory, &info_name, mode)?;
        lock(&identity.own_names).extend([rescan_name.text.clone(), info_name.text.clone()]);
        let mut control = Self {
            identity,
            blocking_tasks,
            sources: HashMap::new(),
            next_source: 0,
            rescan,
            rescan_name: rescan_name.text,
            info_listener,
            info_name: info_name.text,
            outlets: HashMap::new(),
            inlets: HashMap::new(),
            discovery: Discovery::default(),
            lost: false,
            attention: hints::Attention::new(MonotonicNs::now()),
            reserve: reserve::Reserve::new(&commands.signal)?,
            buffer: vec![0; MAX_MESSAGE_LEN].into_boxed_slice(),
            resting: Vec::new(),
            rested_at: MonotonicNs::default(),
            due: None,
            now: MonotonicNs::now(),
            commands,
        };
        for source in [Source::Commands, Source::Rescan, Source::InfoListener] {
            let key = control.next_source;
            control.next_source += 1;
            let fd = match source {
                Source::Commands => control.commands.signal.as_fd(),
                Source::Rescan => control.rescan.as_fd(),
                _ => control.info_listener.as_fd(),
            };
            epoll::add(
                control.blocking_tasks.epoll(),
                fd,
                epoll::EventData::new_u64(key),
                epoll::EventFlags::IN,
            )?;
            control.sources.insert(key, source);
        }
        Ok(control)
    }

    /// Registers a descriptor with epoll. Returns its key, under which the caller enters the
    /// descriptor in `sources`.
    fn watch(&mut self, fd: impl AsFd, flags: epoll::EventFlags) -> io::Result<u64> {
        let key = self.next_source;
        self.next_source += 1;
        epoll::add(self.blocking_tasks.epoll(), fd, epoll::EventData::new_u64(key), flags)?;
        Ok(key)
    }

    /// Schedules the next round, at `at` at the latest.
    fn wake_at(&mut self, at: MonotonicNs) {
        self.due = Some(self.due.map_or(at, |d| d.min(at)));
    }

    fn wake_in(&mut self, delay: Duration) {
        self.wake_at(self.now + delay);
    }

    /// Pauses a listener that cannot accept, for lack of descriptors or memory, or because too many
    /// descriptors wait to be closed; epoll would report it in a loop. Connections wait in its
    /// queue.
    fn rest(&mut self, key: u64) {
        self.set_listening(key, epoll::EventFlags::empty());
        self.resting.push(key);
        self.rested_at = self.now + REST;
    }

    fn end_rest(&mut self) {
        if self.resting.is_empty() {
            return;
        }
        if self.now < self.rested_at {
            self.wake_at(self.rested_at);
            return;
        }
        for key in std::mem::take(&mut self.resting) {
            self.set_listening(key, epoll::EventFlags::IN);
        }
    }

    fn set_listening(&self, key: u64, flags: epoll::EventFlags) {
        let listener = match self.sources.get(&key) {
            Some(Source::Listener(id)) => self.outlets.get(id).map(|o| o.listener().as_fd()),
            Some(Source::InfoListener) => Some(self.info_listener.as_fd()),
            Some(Source::Rescan) => Some(self.rescan.as_fd()),
            _ => None,
        };
        if let Some(listener) = listener {
            // Needs no memory and cannot fail for a descriptor that is registered.
            let _ = epoll::modify(
                self.blocking_tasks.epoll(),
                listener,
                epoll::EventData::new_u64(key),
                flags,
            );
        }
    }

    /// Runs until it is stopped.
    pub(crate) fn run(mut self) {
        self.sweep();
        let mut events = Vec::with_capacity(64);
        loop {
            let timeout = self.due.map(|due| {
                let left = due.since(MonotonicNs::now());
                Timespec {
                    tv_sec: left.as_secs().min(3600) as i64,
                    tv_nsec: i64::from(left.subsec_nanos()) as _,
                }
            });
            events.clear();
            if let Err(e) = epoll::wait(
                &**self.blocking_tasks.epoll(),
                rustix::buffer::spare_capacity(&mut events),
                timeout.as_ref(),
            ) && e != rustix::io::Errno::INTR
            {
                // Unreachable with valid arguments; without epoll there is nothing this thread can
                // do.
                break;
            }
            self.now = MonotonicNs::now();
            self.due = None;
            for event in &events {
                let event: epoll::Event = *event;
                let data = event.data;
                if !self.handle(data.u64()) {
                    self.shut_down();
                    return;
                }
            }
            self.round();
        }
        self.shut_down();
    }

    /// Handles one event. Returns false to stop.
    fn handle(&mut self, key: u64) -> bool {
        match self.sources.get(&key) {
            Some(Source::Commands) => {
                for command in self.commands.drain() {
                    match command {
                        Command::AddPublication { publication, changes, listener, name } => {
                            self.add_outlet(publication, changes, listener, name)
                        }
                        Command::AddInlet(inlet) => self.add_inlet(inlet),
                        Command::Remove(id) => self.remove(id),
                        Command::Reception { key, received } => self.received(key, received),
                        Command::Hints { key, hints } => self.hear_hints(key, hints),
                        Command::Stop => return false,
                    }
                }
            }
            Some(Source::Rescan) => self.receive_hints(key),
            Some(Source::InfoListener) => self.accept_queries(key),
            Some(Source::Listener(id)) => self.accept_peers(key, *id),
            Some(Source::Peer(_)) => self.peer_ready(key),
            Some(Source::Dial(_)) => self.dial_ready(key),
            Some(Source::Info(_)) => self.query_ready(key),
            // Removed by an earlier event of the same round.
            None => {}
        }
        true
    }

    /// Does the work that is due by time, after each round of events.
    fn round(&mut self) {
        self.reserve.refill(&self.commands.signal);
        self.hear_again();
        self.discover();
        self.sweep_if_due();
        self.end_rest();
        self.expire_peers();
        self.expire_dials();
        self.expire_queries();
        self.reclaim();
        self.watch_deadlines();
    }

    fn remove(&mut self, id: EndpointId) {
        if self.outlets.contains_key(&id) {
            self.remove_outlet(id);
        } else {
            self.remove_inlet(id);
        }
    }

    fn shut_down(&mut self) {
        self.identity.directory.remove(&self.rescan_name);
        self.identity.directory.remove(&self.info_name);
        socket::turn_away(&self.info_listener, &self.blocking_tasks);
    }
}
