// SPDX-License-Identifier: Apache-2.0
//! Measured processes: their start, their messages and their end.

use super::listen::{COMPLAINT, Heard, complaints, events};
use super::quota::Quota;
use crate::cable::Cable;
use crate::child::{Started, readable};
use crate::deployment::{Contained, Containers, Deployment, Ends};
use crate::harness::{End, Event, Job, Role, System};
use crate::machine::usable_cpus;
use crate::observations::Observations;
use crate::peer::WORDS_FD;
use crate::peers::Selection;
use anyhow::{Context, Result, bail, ensure};
use command_fds::{CommandFdExt, FdMapping};
use driveline_shm::floor::SharedWords;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time in which a finished process must end, and a keeper must clean up.
const LEAVES: Duration = Duration::from_secs(15);
/// Time in which the pipes of an ended process must become empty.
const RUNS_DRY: Duration = Duration::from_secs(1);
/// Interval at which an interruption is checked. Long, because the check wakes a CPU that is being
/// measured.
pub(crate) const LOOK: Duration = Duration::from_millis(500);

/// Program of the measured processes, and the arguments with which it runs as one of them.
#[derive(Clone, Debug)]
pub struct Program {
    /// Executable.
    pub path: PathBuf,
    /// Arguments.
    pub args: Vec<String>,
}

/// The processes of one run.
pub(crate) struct Processes<'a> {
    program: &'a Program,
    peers: &'a Selection,
    interrupted: &'a AtomicBool,
    quota: Option<&'a Quota>,
    members: Vec<Member>,
    heard: Receiver<(usize, Heard)>,
    sender: Sender<(usize, Heard)>,
    // Dropped after the processes that use it.
    cable: Option<Cable>,
    containers: Option<Containers>,
}

struct Member {
    name: String,
    keeps: bool,
    /// `true` for a gateway: it does not read its input, so only a signal ends it.
    needs_signal: bool,
    process: Started,
    /// Process id of the program. If the program is in a container, `process` is the engine's
    /// client.
    program: u32,
    stdin: Option<ChildStdin>,
    spawned_ns: u64,
    complaint: Arc<Mutex<Vec<u8>>>,
    listeners: Vec<JoinHandle<()>>,
    ready: bool,
    idle: bool,
    ends: Option<Vec<End>>,
    /// `true` if it has reported that it has finished.
    done: bool,
    /// `true` if [`Processes::let_go`] has handled its end.
    left: bool,
}

impl Member {
    /// Returns its error messages.
    fn said(&self) -> String {
        let complaint =
            readable(&self.complaint.lock().unwrap_or_else(PoisonError::into_inner), COMPLAINT);
        if complaint.is_empty() {
            "and said nothing".to_owned()
        } else {
            format!("and said: {complaint}")
        }
    }

    /// Waits until the remaining output of an ended process is read, at most [`RUNS_DRY`]: a
    /// process that has left the group may hold the pipes open for any time.
    fn run_dry(&self) {
        let deadline = Instant::now() + RUNS_DRY;
        while Instant::now() < deadline && self.listeners.iter().any(|l| !l.is_finished()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Event of a process to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Ready,
    Idle,
    Done,
}

impl<'a> Processes<'a> {
    pub(crate) fn new(
        program: &'a Program,
        peers: &'a Selection,
        interrupted: &'a AtomicBool,
    ) -> Self {
        let (sender, heard) = channel();
        Self {
            program,
            peers,
            interrupted,
            quota: None,
            members: Vec::new(),
            heard,
            sender,
            cable: None,
            containers: None,
        }
    }

    /// Sets the deployment of all ends that are started from now on. `shared`: the directory of the
    /// run. Blocks: it starts the container for all ends, or the one whose namespaces the others
    /// share, if there is one.
    pub(super) fn deploy(
        &mut self,
        deployment: Deployment,
        shared: &Path,
        system: &System,
    ) -> Result<()> {
        let of_peer = matches!(system, System::Peer { .. });
        let programs = [self.program(system)?];
        self.contain(deployment, shared, &Ends { programs: &programs, of_peer })
    }

    /// As [`Self::deploy`], for these programs.
    pub(crate) fn contain(
        &mut self,
        deployment: Deployment,
        shared: &Path,
        ends: &Ends<'_>,
    ) -> Result<()> {
        if deployment != Deployment::Bare {
            self.containers = Some(Containers::new(deployment, shared, ends)?);
        }
        Ok(())
    }

    /// Returns the program of the ends of a system.
    fn program(&self, system: &System) -> Result<&'a Path> {
        match system {
            System::Driveline | System::Futex | System::Spin | System::Memcpy => {
                Ok(&self.program.path)
            }
            System::Peer { .. } => self
                .peers
                .program(system)
                .with_context(|| format!("no selected peer carries {system}")),
        }
    }

    /// Sets the shared processor time of all ends that are started from now on; keepers, gateways
    /// and hogs have no share in it.
    pub(crate) fn confine(&mut self, quota: Option<&'a Quota>) {
        self.quota = quota;
    }

    /// Sets the cable between the two hosts. It applies to all ends that are started from now on.
    pub(super) fn lay(&mut self, cable: Cable) {
        self.cable = Some(cable);
    }

    /// Records the cable's observations of the run, if there is a cable.
    pub(super) fn report_cable(&self, observations: &mut Observations) {
        if let Some(cable) = &self.cable {
            cable.report(observations);
        }
    }

    /// Records the container engine's use of processor time and memory, if there is an engine. It
    /// was last read when an end was done.
    pub(crate) fn report_engine(&self, observations: &mut Observations) {
        if let Some(containers) = &self.containers {
            containers.report(observations);
        }
    }

    /// Returns a command for a program on that host, or on this machine without a cable.
    fn command(&self, side: usize, program: &Path) -> Command {
        self.cable
            .as_ref()
            .map_or_else(|| Command::new(program), |cable| cable.command(side, program))
    }

    /// Starts the gateway for Driveline's topics on one of the hosts. No message is expected from
    /// it, and it ends with the run.
    pub(super) fn start_gateway(
        &mut self,
        side: usize,
        program: &Path,
        config: &Path,
    ) -> Result<usize> {
        // It must not outlive the runner. Ends ensure this themselves.
        let mut command = self.command(side, Path::new("setpriv"));
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).arg(config);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let index =
            self.spawn(&format!("the gateway of host {side}"), command, None, "", Role::Keeper)?;
        if let Some(gateway) = self.members.get_mut(index) {
            gateway.needs_signal = true;
        }
        Ok(index)
    }

