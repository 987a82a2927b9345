// SPDX-License-Identifier: Apache-2.0
//! Measured processes: started, listened to, and never left behind.

use super::quota::Quota;
use crate::harness::{End, Event, Job, Role, System};
use crate::peer::WORDS_FD;
use crate::peers::Selection;
use anyhow::{Context, Result, bail};
use command_fds::{CommandFdExt, FdMapping};
use driveline_shm::floor::SharedWords;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How much of a failed process's complaint is shown.
const COMPLAINT: usize = 4096;
/// How long a keeper may take to clean up.
const KEEPER_LEAVES: Duration = Duration::from_secs(15);
/// How often an interruption is looked for. Rare, because looking wakes a CPU that is being measured.
pub(crate) const LOOK: Duration = Duration::from_millis(500);

/// The program that the measured processes run, and the arguments that make it one.
#[derive(Clone, Debug)]
pub struct Program {
    /// Executable.
    pub path: PathBuf,
    /// Arguments.
    pub args: Vec<String>,
}

enum Heard {
    Event(Event),
    Gone,
}

/// The processes of one run.
pub(crate) struct Troupe<'a> {
    program: &'a Program,
    peers: &'a Selection,
    interrupted: &'a AtomicBool,
    quota: Option<&'a Quota>,
    members: Vec<Member>,
    heard: Receiver<(usize, Heard)>,
    tell: Sender<(usize, Heard)>,
}

struct Member {
    name: String,
    keeps: bool,
    child: Child,
    stdin: Option<ChildStdin>,
    spawned_ns: u64,
    complaint: Arc<Mutex<Vec<u8>>>,
    listeners: Vec<JoinHandle<()>>,
    ready: bool,
    idle: bool,
    ends: Option<Vec<End>>,
}

/// What a process can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Ready,
    Idle,
    Done,
}

impl<'a> Troupe<'a> {
    pub(crate) fn new(program: &'a Program, peers: &'a Selection, interrupted: &'a AtomicBool) -> Self {
        let (tell, heard) = channel();
        Self { program, peers, interrupted, quota: None, members: Vec::new(), heard, tell }
    }

    /// All processes that are started from now on share this processor time.
    pub(crate) fn confine(&mut self, quota: Option<&'a Quota>) {
        self.quota = quota;
    }

    /// Starts a process and returns its number.
    pub(crate) fn start(&mut self, name: &str, job: &Job, words: Option<&SharedWords>) -> Result<usize> {
        let (path, args): (&Path, &[String]) = match &job.system {
            System::Driveline | System::Futex | System::Spin => (&self.program.path, &self.program.args),
            system @ System::Peer { .. } => {
                (self.peers.program(system).with_context(|| format!("there is no program that carries {system}"))?, &[])
            }
        };
        let mut command = Command::new(path);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(words) = words {
            let parent_fd = words.fd().try_clone_to_owned().context("cannot hand over the floor's words")?;
            command.fd_mappings(vec![FdMapping { parent_fd, child_fd: WORDS_FD }])?;
        }
        self.spawn(name, command, &serde_json::to_string(job)?, job.role)
    }

    /// Starts a program with a job that is more than a [`Job`].
    pub(crate) fn start_with(&mut self, name: &str, program: &Path, line: &str) -> Result<usize> {
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.spawn(name, command, line, Role::Stage)
    }

