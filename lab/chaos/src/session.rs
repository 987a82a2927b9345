// SPDX-License-Identifier: Apache-2.0
//! One run of the graph, started with `driveline run` as by a user, in its own domain.

use crate::census::{self, Census};
use driveline_runtime::domain::DIRECTORY;
use driveline_runtime::host::{FAULTS_VARIABLE, InjectedFault, fault_file};
use driveline_runtime::launch::control::{AskError, RunSocket, RunStatus, Verb, find};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Pause between two polls of a run.
pub(crate) const POLL: Duration = Duration::from_millis(10);
/// Time for the launcher to close the connection of an answered request.
const CLOSES_WITHIN: Duration = Duration::from_millis(200);
/// Time for the launcher to respond, longer than the time-out of tools, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Lines of the run's output that an error quotes.
const LINES: usize = 15;

/// Settings of a session.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The program `driveline`.
    pub driveline: PathBuf,
    /// Graph file.
    pub graph: PathBuf,
    /// Assignments `component.parameter=value`.
    pub set: Vec<String>,
    /// Directory for the report and the output of the run.
    pub report: PathBuf,
}

/// A run. Dropping it kills its remaining processes.
#[derive(Debug)]
pub struct Session {
    child: Child,
    directory: TempDir,
    report: PathBuf,
    socket: Option<RunSocket>,
}

impl Session {
    /// Starts the graph. Does not wait until it runs.
    ///
    /// # Errors
    /// If the program cannot be started, or a directory cannot be made.
    pub fn start(options: &SessionOptions) -> Result<Self, String> {
        let report = &options.report;
        let failed = |what: &Path, e: std::io::Error| format!("{}: {e}", what.display());
        std::fs::create_dir_all(report).map_err(|e| failed(report, e))?;
        // A killed launcher writes no summary.json. The file of an earlier campaign must not be
        // taken for its own.
        match std::fs::remove_file(report.join("summary.json")) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(report, e)),
            _ => {}
        }
        let directory = tempfile::Builder::new().prefix("driveline-chaos-").tempdir();
        let directory = directory.map_err(|e| format!("no temporary directory: {e}"))?;
        for part in [domain_of(&directory), faults_of(&directory)] {
            std::fs::create_dir(&part).map_err(|e| failed(&part, e))?;
        }
        let log = report.join("output.txt");
        let output = File::create(&log).map_err(|e| failed(&log, e))?;
        let again = output.try_clone().map_err(|e| failed(&log, e))?;
        let set = options.set.iter().flat_map(|set| ["--set", set.as_str()]);
        let child = Command::new(&options.driveline)
            .arg("run")
            .arg(&options.graph)
            .args(set)
            .arg("--report")
            .arg(report)
            .env(DIRECTORY, domain_of(&directory))
            .env(FAULTS_VARIABLE, faults_of(&directory))
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(again)
            // In this group, the run does not get Ctrl-C. This process gets it, and then ends the
            // run in order.
            .process_group(0)
            .spawn()
            .map_err(|e| failed(&options.driveline, e))?;
        Ok(Self { child, directory, report: report.clone(), socket: None })
    }

    /// Returns the directory of this run's own domain.
    #[must_use]
    pub fn domain(&self) -> PathBuf {
        domain_of(&self.directory)
    }

    /// Returns the process id of the launcher.
    #[must_use]
    pub fn launcher(&self) -> u32 {
        self.child.id()
    }

    /// Returns the state of the run; `None` while it has no control socket.
    ///
    /// # Errors
    /// If the run does not respond, or has ended; then the text has the last lines of its output.
    pub fn status(&mut self) -> Result<Option<RunStatus>, String> {
        if let Some(status) = self.ended()? {
            return Err(format!("the run has ended ({status}):\n{}", self.last_lines()));
        }
        if self.socket.is_none() {
            self.socket = find(&self.domain()).ok().and_then(|mut runs| runs.pop());
        }
        let Some(socket) = &self.socket else { return Ok(None) };
        match socket.ask(Verb::Health, PATIENCE) {
            Ok(run) => Ok(Some(run)),
            // The run is ending, or the directory was removed.
            Err(AskError::Gone) => {
                self.socket = None;
                Ok(None)
            }
            Err(e) => Err(format!("{e}; its output is in {}", self.report.display())),
        }
    }

    /// Counts the resources of the run, some time after [`Session::status`] returned `run`: the
    /// launcher closes the connection of that request later than this process.
    pub(crate) fn census(&self, run: &RunStatus) -> Census {
        std::thread::sleep(CLOSES_WITHIN);
        Census::of(run, &self.domain())
    }

    /// Returns the exit status of the launcher, if it has ended.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.try_wait().map_err(|e| format!("cannot wait for the run: {e}"))
    }

    /// Injects a fault into the next call of a module: makes a file, which that call removes when
    /// it takes the fault.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn inject(&self, module: &str, fault: InjectedFault) -> Result<(), String> {
        let place = fault_file(&faults_of(&self.directory), module);
        let new = place.with_extension("new");
        std::fs::write(&new, fault.to_string())
            .and_then(|()| std::fs::rename(&new, &place))
            .map_err(|e| format!("{}: {e}", place.display()))
    }

    /// Returns true if a call of the module has taken the fault.
    #[must_use]
    pub fn is_taken(&self, module: &str) -> bool {
        !fault_file(&faults_of(&self.directory), module).exists()
    }

    /// Withdraws a fault that no call has taken.
    pub fn withdraw(&self, module: &str) {
        let _ = std::fs::remove_file(fault_file(&faults_of(&self.directory), module));
    }

    /// Sends a signal to a process of the run. Does nothing if the process has ended.
    pub fn signal(&self, pid: u32, signal: Signal) {
        if let Some(pid) = pid_of(pid) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Stops the run as Ctrl-C does, and waits until it has ended.
    ///
    /// # Errors
    /// If the run does not end within `within`. The launcher is killed then.
    pub fn stop(&mut self, within: Duration) -> Result<ExitStatus, String> {
        self.signal(self.launcher(), Signal::INT);
        let end = Instant::now() + within;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if Instant::now() >= end {
                self.signal(self.launcher(), Signal::KILL);
                let _ = self.child.wait();
                return Err(format!("the run did not end within {} s", within.as_secs()));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Kills the launcher.
    pub fn kill_launcher(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns the living processes of this run.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let mut assignment = OsString::from(format!("{DIRECTORY}="));
        assignment.push(self.domain());
        census::processes_with(&assignment)
    }

    /// Returns the last lines of the run's output.
    #[must_use]
    pub fn last_lines(&self) -> String {
        let text = std::fs::read(self.report.join("output.txt")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.kill_launcher();
        self.processes().into_iter().for_each(|pid| self.signal(pid, Signal::KILL));
    }
}

fn domain_of(directory: &TempDir) -> PathBuf {
    directory.path().join("domain")
}

fn faults_of(directory: &TempDir) -> PathBuf {
    directory.path().join("faults")
}

pub(crate) fn pid_of(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// Returns an exit status as text: `exit code 4`, `signal 9`.
#[must_use]
pub fn end_of(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
