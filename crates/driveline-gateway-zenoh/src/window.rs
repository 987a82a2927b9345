// SPDX-License-Identifier: Apache-2.0
//! When an edge may hand Zenoh another sample: `docs/protocols/network.md`, section 5. No thread, no clock: times are given.

use crate::wire::{Ack, Outcome};
use driveline_types::MonotonicNs;
use std::collections::VecDeque;
use std::time::Duration;

/// Most samples in flight.
const MAX_IN_FLIGHT: usize = 32;
/// While so many bytes are in flight, no further sample is sent: one that is longer is alone, or the last.
const FULL_AT_BYTES: usize = 32 * 1024;
/// How long an acknowledgement may take, whatever the sample's length …
const ACK_WITHIN: Duration = Duration::from_secs(2);
/// … and for each byte of it: 1 MB/s is the slowest link on which nothing is given up.
const ACK_WITHIN_PER_BYTE: Duration = Duration::from_micros(1);

/// What the receiver has no inlet for yet is sent again after this, and then less and less often …
const NOT_YET_FIRST: Duration = Duration::from_millis(10);
/// … but no less often than that.
const NOT_YET_LONGEST: Duration = Duration::from_secs(1);

/// A sample that was handed to Zenoh and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flying {
    number: u64,
    len: usize,
    until: MonotonicNs,
}

/// What became of the samples of an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCounters {
    /// Handed to Zenoh, repetitions not counted.
    pub sent: u64,
    /// Payload bytes of these.
    pub sent_bytes: u64,
    /// In flight now.
    pub in_flight: u64,
    /// Handed to Zenoh again.
    pub sent_again: u64,
    /// Acknowledged as published there.
    pub delivered: u64,
    /// Acknowledged as dropped there, or there was no inlet for too long.
    pub refused: u64,
    /// Given up because no acknowledgement came.
    pub unacknowledged: u64,
    /// Acknowledgements of what was never sent.
    pub nonsense: u64,
}

/// The samples of one edge that are in flight.
#[derive(Debug)]
pub struct Window {
    /// One at a time, and again until it is acknowledged.
    reliable: bool,
    flying: VecDeque<Flying>,
    bytes: usize,
    last: u64,
    /// Nothing follows the last one before it is acknowledged: its publisher may have no inlet there yet.
    alone: bool,
    /// How often the receiver has said that of the one in flight.
    not_yet: u32,
    /// It has said so last: the one in flight is to be sent again.
    again: bool,
    counters: WindowCounters,
}

/// What to do when an acknowledgement has not come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// Nothing is overdue.
    Nothing,
    /// It was given up: take the newest.
    GivenUp,
    /// Send this one again, under its number.
    Again {
        /// Its number.
        number: u64,
    },
}

impl Window {
    /// Nothing in flight. Samples are numbered from behind `before`. Who had this edge's key before it must not have come as far: acknowledgements do not say
    /// which of them they are for.
    #[must_use]
    pub fn new(reliable: bool, before: u64) -> Self {
        Self {
            reliable,
            flying: VecDeque::with_capacity(MAX_IN_FLIGHT),
            bytes: 0,
            last: before,
            alone: false,
            not_yet: 0,
            again: false,
            counters: WindowCounters::default(),
        }
    }

    /// Whether samples are sent until they have arrived.
    #[must_use]
    pub fn is_reliable(&self) -> bool {
        self.reliable
    }

    /// Whether another sample may be taken and sent.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.flying.is_empty() || !self.reliable && !self.alone && self.flying.len() < MAX_IN_FLIGHT && self.bytes < FULL_AT_BYTES
    }

    /// A sample is about to be sent. Gives its number. `alone`: nothing follows it before it is acknowledged, so that it can be sent again.
    pub fn send(&mut self, len: usize, alone: bool, now: MonotonicNs) -> u64 {
        self.last += 1;
        (self.alone, self.not_yet, self.again) = (alone, 0, false);
        self.counters.sent += 1;
        self.counters.sent_bytes += len as u64;
        self.fly(self.last, len, now);
        self.last
    }

    /// The sample of [`Overdue::Again`] is about to be sent again.
    pub fn send_again(&mut self, len: usize, now: MonotonicNs) {
        self.counters.sent_again += 1;
        self.flying.clear();
        self.bytes = 0;
        self.again = false;
        self.fly(self.last, len, now);
    }

    /// The receiver has no inlet for the last sample yet, so it stays in flight and is due again after a pause. `false`: it is not in
    /// flight, or something may have followed it.
    pub fn not_yet(&mut self, number: u64, now: MonotonicNs) -> bool {
        let may_stay = self.reliable || self.alone;
        if !may_stay || number != self.last || self.flying.back().is_none_or(|f| f.number != number) {
            return false;
        }
        // Those before it have arrived.
        self.acknowledged(&Ack { number: number - 1, ..Ack::default() });
        let pause = NOT_YET_FIRST.saturating_mul(1 << self.not_yet.min(10)).min(NOT_YET_LONGEST);
        self.not_yet = self.not_yet.saturating_add(1);
        self.again = true;
        self.flying.iter_mut().for_each(|f| f.until = now + pause);
        true
    }

    fn fly(&mut self, number: u64, len: usize, now: MonotonicNs) {
        let per_byte = ACK_WITHIN_PER_BYTE.saturating_mul(u32::try_from(len).unwrap_or(u32::MAX));
        self.flying.push_back(Flying { number, len, until: now + ACK_WITHIN + per_byte });
        self.bytes += len;
    }

    /// An acknowledgement has come. `true`: something is in flight no longer.
    pub fn acknowledged(&mut self, ack: &Ack) -> bool {
        if ack.number > self.last {
            self.counters.nonsense += 1;
            return false;
        }
        let before = self.flying.len();
        while let Some(first) = self.flying.front().filter(|f| f.number <= ack.number).copied() {
            self.flying.pop_front();
            self.bytes -= first.len;
            // What its own acknowledgement would have said is not known of those that were skipped: they have arrived.
            if first.number == ack.number && ack.outcome != Outcome::Published {
                self.counters.refused += 1;
            } else {
                self.counters.delivered += 1;
            }
        }
        before != self.flying.len()
    }

    /// When to look at [`Self::overdue`].
    #[must_use]
    pub fn deadline(&self) -> Option<MonotonicNs> {
        self.flying.iter().map(|f| f.until).min()
    }

    /// What has waited too long for its acknowledgement.
    pub fn overdue(&mut self, now: MonotonicNs) -> Overdue {
        if self.deadline().is_none_or(|d| now < d) {
            return Overdue::Nothing;
        }
        if let (true, Some(only)) = (self.reliable || self.again, self.flying.front()) {
            return Overdue::Again { number: only.number };
        }
        self.give_up(|f| now >= f.until);
        Overdue::GivenUp
    }

    /// The other host is gone: nothing that is in flight will be acknowledged. A reliable sample waits for its return.
    pub fn parted(&mut self) {
        if self.reliable {
            self.flying.iter_mut().for_each(|f| f.until = MonotonicNs(0));
        } else {
            self.give_up(|_| true);
        }
    }

    fn give_up(&mut self, which: impl Fn(&Flying) -> bool) {
        let before = self.flying.len();
        self.flying.retain(|f| !which(f));
        self.counters.unacknowledged += (before - self.flying.len()) as u64;
        self.bytes = self.flying.iter().map(|f| f.len).sum();
    }

    /// Samples in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flying.len()
    }

    /// Number of the oldest sample in flight.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.flying.iter().map(|f| f.number).min()
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> WindowCounters {
        WindowCounters { in_flight: self.flying.len() as u64, ..self.counters }
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
