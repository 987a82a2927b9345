// SPDX-License-Identifier: Apache-2.0
//! The starting side of a peer process.

use super::{PATIENCE, eventually};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Marks the program as a peer; the value is the domain directory.
pub(crate) const PEER_VARIABLE: &str = "DRIVELINE_TEST_PEER";
/// Prefix of a peer's lines; the test harness writes to the same stream.
pub(crate) const MARK: &str = "@driveline ";

/// A domain directory of its own.
pub(crate) struct Domain(pub(crate) tempfile::TempDir);

impl Domain {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A domain that every user of the machine can enter.
    pub(crate) fn open_to_all() -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let d = Self::new();
        std::fs::set_permissions(d.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        d
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Names in the directory, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Names of one kind: `p` publishers, `r` and `i` participants, `t` unfinished.
    pub(crate) fn count(&self, kind: char) -> usize {
        self.names().iter().filter(|n| n.starts_with(kind)).count()
    }

    pub(crate) fn peer(&self, name: &str) -> Peer {
        self.peer_with(name, |_| {})
    }

    /// A peer that kills itself at the nth pass of a fault point.
    pub(crate) fn doomed_peer(&self, name: &str, point: &str, nth: u32) -> Peer {
        self.peer_with(name, |c| {
            c.env("DRIVELINE_FAULT_POINT", format!("{point}:{nth}"));
        })
    }

    /// A peer that stops itself at the nth pass of a fault point.
    pub(crate) fn stopping_peer(&self, name: &str, point: &str, nth: u32) -> Peer {
        self.peer_with(name, |c| {
            c.env("DRIVELINE_FAULT_POINT", format!("{point}:{nth}"))
                .env("DRIVELINE_FAULT_ACTION", "stop");
        })
    }

    pub(crate) fn peer_with(&self, name: &str, change: impl FnOnce(&mut Command)) -> Peer {
        let mut command = Command::new(std::env::current_exe().unwrap());
        change(&mut command);
        start(self.path(), name, command)
    }

    /// A peer in another directory; the empty path stands for the default one.
    pub(crate) fn peer_at(&self, path: &Path, name: &str) -> Peer {
        self.peer_in(path, name, |_| {})
    }

    /// As [`peer_at`](Self::peer_at), with another environment.
    pub(crate) fn peer_in(
        &self,
        path: &Path,
        name: &str,
        change: impl FnOnce(&mut Command),
    ) -> Peer {
        let mut command = Command::new(std::env::current_exe().unwrap());
        change(&mut command);
        start(path, name, command)
    }

    /// A peer behind another program (`unshare …`), given with its arguments.
    pub(crate) fn peer_behind(&self, name: &str, wrapper: &[&str]) -> Peer {
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(std::env::current_exe().unwrap());
        start(self.path(), name, command)
    }
}

fn start(domain: &Path, name: &str, mut command: Command) -> Peer {
    let mut child = command
        .args([
            "--exact",
            "support::peer::peers_follow_commands",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(PEER_VARIABLE, domain)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, lines) = channel();
    let out = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if let Some(text) = line.strip_prefix(MARK)
                && sender.send(text.to_owned()).is_err()
            {
                break;
            }
        }
    });
    let stdin = child.stdin.take().unwrap();
    Peer { name: name.to_owned(), child, stdin, lines }
}

