// SPDX-License-Identifier: Apache-2.0
//! Finds publishers, announces this process's own, and removes names of dead processes.
//!
//! A new publisher sends its name as a hint to every participant; subscriptions of that topic dial
//! it. Hints can be lost, because queues are short. A participant that finds several pending hints
//! scans the directory instead. As a safety net it compares the directory's time stamp once a
//! second. After a change it checks its own names (`presence`), and scans the directory if it has
//! subscriptions. Hints and foreign names cost only a bounded share of this process's time.

use super::{Command, Control, Source};
use crate::sys::directory::{Kind, Name};
use crate::sys::socket;
use rustix::event::epoll::EventFlags;
use std::collections::HashSet;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

const SAFETY_NET: Duration = Duration::from_secs(1);
/// Minimum time between two scans of the directory, so that a hundred starting processes cause one
/// scan, not many.
const PAUSE: Duration = Duration::from_millis(2);
/// Maximum number of hints received in a row.
const MAX_HINTS: usize = 64;
/// If more hints than this are pending, some may have been lost (`net.unix.max_dgram_qlen` is 10),
/// so the directory is scanned.
const FEW_HINTS: usize = 6;

impl Control {
    /// Scans the directory if a scan is due.
    pub(super) fn discover(&mut self) {
        if self.inlets.is_empty() && self.outlets.is_empty() {
            self.discovery.wanted = false;
            return;
        }
        if self.now >= self.discovery.next_check {
            self.discovery.next_check = self.now + SAFETY_NET;
            let stamp = self.identity.directory.stamp().ok();
            if stamp != self.discovery.stamp || self.discovery.again {
                self.discovery.again = stamp != self.discovery.stamp;
                self.see_to_presence();
                self.discovery.stamp = stamp;
                self.discovery.wanted = true;
            } else if self.lost {
                self.see_to_presence();
            }
            if self.inlets.is_empty() {
                self.discovery.wanted = false;
            }
        }
        if self.discovery.wanted {
            let earliest = self.discovery.last + PAUSE;
            if self.now < earliest {
                self.wake_at(earliest);
            } else {
                self.discovery.wanted = false;
                self.discovery.last = self.now;
                self.scan();
            }
        }
        self.wake_at(self.discovery.next_check);
    }

    pub(super) fn scan(&mut self) {
        // An unreadable directory, e.g. a removed one, leaves the present matches as they are.
        let Ok(names) = self.names() else {
            // Scanned again at the next check.
            self.discovery.stamp = None;
            return;
        };
        let present: HashSet<&str> = names.iter().map(|n| n.text.as_str()).collect();
        self.forget_absent(&present);
        for name in &names {
            self.consider(name);
        }
    }

    pub(super) fn receive_hints(&mut self, key: u64) {
        if !self.rescan.is_harmless() {
            // This kernel has no SO_PASSRIGHTS, so other users can send descriptors. The kernel
            // closes these during the receive, which may block.
            self.set_listening(key, EventFlags::empty());
            let commands = Arc::clone(&self.commands);
            self.rescan.apart(move |rescan| {
                let hints = std::iter::from_fn(|| receive_name(&rescan)).take(MAX_HINTS).collect();
                commands.send(Command::Hints { key, hints });
            });
            return;
        }
        let mut count = 0;
        // epoll reports the remaining hints again.
        while count < MAX_HINTS
            && let Some(name) = receive_name(&self.rescan)
        {
            if !self.attention.hears_one(self.now) {
                self.set_listening(key, EventFlags::empty());
                return;
            }
            count += 1;
            self.hear_hint(count, name);
        }
    }

    /// Handles hints received on another thread.
    pub(super) fn hear_hints(&mut self, key: u64, hints: Vec<Option<Name>>) {
        for (before, name) in hints.into_iter().enumerate() {
            if !self.attention.hears_one(self.now) {
                return;
            }
            self.hear_hint(before + 1, name);
        }
        self.set_listening(key, EventFlags::IN);
    }

    fn hear_hint(&mut self, count: usize, name: Option<Name>) {
        match name {
            Some(name) if count <= FEW_HINTS => self.consider(&name),
            _ => self.discovery.look(),
        }
    }

    /// After a pause: receives hints again, and scans for the publishers of lost hints.
    pub(super) fn hear_again(&mut self) {
        if self.attention.recovers(self.now) {
            if self.rescan.is_harmless() {
                (0..MAX_HINTS).take_while(|_| receive_name(&self.rescan).is_some()).for_each(drop);
            }
            self.discovery.look();
            if let Some(key) =
                self.sources.iter().find_map(|(key, s)| matches!(s, Source::Rescan).then_some(*key))
            {
                self.set_listening(key, EventFlags::IN);
            }
        }
        if let Some(until) = self.attention.deaf_until() {
            self.wake_at(until);
        }
    }

    /// Announces a new publisher to all participants, this one included.
    pub(super) fn announce(&mut self, publisher: &str) {
        if let Ok(names) = self.names() {
            for name in
                names.iter().filter(|n| n.kind == Kind::Rescan && n.text != self.rescan_name)
            {
                if socket::hint(
                    &self.identity.directory,
                    &self.rescan,
                    &name.text,
                    publisher.as_bytes(),
                ) {
                    self.identity.directory.remove(&name.text);
                }
            }
        }
        if let Some(name) = Name::parse(publisher) {
            self.consider(&name);
        }
    }

    /// Removes names of dead processes, one second after a match has ended.
    pub(super) fn sweep_if_due(&mut self) {
        match self.discovery.sweep_at {
            Some(at) if self.now >= at => {
                self.discovery.sweep_at = None;
                self.sweep();
            }
            Some(at) => self.wake_at(at),
            None => {}
        }
    }

    /// Removes names of dead processes.
    pub(super) fn sweep(&mut self) {
        let Ok(names) = self.names() else { return };
        for name in names.iter().filter(|n| n.text != self.rescan_name && n.text != self.info_name)
        {
            if socket::is_dead(&self.identity.directory, name, &self.blocking_tasks) {
                self.identity.directory.remove(&name.text);
            }
        }
    }
}

/// Receives the next hint. Returns `None` if there is none, and `Some(None)` for a hint without a
/// valid name.
fn receive_name(rescan: impl AsFd) -> Option<Option<Name>> {
    let mut buffer = [0; 128];
    let len = socket::receive_hint(rescan, &mut buffer)?;
    Some(buffer.get(..len).and_then(|b| std::str::from_utf8(b).ok()).and_then(Name::parse))
}
