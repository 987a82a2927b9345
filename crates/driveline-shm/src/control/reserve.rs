// SPDX-License-Identifier: Apache-2.0
//! A descriptor in reserve, for use when no other can be opened.

use crate::sys::blocking_tasks::{BlockingTasks, Foreign};
use crate::sys::descriptors;
use crate::sys::fork::GuardedFd;
use crate::sys::socket;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// A descriptor that is closed when no other can be opened, and opened again as soon as possible.
#[derive(Debug)]
pub(super) struct Reserve(Option<GuardedFd>);

impl Reserve {
    pub(super) fn new(of: impl AsFd) -> io::Result<Self> {
        copy(of).map(|fd| Self(Some(fd)))
    }

    /// Closes the descriptor, so that its number is free. Returns true if it was open.
    pub(super) fn give_up(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// Opens the descriptor again, if it is closed.
    pub(super) fn refill(&mut self, of: impl AsFd) {
        if self.0.is_none() {
            self.0 = copy(of).ok();
        }
    }

    /// Accepts the next connection, if there is one. Returns the connection, and true if it uses
    /// the reserve's descriptor number.
    pub(super) fn accept(
        &mut self,
        listener: impl AsFd,
        blocking_tasks: &Arc<BlockingTasks>,
    ) -> io::Result<Option<(Foreign, bool)>> {
        match socket::accept(&listener, blocking_tasks) {
            Err(e) if descriptors::is_shortage(&e) && self.give_up() => {
                Ok(socket::accept(&listener, blocking_tasks)?.map(|c| (c, true)))
            }
            other => Ok(other?.map(|c| (c, false))),
        }
    }
}

fn copy(of: impl AsFd) -> io::Result<GuardedFd> {
    GuardedFd::new(rustix::io::fcntl_dupfd_cloexec(of, 0)?)
}
