// SPDX-License-Identifier: Apache-2.0
//! The first process of a module's container: starts the module, passes on signals, reaps orphans,
//! and reports to the launcher (`docs/protocols/deployment.md`).
//!
//! It has one thread, which sleeps in the kernel until something happens or the next reading of the
//! cgroup is due (once a second). The module has its own connection to the launcher, and detects
//! the launcher's end itself. If the module ends, this process reports how it ended, and exits with
//! the module's exit code.

use super::run::{HostOptions, signals};
use super::{exit, launcher_socket, output, usage};
use crate::account::{CONTAINED_FORMAT, ContainedRecord, OutputStream, Usage, Word};
use crate::lines::Lines;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time between two readings of the cgroup.
const USAGE_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of bytes that wait for the launcher; beyond it, the module's output is not read.
const MOST_WAITING: usize = 1 << 20;
/// Time for the launcher to read the remaining records.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);
/// Time for the module to end after the end of the launcher.
const KILL_AFTER: Duration = Duration::from_secs(10);
/// Time between two checks for other processes in the container.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Exit code of a process that a signal has ended: this plus the signal's number, as in shells.
const SIGNALLED: i32 = 128;

/// Runs a module as the first process of its container, and returns the exit code. Blocks until the
/// module has ended.
pub(super) fn contain(arguments: &[OsString], options: &HostOptions) -> u8 {
    match contained(arguments, options) {
        Ok(code) => u8::try_from(code).unwrap_or(exit::FAILED),
        Err(e) => {
            output::log(format_args!("error: cannot run module '{}': {e}", options.module));
            exit::FAILED
        }
    }
}

/// Waits for SIGTERM, SIGINT or the end of the launcher, and reaps orphans. `launcher`: socket on
/// which the launcher listens as long as it lives. Other processes in the container end with this
/// one; after the end of the launcher, they have time to end by themselves.
pub(super) fn hold(launcher: &Path) -> u8 {
    let ended = signals().and_then(|asked| {
        let children = child_signals()?;
        let Some(socket) = launcher_socket::connect(launcher, &asked)? else { return Ok(()) };
        loop {
            let [signalled, _, closed] = wait_for([&asked, &children, &socket], None)?;
            reap(None);
            drain(&children);
            if signalled {
                return Ok(());
            }
            if closed {
                output::log(format_args!("the launcher has ended; the container ends"));
                return wait_for_others(&asked, &children);
            }
        }
    });
    match ended {
        Ok(()) => exit::DONE,
        Err(e) => {
            output::log(format_args!("error: {e}"));
            exit::FAILED
        }
    }
}

/// Waits until no other process is left in the container or a signal requests the end, at most for
/// [`KILL_AFTER`] plus [`FLUSH_WITHIN`].
fn wait_for_others(asked: &UnixStream, children: &UnixStream) -> io::Result<()> {
    let until = Instant::now() + KILL_AFTER + FLUSH_WITHIN;
    let own = std::process::id();
    while Instant::now() < until {
        let processes = std::fs::read_dir("/proc")?.filter_map(Result::ok).filter_map(|entry| {
            entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        });
        if processes.filter(|pid| *pid != own).count() == 0 {
            return Ok(());
        }
        let [signalled, _] = wait_for([asked, children], Some(Instant::now() + LOOK_AGAIN))?;
        reap(None);
        drain(children);
        if signalled {
            return Ok(());
        }
    }
    Ok(())
}

fn contained(arguments: &[OsString], options: &HostOptions) -> io::Result<i32> {
    let asked = signals()?;
    let children = child_signals()?;
    let Some(path) = &options.account_socket else {
        return Err(io::Error::other("`--account-socket` is missing"));
    };
    let Some(launcher) = launcher_socket::connect(path, &asked)? else { return Ok(0) };
    launcher.set_nonblocking(true)?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg0(format!("driveline:{}", options.module))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = command.spawn()?;
    let pipe = |fd: Option<OwnedFd>| -> io::Result<Option<File>> {
        let Some(fd) = fd else { return Ok(None) };
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Some(File::from(fd)))
    };
    let out = pipe(child.stdout.take().map(OwnedFd::from))?;
    let err = pipe(child.stderr.take().map(OwnedFd::from))?;
    let mut first = First {
        module: options.module.clone(),
        path: path.clone(),
        asked,
        children,
        launcher: Launcher { socket: Some(launcher), waiting: Vec::new(), words: Vec::new() },
        outputs: [
            Output { pipe: out, lines: Lines::default(), stream: OutputStream::Out },
            Output { pipe: err, lines: Lines::default(), stream: OutputStream::Err },
        ],
        child,
        usage: Usage::default(),
        oom_before: usage::read().oom_kills.unwrap_or(0),
        usage_at: Instant::now(),
        kill_at: None,
    };
    first.launcher.send(&ContainedRecord::Contained {
        format: CONTAINED_FORMAT,
        module: options.module.clone(),
    });
    first.run()
}