    /// Starts a process and returns its number.
    pub(crate) fn start(
        &mut self,
        name: &str,
        job: &Job,
        words: Option<&SharedWords>,
    ) -> Result<usize> {
        let path = self.program(&job.system)?;
        let is_peer = matches!(job.system, System::Peer { .. });
        let args: &[String] = if is_peer { &[] } else { &self.program.args };
        let (mut command, mark) = match self.contained(path)? {
            Some(Contained { command, mark }) => (command, Some(mark)),
            None => (self.command(job.side(), path), None),
        };
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(words) = words {
            let parent_fd =
                words.fd().try_clone_to_owned().context("cannot hand over the floor's words")?;
            command.fd_mappings(vec![FdMapping { parent_fd, child_fd: WORDS_FD }])?;
        }
        self.spawn(name, command, mark.as_deref(), &serde_json::to_string(job)?, job.role)
    }

    /// Starts a program with a job that has more fields than [`Job`].
    pub(crate) fn start_with(&mut self, name: &str, program: &Path, line: &str) -> Result<usize> {
        let (mut command, mark) = match self.contained(program)? {
            Some(Contained { command, mark }) => (command, Some(mark)),
            None => (Command::new(program), None),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.spawn(name, command, mark.as_deref(), line, Role::Stage)
    }

    /// Returns the command that runs a program in a container; none without containers.
    fn contained(&mut self, program: &Path) -> Result<Option<Contained>> {
        self.containers.as_mut().map(|containers| containers.command(program)).transpose()
    }

    /// Starts a command and writes the line to its input. `mark`: mark of a program in a container;
    /// the function waits until that program runs before it writes the line.
    fn spawn(
        &mut self,
        name: &str,
        mut command: Command,
        mark: Option<&str>,
        line: &str,
        role: Role,
    ) -> Result<usize> {
        let spawned_ns = driveline::types::MonotonicNs::now().0;
        let mut process = Started::new(&mut command).with_context(|| {
            format!("cannot start {} as {name}", command.get_program().display())
        })?;
        if let Some(quota) = self.quota.filter(|_| role != Role::Keeper && role != Role::Hog) {
            // The process still waits for its job. It has only one thread, so the group gets all of
            // it.
            quota.admit(process.id())?;
        }
        let (mut stdin, stdout, stderr) = process.pipes();
        let index = self.members.len();
        let complaint = Arc::new(Mutex::new(Vec::new()));
        let mut listeners = Vec::new();
        if let Some(out) = stdout {
            let sender = self.sender.clone();
            listeners.push(std::thread::spawn(move || {
                events(out, |heard| drop(sender.send((index, heard))));
            }));
        }
        if let Some(err) = stderr {
            let kept = complaint.clone();
            listeners.push(std::thread::spawn(move || complaints(err, &kept)));
        }
        let ended = || process.has_ended() || self.interrupted.load(Relaxed);
        let program = match mark.zip(self.containers.as_mut()) {
            Some((mark, containers)) => containers
                .started(mark, process.id(), ended)
                .with_context(|| format!("cannot run {name} in a container"))?,
            None => None,
        };
        // If the process has already died, the later wait for it reports more than this error.
        let _ = stdin.as_mut().map(|s| writeln!(s, "{line}"));
        self.members.push(Member {
            name: name.to_owned(),
            keeps: role == Role::Keeper,
            needs_signal: false,
            program: program.unwrap_or(process.id()),
            process,
            stdin,
            spawned_ns,
            complaint,
            listeners,
            ready: false,
            idle: false,
            ends: None,
            done: false,
            left: false,
        });
        Ok(index)
    }

    /// Returns the start time of a process, on `CLOCK_MONOTONIC`.
    pub(crate) fn spawned_ns(&self, index: usize) -> u64 {
        self.members.get(index).map_or(0, |m| m.spawned_ns)
    }

    /// Returns the start time of the first process, on `CLOCK_MONOTONIC`: no stamp of the run is
    /// older.
    pub(crate) fn began_ns(&self) -> u64 {
        self.members.iter().map(|m| m.spawned_ns).min().unwrap_or(0)
    }

    pub(crate) fn pid(&self, index: usize) -> u32 {
        self.members.get(index).map_or(0, |m| m.process.id())
    }

    /// Orders a process to continue.
    pub(crate) fn go_on(&mut self, index: usize) {
        if let Some(stdin) = self.members.get_mut(index).and_then(|m| m.stdin.as_mut()) {
            let _ = writeln!(stdin, "go on");
        }
    }

    /// Waits for one process. Fails as soon as any process fails, with its messages.
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
            if let Some(why) = self.cable.as_ref().and_then(Cable::ended) {
                bail!("{why}");
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
                bail!(
                    "{} did not get to '{until:?}' within {timeout:?} ({})",
                    self.name(index),
                    states.join(", ")
                );
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
            Heard::Event(Event::Done { ends }) => {
                let lived = Duration::from_nanos(
                    driveline::types::MonotonicNs::now().0.saturating_sub(member.spawned_ns),
                );
                check_times(&ends, lived, usable_cpus()?.len()).with_context(|| name.clone())?;
                (member.ends, member.done) = (Some(ends), true);
                // Read now, because the engine's processes of this end may have ended later.
                self.containers.iter_mut().for_each(Containers::read_use);
            }
            Heard::Event(Event::Failed { error }) => {
                bail!("{name} failed: {}", readable(error.as_bytes(), COMPLAINT))
            }
            Heard::Gone if member.done => {}
            Heard::Gone => {
                let status = member.process.end().map_or_else(|e| e.to_string(), |s| s.to_string());
                bail!("{name} ended too early ({status}) {}", member.said());
            }
        }
        Ok(())
    }

