// SPDX-License-Identifier: Apache-2.0
//! Socket in a domain's directory on which a gateway reports its state. Each connection receives
//! one report and is closed.

use super::only_one::holder;
use super::report::Report;
use driveline_runtime::socket_clients::{
    ACCEPT_AGAIN, Clients, MAX_RESPONSE_LEN, accept_waiting, address, open_directory,
};
use std::fs::Permissions;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum length of a report that is read.
pub const MAX_REPORT_LEN: u64 = MAX_RESPONSE_LEN;
const PREFIX: &str = "gateway-";
const SUFFIX: &str = ".status";
/// Maximum number of gateways that are asked.
const MAX_GATEWAYS: usize = 16;

/// Sends the report to every client of this process's own user, on its own thread, until it is
/// dropped.
#[derive(Debug)]
pub struct StatusSocket {
    directory: OwnedFd,
    name: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StatusSocket {
    /// Listens as `gateway-<kind>.status` in the domain's directory. Replaces the socket of a dead
    /// gateway of this kind, so the caller must be the only living one. Calls `report` on the
    /// socket's thread; requests that arrive together get the result of one call.
    ///
    /// # Errors
    /// The directory does not permit the socket, or no thread can be started.
    pub fn new(
        domain_dir: &Path,
        kind: &str,
        report: impl Fn() -> Report + Send + 'static,
    ) -> io::Result<Self> {
        let directory = open_directory(domain_dir)?;
        let name = format!("{PREFIX}{kind}{SUFFIX}");
        let path = address(&directory, &name);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        listener.set_nonblocking(true)?;
        let serve = move || serve(&listener, &stopped, report);
        let thread = std::thread::Builder::new().name("dl-status".into()).spawn(serve)?;
        Ok(Self { directory, name, stop, thread: Some(thread) })
    }
}

/// Answers connections until it is stopped.
fn serve(listener: &UnixListener, stop: &AtomicBool, report: impl Fn() -> Report) {
    let mut clients = Clients::default();
    let mut accept_at = None;
    loop {
        let closed = accept_at.is_some_and(|at| Instant::now() < at);
        let comes = clients.wait((!closed).then_some(listener), accept_at.filter(|_| closed));
        let (newcomers, refused) =
            if comes { accept_waiting(|| Ok(listener.accept()?.0)) } else { (Vec::new(), false) };
        if stop.load(Ordering::Acquire) {
            return;
        }
        // A pause continues, whatever woke the loop.
        accept_at = if refused {
            Some(Instant::now() + ACCEPT_AGAIN)
        } else {
            accept_at.filter(|_| closed)
        };
        if !newcomers.is_empty() {
            let began = Instant::now();
            // A report that cannot be written as JSON gets no answer.
            let text: Arc<[u8]> = serde_json::to_vec(&report()).unwrap_or_default().into();
            clients.grant(began.elapsed());
            newcomers
                .into_iter()
                .for_each(|client| clients.add_reader(client, &text, Instant::now()));
        }
        clients.go_on(Instant::now(), &mut |_| [].into());
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let path = address(&self.directory, &self.name);
        // Wakes the thread; if that is not possible, the thread keeps waiting until the process
        // ends.
        let woken = UnixStream::connect(&path).is_ok();
        let _ = std::fs::remove_file(&path);
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

/// Outcome of a request to one gateway.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It has answered.
    Report(Box<Report>),
    /// A gateway of this kind was killed, and its socket remains.
    Dead {
        /// Kind of gateway.
        kind: String,
    },
    /// It runs, but no report could be read from it.
    Silent {
        /// Kind of gateway.
        kind: String,
        /// Its process, if its number here is known.
        pid: Option<u32>,
        /// Description of the failure.
        reason: String,
    },
}

/// Asks every gateway of a domain. Blocks until all have answered, at most `patience` for each.
///
/// # Errors
/// The directory cannot be read. A missing directory has no gateways.
pub fn ask(domain_dir: &Path, patience: Duration) -> io::Result<Vec<Answer>> {
    let entries = match std::fs::read_dir(domain_dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let directory = open_directory(domain_dir)?;
    let kind_of = |name: &str| Some(name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.to_owned());
    let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
    let mut kinds: Vec<String> =
        names.filter_map(|name| kind_of(&name)).take(MAX_GATEWAYS).collect();
    kinds.sort();
    let silent = |kind: String, e: &io::Error| Answer::Silent {
        pid: holder(domain_dir, &kind),
        kind,
        reason: e.to_string(),
    };
    let ask_one = |kind: String| match UnixStream::connect(address(
        &directory,
        &format!("{PREFIX}{kind}{SUFFIX}"),
    )) {
        Ok(stream) => match read(stream, patience) {
            Ok(report) => Some(Answer::Report(Box::new(report))),
            Err(e) => Some(silent(kind, &e)),
        },
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Some(Answer::Dead { kind }),
        // It has just ended.
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => Some(silent(kind, &e)),
    };
    Ok(kinds.into_iter().filter_map(ask_one).collect())
}

fn read(mut stream: UnixStream, patience: Duration) -> io::Result<Report> {
    let end = Instant::now() + patience;
    let mut text = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no answer within {patience:?}"),
            ));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) if (text.len() + n) as u64 <= MAX_REPORT_LEN => {
                text.extend_from_slice(buffer.get(..n).unwrap_or_default())
            }
            Ok(_) => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "its answer is too long"));
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(e) => return Err(e),
        }
    }
    serde_json::from_slice(&text).map_err(|e| {
        io::Error::new(io::ErrorKind::InvalidData, format!("its answer is not understood: {e}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn report(host: &str) -> Report {
        Report { gateway: "test".into(), host: host.into(), ..Report::default() }
    }

    #[test]
    fn each_client_gets_the_current_state_and_no_file_remains() {
        let long = "d".repeat(100);
        let dir = tempfile::tempdir().unwrap();
        // Longer than the path of a socket may be.
        let domain = dir.path().join(&long).join(&long);
        assert_eq!(ask(&domain, PATIENCE).unwrap(), [], "there was never a gateway");
        std::fs::create_dir_all(&domain).unwrap();
        let asked = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let count = asked.clone();
        let socket = StatusSocket::new(&domain, "test", move || Report {
            unknown: count.fetch_add(1, Ordering::Relaxed),
            ..report("a")
        })
        .unwrap();
        for n in 0..3 {
            let expected = Report { unknown: n, ..report("a") };
            assert_eq!(ask(&domain, PATIENCE).unwrap(), [Answer::Report(Box::new(expected))]);
        }
        drop(socket);
        assert_eq!(std::fs::read_dir(&domain).unwrap().count(), 0);
    }

    #[test]
    fn clients_that_do_not_read_delay_no_other_and_the_oldest_give_way() {
        const SILENT: usize = 40;
        let dir = tempfile::tempdir().unwrap();
        // More than a socket buffers.
        let long = report(&"x".repeat(2 << 20));
        let said = long.clone();
        let _socket = StatusSocket::new(dir.path(), "test", move || said.clone()).unwrap();
        let silent: Vec<_> = (0..SILENT)
            .map(|_| UnixStream::connect(dir.path().join("gateway-test.status")).unwrap())
            .collect();
        // The time-out is shorter than the time for which all silent clients together might delay
        // the answer.
        assert!(
            ask(dir.path(), PATIENCE).unwrap() == [Answer::Report(Box::new(long))],
            "no whole answer"
        );
        let mut part = Vec::new();
        (&silent[0]).read_to_end(&mut part).unwrap();
        assert!(!part.is_empty() && part.len() < 2 << 20, "{} bytes", part.len());
    }

    #[test]
    fn dead_and_silent_gateways_are_distinguished_from_living_ones() {
        let dir = tempfile::tempdir().unwrap();
        drop(UnixListener::bind(dir.path().join("gateway-dead.status")).unwrap());
        std::fs::write(dir.path().join("gateway-test.lock"), "1").unwrap();
        assert_eq!(ask(dir.path(), PATIENCE).unwrap(), [Answer::Dead { kind: "dead".into() }]);
        let said = |answer: &Answer, of: &str, what: &str| {
            matches!(answer, Answer::Silent { kind, reason, .. }
                if kind == of && reason.contains(what))
        };
        let listener = UnixListener::bind(dir.path().join("gateway-mad.status")).unwrap();
        let mad = std::thread::spawn(move || {
            listener.accept().unwrap().0.write_all(b"{\"host\": 3}").unwrap()
        });
        let answers = ask(dir.path(), PATIENCE).unwrap();
        mad.join().unwrap();
        assert!(said(&answers[1], "mad", "not understood"), "{answers:?}");
        let silent = UnixListener::bind(dir.path().join("gateway-silent.status")).unwrap();
        let answers = ask(dir.path(), Duration::from_millis(50)).unwrap();
        assert!(said(&answers[2], "silent", "no answer within"), "{answers:?}");
        drop(silent);
        // A restarted gateway takes the place of the dead one.
        let _again = StatusSocket::new(dir.path(), "dead", || report("b")).unwrap();
        assert_eq!(ask(dir.path(), PATIENCE).unwrap()[0], Answer::Report(Box::new(report("b"))));
    }
}