    fn spawn(&mut self, name: &str, mut command: Command, line: &str, role: Role) -> Result<usize> {
        let spawned_ns = driveline::types::MonotonicNs::now().0;
        let mut child = command.spawn().with_context(|| format!("cannot start {} as {name}", command.get_program().display()))?;
        if let Some(quota) = self.quota.filter(|_| role != Role::Keeper && role != Role::Hog) {
            // It waits for its job, so it has no thread yet that would stay outside.
            let admitted = quota.admit(child.id());
            if admitted.is_err() {
                let _ = child.kill();
                let _ = child.wait();
            }
            admitted?;
        }
        let mut stdin = child.stdin.take();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let index = self.members.len();
        let complaint = Arc::new(Mutex::new(Vec::new()));
        let mut listeners = Vec::new();
        if let Some(out) = stdout {
            let tell = self.tell.clone();
            listeners.push(std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    if let Ok(event) = serde_json::from_str(&line) {
                        let _ = tell.send((index, Heard::Event(event)));
                    }
                }
                let _ = tell.send((index, Heard::Gone));
            }));
        }
        if let Some(mut err) = stderr {
            let kept = complaint.clone();
            listeners.push(std::thread::spawn(move || {
                let mut chunk = [0; 1024];
                while let Ok(n @ 1..) = err.read(&mut chunk) {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.extend(chunk.iter().take(n));
                    let excess = kept.len().saturating_sub(COMPLAINT);
                    kept.drain(..excess);
                }
            }));
        }
        // If it has died already, waiting for it tells more than this would.
        let _ = stdin.as_mut().map(|s| writeln!(s, "{line}"));
        self.members.push(Member {
            name: name.to_owned(),
            keeps: role == Role::Keeper,
            child,
            stdin,
            spawned_ns,
            complaint,
            listeners,
            ready: false,
            idle: false,
            ends: None,
        });
        Ok(index)
    }

    /// When a process was started, on `CLOCK_MONOTONIC`.
    pub(crate) fn spawned_ns(&self, index: usize) -> u64 {
        self.members.get(index).map_or(0, |m| m.spawned_ns)
    }

    pub(crate) fn pid(&self, index: usize) -> u32 {
        self.members.get(index).map_or(0, |m| m.child.id())
    }

    /// Tells a process to go on.
    pub(crate) fn go_on(&mut self, index: usize) {
        if let Some(stdin) = self.members.get_mut(index).and_then(|m| m.stdin.as_mut()) {
            let _ = writeln!(stdin, "go on");
        }
    }

    /// Waits for one process. Fails as soon as any of them fails, with what it said.
    pub(crate) fn wait(&mut self, index: usize, until: Until, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        loop {
            let reached = self.members.get(index).is_some_and(|m| match until {
                Until::Ready => m.ready,
                Until::Idle => m.idle,
                Until::Done => m.ends.is_some(),
            });
            if reached {
                return Ok(());
            }
            if self.interrupted.load(Relaxed) {
                bail!("interrupted");
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let states: Vec<_> = self
                    .members
                    .iter()
                    .map(|m| {
                        format!(
                            "{} {}",
                            m.name,
                            if m.ends.is_some() {
                                "is done"
                            } else if m.ready {
                                "runs"
                            } else {
                                "is not ready"
                            }
                        )
                    })
                    .collect();
                bail!("{} did not get to '{until:?}' within {timeout:?} ({})", self.name(index), states.join(", "));
            }
            match self.heard.recv_timeout(left.min(LOOK)) {
                Ok((from, heard)) => self.note(from, heard)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("all processes of the run are gone"),
            }
        }
    }

    fn note(&mut self, from: usize, heard: Heard) -> Result<()> {
        let name = self.name(from);
        let Some(member) = self.members.get_mut(from) else { return Ok(()) };
        match heard {
            Heard::Event(Event::Ready) => member.ready = true,
            Heard::Event(Event::Idle) => member.idle = true,
            Heard::Event(Event::Done { ends }) => member.ends = Some(ends),
            Heard::Event(Event::Failed { error }) => bail!("{name} failed: {error}"),
            Heard::Gone if member.ends.is_some() => {}
            Heard::Gone => {
                let status = member.child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
                let complaint = String::from_utf8_lossy(&member.complaint.lock().unwrap_or_else(PoisonError::into_inner)).trim().to_owned();
                let said = if complaint.is_empty() { "and said nothing".to_owned() } else { format!("and said: {complaint}") };
                bail!("{name} ended too early ({status}) {said}");
            }
        }
        Ok(())
    }

    fn name(&self, index: usize) -> String {
        self.members.get(index).map_or_else(|| "an unknown process".to_owned(), |m| m.name.clone())
    }

    /// Names and process ids of all, in the order of their start.
    pub(crate) fn pids(&self) -> Vec<(String, u32)> {
        self.members.iter().map(|m| (m.name.clone(), m.child.id())).collect()
    }

    /// What the ends of one process did.
    pub(crate) fn ends_of(&mut self, index: usize) -> Vec<End> {
        self.members.get_mut(index).and_then(|m| m.ends.take()).unwrap_or_default()
    }

    /// What all ends of all processes did, in the order of their start.
    pub(crate) fn ends(&mut self) -> Vec<End> {
        self.members.iter_mut().filter_map(|m| m.ends.take()).flatten().collect()
    }
}

impl Drop for Troupe<'_> {
    fn drop(&mut self) {
        // Keepers last, and with time to clean up behind the others.
        self.members.sort_by_key(|m| m.keeps);
        for member in &mut self.members {
            // Closing its input lets one go that waits there; one that is not done is no loss.
            member.stdin = None;
            let deadline = Instant::now() + KEEPER_LEAVES;
            while member.keeps && Instant::now() < deadline && member.child.try_wait().is_ok_and(|s| s.is_none()) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = member.child.kill();
            let _ = member.child.wait();
            for listener in member.listeners.drain(..) {
                let _ = listener.join();
            }
        }
    }
}