    /// Lets all finished processes end, and checks their status: a process may still fail after it
    /// has reported its results. Blocks until all have ended, at most 15 s, or until an
    /// interruption.
    pub(crate) fn let_go(&mut self) -> Result<()> {
        let (deadline, interrupted) = (Instant::now() + LEAVES, self.interrupted);
        let waits_no_longer = || {
            let error = |kind, text: &str| Some(std::io::Error::new(kind, text));
            match () {
                () if interrupted.load(Relaxed) => error(ErrorKind::Interrupted, "interrupted"),
                () if Instant::now() >= deadline => {
                    error(ErrorKind::TimedOut, "it went on for 15 s, and was killed")
                }
                () => None,
            }
        };
        // A process that waits for input ends when its input is closed. All are closed first, so
        // that containers end at the same time.
        self.members.iter_mut().filter(|m| m.done && !m.left).for_each(|m| m.stdin = None);
        for member in self.members.iter_mut().filter(|m| m.done && !m.left) {
            member.left = true;
            let status = member.process.end_unless(waits_no_longer);
            member.run_dry();
            match status {
                Ok(status) if status.success() => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => bail!("interrupted"),
                Ok(status) => {
                    bail!("{} was done, and then failed ({status}) {}", member.name, member.said())
                }
                Err(e) => bail!("{} was done, and did not end: {e} {}", member.name, member.said()),
            }
        }
        Ok(())
    }

    fn name(&self, index: usize) -> String {
        self.members.get(index).map_or_else(|| "an unknown process".to_owned(), |m| m.name.clone())
    }

    /// Returns names and process ids of all programs, in the order of their start.
    pub(crate) fn pids(&self) -> Vec<(String, u32)> {
        self.members.iter().map(|m| (m.name.clone(), m.program)).collect()
    }

    /// Returns the reports of the ends of one process.
    pub(crate) fn ends_of(&mut self, index: usize) -> Vec<End> {
        self.members.get_mut(index).and_then(|m| m.ends.take()).unwrap_or_default()
    }

    /// Returns the reports of all ends of all processes, in the order of their start.
    pub(crate) fn ends(&mut self) -> Vec<End> {
        self.members.iter_mut().filter_map(|m| m.ends.take()).flatten().collect()
    }
}

