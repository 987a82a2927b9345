// SPDX-License-Identifier: Apache-2.0
//! Accepts and orders the samples of one route: the receiving end of `window`.
//! `docs/protocols/network.md`, section 5. No thread, no clock.

use crate::window::{MAX_IN_FLIGHT, MAX_WINDOW_BYTES};
use crate::wire::Outcome;
use std::collections::VecDeque;

/// Samples that wait to be published: an honest route has half as many in flight, and its successor
/// as many.
const MAX_QUEUED: usize = 2 * MAX_IN_FLIGHT;

/// A sample that waits for its turn.
#[derive(Debug)]
pub struct Queued<T> {
    /// Its number on its route.
    pub number: u64,
    /// Its place among those in flight; 0: order does not matter.
    pub place: u16,
    len: usize,
    /// Outcome, if it is decided; otherwise the sample is to be published.
    pub fate: Option<Outcome>,
    /// Itself.
    pub what: T,
}

/// Decision on an arrived sample.
#[derive(Debug)]
pub enum Entry<T> {
    /// It waits for its turn.
    Queued,
    /// It was taken before and has not ended, or there is no room. Nothing is said now.
    Silent,
    /// This is to be said.
    Reply {
        /// The sample.
        what: T,
        /// Outcome.
        outcome: Outcome,
        /// Of which number.
        number: u64,
    },
}

/// Receiving state of one route.
#[derive(Debug)]
pub struct ReceiveWindow<T> {
    /// Of those in order, the one to be taken next.
    next: u64,
    /// All up to this one have ended; those between are in the queue, or just being published.
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
    /// A sample has come. Place 1 is the oldest that is in flight: all before that have ended, as
    /// its sender knows.
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
        // A sample of any length has room where something has: more in flight no route has, and its
        // own time-out brings the rest again.
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

    /// The one whose turn it is. [`Self::finished`] is to be said of it before the next one is
    /// asked for.
    pub fn next_in_turn(&mut self) -> Option<Queued<T>> {
        let next = self.queue.pop_front()?;
        self.bytes -= next.len;
        Some(next)
    }

    /// The next sample has ended with this outcome, or must be sent again together with its
    /// successors.
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

    /// Another route's samples come from now on, which counts from elsewhere.
    pub fn begin_anew(&mut self) {
        self.drop_ordered();
        (self.next, self.ended) = (0, 0);
    }

    fn drop_ordered(&mut self) {
        self.queue.retain(|q| q.place == 0);
        self.bytes = self.queue.iter().map(|q| q.len).sum();
    }
}
