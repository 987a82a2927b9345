// SPDX-License-Identifier: Apache-2.0
//! How a run is asked to end.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Readable when somebody wants the run to end.
pub struct Interrupt {
    socket: UnixStream,
}

/// Asks for the end of a run; each call counts as one Ctrl-C. Any thread.
pub struct Interrupter {
    socket: UnixStream,
}

impl Interrupt {
    /// On SIGINT (Ctrl-C), SIGTERM and SIGHUP of this process, whose default actions are replaced for good.
    ///
    /// # Errors
    /// If the system refuses sockets or handlers.
    pub fn on_signals() -> io::Result<Self> {
        let (interrupt, interrupter) = Self::by_hand()?;
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
            signal_hook::low_level::pipe::register(signal, interrupter.socket.try_clone()?)?;
        }
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
        Ok((Self { socket: receiver }, Interrupter { socket: sender }))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
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
