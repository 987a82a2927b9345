// SPDX-License-Identifier: Apache-2.0
//! Choice among several publishers of a topic: DDS's exclusive ownership
//! (`docs/protocols/standby.md`).
//!
//! A pure state machine: samples in, a decision out. It has no clock; times are those of the
//! samples.

use driveline_types::MonotonicNs;
use std::time::Duration;

/// Maximum number of publishers remembered.
const REMEMBERED: usize = 16;

/// Properties of a sample on which the choice depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Its publisher.
    pub(crate) publisher: u64,
    /// The publisher's strength.
    pub(crate) strength: u32,
    pub(crate) published: MonotonicNs,
    /// Time of measurement; negative times are before the clock began.
    pub(crate) source: i64,
}

#[derive(Clone, Copy, Debug)]
struct Owner {
    publisher: u64,
    strength: u32,
    /// Publish time of its newest sample.
    last: MonotonicNs,
}

#[derive(Clone, Copy, Debug)]
struct Delivered {
    published: MonotonicNs,
    source: i64,
}

/// The owner of a topic, as one subscription sees it.
#[derive(Debug)]
pub(crate) struct Ownership {
    deadline: Duration,
    owner: Option<Owner>,
    delivered: Option<Delivered>,
    /// Publishers and the times of their newest samples, most recent last.
    heard: Vec<(u64, MonotonicNs)>,
}

impl Ownership {
    /// `deadline`: longest gap between two samples.
    pub(crate) fn new(deadline: Duration) -> Self {
        Self { deadline, owner: None, delivered: None, heard: Vec::with_capacity(REMEMBERED) }
    }

    pub(crate) fn owner(&self) -> Option<u64> {
        self.owner.map(|o| o.publisher)
    }

    /// Returns true if a sample is delivered. `gone`: returns true if the owner's publisher is
    /// gone; called only if the result depends on it.
    pub(crate) fn admit(&mut self, offer: Offer, gone: impl FnOnce() -> bool) -> bool {
        let period = self.hear(offer).min(self.deadline / 2);
        let was_owner = self.owner.is_some_and(|o| o.publisher == offer.publisher);
        let takes = match self.owner {
            None => true,
            Some(_) if was_owner => true,
            Some(o) if offer.strength > o.strength => true,
            Some(o) => offer.published.since(o.last) > self.deadline - period || gone(),
        };
        if !takes {
            return false;
        }
        let Offer { publisher, strength, published, source } = offer;
        self.owner = Some(Owner { publisher, strength, last: published });
        let repeats = self.delivered.is_some_and(|d| {
            source <= d.source && published.since(d.published) <= self.deadline * 2
        });
        if !was_owner && repeats {
            return false;
        }
        let delivered = Delivered { published, source };
        self.delivered = Some(delivered);
        true
    }

    /// Notes a sample. Returns the time since the publisher's previous sample, zero for the first.
    fn hear(&mut self, offer: Offer) -> Duration {
        let known = self.heard.iter().position(|(publisher, _)| *publisher == offer.publisher);
        let before = known.map(|i| self.heard.remove(i).1);
        if self.heard.len() == REMEMBERED {
            self.heard.remove(0);
        }
        self.heard.push((offer.publisher, offer.published));
        before.map_or(Duration::ZERO, |at| offer.published.since(at))
    }
}

#[cfg(test)]
#[path = "ownership_tests.rs"]
mod tests;
