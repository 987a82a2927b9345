// SPDX-License-Identifier: Apache-2.0
//! A module that is no child process of the launcher: in a container, or started by others
//! (`docs/protocols/deployment.md`).
//!
//! The launcher listens on a socket that only this module can reach. Two processes may connect to
//! it: the module's, which sends the account, and the first process of its container, which passes
//! on output and reports how the module ended. The module counts as ended when the connection of
//! the container's first process ends. If no such process has connected, it counts as ended when
//! the account ends.

mod waiting;

use super::Stream;
use crate::account::{CONTAINED_FORMAT, ContainedRecord, LineReader, OutputStream, Usage, Word};
use driveline_graph::ResolvedModule;
use driveline_shm::PeerUser;
use rustix::process::Signal;
use std::fmt::Debug;
use std::fs::Permissions;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};
use waiting::{FirstLine, Waiting};

/// Maximum number of connections of one module that have not identified themselves.
const MOST_WAITING: usize = 4;
/// Maximum number of connections that one call of [`Remote::read`] accepts, and of reads that it
/// makes from the container's first process.
const TURN: usize = 16;
/// Time for the first process of a container to end after [`Word::Kill`].
const KILLED_WITHIN: Duration = Duration::from_secs(5);
/// Name of the socket in the module's directory.
const SOCKET: &str = "socket";

impl Placement {
    /// The socket of a module below a directory of accounts.
    #[must_use]
    pub fn socket(accounts: &std::path::Path, module: &str) -> PathBuf {
        accounts.join(module).join(SOCKET)
    }
}

/// Places of the modules of a run, if they are not processes of the launcher.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Directory with a directory for each module, in which the launcher listens. They exist, and
    /// the modules' users have access to them (`docs/protocols/deployment.md`).
    pub accounts: PathBuf,
    /// Starts the modules; `None`: others do (`driveline run --attach`).
    pub starter: Option<Arc<dyn Starter>>,
}

/// Starts modules elsewhere. Called on the launcher's thread, and must not block.
pub trait Starter: Debug + Send + Sync {
    /// Begins to start a module, and continues in the background. Its directory and the socket in
    /// it exist.
    ///
    /// # Errors
    /// If it cannot begin. [`Started::poll`] reports later failures.
    fn start(&self, module: &ResolvedModule) -> io::Result<Box<dyn Started>>;

    /// Returns the user that the module runs as, in this user namespace.
    fn user(&self, module: &ResolvedModule) -> u32;
}

/// A module that was started elsewhere.
pub trait Started: Send {
    /// Returns the place, for people, as the end of a sentence that begins with the module.
    fn place(&self) -> String;

    /// Readable when [`Started::poll`] may have something new.
    fn news(&self) -> BorrowedFd<'_>;

    /// Returns its end or its failure to start, as far as it is known from outside. Does not block.
    fn poll(&mut self) -> Option<StartedEnd>;

    /// Notes that it has connected: from now on its own connections show its end.
    fn connected(&mut self);

    /// Kills it, whatever it does. Does not block.
    fn kill(&mut self);
}

/// The end of a module that was started elsewhere.
#[derive(Clone, Debug)]
pub struct StartedEnd {
    /// Exit status, or that of the attempt to start it.
    pub status: ExitStatus,
    /// Cause, for people.
    pub cause: String,
}

/// Events from a module.
pub(super) enum RemoteNews {
    /// Its account begins; `first` are the bytes already read of it.
    Account { socket: UnixStream, first: Vec<u8> },
    /// It has printed a line.
    Output { stream: Stream, line: String },
    /// Resource use of its container.
    Usage(Usage),
    /// A process that connected was refused, with the reason. The module is not affected.
    Refused(String),
}

/// The first process of a container.
struct First {
    socket: UnixStream,
    records: LineReader<ContainedRecord>,
}

pub(super) struct Remote {
    module: String,
    listener: UnixListener,
    path: PathBuf,
    /// The only user that may connect, in addition to the launcher's own and root. `None`: all
    /// users that the access rights of the directory admit.
    user: Option<u32>,
    waiting: Vec<Waiting>,
    started: Option<Box<dyn Started>>,
    first: Option<First>,
    had_first: bool,
    had_account: bool,
    /// Time of the first [`Word::Kill`].
    killed: Option<Instant>,
    lost: bool,
    pid: u32,
    /// Readable once it has ended; the other end is closed then.
    death: UnixStream,
    lives: Option<UnixStream>,
    status: Option<ExitStatus>,
    cause: Option<String>,
}

