// SPDX-License-Identifier: Apache-2.0
//! Finding publishers, being found, and cleaning up after the dead.
//!
//! A new publisher sends its name as a hint to every participant; who wants the topic dials it. Hints can be lost (a
//! queue is short), so whoever finds several waiting looks through the directory instead, and once a second its time
//! stamp is compared as a safety net. Neither hints nor names that others leave in the directory cost more than a bounded
//! share of this process's time.

use super::{Control, Source};
use crate::sys::directory::{Kind, Name, Stamp};
use crate::sys::socket;
use driveline_types::MonotonicNs;
use rustix::event::epoll::EventFlags;
use std::collections::HashSet;
use std::time::Duration;

const SAFETY_NET: Duration = Duration::from_secs(1);
/// Least time between two looks through the directory, so that a hundred starting processes cost one look, not many.
const PAUSE: Duration = Duration::from_millis(2);
/// Hints taken in one go; one more than a few means that some may have been lost (`net.unix.max_dgram_qlen` is 10).
const MAX_HINTS: usize = 64;
const FEW_HINTS: usize = 6;

/// When to look, and what was seen.
#[derive(Debug, Default)]
pub(super) struct Discovery {
    wanted: bool,
    last: MonotonicNs,
    next_check: MonotonicNs,
    stamp: Option<Stamp>,
    /// The stamp has the clock tick's resolution: after a change one more look a second later makes sure.
    again: bool,
}

impl Discovery {
    /// Asks for a look through the directory, soon.
    pub(super) fn look(&mut self) {
        self.wanted = true;
    }
}

impl Control {
    /// Looks through the directory if it is time.
    pub(super) fn discover(&mut self) {
        if self.inlets.is_empty() {
            self.discovery.wanted = false;
            return;
        }
        if self.now >= self.discovery.next_check {
            self.discovery.next_check = self.now + SAFETY_NET;
            let stamp = self.identity.directory.stamp().ok();
            if stamp != self.discovery.stamp || self.discovery.again {
                self.discovery.again = stamp != self.discovery.stamp;
                self.discovery.stamp = stamp;
                self.discovery.wanted = true;
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

    fn scan(&mut self) {
        // An unreadable directory (removed, for one) leaves the present matches as they are.
        let Ok(names) = self.identity.directory.names() else { return };
        let present: HashSet<&str> = names.iter().map(|n| n.text.as_str()).collect();
        self.forget_absent(&present);
        for name in &names {
            self.consider(name);
        }
    }

    pub(super) fn receive_hints(&mut self, key: u64) {
        let mut buffer = [0; 128];
        let mut count = 0;
        // What is left after that many is reported again.
        while count < MAX_HINTS
            && let Some(len) = socket::receive_hint(&self.rescan, &mut buffer)
        {
            if !self.attention.hears_one(self.now) {
                self.set_listening(key, EventFlags::empty());
                return;
            }
            count += 1;
            let name = buffer.get(..len).and_then(|b| std::str::from_utf8(b).ok()).and_then(Name::parse);
            match name {
                Some(name) if count <= FEW_HINTS => self.consider(&name),
                _ => self.discovery.look(),
            }
        }
    }

    /// After a pause: listens to hints again, and looks for what they were about.
    pub(super) fn hear_again(&mut self) {
        if self.attention.recovers(self.now) {
            let mut left = MAX_HINTS;
            while left > 0 && socket::receive_hint(&self.rescan, &mut [0; 128]).is_some() {
                left -= 1;
            }
            self.discovery.look();
            if let Some(key) = self.sources.iter().find_map(|(key, s)| matches!(s, Source::Rescan).then_some(*key)) {
                self.set_listening(key, EventFlags::IN);
            }
        }
        if let Some(until) = self.attention.deaf_until() {
            self.wake_at(until);
        }
    }

    /// Tells everybody, itself included, about a new publisher.
    pub(super) fn announce(&mut self, publisher: &str) {
        if let Ok(names) = self.identity.directory.names() {
            for name in names.iter().filter(|n| n.kind == Kind::Rescan && n.text != self.rescan_name) {
                if socket::hint(&self.identity.directory, &self.rescan, &name.text, publisher.as_bytes()) {
                    self.identity.directory.remove(&name.text);
                }
            }
        }
        if let Some(name) = Name::parse(publisher) {
            self.consider(&name);
        }
    }

    /// Removes what dead processes have left.
    pub(super) fn sweep(&mut self) {
        let Ok(names) = self.identity.directory.names() else { return };
        for name in names.iter().filter(|n| n.text != self.rescan_name && n.text != self.info_name) {
            if socket::is_dead(&self.identity.directory, name) {
                self.identity.directory.remove(&name.text);
            }
        }
    }
}