/// Checks that the processor time in the reports of a process is possible.
fn check_times(ends: &[End], lived: Duration, cpus: usize) -> Result<()> {
    let reported = Duration::from_nanos(ends.iter().fold(0, |sum, e| sum.saturating_add(e.cpu_ns)));
    // Processor time that the kernel counts in ticks may be a little too large.
    let most = lived * u32::try_from(cpus)? + Duration::from_millis(100);
    ensure!(
        reported <= most,
        "it reports {reported:?} of processor time, but it ran for {lived:?} on {cpus} CPUs: is \
         `cpu_ns` in nanoseconds?"
    );
    Ok(())
}

impl Drop for Processes<'_> {
    fn drop(&mut self) {
        // Keepers end last, with time to clean up after the others.
        self.members.sort_by_key(|m| m.keeps);
        for member in &mut self.members {
            // A process that waits for input ends when its input is closed. Killing an unfinished
            // process loses nothing.
            member.stdin = None;
            if member.needs_signal {
                member.process.ask_to_end();
            }
            let _ = member.process.end_within(if member.keeps { LEAVES } else { Duration::ZERO });
            member.run_dry();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cable::CableSpec;
    use crate::harness::sample_job;

    #[test]
    fn a_gateway_is_asked_to_end_and_has_time_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let script = "cd ${0%/*}; trap 'sleep 0.05; touch ended; exit' TERM; touch ready; while :; \
             do sleep 0.01; done";
        std::fs::write(at("gateway"), script).unwrap();
        let (program, peers, interrupted) = (
            Program { path: "true".into(), args: Vec::new() },
            Selection::default(),
            AtomicBool::new(false),
        );
        let mut processes = Processes::new(&program, &peers, &interrupted);
        processes.start_gateway(0, Path::new("/bin/sh"), &at("gateway")).unwrap();
        while !at("ready").exists() {
            // time: a pause between polls
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(processes);
        assert!(at("ended").exists(), "it was killed");
    }

    /// Without the interruption, `let_go` would wait 15 s for the first process, and kill it.
    #[test]
    fn an_interruption_ends_a_run_whose_ends_are_still_alive() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("end");
        // Another process writes it: a child of another test could inherit the file while it is
        // open, and a file that is open for writing cannot be started.
        let write = ["-c", r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#];
        let text = "echo '{\"event\":\"done\",\"ends\":[]}'\nexec sleep 1000";
        assert!(Command::new("sh").args(write).arg(&path).arg(text).status().unwrap().success());
        let (program, peers, interrupted) = (
            Program { path: "true".into(), args: Vec::new() },
            Selection::default(),
            AtomicBool::new(false),
        );
        let mut processes = Processes::new(&program, &peers, &interrupted);
        for name in ["one end", "another"] {
            let end = processes.start_with(name, &path, "").unwrap();
            processes.wait(end, Until::Done, Duration::from_secs(60)).unwrap();
        }
        interrupted.store(true, Relaxed);
        assert_eq!(processes.let_go().unwrap_err().to_string(), "interrupted");
    }

    #[test]
    #[ignore = "needs root, to make namespaces: make test-gateways runs it as root"]
    fn no_process_is_waited_for_over_an_ended_cable() {
        let (program, peers, interrupted) = (
            Program { path: "sleep".into(), args: vec!["1000".into()] },
            Selection::default(),
            AtomicBool::new(false),
        );
        let mut processes = Processes::new(&program, &peers, &interrupted);
        processes.lay(Cable::new(CableSpec { delay_ms: 1.0, ..CableSpec::default() }).unwrap());
        let end = processes
            .start("the end", &Job { system: System::Driveline, ..sample_job() }, None)
            .unwrap();
        let remove =
            processes.command(0, Path::new("ip")).args(["link", "delete", "dl0"]).status().unwrap();
        assert!(remove.success());
        let why =
            processes.wait(end, Until::Done, Duration::from_secs(60)).unwrap_err().to_string();
        assert!(why.contains("the cable carries nothing any more"), "{why}");
    }

    #[test]
    fn no_process_had_more_processor_time_than_existed() {
        let end = |cpu_ns| End { cpu_ns, ..End::new(Role::Subscriber, 0) };
        let check = |reported: &[u64]| {
            check_times(
                &reported.iter().map(|ns| end(*ns)).collect::<Vec<_>>(),
                Duration::from_secs(1),
                2,
            )
        };
        assert!(check(&[]).is_ok() && check(&[2_000_000_000]).is_ok());
        for reported in [&[2_200_000_000][..], &[1_500_000_000, 1_500_000_000], &[u64::MAX, 1]] {
            assert!(check(reported).unwrap_err().to_string().contains("on 2 CPUs"));
        }
    }
}