impl Remote {
    /// Listens, and starts the module if that is the launcher's task.
    pub(super) fn start(placement: &Placement, module: &ResolvedModule) -> io::Result<Self> {
        let path = Placement::socket(&placement.accounts, module.name.as_str());
        let listener = listen(&path)?;
        let user = placement.starter.as_ref().map(|s| s.user(module));
        if let Some(user) = user {
            give(&path, user)?;
        }
        let (death, lives) = UnixStream::pair()?;
        let started = placement.starter.as_ref().map(|s| s.start(module)).transpose()?;
        Ok(Self {
            module: module.name.as_str().to_owned(),
            listener,
            path,
            user,
            waiting: Vec::new(),
            started,
            first: None,
            had_first: false,
            had_account: false,
            killed: None,
            lost: false,
            pid: 0,
            death,
            lives: Some(lives),
            status: None,
            cause: None,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn place(&self) -> String {
        match &self.started {
            Some(started) => started.place(),
            None => format!("is expected at {}", self.path.display()),
        }
    }

    /// Returns true if it did not end after [`Word::Kill`], and was given up.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    pub(super) fn cause(&self) -> Option<String> {
        self.cause.clone()
    }

    /// Returns the status, once it has ended.
    pub(super) fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Readable once it has ended.
    pub(super) fn death(&self) -> BorrowedFd<'_> {
        self.death.as_fd()
    }

    /// Returns the descriptors that events come from.
    pub(super) fn polled(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let first = self.first.iter().map(|f| f.socket.as_fd());
        // The starter is polled only until the module's own connections exist.
        let asked = self.started.iter().filter(|_| !self.had_connection()).map(|s| s.news());
        let waiting = self.waiting.iter().map(Waiting::fd);
        std::iter::once(self.listener.as_fd()).chain(first).chain(asked).chain(waiting)
    }

    fn had_connection(&self) -> bool {
        self.had_first || self.had_account
    }

    /// Reads received events. `has_account`: the account is connected.
    pub(super) fn read(&mut self, has_account: bool) -> Vec<RemoteNews> {
        let mut news = Vec::new();
        self.accept();
        self.read_first_lines(has_account, &mut news);
        self.read_first(&mut news);
        if !self.had_connection()
            && let Some(end) = self.started.as_mut().and_then(|s| s.poll())
        {
            self.cause = Some(end.cause);
            self.end(end.status);
        }
        news
    }

    fn accept(&mut self) {
        for _ in 0..TURN {
            let Ok((socket, _)) = self.listener.accept() else { return };
            let allowed = PeerUser::of(&socket).is_ok_and(|peer| {
                // The user of modules that others start is unknown: the access rights of the
                // socket's directory decide who can connect.
                peer.trusted || self.user.is_none_or(|user| user == peer.uid)
            });
            if allowed && self.waiting.len() < MOST_WAITING && socket.set_nonblocking(true).is_ok()
            {
                self.waiting.push(Waiting::new(socket));
            }
        }
    }

    fn read_first_lines(&mut self, has_account: bool, news: &mut Vec<RemoteNews>) {
        let mut has_account = has_account;
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting.read() {
                FirstLine::NotYet(waiting) => self.waiting.push(waiting),
                FirstLine::Account { module, .. } | FirstLine::Contained { module, .. }
                    if module != self.module =>
                {
                    news.push(RemoteNews::Refused(format!(
                        "it runs module '{}': `--account-socket` of each module is the one in its \
                         own directory",
                        module.escape_debug()
                    )));
                }
                FirstLine::Contained { format, .. } if format > CONTAINED_FORMAT => {
                    news.push(RemoteNews::Refused(format!(
                        "its `driveline-host` is of a newer release, with format {format}: use \
                         one release for launcher and modules"
                    )));
                }
                FirstLine::Account { socket, bytes, .. } if !has_account => {
                    if let Ok(peer) = PeerUser::of(&socket) {
                        self.pid = peer.pid.unwrap_or(0);
                    }
                    (self.had_account, has_account) = (true, true);
                    self.connected();
                    news.push(RemoteNews::Account { socket, first: bytes });
                }
                FirstLine::Contained { socket, bytes, .. } if self.first.is_none() => {
                    let mut first = First { socket, records: LineReader::default() };
                    self.had_first = true;
                    self.connected();
                    let mut records = Vec::new();
                    first.records.feed(&bytes, |r| records.push(r));
                    self.first = Some(first);
                    records.into_iter().for_each(|r| self.record(r, news));
                }
                // The module has a connection of this kind already, or another program has
                // connected.
                FirstLine::Account { .. } | FirstLine::Contained { .. } | FirstLine::Useless => {}
            }
        }
    }

    fn connected(&mut self) {
        if let Some(started) = &mut self.started {
            started.connected();
        }
    }

