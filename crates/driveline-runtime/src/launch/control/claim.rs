// SPDX-License-Identifier: Apache-2.0
//! One launcher for each module of a graph in a domain (`docs/protocols/control.md`, One launcher
//! for a module).

use super::client::{AskError, RunSocket, find};
use super::request::Verb;
use super::{ControlSocket, ProcessKind, RunStatus};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Time for another launcher to report the modules that it runs.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum wait for other launchers that check at the same moment. A process that holds the lock
/// for longer is not checking.
const LOCK_WITHIN: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(10);

/// A run cannot have its control socket.
#[derive(Debug, Error)]
pub enum ClaimError {
    /// The directory does not exist or does not admit sockets of this user.
    #[error(transparent)]
    Os(#[from] io::Error),
    /// Another launcher runs modules of the same graph in this domain.
    #[error("{0}")]
    Taken(Taken),
}

/// Another launcher of the same graph in the same domain. Displays for people, without a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Name of the graph.
    pub graph: String,
    /// The launcher, where this PID namespace has a process id for it.
    pub pid: Option<u32>,
    /// Modules of both runs; empty if the launcher does not respond.
    pub modules: Vec<String>,
}

impl std::fmt::Display for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pid = self.pid.map_or(String::new(), |pid| format!(", process {pid}"));
        write!(f, "another launcher{pid}, runs graph '{}' in this domain already", self.graph)?;
        match self.modules.as_slice() {
            [] => f.write_str("; it does not respond"),
            [module] => write!(f, ", with module '{module}'"),
            modules => write!(f, ", with modules '{}'", modules.join("', '")),
        }
    }
}

/// Returns the half of a run's digits that identifies its graph.
pub(super) fn graph_digits(graph: &str) -> String {
    // FNV-1a. If two graphs have the same digits, their launchers only ask each other for their
    // modules.
    let hash = graph.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Listens for tools, unless another launcher runs one of these modules of the graph in the domain.
/// Launchers that start at the same time check one after the other. Blocks while another one
/// checks, at most 5 s, and until launchers of the same graph have responded, at most 2 s each.
///
/// # Errors
/// [`ClaimError`].
pub fn claim(
    domain_dir: &Path,
    domain: &str,
    graph: &str,
    modules: &[String],
) -> Result<ControlSocket, ClaimError> {
    let _lock = lock(domain_dir)?;
    let digits = graph_digits(graph);
    for run in find(domain_dir)?.iter().filter(|run| run.id().ends_with(&digits)) {
        if let Some(taken) = taken(run, graph, modules) {
            return Err(ClaimError::Taken(taken));
        }
    }
    // From here on, the next launcher finds this run.
    Ok(ControlSocket::new(domain_dir, domain, graph)?)
}

fn taken(run: &RunSocket, graph: &str, modules: &[String]) -> Option<Taken> {
    let (pid, modules) = match run.ask(Verb::Status, PATIENCE) {
        Ok(status) => {
            let both = modules.iter().filter(|m| runs(&status, m)).cloned().collect::<Vec<_>>();
            let same = status.graph == graph && !both.is_empty();
            (Some(status.pid), same.then_some(both)?)
        }
        // The launcher is suspended, or writes its last report.
        Err(AskError::Silent { pid, .. }) => (pid, Vec::new()),
        Err(_) => return None,
    };
    Some(Taken { graph: graph.to_owned(), pid, modules })
}

fn runs(status: &RunStatus, module: &str) -> bool {
    status.processes.iter().any(|p| p.kind == ProcessKind::Module && p.name == module)
}

/// Takes the lock, which the kernel releases when the launcher ends. After a while it continues
/// without the lock: running modules are found in any case.
fn lock(domain_dir: &Path) -> io::Result<File> {
    let directory = File::open(domain_dir)?;
    let end = Instant::now() + LOCK_WITHIN;
    while flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err()
        && Instant::now() < end
    {
        std::thread::sleep(AGAIN);
    }
    Ok(directory)
}
