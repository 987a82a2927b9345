// SPDX-License-Identifier: Apache-2.0
//! The lineage of the callback that runs on this thread.
//!
//! Components need no code for lineage: the executor opens a scope around each callback, reads add
//! to the scope, and publishes stamp samples from it. A thread without a scope (for example one
//! that a component made itself) publishes samples that are origins of their own.

use crate::conversion::Conversions;
use driveline_types::header::Arrival;
use driveline_types::{Lineage, MonotonicNs, SampleHeader, TopicId};
use std::cell::RefCell;

thread_local! {
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// The callback that runs on this thread.
struct Running {
    lineage: Lineage,
    conversions: Conversions,
}

/// Ends the scope when the callback ends, also by a panic.
pub(crate) struct Scope(Option<Running>);

/// Opens a scope with the lineage of the callback's trigger. Scopes nest; the innermost counts.
pub(crate) fn enter(lineage: Lineage) -> Scope {
    Scope(
        RUNNING.with(|r| {
            r.borrow_mut().replace(Running { lineage, conversions: Conversions::default() })
        }),
    )
}

impl Scope {
    /// Returns the conversions of the innermost scope so far.
    pub(crate) fn conversions(&self) -> Conversions {
        RUNNING.with(|r| r.borrow().as_ref().map(|running| running.conversions).unwrap_or_default())
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        RUNNING.with(|r| *r.borrow_mut() = self.0.take());
    }
}

/// Returns true if a callback runs on this thread.
pub(crate) fn is_open() -> bool {
    RUNNING.with(|r| r.borrow().is_some())
}

/// Counts the time since `began` as a conversion of the callback on this thread, if one runs.
pub(crate) fn converted(began: MonotonicNs, total: impl FnOnce(&mut Conversions) -> &mut u64) {
    RUNNING.with(|r| {
        if let Some(running) = r.borrow_mut().as_mut() {
            let spent = running.lineage.convert(began, MonotonicNs::now());
            let total = total(&mut running.conversions);
            *total = total.saturating_add(spent);
        }
    });
}

/// Notes that a sample was read now. Does nothing outside of a callback.
pub(crate) fn read(header: &SampleHeader) {
    RUNNING.with(|r| {
        if let Some(running) = r.borrow_mut().as_mut() {
            running.lineage.inherit(header, Arrival::Read);
        }
    });
}

/// Fills in origins and trace id of a sample that is published at `header.publish_time`. If nothing
/// was consumed, the sample is an origin itself, with the explicit source time if there is one.
/// Otherwise an explicit source time is ignored.
pub(crate) fn stamp(
    header: &mut SampleHeader,
    topic: TopicId,
    source_time: Option<MonotonicNs>,
    fresh_trace: u64,
) {
    RUNNING.with(|r| match r.borrow().as_ref() {
        Some(running) => running.lineage.stamp(header, topic, source_time, fresh_trace),
        None => {
            header.trace_id = fresh_trace;
            header.clock_error_ns = 0;
            header.origins.begin(
                topic,
                source_time.unwrap_or(header.publish_time),
                header.publish_time,
            );
        }
    });
}

/// A trace id that is never zero, distinct per publisher and sequence with overwhelming
/// probability.
pub(crate) fn fresh_trace(publisher: u64, sequence: u64) -> u64 {
    // SplitMix64's finaliser (Steele, Lea, Flood 2014).
    let mut z = publisher ^ sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_callback_publishes_inherits_and_what_others_publish_does_not() {
        let stamped = |topic, source, fresh_trace| {
            let mut header = SampleHeader::stamped_now();
            stamp(&mut header, TopicId(topic), source, fresh_trace);
            header
        };
        let header = stamped(1, Some(MonotonicNs::now()), 7);
        {
            let start = MonotonicNs::now();
            let mut lineage = Lineage::start(start);
            lineage.inherit(&header, Arrival::Triggered);
            let _scope = enter(lineage);
            let derived = stamped(2, None, 8);
            assert_eq!((derived.origins.as_slice()[0].topic, derived.trace_id), (TopicId(1), 7));
        }
        let fresh = stamped(2, None, 8);
        assert_eq!((fresh.origins.as_slice()[0].topic, fresh.trace_id), (TopicId(2), 8));
    }
}
