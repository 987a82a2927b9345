// SPDX-License-Identifier: Apache-2.0
//! One started process and what comes out of it.

use super::lines::Lines;
use super::{Sink, Stream};
use crate::account::{LineReader, Record};
use rustix::event::PollFlags;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// Most bytes that are read from one process before the others get their turn.
const TURN: usize = 64 * 1024;

/// How to start a module.
pub(super) struct Start<'a> {
    pub(super) host: &'a Path,
    pub(super) graph: &'a Path,
    pub(super) module: &'a str,
    pub(super) set: &'a [String],
    pub(super) domain_dir: &'a Path,
    pub(super) environment: &'a BTreeMap<String, String>,
}

pub(super) struct Child {
    pub(super) module: String,
    pub(super) ready: bool,
    /// Set once the process has ended and all its output was read.
    pub(super) ended: Option<ExitStatus>,
    /// It was told to end.
    pub(super) told: bool,
    process: std::process::Child,
    pidfd: OwnedFd,
    socket: Option<UnixStream>,
    out: Option<File>,
    err: Option<File>,
    out_lines: Lines,
    err_lines: Lines,
    records: LineReader,
}

/// What of a process can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Death,
    Account,
    Out,
    Err,
}

impl Child {
    pub(super) fn start(with: &Start<'_>) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new(with.host);
        command
            .arg0(format!("driveline:{}", with.module))
            .args(["run", "--account-stdin", "--module", with.module, "--graph"])
            .arg(with.graph)
            .args(with.set.iter().flat_map(|s| ["--set", s]))
            .env(crate::domain::DIRECTORY, with.domain_dir)
            .envs(with.environment)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut process = command.spawn()?;
        // The command still holds the other end of the socket, which must close when the process ends.
        drop(command);
        let watched =
            Pid::from_raw(process.id().cast_signed()).ok_or(rustix::io::Errno::SRCH).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
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
            Ok(File::from(fd))
        };
        let out = process.stdout.take().map(|p| nonblocking(p.into())).transpose()?;
        let err = process.stderr.take().map(|p| nonblocking(p.into())).transpose()?;
        Ok(Self {
            module: with.module.to_owned(),
            ready: false,
            ended: None,
            told: false,
            process,
            pidfd,
            socket: Some(ours),
            out,
            err,
            out_lines: Lines::default(),
            err_lines: Lines::default(),
            records: LineReader::default(),
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn unreadable(&self) -> u64 {
        self.records.unreadable()
    }

    /// Everything to wait for.
    pub(super) fn sources(&self) -> impl Iterator<Item = (Source, BorrowedFd<'_>, PollFlags)> {
        let death = self.ended.is_none().then(|| (Source::Death, self.pidfd.as_fd(), PollFlags::IN));
        let account = self.socket.as_ref().map(|s| (Source::Account, s.as_fd(), PollFlags::IN));
        let out = self.out.as_ref().map(|f| (Source::Out, f.as_fd(), PollFlags::IN));
        let err = self.err.as_ref().map(|f| (Source::Err, f.as_fd(), PollFlags::IN));
        [death, account, out, err].into_iter().flatten()
    }

    /// The word to start. A process that is gone is noticed by its death.
    pub(super) fn go(&mut self) {
        if let Some(socket) = &mut self.socket {
            let _ = socket.write_all(b"go\n");
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            let _ = pidfd_send_signal(&self.pidfd, signal);
        }
    }

    /// Reads what a source has, for one turn.
    pub(super) fn read(&mut self, source: Source, sink: &mut dyn Sink, records: &mut Vec<Record>) {
        let mut buffer = [0u8; 16 * 1024];
        for _ in 0..TURN / buffer.len() {
            match self.read_once(source, &mut buffer, sink, records) {
                More::Perhaps => {}
                More::Later => return,
            }
        }
    }

    fn read_once(&mut self, source: Source, buffer: &mut [u8], sink: &mut dyn Sink, records: &mut Vec<Record>) -> More {
        let result = match source {
            Source::Death => return More::Later,
            Source::Account => self.socket.as_mut().map(|s| s.read(buffer)),
            Source::Out => self.out.as_mut().map(|s| s.read(buffer)),
            Source::Err => self.err.as_mut().map(|s| s.read(buffer)),
        };
        match result {
            None => More::Later,
            Some(Ok(n)) if n > 0 => {
                let module = &self.module;
                match source {
                    Source::Out => self.out_lines.feed(&buffer[..n], |l| sink.output(module, Stream::Out, l)),
                    Source::Err => self.err_lines.feed(&buffer[..n], |l| sink.output(module, Stream::Err, l)),
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
            Source::Death => {}
            Source::Account => self.socket = None,
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

    /// After a death: takes the status and what is left in the pipes. Processes that the module has started may hold the
    /// pipes open; what they write later is lost.
    pub(super) fn reap(&mut self, sink: &mut dyn Sink, records: &mut Vec<Record>) -> io::Result<Option<ExitStatus>> {
        let Some(status) = self.process.try_wait()? else { return Ok(None) };
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
        if self.ended.is_none() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

enum More {
    Perhaps,
    Later,
}

/// For people: `exited with code 3`, `was killed by SIGSEGV (invalid memory access)`.
pub(super) fn how_it_ended(status: ExitStatus) -> String {
    use signal_hook::consts as s;
    let dump = if status.core_dumped() { ", core dumped" } else { "" };
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => {
            let (name, meaning) = match signal {
                s::SIGSEGV => ("SIGSEGV", "invalid memory access"),
                s::SIGABRT => ("SIGABRT", "abort, for example an uncaught exception"),
                s::SIGBUS => ("SIGBUS", "invalid memory access, or a file or /dev/shm is full"),
                s::SIGFPE => ("SIGFPE", "arithmetic error"),
                s::SIGILL => ("SIGILL", "invalid instruction"),
                s::SIGKILL => ("SIGKILL", "killed from outside, perhaps for lack of memory: see dmesg"),
                s::SIGTERM => ("SIGTERM", "terminated from outside"),
                s::SIGINT => ("SIGINT", "interrupted"),
                s::SIGTRAP => ("SIGTRAP", "trap"),
                s::SIGXCPU => ("SIGXCPU", "CPU limit, for example of real-time threads that never sleep"),
                _ => return format!("was killed by signal {signal}{dump}"),
            };
            format!("was killed by {name} ({meaning}{dump})")
        }
        (None, None) => format!("ended with status {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_in_words() {
        assert_eq!(how_it_ended(ExitStatus::from_raw(3 << 8)), "exited with code 3");
        assert_eq!(how_it_ended(ExitStatus::from_raw(11)), "was killed by SIGSEGV (invalid memory access)");
        assert_eq!(
            how_it_ended(ExitStatus::from_raw(6 | 0x80)),
            "was killed by SIGABRT (abort, for example an uncaught exception, core dumped)"
        );
        assert_eq!(how_it_ended(ExitStatus::from_raw(40)), "was killed by signal 40");
    }
}