/// A peer process. It is killed when this is dropped.
pub(crate) struct Peer {
    pub(crate) name: String,
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Peer {
    /// Sends a command and returns the peer's answer. The test fails if the command fails.
    #[track_caller]
    pub(crate) fn ask(&mut self, line: &str) -> String {
        match self.try_ask(line) {
            Ok(text) => text,
            Err(e) => panic!("{}: '{line}' failed: {e}", self.name),
        }
    }

    /// As [`ask`](Self::ask), for numbers.
    #[track_caller]
    pub(crate) fn numbers(&mut self, line: &str) -> Vec<u64> {
        self.ask(line).split_whitespace().map(|n| n.parse().unwrap()).collect()
    }

    /// As [`ask`](Self::ask), for one number.
    #[track_caller]
    pub(crate) fn number(&mut self, line: &str) -> u64 {
        self.numbers(line)[0]
    }

    /// Sends a command that may fail, and returns the answer.
    #[track_caller]
    pub(crate) fn try_ask(&mut self, line: &str) -> Result<String, String> {
        self.send(line);
        self.answer(line)
    }

    /// Sends a command without waiting for the answer. A dead peer does not receive it.
    pub(crate) fn send(&mut self, line: &str) {
        let _ = writeln!(self.stdin, "{line}");
    }

    /// Waits for the answer to a sent command.
    #[track_caller]
    pub(crate) fn answer(&mut self, line: &str) -> Result<String, String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(text) => match text.split_once(' ') {
                Some(("ok", rest)) => Ok(rest.to_owned()),
                Some((_, rest)) => Err(rest.to_owned()),
                None => Ok(String::new()),
            },
            Err(RecvTimeoutError::Disconnected) => {
                panic!("{}: ended at '{line}': {}", self.name, self.child.wait().unwrap())
            }
            Err(RecvTimeoutError::Timeout) => panic!("{}: no answer to '{line}'", self.name),
        }
    }

    /// Repeats a command until the answer is `wanted`.
    #[track_caller]
    pub(crate) fn until(&mut self, line: &str, mut wanted: impl FnMut(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = self.ask(line);
            if wanted(&text) {
                return text;
            }
            assert!(Instant::now() < end, "{}: '{line}' remains '{text}'", self.name);
            // time: a pause between polls; they end with the condition
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Repeats a command until the first number of the answer is at least `least`.
    #[track_caller]
    pub(crate) fn until_at_least(&mut self, line: &str, least: u64) -> u64 {
        let first = |t: &str| t.split_whitespace().next().unwrap().parse::<u64>().unwrap();
        first(&self.until(line, |t| first(t) >= least))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // The child was not waited for yet, so the process id is still its own.
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), signal).unwrap();
    }

    /// Kills the peer at once.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Makes the peer end in order.
    #[track_caller]
    pub(crate) fn quit(mut self) {
        self.send("quit");
        let status = self.wait();
        assert!(status.success(), "{}: {status}", self.name);
    }

    /// Waits until the peer has died of the SIGKILL that its fault point sends.
    #[track_caller]
    pub(crate) fn died(&mut self) {
        let status = self.wait();
        assert_eq!(
            status.signal(),
            Some(9),
            "{}: was to die at its fault point and did not: {status}",
            self.name
        );
    }

    #[track_caller]
    fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "{}: does not end", self.name);
            // time: a pause between polls; they end with the condition
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns true if it still runs (or is stopped).
    pub(crate) fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    fn proc_file(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.pid())).unwrap()
    }

    /// Waits until the kernel says that it is stopped.
    #[track_caller]
    pub(crate) fn stopped(&mut self) {
        let path = format!("/proc/{}/stat", self.pid());
        eventually("the process stops", || {
            std::fs::read_to_string(&path)
                .unwrap()
                .rsplit_once(')')
                .unwrap()
                .1
                .trim_start()
                .starts_with('T')
        });
    }

    /// Clock ticks (10 ms) of processor time used so far.
    pub(crate) fn ticks(&self) -> u64 {
        let stat = self.proc_file("stat");
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// Number of times that its threads went to sleep so far.
    pub(crate) fn sleeps(&self) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        tasks
            .filter_map(|t| std::fs::read_to_string(t.ok()?.path().join("status")).ok())
            .filter_map(|s| {
                s.lines().find_map(|l| {
                    l.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok()
                })
            })
            .sum()
    }

    /// Open descriptors, without temporary ones such as those of a directory scan.
    pub(crate) fn descriptors(&self) -> usize {
        let count = || std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count();
        let several = std::iter::repeat_with(|| {
            // time: between several counts; the smallest one is used
            std::thread::sleep(Duration::from_millis(5));
            count()
        });
        several.take(5).min().unwrap()
    }

    /// Number of Driveline's shared-memory mappings, by their names.
    pub(crate) fn mappings(&self) -> usize {
        self.proc_file("maps").lines().filter(|l| l.contains("memfd:driveline-")).count()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Fails only if it is dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
