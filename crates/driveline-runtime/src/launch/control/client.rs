// SPDX-License-Identifier: Apache-2.0
//! A tool's side: finds the runs of a domain and sends requests to one.

use super::request::{Ask, ErrorCode};
use super::status::RunStatus;
use super::{BOUND_WITHIN, MAX_ENTRIES, NEW, Response, SUFFIX, connected, id_of, is_dead};
use crate::socket_clients::{MAX_RESPONSE_LEN, address, open_directory};
use driveline_shm::PeerUser;
use rustix::io::Errno;
use rustix::net::SocketType;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Maximum number of runs of a domain that are found.
const MAX_RUNS: usize = 64;
/// Pause before another attempt, for example if the launcher has no room for a further client.
const AGAIN: Duration = Duration::from_millis(10);

/// A run that was found in a domain.
#[derive(Clone, Debug)]
pub struct RunSocket {
    directory: Arc<OwnedFd>,
    name: String,
}

/// A run did not respond as requested.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AskError {
    /// The run has ended.
    #[error("the run has ended")]
    Gone,
    /// Its launcher lives and does not respond.
    #[error(
        "the run did not respond within {} s{}",
        patience.as_secs_f64(),
        pid.map_or(String::new(), |pid| format!(": process {pid} may be suspended (`kill -CONT \
                                                 {pid}`), or its terminal does not take output"))
    )]
    Silent {
        /// Its launcher, where this PID namespace has a process id for it.
        pid: Option<u32>,
        /// Time-out of the request.
        patience: Duration,
    },
    /// The run belongs to another user, whose response cannot be trusted.
    #[error("the run belongs to user {uid}: only that user and root may ask it")]
    Stranger {
        /// The user.
        uid: u32,
    },
    /// The run refused the request.
    #[error("the run refused the request: {text}")]
    Refused {
        /// The reason, for programs.
        code: ErrorCode,
        /// The reason, for people.
        text: String,
    },
    /// The response is not of this protocol, or the system refused something.
    #[error("{text}")]
    Failed {
        /// Error text, for people.
        text: String,
    },
}

impl AskError {
    fn failed(text: impl Into<String>) -> Self {
        Self::Failed { text: text.into() }
    }
}

/// Finds the runs of a domain whose launcher lives, in the order of their ids, and removes the
/// sockets of dead ones. At most 64 are found. Does not block.
///
/// # Errors
/// If the directory cannot be read. One that does not exist has no runs.
pub fn find(domain_dir: &Path) -> io::Result<Vec<RunSocket>> {
    let entries = match std::fs::read_dir(domain_dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let directory = Arc::new(open_directory(domain_dir)?);
    let mut runs = Vec::new();
    for entry in entries.take(MAX_ENTRIES).filter_map(Result::ok) {
        // Where other users may create names, a link could lead to any socket.
        let (Ok(name), true) =
            (entry.file_name().into_string(), entry.file_type().is_ok_and(|t| t.is_socket()))
        else {
            continue;
        };
        let bound = id_of(&name, SUFFIX).is_some();
        let old = || {
            entry
                .metadata()
                .and_then(|m| m.modified())
                .is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= BOUND_WITHIN))
        };
        let left = !bound && id_of(&name, NEW).is_some() && old();
        if !bound && !left {
            continue;
        }
        if is_dead(&directory, &name) {
            let _ = std::fs::remove_file(address(&directory, &name));
        } else if bound && runs.len() < MAX_RUNS {
            runs.push(RunSocket { directory: directory.clone(), name });
        }
    }
    runs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(runs)
}

impl RunSocket {
    /// Returns the digits in its name.
    #[must_use]
    pub fn id(&self) -> &str {
        id_of(&self.name, SUFFIX).unwrap_or_default()
    }

    /// Sends a request to the run. Blocks until it has responded, at most for `patience`.
    ///
    /// # Errors
    /// [`AskError`]. After [`AskError::Gone`] the run's name is removed.
    pub fn ask(&self, ask: impl Into<Ask>, patience: Duration) -> Result<RunStatus, AskError> {
        let ask = ask.into();
        let end = Instant::now() + patience;
        let mut pid = None;
        loop {
            match self.ask_once(&ask, end, &mut pid)? {
                Some(run) => return Ok(run),
                None if Instant::now() >= end => return Err(AskError::Silent { pid, patience }),
                None => {
                    std::thread::sleep(AGAIN.min(end.saturating_duration_since(Instant::now())))
                }
            }
        }
    }

    /// One attempt. `None`: a new one may succeed.
    fn ask_once(
        &self,
        ask: &Ask,
        end: Instant,
        pid: &mut Option<u32>,
    ) -> Result<Option<RunStatus>, AskError> {
        let mut stream = match connected(&self.directory, &self.name, SocketType::STREAM) {
            Ok(socket) => UnixStream::from(socket),
            Err(Errno::NOENT) => return Err(AskError::Gone),
            Err(Errno::CONNREFUSED) if is_dead(&self.directory, &self.name) => {
                let _ = std::fs::remove_file(address(&self.directory, &self.name));
                return Err(AskError::Gone);
            }
            // The launcher does not listen yet, or too many clients wait.
            Err(Errno::CONNREFUSED | Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(e) => return Err(AskError::failed(format!("cannot connect to the run: {e}"))),
        };
        let user = PeerUser::of(&stream)
            .map_err(|e| AskError::failed(format!("cannot determine the owner of the run: {e}")))?;
        *pid = user.pid;
        if !user.trusted && !rustix::process::geteuid().is_root() {
            return Err(AskError::Stranger { uid: user.uid });
        }
        let exchanged = stream.set_nonblocking(false).and_then(|()| {
            let line = serde_json::to_string(ask).unwrap_or_default() + "\n";
            // The write may fail: the launcher may have responded already that it has no room.
            let _ = stream.write_all(line.as_bytes());
            read_line(&mut stream, end)
        });
        let line = match exchanged {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(None),
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
                ) =>
            {
                return Ok(None);
            }
            Err(e) => return Err(AskError::failed(format!("cannot read the run's response: {e}"))),
        };
        let response: Response = serde_json::from_slice(&line)
            .map_err(|e| AskError::failed(format!("the run's response is not understood: {e}")))?;
        match (response.run, response.error) {
            (Some(run), _) => Ok(Some(run)),
            (None, Some(e)) if e.code == ErrorCode::Busy => Ok(None),
            (None, Some(e)) => Err(AskError::Refused { code: e.code, text: e.text }),
            (None, None) => {
                Err(AskError::failed("the run's response has neither a state nor an error"))
            }
        }
    }
}

/// Reads the response; `None` if it was not complete by `end`.
fn read_line(stream: &mut UnixStream, end: Instant) -> io::Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(n) if (text.len() + n) as u64 <= MAX_RESPONSE_LEN => {
                text.extend_from_slice(buffer.get(..n).unwrap_or_default())
            }
            Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long")),
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::Interrupted
                        | io::ErrorKind::WouldBlock
                        | io::ErrorKind::TimedOut
                ) => {}
            Err(e) => return Err(e),
        }
        if text.last() == Some(&b'\n') {
            return Ok(Some(text));
        }
    }
}
