// SPDX-License-Identifier: Apache-2.0
//! One started process, its outputs and its account.

use super::death::LastWords;
use super::gateway::GatewayOptions;
use super::remote::{Remote, RemoteNews};
use super::{Event, Sink, Stream, service_manager};
use crate::account::{CallPlace, LineReader, Record};
use crate::host::words;
use crate::lines::Lines;
use rustix::event::PollFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Maximum number of bytes read from one process before the others get their turn.
const TURN: usize = 64 * 1024;
/// Bytes of output that a module can write while the launcher does not read, before it has to wait.
const PIPE: usize = 1024 * 1024;
/// Time for a gateway to read its first line.
const FIRST_LINE_WITHIN: Duration = Duration::from_secs(5);
/// Time for which a report about a long call is valid; the process reports each second.
const BUSY_HOLDS: Duration = Duration::from_millis(2500);

/// Maximum number of bytes that wait because the socket to a process is full, for example while it
/// is suspended: more than the longest line.
const MAX_UNSENT: usize = 2 << 20;

/// Parameters to start a module.
pub(super) struct Start<'a> {
    pub(super) host: &'a Path,
    pub(super) host_arguments: &'a [String],
    pub(super) graph: &'a Path,
    pub(super) module: &'a str,
    pub(super) set: &'a [String],
    /// Topics of the module that a gateway reads because a rule selects them, separated by commas.
    pub(super) carried: String,
    pub(super) domain_dir: &'a Path,
    pub(super) environment: &'a BTreeMap<String, String>,
    /// The run's control socket.
    pub(super) control: Option<&'a Path>,
    /// Time for it to stop. After that it ends without waiting for hanging calls.
    pub(super) stop_within: Duration,
}

pub(super) struct Child {
    pub(super) module: String,
    pub(super) ready: bool,
    /// Set once the process has ended and all its output was read.
    pub(super) ended: Option<ExitStatus>,
    /// True if its end was requested.
    pub(super) end_requested: bool,
    /// True if it was killed because it did not end in time, hangs, or the user did not wait; or if
    /// it ended itself because a call did not return.
    pub(super) killed: bool,
    /// Set if it is killed because a component did not change its state in time, or failed to
    /// become active: the event, for people.
    pub(super) hung: Option<String>,
    /// Time of its start.
    pub(super) since: Instant,
    pub(super) words: LastWords,
    /// True while it is suspended (SIGSTOP).
    pub(super) suspended: bool,
    /// True once it has sent its heartbeats.
    pub(super) is_watched: bool,
    /// Lines, or the rest of a line, for which its socket had no space.
    unsent: Vec<u8>,
    /// The call that has taken longest, its duration, and the time of that report.
    busy: Option<(CallPlace, Duration, Instant)>,
    /// Call that its start has reached.
    pub(super) starting_in: Option<CallPlace>,
    /// At the last report: duration of the long call (`busy`), or of the wait for this module to
    /// become ready.
    pub(super) reported_after: Duration,
    body: Body,
    socket: Option<UnixStream>,
    out: Option<File>,
    err: Option<File>,
    out_lines: Lines,
    err_lines: Lines,
    records: LineReader,
    /// A descriptor that the process has sent: its heartbeats.
    pub(super) sent: Option<OwnedFd>,
}

/// The process itself.
enum Body {
    /// A child of the launcher.
    Own { process: std::process::Child, pidfd: OwnedFd },
    /// A process in a container, or started by others.
    Remote(Box<Remote>),
}

/// Sources of events of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Death,
    /// Connections of a module that is no child of the launcher, and events from the `Starter` that
    /// starts it.
    Remote,
    Account,
    Out,
    Err,
}

impl Child {
    pub(super) fn start(with: &Start<'_>) -> io::Result<Self> {
        let mut command = Command::new(with.host);
        command
            .arg0(format!("driveline:{}", with.module))
            .args(with.host_arguments)
            .args(["run", "--account-stdin", "--module", with.module, "--graph"])
            .arg(with.graph)
            .args(with.set.iter().flat_map(|s| ["--set", s]))
            .args(["--carried", &with.carried])
            .args(["--stop-within-ms", &with.stop_within.as_millis().to_string()])
            .env(crate::domain::DIRECTORY, with.domain_dir)
            .envs(with.environment);
        add_control(&mut command, with.control);
        Self::spawn(command, with.module, None)
    }

    /// Starts a gateway, which is no module of the graph but writes the same account. The first
    /// line that it reads is its configuration.
    pub(super) fn start_gateway(
        gateway: &GatewayOptions,
        control: Option<&Path>,
    ) -> io::Result<Self> {
        let line = format!("{}\n", gateway.config);
        let mut command = Command::new(&gateway.program);
        command.arg0(format!("driveline:{}", gateway.name)).arg("--account-stdin");
        add_control(&mut command, control);
        let unset = gateway.environment.iter().filter(|(name, _)| std::env::var_os(name).is_none());
        command.envs(unset.copied());
        Self::spawn(command, gateway.name, Some(&line))
    }

