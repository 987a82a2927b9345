// SPDX-License-Identifier: Apache-2.0
//! Handling of a shortage of descriptors. One descriptor is held in reserve, to notify the other
//! end and to answer tools.
//!
//! Nothing here waits or loops: a notified peer retries after 5 ms to 1 s, and a listener that
//! cannot accept even with the reserve pauses.

use super::Control;
use crate::limits::MAX_DIRECTORY_ENTRIES;
use crate::sys::blocking_tasks::Foreign;
use crate::sys::descriptors;
use crate::sys::directory::{Name, Names};
use crate::sys::socket::{self, ConnectError};
use std::io;

impl Control {
    /// Connects to a publisher, if necessary with the descriptor in reserve.
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

    /// Returns the names in the directory, read with the descriptor in reserve if necessary. If
    /// there are more entries than are read, all endpoints get an event, again after each new
    /// endpoint.
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
            self.notify_all_ends(&format!(
                "the domain directory {path} has more than {MAX_DIRECTORY_ENTRIES} entries: \
                 endpoints beyond them are not found; remove files of processes that have ended"
            ));
        }
        // Without endpoints, no event was sent: the first endpoint gets it later.
        self.discovery.cut = cut && !(self.outlets.is_empty() && self.inlets.is_empty());
        Ok(names)
    }
}
