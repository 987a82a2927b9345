// SPDX-License-Identifier: Apache-2.0
//! The socket on which a run responds to tools: state, health, stop, modes, parameters, logs
//! (`docs/protocols/control.md`).
//!
//! The launcher's loop serves it between the events of the processes, and never waits for a client.
//!
//! Not here: the state of a run (`launch/run/state.rs`), and its display for people (crate
//! `driveline-cli`).

mod change;
mod claim;
mod client;
mod health;
mod request;
mod status;

pub use change::{ChangeAsk, ChangeState, ChangeStatus, ParameterStatus, ParametersStatus};
pub use claim::{ClaimError, Taken, claim};
pub use client::{AskError, RunSocket, find};
pub use health::{
    ComponentHealth, ComponentState, EndState, ExecutorHealth, ModuleHealth, TopicEnd,
};
pub(super) use request::RequestError;
pub use request::{Ask, ErrorCode, Verb};
pub use status::{
    Fault, LastSwitch, ModeStatus, ModuleTopic, ProcessKind, ProcessState, ProcessStatus, RunPhase,
    RunStatus, SwitchStatus,
};

use crate::socket_clients::{
    ACCEPT_AGAIN, Clients, Received, accept_waiting, address, open_directory,
};
use driveline_shm::PeerUser;
use driveline_types::EndpointId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::{Deserialize, Serialize};
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Version of the protocol.
const PROTOCOL: u32 = 1;
/// Time for a launcher to end after one of its sockets was closed.
const LAUNCHER_ENDS: Duration = Duration::from_secs(1);
const PREFIX: &str = "run-";
const SUFFIX: &str = ".control";
/// Replaces [`SUFFIX`] until the socket is bound: while the kernel binds it, it looks like the
/// socket of a dead launcher.
const NEW: &str = ".new";
/// Time after which an unbound socket will never be bound.
const BOUND_WITHIN: Duration = Duration::from_secs(60);
/// Period at which the launcher checks that its socket still has its name.
const NAMED_AGAIN: Duration = Duration::from_secs(1);
/// Maximum number of directory entries that are read.
const MAX_ENTRIES: usize = 1 << 16;

/// Returns the digits in the name of a run's socket; `None` for other names.
fn id_of<'a>(name: &'a str, suffix: &str) -> Option<&'a str> {
    let id = name.strip_prefix(PREFIX)?.strip_suffix(suffix)?;
    (id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))).then_some(id)
}

/// A response, in one line.
#[derive(Debug, Deserialize, Serialize)]
struct Response {
    protocol: u32,
    ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<RunStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<RequestError>,
}

impl Response {
    fn line(result: Result<RunStatus, RequestError>) -> Arc<[u8]> {
        let (run, error) = match result {
            Ok(run) => (Some(run), None),
            Err(error) => (None, Some(error)),
        };
        let mut text =
            serde_json::to_vec(&Self { protocol: PROTOCOL, ok: run.is_some(), run, error })
                .unwrap_or_default();
        text.push(b'\n');
        text.into()
    }
}

/// The listening socket of a run, in the directory of its domain. Dropping it removes the name,
/// which shows tools that the run has ended.
#[derive(Debug)]
pub struct ControlSocket {
    /// The newest listener: a lost name gets a new socket.
    listener: Mutex<Arc<UnixListener>>,
    directory: OwnedFd,
    path: PathBuf,
    name: String,
    id: String,
    domain: String,
}

impl ControlSocket {
    /// Listens under a new name, and removes the names of dead launchers. `domain` is the name of
    /// the domain for tools. Does not block. Does not check whether the graph runs already:
    /// [`claim`] does.
    ///
    /// # Errors
    /// If the directory does not exist or does not admit sockets of this user.
    pub fn new(domain_dir: &Path, domain: &str, graph: &str) -> io::Result<Self> {
        // Called only to remove the sockets of dead launchers.
        let _ = find(domain_dir);
        let directory = open_directory(domain_dir)?;
        let random = EndpointId::random()?.to_string();
        let id = format!("{}{}", random.get(..16).unwrap_or_default(), claim::graph_digits(graph));
        let name = format!("{PREFIX}{id}{SUFFIX}");
        let listener = Mutex::new(Arc::new(bind(&directory, &id)?));
        let path = domain_dir.join(&name);
        Ok(Self { listener, directory, path, name, id, domain: domain.to_owned() })
    }