/// Readable once a child has ended.
fn child_signals() -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, writer)?;
    Ok(reader)
}

fn drain(mut socket: &UnixStream) -> usize {
    let mut bytes = [0; 64];
    socket.read(&mut bytes).unwrap_or(0)
}

fn wait_for<const N: usize>(of: [&UnixStream; N], until: Option<Instant>) -> io::Result<[bool; N]> {
    let mut fds = of.map(|s| PollFd::new(s, PollFlags::IN));
    let left = until.map(time_left);
    match poll(&mut fds, left.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(fds.map(|fd| !fd.revents().is_empty())),
        Err(e) => Err(e.into()),
    }
}

fn time_left(until: Instant) -> Timespec {
    let left = until.saturating_duration_since(Instant::now());
    Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
}

/// Reaps all children that have ended, and returns the status of the child `of_interest`.
fn reap(of_interest: Option<u32>) -> Option<WaitStatus> {
    let mut found = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if of_interest == u32::try_from(pid.as_raw_nonzero().get()).ok() {
            found = Some(status);
        }
    }
    found
}

struct First {
    module: String,
    /// Socket of the launcher.
    path: PathBuf,
    asked: UnixStream,
    children: UnixStream,
    launcher: Launcher,
    outputs: [Output; 2],
    child: Child,
    /// Usage as last reported.
    usage: Usage,
    /// Kills for lack of memory before the module was started.
    oom_before: u64,
    usage_at: Instant,
    /// Time when the module is killed, once the launcher has gone.
    kill_at: Option<Instant>,
}

/// The connection to the launcher. Not much more than [`MOST_WAITING`] bytes wait for it, and only
/// [`Self::finish`] blocks until the launcher reads.
struct Launcher {
    socket: Option<UnixStream>,
    waiting: Vec<u8>,
    /// Received part of a line.
    words: Vec<u8>,
}

/// One output of the module.
struct Output {
    pipe: Option<File>,
    lines: Lines,
    stream: OutputStream,
}

