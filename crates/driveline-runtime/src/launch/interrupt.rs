// SPDX-License-Identifier: Apache-2.0
//! Requests to end or suspend a run.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Receives the requests to end or suspend a run.
pub struct Interrupt {
    /// Readable when the end of the run is requested.
    socket: UnixStream,
    /// Readable when the terminal, or the program that reads the launcher's output, has ended.
    hang_up: UnixStream,
    /// Readable when a suspension is requested.
    suspend: Option<UnixStream>,
}

/// Requests the end of a run. Any thread.
pub struct Interrupter {
    socket: UnixStream,
    hang_up: UnixStream,
}

impl Interrupt {
    /// Interrupts on SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal has ended) of this process,
    /// whose default actions are replaced permanently. SIGHUP stays ignored if it was, as under
    /// `nohup`. SIGTSTP (Ctrl-Z) is replaced too: while a launcher is suspended, its modules would
    /// continue until they wait for a reader of their output.
    ///
    /// # Errors
    /// If the system refuses sockets or handlers.
    pub fn on_signals() -> io::Result<(Self, Interrupter)> {
        let (mut interrupt, interrupter) = Self::by_hand()?;
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::low_level::pipe::register(signal, interrupter.socket.try_clone()?)?;
        }
        if !is_ignored(signal_hook::consts::SIGHUP) {
            signal_hook::low_level::pipe::register(
                signal_hook::consts::SIGHUP,
                interrupter.hang_up.try_clone()?,
            )?;
        }
        let (suspend, pressed) = pair()?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGTSTP, pressed)?;
        interrupt.suspend = Some(suspend);
        Ok((interrupt, interrupter))
    }

    /// Creates an interrupt that only the program itself triggers.
    ///
    /// # Errors
    /// If the system refuses sockets.
    pub fn by_hand() -> io::Result<(Self, Interrupter)> {
        let (receiver, sender) = pair()?;
        let (gone, hang_up) = pair()?;
        Ok((
            Self { socket: receiver, hang_up: gone, suspend: None },
            Interrupter { socket: sender, hang_up },
        ))
    }

    /// Returns true if the end was requested, and clears the request. For use before a run begins.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        self.take() > 0 || self.take_hang_up()
    }

    /// Returns the descriptors to wait for.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [Some(&self.socket), Some(&self.hang_up), self.suspend.as_ref()]
            .into_iter()
            .flatten()
            .map(AsFd::as_fd)
    }

    /// Returns true if a suspension was requested since the last check.
    pub(super) fn take_suspend(&self) -> bool {
        self.suspend.as_ref().is_some_and(|s| take(s) > 0)
    }

    /// Returns true if the terminal or the reader of the output has ended since the last check.
    pub(super) fn take_hang_up(&self) -> bool {
        take(&self.hang_up) > 0
    }

    /// Returns the number of requests to end since the last check.
    pub(super) fn take(&self) -> usize {
        take(&self.socket)
    }
}

impl Interrupter {
    /// Requests the end; each call counts as one Ctrl-C.
    pub fn interrupt(&self) {
        // A full socket has woken the launcher already.
        let _ = (&self.socket).write(&[1]);
    }

    /// Requests the end because the terminal, or the program that reads the launcher's output, has
    /// ended. A shell and the kernel can report this several times: it counts once, and never as
    /// the second Ctrl-C that kills.
    pub fn hang_up(&self) {
        let _ = (&self.hang_up).write(&[1]);
    }
}

fn pair() -> io::Result<(UnixStream, UnixStream)> {
    let (receiver, sender) = UnixStream::pair()?;
    receiver.set_nonblocking(true)?;
    sender.set_nonblocking(true)?;
    Ok((receiver, sender))
}

fn take(mut socket: &UnixStream) -> usize {
    let mut bytes = [0u8; 16];
    socket.read(&mut bytes).unwrap_or(0)
}

/// Returns true if the parent process set this signal to be ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|l| l.strip_prefix("SigIgn:"))
        .and_then(|m| u64::from_str_radix(m.trim(), 16).ok());
    mask.is_some_and(|m| m >> (signal - 1) & 1 == 1)
}
