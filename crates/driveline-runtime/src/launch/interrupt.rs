// SPDX-License-Identifier: Apache-2.0
//! How a run is asked to end.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Readable when somebody wants the run to end.
pub struct Interrupt {
    socket: UnixStream,
    /// Readable when somebody wants to suspend it.
    suspend: Option<UnixStream>,
}

/// Asks for the end of a run; each call counts as one Ctrl-C. Any thread.
pub struct Interrupter {
    socket: UnixStream,
}

impl Interrupt {
    /// On SIGINT (Ctrl-C), SIGTERM and SIGHUP of this process, whose default actions are replaced for good. So is that of
    /// SIGTSTP (Ctrl-Z): while a launcher is suspended, its modules go on until they wait for somebody to read their output.
    ///
    /// # Errors
    /// If the system refuses sockets or handlers.
    pub fn on_signals() -> io::Result<Self> {
        let (mut interrupt, interrupter) = Self::by_hand()?;
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
            signal_hook::low_level::pipe::register(signal, interrupter.socket.try_clone()?)?;
        }
        let (suspend, pressed) = UnixStream::pair()?;
        suspend.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGTSTP, pressed)?;
        interrupt.suspend = Some(suspend);
        Ok(interrupt)
    }

    /// From within the program.
    ///
    /// # Errors
    /// If the system refuses sockets.
    pub fn by_hand() -> io::Result<(Self, Interrupter)> {
        let (receiver, sender) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        sender.set_nonblocking(true)?;
        Ok((Self { socket: receiver, suspend: None }, Interrupter { socket: sender }))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn suspend_fd(&self) -> Option<BorrowedFd<'_>> {
        self.suspend.as_ref().map(AsFd::as_fd)
    }

    /// Whether somebody wanted to suspend it since the last look.
    pub(super) fn take_suspend(&self) -> bool {
        let mut bytes = [0u8; 16];
        self.suspend.as_ref().is_some_and(|mut s| s.read(&mut bytes).is_ok_and(|n| n > 0))
    }

    /// How often it was asked for since the last look.
    pub(super) fn take(&self) -> usize {
        let mut bytes = [0u8; 16];
        (&self.socket).read(&mut bytes).unwrap_or(0)
    }
}

impl Interrupter {
    /// Asks for the end.
    pub fn interrupt(&self) {
        // A full socket has been heard long ago.
        let _ = (&self.socket).write(&[1]);
    }
}