impl First {
    fn run(&mut self) -> io::Result<i32> {
        loop {
            self.wait()?;
            if drain(&self.asked) > 0 {
                self.signal(Signal::TERM);
            }
            for word in self.launcher.read() {
                self.signal(if word == Word::Kill { Signal::KILL } else { Signal::TERM });
            }
            self.launcher_gone();
            self.outputs.iter_mut().for_each(|o| o.pass_on(&mut self.launcher));
            self.report_usage(false);
            self.launcher.flush();
            drain(&self.children);
            if let Some(status) = reap(Some(self.child.id())) {
                return Ok(self.end(status));
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        let reads = self.launcher.waiting.len() < MOST_WAITING;
        let mut fds = vec![
            PollFd::new(&self.asked, PollFlags::IN),
            PollFd::new(&self.children, PollFlags::IN),
        ];
        if let Some(socket) = &self.launcher.socket {
            let writes =
                if self.launcher.waiting.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            fds.push(PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN | writes));
        }
        let pipes = self.outputs.iter().filter(|_| reads).filter_map(|o| o.pipe.as_ref());
        fds.extend(pipes.map(|p| PollFd::from_borrowed_fd(p.as_fd(), PollFlags::IN)));
        let until = self.kill_at.map_or(self.usage_at, |at| at.min(self.usage_at));
        match poll(&mut fds, Some(&time_left(until))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Handles the end of the launcher. The module detects it as well; a module that hangs is ended
    /// here.
    fn launcher_gone(&mut self) {
        if self.launcher.socket.is_some() {
            return;
        }
        match self.kill_at {
            None => {
                output::log(format_args!(
                    "error: the launcher at {} has closed the connection; module '{}' ends",
                    self.path.display(),
                    self.module
                ));
                self.signal(Signal::TERM);
                self.kill_at = Some(Instant::now() + KILL_AFTER);
            }
            Some(at) if Instant::now() >= at => {
                self.signal(Signal::KILL);
                self.kill_at = Some(Instant::now() + KILL_AFTER);
            }
            Some(_) => {}
        }
    }

    fn report_usage(&mut self, last: bool) {
        let now = Instant::now();
        if now < self.usage_at && !last {
            return;
        }
        self.usage_at = now + USAGE_EVERY;
        let mut usage = usage::read();
        // Not every kernel keeps the peak.
        let seen = self.usage.memory_peak_bytes.max(usage.memory_bytes);
        usage.memory_peak_bytes = usage.memory_peak_bytes.max(seen);
        if usage != self.usage {
            self.usage = usage.clone();
            self.launcher.send(&ContainedRecord::Usage(usage));
        }
    }

    fn end(&mut self, status: WaitStatus) -> i32 {
        self.outputs.iter_mut().for_each(|o| o.end(&mut self.launcher));
        self.report_usage(true);
        let oom = self.usage.oom_kills.is_some_and(|kills| kills > self.oom_before);
        let (code, signal) = (status.exit_status(), status.terminating_signal());
        self.launcher.send(&ContainedRecord::Exited { code, signal, oom });
        self.launcher.finish();
        let code = code.or(signal.map(|s| SIGNALLED + s)).unwrap_or_default();
        // Without the launcher the work is not complete, even if the module has ended in order.
        if self.kill_at.is_some() && code == 0 { i32::from(exit::FAILED) } else { code }
    }
}

impl Launcher {
    fn send(&mut self, record: &ContainedRecord) {
        if self.socket.is_some() {
            // Cannot fail: plain text and numbers.
            let _ = serde_json::to_writer(&mut self.waiting, record);
            self.waiting.push(b'\n');
        }
    }

    fn flush(&mut self) {
        while let Some(socket) = self.socket.as_mut().filter(|_| !self.waiting.is_empty()) {
            match socket.write(&self.waiting) {
                Ok(n) => drop(self.waiting.drain(..n)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.gone(),
            }
        }
    }

    fn gone(&mut self) {
        (self.socket, self.waiting) = (None, Vec::new());
    }

    /// Returns the commands that have arrived completely.
    fn read(&mut self) -> Vec<Word> {
        let mut words = Vec::new();
        let mut bytes = [0; 256];
        while let Some(socket) = &mut self.socket {
            match socket.read(&mut bytes) {
                Ok(0) => self.gone(),
                Ok(n) => {
                    for byte in &bytes[..n] {
                        match byte {
                            b'\n' => words.extend(Word::parse(&std::mem::take(&mut self.words))),
                            // Longer lines are not commands.
                            byte if self.words.len() < 64 => self.words.push(*byte),
                            _ => {}
                        }
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return words,
                Err(_) => self.gone(),
            }
        }
        words
    }

    /// Writes the remaining records. Blocks until the launcher has read them, at most for
    /// [`FLUSH_WITHIN`].
    fn finish(&mut self) {
        let until = Instant::now() + FLUSH_WITHIN;
        loop {
            self.flush();
            let Some(socket) = self.socket.as_ref().filter(|_| !self.waiting.is_empty()) else {
                return;
            };
            let mut fds = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::OUT)];
            let _ = poll(&mut fds, Some(&time_left(until)));
            if Instant::now() >= until {
                return;
            }
        }
    }
}

impl Output {
    /// Reads once, and passes the bytes on to this process's own output and to the launcher.
    fn pass_on(&mut self, launcher: &mut Launcher) {
        if launcher.waiting.len() < MOST_WAITING {
            self.read(launcher);
        }
    }

    /// Returns true if more bytes may be readable now.
    fn read(&mut self, launcher: &mut Launcher) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        let mut bytes = [0; 16 * 1024];
        match pipe.read(&mut bytes) {
            Ok(n) if n > 0 => {
                self.log(&bytes[..n]);
                let stream = self.stream;
                self.lines.feed(&bytes[..n], |line| {
                    launcher.send(&ContainedRecord::Output { stream, line: line.to_owned() });
                });
                true
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => false,
            Err(e) if e.kind() == ErrorKind::Interrupted => true,
            _ => {
                self.pipe = None;
                false
            }
        }
    }

    /// Writes to this process's own output, for the engine's log. If nothing reads it any more, the
    /// module continues.
    fn log(&self, bytes: &[u8]) {
        let _ = match self.stream {
            OutputStream::Out => {
                let mut out = io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            OutputStream::Err => io::stderr().lock().write_all(bytes),
        };
    }

    /// Reads the rest. Orphans may hold the pipe open; what they write later is lost.
    fn end(&mut self, launcher: &mut Launcher) {
        // More than any pipe holds.
        for _ in 0..256 {
            if !self.read(launcher) {
                break;
            }
        }
        let stream = self.stream;
        self.lines.end(|line| {
            launcher.send(&ContainedRecord::Output { stream, line: line.to_owned() });
        });
    }
}
