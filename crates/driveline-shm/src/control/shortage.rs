// SPDX-License-Identifier: Apache-2.0
//! Shortage of descriptors. One descriptor is held in reserve, to notify the other end and to
//! answer tools.
//!
//! Nothing here waits or loops: a notified peer retries after 5 ms to 1 s, and a listener that
//! cannot accept even with the reserve pauses.

use super::Control;
use crate::limits::MAX_DIRECTORY_ENTRIES;
use crate::sys::blocking_tasks::{BlockingTasks, Foreign};
use crate::sys::descriptors;
use crate::sys::directory::{Name, Names};
use crate::sys::fork::GuardedFd;
use crate::sys::socket::{self, ConnectError};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// A descriptor that is given up when there is no other, and made again as soon as there is one.
#[derive(Debug)]
pub(super) struct Reserve(Option<GuardedFd>);

impl Reserve {
    pub(super) fn new(of: impl AsFd) -> io::Result<Self> {
        copy(of).map(|fd| Self(Some(fd)))
    }

    /// Closes it, so that its number is free. Whether it was there.
    fn give_up(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// Makes it again, if it is not there.
    pub(super) fn refill(&mut self, of: impl AsFd) {
        if self.0.is_none() {
            self.0 = copy(of).ok();
        }
    }

    /// Next connection, if there is one, and whether it has the reserve's number.
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

impl Control {
    /// Connects to a publisher, if need be with the descriptor in reserve.
    pub(super) fn connect(&mut self, name: &str) -> Result<Foreign, ConnectError> {
        match socket::dial(&self.identity.directory, name, &self.blocking_tasks) {
            Err(ConnectError::Other(e))
                if descriptors::is_shortage(&e) && self.reserve.give_up() =>
            {
                socket::dial(&self.identity.directory, name, &self.blocking_tasks)
            }
            other => other,
        }
    }

    /// Names in the directory, read with the descriptor in reserve if need be. If there are more
    /// entries than are read, all ends get an event, once after each that was created.
    pub(super) fn names(&mut self) -> io::Result<Vec<Name>> {
        let read = match self.identity.directory.names() {
            Err(e) if descriptors::is_shortage(&e) && self.reserve.give_up() => {
                let names = self.identity.directory.names();
                self.reserve.refill(&self.commands.signal);
                names
            }
            other => other,
        };
        let Names { names, cut } = read?;
        if cut && !self.discovery.cut {
            let path = self.identity.directory.path().display();
            self.tell_everybody(&format!(
                "the domain directory {path} has more than {MAX_DIRECTORY_ENTRIES} entries, and ends beyond may not be found: remove what is not of running processes"
            ));
        }
        // Endpoints created later are notified, too.
        self.discovery.cut = cut && !(self.outlets.is_empty() && self.inlets.is_empty());
        Ok(names)
    }
}