    fn listener(&self) -> Arc<UnixListener> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Listens again under the same name if the name was removed, alone or together with its
    /// directory. `None` if the name exists, or if the system refuses the socket, for example
    /// because the directory does not exist.
    fn renewed(&self) -> Option<Arc<UnixListener>> {
        let gone = std::fs::symlink_metadata(&self.path)
            .is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
        let directory = open_directory(self.path.parent().filter(|_| gone)?).ok()?;
        let listener = Arc::new(bind(&directory, &self.id).ok()?);
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = listener.clone();
        Some(listener)
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn domain(&self) -> &str {
        &self.domain
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(address(&self.directory, &self.name));
        // The directory may have been replaced by a new one at the same path.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Listens under the name of a run.
fn bind(directory: &OwnedFd, id: &str) -> io::Result<UnixListener> {
    let at = address(directory, &format!("{PREFIX}{id}{NEW}"));
    let listener = UnixListener::bind(&at)?;
    let named = std::fs::set_permissions(&at, Permissions::from_mode(0o600))
        .and_then(|()| listener.set_nonblocking(true))
        .and_then(|()| std::fs::rename(&at, address(directory, &format!("{PREFIX}{id}{SUFFIX}"))));
    if let Err(e) = named {
        let _ = std::fs::remove_file(&at);
        return Err(e);
    }
    Ok(listener)
}

/// The launcher's side: its socket and the clients that it serves.
pub(super) struct Server {
    socket: Arc<ControlSocket>,
    listener: Arc<UnixListener>,
    clients: Clients,
    /// Time of the next check that the socket has its name.
    check_at: Option<Instant>,
    /// No connection is accepted before this.
    accept_at: Option<Instant>,
    admits: fn(&UnixStream) -> bool,
}

/// Returns true if a client belongs to the launcher's own user, or to root.
fn is_trusted(client: &UnixStream) -> bool {
    PeerUser::of(client).is_ok_and(|user| user.trusted)
}

impl Server {
    pub(super) fn new(socket: Arc<ControlSocket>) -> Self {
        Self {
            listener: socket.listener(),
            socket,
            clients: Clients::default(),
            // The first check is due even if no tool ever sends a request.
            check_at: Some(Instant::now() + NAMED_AGAIN),
            accept_at: None,
            admits: is_trusted,
        }
    }

    /// Descriptors to wait for.
    pub(super) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        let listener =
            self.accept_at.is_none().then(|| PollFd::new(&*self.listener, PollFlags::IN));
        listener.into_iter().chain(self.clients.polled())
    }

    /// Returns the time when [`Server::serve`] is due, if no descriptor becomes ready before.
    pub(super) fn next(&self) -> Option<Instant> {
        self.clients.next().into_iter().chain(self.accept_at).chain(self.check_at).min()
    }

    /// Accepts, reads and writes as much as is possible without waiting. `ask` carries out a
    /// request.
    pub(super) fn serve(
        &mut self,
        now: Instant,
        ask: &mut dyn FnMut(Ask) -> Result<RunStatus, RequestError>,
    ) {
        let mut respond =
            |received: Received<'_>| Response::line(request::parse(received).and_then(&mut *ask));
        if self.check_at.is_none_or(|at| at <= now) {
            self.check_at = Some(now + NAMED_AGAIN);
            if let Some(listener) = self.socket.renewed() {
                self.listener = listener;
            }
        }
        self.accept_at = self.accept_at.filter(|at| *at > now);
        if self.accept_at.is_none() {
            let (newcomers, refused) = accept_waiting(|| Ok(self.listener.accept()?.0));
            self.accept_at = refused.then(|| now + ACCEPT_AGAIN);
            for client in newcomers {
                if (self.admits)(&client) {
                    self.clients.add(client, now, &mut respond);
                } else {
                    // The client does not get bytes that do not fit at once.
                    let _ = (&client).write(&Response::line(Err(RequestError::forbidden())));
                }
            }
        }
        self.clients.go_on(now, &mut respond);
    }
}

fn connected(directory: &OwnedFd, name: &str, kind: SocketType) -> rustix::io::Result<OwnedFd> {
    let socket =
        socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    connect(&socket, &SocketAddrUnix::new(address(directory, name))?)?;
    Ok(socket)
}

/// Returns true if the owner of a socket's name is dead, without disturbing a live owner. It
/// connects with another type of socket: the kernel reports "wrong type" if the owner lives, even
/// before it listens, and "refused" if it is dead.
fn is_dead(directory: &OwnedFd, name: &str) -> bool {
    connected(directory, name, SocketType::DGRAM)
        .is_err_and(|e| e == rustix::io::Errno::CONNREFUSED)
}

/// Removes the control socket of a launcher that has died. Blocks until it has died, at most for
/// `patience`.
pub(crate) fn remove_dead(path: &Path, patience: Duration) {
    let (Some(parent), Some(name)) =
        (path.parent(), path.file_name().and_then(|name| name.to_str()))
    else {
        return;
    };
    let Ok(directory) = open_directory(parent) else { return };
    let end = Instant::now() + patience;
    loop {
        if is_dead(&directory, name) {
            let _ = std::fs::remove_file(address(&directory, name));
            return;
        }
        let left = end.saturating_duration_since(Instant::now());
        // The connection ends with the launcher.
        match connected(&directory, name, SocketType::STREAM) {
            _ if left.is_zero() => return,
            Ok(connection) => {
                let left = Timespec {
                    tv_sec: left.as_secs() as i64,
                    tv_nsec: i64::from(left.subsec_nanos()),
                };
                let _ = poll(&mut [PollFd::new(&connection, PollFlags::empty())], Some(&left));
            }
            Err(rustix::io::Errno::CONNREFUSED) => {}
            Err(_) => return,
        }
    }
}

/// Removes the control socket of a dead launcher, if it exists: for a process of a run, when it
/// ends or continues without the launcher. `launcher` is the process's socket to it. Blocks for 1 s
/// at most.
pub fn remove_of_dead_launcher(control: Option<&Path>, launcher: &UnixStream) {
    if let Some(path) = control.filter(|_| is_closed(launcher)) {
        // The kernel may not have closed all its descriptors yet.
        remove_dead(path, LAUNCHER_ENDS);
    }
}

/// Returns true if the launcher has closed its end of a socket for both directions.
pub(crate) fn is_closed(launcher: &UnixStream) -> bool {
    let mut fds = [PollFd::new(launcher, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec::default())).is_ok()
        && fds.iter().any(|fd| !fd.revents().is_empty())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