    fn read_first(&mut self, news: &mut Vec<RemoteNews>) {
        let mut bytes = [0; 16 * 1024];
        for _ in 0..TURN {
            let Some(first) = &mut self.first else { return };
            let mut records = Vec::new();
            match first.socket.read(&mut bytes) {
                Ok(n) if n > 0 => {
                    first.records.feed(&bytes[..n], |r| records.push(r));
                    records.into_iter().for_each(|r| self.record(r, news));
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                _ => return self.first_closed(),
            }
        }
    }

    fn record(&mut self, record: ContainedRecord, news: &mut Vec<RemoteNews>) {
        match record {
            ContainedRecord::Output { stream, line } => {
                let stream = match stream {
                    OutputStream::Out => Stream::Out,
                    OutputStream::Err => Stream::Err,
                };
                news.push(RemoteNews::Output { stream, line });
            }
            ContainedRecord::Usage(usage) => news.push(RemoteNews::Usage(usage)),
            ContainedRecord::Exited { code, signal, oom } => {
                self.status = Some(match signal {
                    Some(signal) => by_signal(signal),
                    None => by_code(code.unwrap_or(0)),
                });
                if oom && signal == Some(Signal::KILL.as_raw()) {
                    self.cause = Some(
                        "its container reached its memory limit (`memory:`), and the kernel killed \
                         it".to_owned(),
                    );
                }
            }
            ContainedRecord::Contained { .. } | ContainedRecord::Unknown => {}
        }
    }

    fn first_closed(&mut self) {
        self.first = None;
        match self.status {
            Some(status) => self.end(status),
            None => {
                self.cause = Some(
                    "the first process of its container was killed from outside, for example by \
                     `podman kill`"
                        .to_owned(),
                );
                self.end(by_signal(Signal::KILL.as_raw()));
            }
        }
    }

    /// Notes that the account has ended. A connected first process will report more.
    pub(super) fn account_closed(&mut self, end_requested: bool) {
        if self.first.is_some() || self.lives.is_none() {
            return;
        }
        if self.started.is_some() && !self.had_first {
            // The first process connects before the module is started, so this module is not in a
            // container of this run.
            self.cause =
                Some("its process ran without the first process of its container".to_owned());
        } else if !end_requested {
            self.cause = Some(
                "its connection has closed; how it ended is unknown without `driveline-host \
                 contain`"
                    .to_owned(),
            );
        }
        self.end(by_code(i32::from(!end_requested)));
    }

    fn end(&mut self, status: ExitStatus) {
        self.status = Some(status);
        // The file is removed before the launcher listens at the same path for the next process of
        // this module.
        if self.lives.take().is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Asks the module to end, or kills it.
    pub(super) fn signal(&mut self, signal: Signal, account: &mut Option<UnixStream>) {
        let kill = signal == Signal::KILL;
        if !kill && signal != Signal::TERM {
            return;
        }
        if let Some(first) = &mut self.first {
            let word = if kill { Word::Kill } else { Word::Terminate };
            if kill {
                self.killed.get_or_insert_with(Instant::now);
            }
            let _ = first.socket.write_all(word.line().as_bytes());
            if let Some(started) = self.started.as_mut().filter(|_| kill) {
                started.kill();
            }
            return;
        }
        match (account, &mut self.started) {
            (Some(socket), _) if !kill => drop(socket.shutdown(Shutdown::Write)),
            (account, Some(started)) => {
                started.kill();
                *account = None;
                self.end(by_signal(signal.as_raw()));
            }
            // The module ends when it detects the closed socket.
            (account, None) => {
                *account = None;
                self.end(by_signal(signal.as_raw()));
            }
        }
    }

    /// Closes connections that do not identify themselves, or do not end after [`Word::Kill`].
    pub(super) fn expire(&mut self, now: Instant) {
        self.waiting.retain(|w| !w.is_late(now));
        let late = |since: Instant| now.saturating_duration_since(since) >= KILLED_WITHIN;
        if self.first.is_some() && self.killed.is_some_and(late) {
            self.first = None;
            self.lost = true;
            self.cause = Some(format!(
                "the first process of its container does not respond, and was asked {} s ago to \
                 kill the module: both may still exist",
                KILLED_WITHIN.as_secs()
            ));
            self.end(by_signal(Signal::KILL.as_raw()));
        }
    }
}

fn by_signal(signal: i32) -> ExitStatus {
    ExitStatus::from_raw(signal & 0x7f)
}

fn by_code(code: i32) -> ExitStatus {
    ExitStatus::from_raw((code & 0xff) << 8)
}

/// Listens at a path, in place of an earlier file.
fn listen(path: &std::path::Path) -> io::Result<UnixListener> {
    let said = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(said(e)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(said)?;
    // In a set-group-ID directory, the socket gets the directory's group, and the module has access
    // as a member of that group.
    let by_group = path
        .parent()
        .and_then(|d| d.metadata().ok())
        .is_some_and(|d| d.permissions().mode() & 0o2000 != 0);
    let mode = if by_group { 0o660 } else { 0o600 };
    std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(said)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Gives the socket to the module's user, which needs the right to write in order to connect.
fn give(path: &std::path::Path, user: u32) -> io::Result<()> {
    if user == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    std::os::unix::fs::chown(path, Some(user), None).map_err(|e| {
        io::Error::new(e.kind(), format!("cannot give {} to user {user}: {e}", path.display()))
    })
}
