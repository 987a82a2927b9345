// SPDX-License-Identifier: Apache-2.0
//! Accepts and orders the samples of one route. It is the receiver's counterpart of `window`:
//! `docs/protocols/network.md`, section 5. No thread, no clock.

use crate::window::{MAX_IN_FLIGHT, MAX_WINDOW_BYTES};
use crate::wire::Outcome;
use std::collections::VecDeque;

/// Maximum number of queued samples. A correct route has at most half as many in flight; its
/// successor may have as many again.
const MAX_QUEUED: usize = 2 * MAX_IN_FLIGHT;

/// A queued sample.
#[derive(Debug)]
pub struct Queued<T> {
    /// Its number on its route.
    pub number: u64,
    /// Its place among the samples in flight. 0: order does not matter.
    pub place: u16,
    len: usize,
    /// Outcome, if it is known already. Otherwise the sample is to be published.
    pub fate: Option<Outcome>,
    /// Content of the sample.
    pub what: T,
}

/// Decision on an arrived sample.
#[derive(Debug)]
pub enum Entry<T> {
    /// The sample is in the queue.
    Queued,
    /// No acknowledgement is sent now: the sample is being processed already, or the queue is full.
    Silent,
    /// An acknowledgement is sent.
    Reply {
        /// The sample.
        what: T,
        /// Outcome.
        outcome: Outcome,
        /// Number in the acknowledgement: that of this sample, or the number up to which all
        /// samples have an outcome.
        number: u64,
    },
}

/// Receiving state of one route.
#[derive(Debug)]
pub struct ReceiveWindow<T> {
    /// Next number to accept, of samples with a place.
    next: u64,
    /// All samples up to this number have an outcome. Samples between it and `next` are in the
    /// queue or being published.
    ended: u64,
    queue: VecDeque<Queued<T>>,
    bytes: usize,
}

impl<T> Default for ReceiveWindow<T> {
    fn default() -> Self {
        Self { next: 0, ended: 0, queue: VecDeque::new(), bytes: 0 }
    }
}

impl<T> ReceiveWindow<T> {
    /// Handles an arrived sample. Place 1 is the oldest sample in flight: the sender knows that all
    /// samples before it have an outcome.
    pub fn enter(
        &mut self,
        number: u64,
        place: u16,
        len: usize,
        fate: Option<Outcome>,
        what: T,
    ) -> Entry<T> {
        if place != 0 {
            let oldest = number.saturating_sub(u64::from(place - 1));
            if oldest > self.next {
                (self.next, self.ended) = (oldest, oldest - 1);
            }
            if number > self.next {
                return Entry::Reply { what, outcome: Outcome::Gap, number: self.ended };
            }
            if number <= self.ended {
                return Entry::Reply { what, outcome: Outcome::Published, number: self.ended };
            }
            if number < self.next {
                return Entry::Silent;
            }
        }
        if let Some(outcome) = fate.filter(|outcome| place == 0 || *outcome == Outcome::NotYet) {
            return Entry::Reply { what, outcome, number };
        }
        // While the queue has space, the next sample may have any length, because a route with
        // space in its window also sends a sample of any length. The sender repeats a rejected
        // sample after its time-out.
        if self.queue.len() >= MAX_QUEUED || self.bytes >= MAX_WINDOW_BYTES {
            return Entry::Silent;
        }
        if place != 0 {
            self.next = number.saturating_add(1);
        }
        self.bytes += len;
        self.queue.push_back(Queued { number, place, len, fate, what });
        Entry::Queued
    }

    /// Returns the next sample of the queue. Call [`Self::finished`] for it before the next call.
    pub fn next_in_turn(&mut self) -> Option<Queued<T>> {
        let next = self.queue.pop_front()?;
        self.bytes -= next.len;
        Some(next)
    }

    /// Notes the outcome of the sample from [`Self::next_in_turn`]. With `NotYet` it and its
    /// successors must be sent again.
    pub fn finished(&mut self, number: u64, place: u16, outcome: Outcome) {
        if place == 0 {
            return;
        }
        if outcome == Outcome::NotYet {
            self.drop_ordered();
            self.next = self.next.min(number);
        } else {
            self.ended = self.ended.max(number);
        }
    }

    /// Starts again for another route, which has other numbers.
    pub fn begin_anew(&mut self) {
        self.drop_ordered();
        (self.next, self.ended) = (0, 0);
    }

    fn drop_ordered(&mut self) {
        self.queue.retain(|q| q.place == 0);
        self.bytes = self.queue.iter().map(|q| q.len).sum();
    }
}