    fn spawn(mut command: Command, module: &str, first_line: Option<&str>) -> io::Result<Self> {
        let (mut ours, theirs) = UnixStream::pair()?;
        command
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        for variable in service_manager::VARIABLES {
            command.env_remove(variable);
        }
        let mut process = command.spawn()?;
        // The command still holds the other end of the socket, which must close when the process
        // ends.
        drop(command);
        if let Some(line) = first_line {
            // A process that does not read is detected because it does not become ready.
            ours.set_write_timeout(Some(FIRST_LINE_WITHIN))?;
            let _ = ours.write_all(line.as_bytes());
        }
        ours.set_nonblocking(true)?;
        let watched = Pid::from_raw(process.id().cast_signed())
            .ok_or(rustix::io::Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let pidfd = match watched {
            Ok(fd) => fd,
            Err(e) => {
                let _ = process.kill();
                let _ = process.wait();
                return Err(e.into());
            }
        };
        let nonblocking = |fd: OwnedFd| -> io::Result<File> {
            rustix::io::ioctl_fionbio(&fd, true)?;
            // A user may have no right to that much; then modules wait earlier.
            let _ = rustix::pipe::fcntl_setpipe_size(&fd, PIPE);
            Ok(File::from(fd))
        };
        let out = process.stdout.take().map(|p| nonblocking(p.into())).transpose()?;
        let err = process.stderr.take().map(|p| nonblocking(p.into())).transpose()?;
        let body = Body::Own { process, pidfd };
        let mut child = Self::new(module, body);
        (child.socket, child.out, child.err) = (Some(ours), out, err);
        Ok(child)
    }

    /// Creates the entry of a module that runs elsewhere; it is not connected yet.
    pub(super) fn remote(module: &str, remote: Remote) -> Self {
        Self::new(module, Body::Remote(Box::new(remote)))
    }

    fn new(module: &str, body: Body) -> Self {
        Self {
            module: module.to_owned(),
            ready: false,
            ended: None,
            end_requested: false,
            killed: false,
            hung: None,
            since: Instant::now(),
            words: LastWords::default(),
            suspended: false,
            is_watched: false,
            unsent: Vec::new(),
            busy: None,
            starting_in: None,
            reported_after: Duration::ZERO,
            body,
            socket: None,
            out: None,
            err: None,
            out_lines: Lines::default(),
            err_lines: Lines::default(),
            records: LineReader::default(),
            sent: None,
        }
    }

    /// Returns its process id; 0 if it has none in this PID namespace, or is not connected yet.
    pub(super) fn pid(&self) -> u32 {
        match &self.body {
            Body::Own { process, .. } => process.id(),
            Body::Remote(remote) => remote.pid(),
        }
    }

    /// Returns the place where it runs, if it is no child of the launcher.
    pub(super) fn place(&self) -> Option<String> {
        match &self.body {
            Body::Own { .. } => None,
            Body::Remote(remote) => Some(remote.place()),
        }
    }

    /// Returns true if it was given up without a sign of its end.
    pub(super) fn is_lost(&self) -> bool {
        matches!(&self.body, Body::Remote(remote) if remote.is_lost())
    }

    /// Returns the cause of its end as known from outside, for people.
    pub(super) fn cause_from_outside(&self) -> Option<String> {
        match &self.body {
            Body::Own { .. } => None,
            Body::Remote(remote) => remote.cause(),
        }
    }

    pub(super) fn unreadable(&self) -> u64 {
        self.records.unreadable()
    }

    /// Returns all descriptors to wait for.
    pub(super) fn sources(&self) -> impl Iterator<Item = (Source, BorrowedFd<'_>, PollFlags)> {
        let (death, remote) = match &self.body {
            Body::Own { pidfd, .. } => (Some(pidfd.as_fd()), None),
            Body::Remote(remote) => (Some(remote.death()), Some(remote.polled())),
        };
        let lives = self.ended.is_none();
        let death = death.filter(|_| lives).map(|fd| (Source::Death, fd, PollFlags::IN));
        let remote = remote.into_iter().flatten().filter(move |_| lives);
        let remote = remote.map(|fd| (Source::Remote, fd, PollFlags::IN));
        let account = self.socket.as_ref().map(|s| (Source::Account, s.as_fd(), PollFlags::IN));
        let out = self.out.as_ref().map(|f| (Source::Out, f.as_fd(), PollFlags::IN));
        let err = self.err.as_ref().map(|f| (Source::Err, f.as_fd(), PollFlags::IN));
        [death, account, out, err].into_iter().flatten().chain(remote)
    }

    /// Sends a line to the process. If its socket is full, the rest of the line is sent later; if
    /// [`MAX_UNSENT`] bytes wait, the whole line is dropped. There is no error: the launcher
    /// detects by other means that a process has ended or does not read.
    pub(super) fn say(&mut self, line: &[u8]) {
        if self.unsent.len() + line.len() <= MAX_UNSENT {
            self.unsent.extend_from_slice(line);
        }
        self.send_more();
    }

    /// Sends what the socket had no space for.
    pub(super) fn send_more(&mut self) {
        let Some(socket) = &mut self.socket else { return };
        while !self.unsent.is_empty() {
            match socket.write(&self.unsent) {
                Ok(n) if n > 0 => drop(self.unsent.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    }

    /// Sends the command to start.
    pub(super) fn go(&mut self) {
        self.say(b"go\n");
    }

    /// Sends the message that a component of the run has finished.
    pub(super) fn drain(&mut self) {
        self.say(b"drain\n");
    }

    /// Requests the remaining work; a record responds.
    pub(super) fn ask_for_work(&mut self, round: u64) {
        self.say(&words::work_line(round));
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        if self.ended.is_some() {
            return;
        }
        match &mut self.body {
            Body::Own { pidfd, .. } => {
                let _ = pidfd_send_signal(pidfd, signal);
            }
            Body::Remote(remote) => remote.signal(signal, &mut self.socket),
        }
    }

    /// Reads connections, output and usage of a module that runs elsewhere.
    fn read_remote(&mut self, sink: &mut dyn Sink, records: &mut Vec<Record>) {
        let Body::Remote(remote) = &mut self.body else { return };
        for news in remote.read(self.socket.is_some()) {
            match news {
                RemoteNews::Account { socket, first } => {
                    self.records.feed(&first, |r| records.push(r));
                    self.socket = Some(socket);
                }
                RemoteNews::Output { stream, line } => sink.output(&self.module, stream, &line),
                RemoteNews::Usage(usage) => sink.usage(&self.module, &usage),
                RemoteNews::Refused(reason) => {
                    sink.event(&Event::Refused { module: self.module.clone(), reason });
                }
            }
        }
    }

    /// Reads what a source has, for one turn.
    pub(super) fn read(&mut self, source: Source, sink: &mut dyn Sink, records: &mut Vec<Record>) {
        if source == Source::Remote {
            return self.read_remote(sink, records);
        }
        let mut buffer = [0u8; 16 * 1024];
        for _ in 0..TURN / buffer.len() {
            match self.read_once(source, &mut buffer, sink, records) {
                More::Perhaps => {}
                More::Later => return,
            }
        }
    }

    fn read_once(
        &mut self,
        source: Source,
        buffer: &mut [u8],
        sink: &mut dyn Sink,
        records: &mut Vec<Record>,
    ) -> More {
        let result = match source {
            Source::Death | Source::Remote => return More::Later,
            Source::Account => self.socket.as_ref().map(|s| receive(s, buffer, &mut self.sent)),
            Source::Out => self.out.as_mut().map(|s| s.read(buffer)),
            Source::Err => self.err.as_mut().map(|s| s.read(buffer)),
        };
        match result {
            None => More::Later,
            Some(Ok(n)) if n > 0 => {
                let module = &self.module;
                match source {
                    Source::Out => {
                        self.out_lines.feed(&buffer[..n], |l| sink.output(module, Stream::Out, l))
                    }
                    Source::Err => {
                        self.err_lines.feed(&buffer[..n], |l| sink.output(module, Stream::Err, l))
                    }
                    _ => self.records.feed(&buffer[..n], |r| records.push(r)),
                }
                More::Perhaps
            }
            Some(Err(e)) if e.kind() == io::ErrorKind::WouldBlock => More::Later,
            Some(Err(e)) if e.kind() == io::ErrorKind::Interrupted => More::Perhaps,
            Some(_) => {
                self.close(source, sink);
                More::Later
            }
        }
    }

    fn close(&mut self, source: Source, sink: &mut dyn Sink) {
        let module = &self.module;
        match source {
            Source::Death | Source::Remote => {}
            Source::Account => {
                self.socket = None;
                if let Body::Remote(remote) = &mut self.body {
                    remote.account_closed(self.end_requested);
                }
            }
            Source::Out => {
                self.out = None;
                self.out_lines.end(|l| sink.output(module, Stream::Out, l));
            }
            Source::Err => {
                self.err = None;
                self.err_lines.end(|l| sink.output(module, Stream::Err, l));
            }
        }
    }

    /// Notes that a call takes long. Returns true if it is long enough for the first report or the
    /// next one.
    pub(super) fn busy(&mut self, call: &CallPlace, for_ms: u64) -> bool {
        let (age, now) = (Duration::from_millis(for_ms), Instant::now());
        let same =
            self.busy.as_ref().is_some_and(|(known, before, _)| known == call && *before <= age);
        let fresh = self
            .busy
            .as_ref()
            .is_some_and(|(_, before, at)| now < *at + BUSY_HOLDS && *before > age);
        if fresh {
            // Another call takes even longer, and its report covers both.
            return false;
        }
        if !same {
            self.reported_after = Duration::ZERO;
        }
        self.busy = Some((call.clone(), age, now));
        self.is_due(age)
    }

    /// Returns true if a report is due after this duration: at first, and when it has doubled.
    pub(super) fn is_due(&mut self, age: Duration) -> bool {
        let due = age >= self.reported_after * 2;
        if due {
            self.reported_after = age;
        }
        due
    }

    /// Returns the longest reported call, if any. Before the process is ready, the call that it has
    /// reached.
    pub(super) fn busy_call(&self) -> Option<&CallPlace> {
        let long = self
            .busy
            .as_ref()
            .filter(|(_, _, at)| at.elapsed() < BUSY_HOLDS)
            .map(|(call, ..)| call);
        long.or_else(|| self.starting_in.as_ref().filter(|_| !self.ready))
    }

    /// Returns true if SIGSTOP or a debugger holds its process now; false for a process that is no
    /// child of the launcher.
    pub(super) fn is_stopped(&self) -> bool {
        let Body::Own { process, .. } = &self.body else { return false };
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id()));
        // The state follows the name, which may contain any characters.
        stat.is_ok_and(|stat| {
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
        })
    }

    /// Returns true if it was suspended since the last check, false if it was continued, and `None`
    /// if neither has happened. For a process that is no child of the launcher: closes connections
    /// whose time is over, and returns `None`.
    pub(super) fn look_for_stops(&mut self) -> Option<bool> {
        let what = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
        let mut changed = None;
        let pidfd = match &mut self.body {
            Body::Own { pidfd, .. } => pidfd,
            Body::Remote(remote) => {
                remote.expire(Instant::now());
                return None;
            }
        };
        while let (None, Ok(Some(status))) =
            (self.ended, waitid(WaitId::PidFd(pidfd.as_fd()), what))
        {
            if !status.stopped() && !status.continued() {
                break;
            }
            self.suspended = status.stopped();
            changed = Some(self.suspended);
        }
        changed
    }

    /// Ends all processes of the module's process group, such as those that the module has started
    /// and not ended itself. While the process is not reaped, its group's number cannot be reused.
    fn kill_group(&self) {
        if let Body::Own { process, .. } = &self.body
            && let Some(group) = Pid::from_raw(process.id().cast_signed())
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// After a death: takes the status and the rest in the pipes. Processes that the module has
    /// started may hold the pipes open; what they write later is lost.
    pub(super) fn reap(
        &mut self,
        sink: &mut dyn Sink,
        records: &mut Vec<Record>,
    ) -> io::Result<Option<ExitStatus>> {
        self.kill_group();
        self.read_remote(sink, records);
        let status = match &mut self.body {
            Body::Own { process, .. } => process.try_wait()?,
            Body::Remote(remote) => remote.status(),
        };
        let Some(status) = status else { return Ok(None) };
        let mut buffer = [0u8; 16 * 1024];
        for source in [Source::Account, Source::Out, Source::Err] {
            // More than any pipe or socket holds.
            for _ in 0..1024 {
                if matches!(self.read_once(source, &mut buffer, sink, records), More::Later) {
                    break;
                }
            }
            self.close(source, sink);
        }
        self.ended = Some(status);
        Ok(Some(status))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.ended.is_some() {
            return;
        }
        self.kill_group();
        match &mut self.body {
            Body::Own { process, .. } => drop(process.wait()),
            Body::Remote(remote) => remote.signal(Signal::KILL, &mut self.socket),
        }
    }
}

/// Reads from the account's socket. Keeps the first received descriptor until it is taken, and
/// closes others.
fn receive(
    socket: &UnixStream,
    buffer: &mut [u8],
    sent: &mut Option<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(buffer)];
    let got = recvmsg(socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            for fd in descriptors {
                sent.get_or_insert(fd);
            }
        }
    }
    Ok(got.bytes)
}

enum More {
    Perhaps,
    Later,
}

/// Passes the control socket, which the process removes if it ends because its launcher has died.
fn add_control(command: &mut Command, control: Option<&Path>) {
    if let Some(path) = control {
        command.arg("--control").arg(path);
    }
}
