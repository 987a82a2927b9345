// SPDX-License-Identifier: Apache-2.0
//! Time that a reliable publisher has spent waiting for its readers.

use crate::publication::add;
use driveline_types::MonotonicNs;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Number of threads in this process that wait in a publish, or have waited in their current call.
static WAITING: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    None,
    HasNotWaited,
    HasWaited,
}

thread_local! {
    static CALL: Cell<Call> = const { Cell::new(Call::None) };
}

/// Returns true if a thread of this process waits for readers of a reliable publisher, or is in a
/// call that has waited and may wait again. The readers must continue to read, or the thread waits
/// until its time-out.
#[must_use]
pub fn a_publisher_waits() -> bool {
    WAITING.load(Relaxed) > 0
}

/// Marks a call (of a callback) on this thread, from [`Self::begin`] until it is dropped. After a
/// wait in this call, [`a_publisher_waits`] stays true until the call ends.
#[derive(Debug)]
pub struct PublishingCall {
    outer: Call,
}

impl PublishingCall {
    /// Marks the beginning of a call.
    #[must_use]
    pub fn begin() -> Self {
        Self { outer: CALL.replace(Call::HasNotWaited) }
    }
}

impl Drop for PublishingCall {
    fn drop(&mut self) {
        if CALL.replace(self.outer) == Call::HasWaited {
            WAITING.fetch_sub(1, Relaxed);
        }
    }
}

/// Counters of a [`BlockingMeter`]. Times include a wait in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    /// Waits for reliable subscriptions. A publish through shared memory makes at most one wait;
    /// inside a process, it makes one wait for each subscription without room.
    pub waits: u64,
    /// Number of these waits that timed out after `max_blocking_ms`.
    pub timeouts: u64,
    /// Time spent waiting, in nanoseconds.
    pub blocked_ns: u64,
}

impl Blocked {
    /// Returns the sums of the counters of `self` and `other`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            waits: self.waits.saturating_add(other.waits),
            timeouts: self.timeouts.saturating_add(other.timeouts),
            blocked_ns: self.blocked_ns.saturating_add(other.blocked_ns),
        }
    }
}

/// Counts how often and how long one reliable publisher waits. The publishing thread writes, any
/// thread reads. Neither locks nor allocates.
#[derive(Debug, Default)]
pub struct BlockingMeter {
    waits: AtomicU64,
    timeouts: AtomicU64,
    blocked_ns: AtomicU64,
    /// Start of the wait in progress; 0 if there is none.
    since_ns: AtomicU64,
}

// Relaxed throughout: the meter has figures for people, and one thread writes them. `WAITING`
// orders no other data.
impl BlockingMeter {
    /// Marks the beginning of a wait.
    pub fn begin(&self, now: MonotonicNs) {
        if CALL.get() == Call::HasNotWaited {
            CALL.set(Call::HasWaited);
            WAITING.fetch_add(1, Relaxed);
        } else if CALL.get() == Call::None {
            WAITING.fetch_add(1, Relaxed);
        }
        add(&self.waits, 1);
        self.since_ns.store(now.0, Relaxed);
    }

    /// Counts a wait without success.
    pub fn time_out(&self) {
        add(&self.timeouts, 1);
    }

    /// Marks the end of a wait, with or without success.
    pub fn end(&self, now: MonotonicNs) {
        if CALL.get() == Call::None {
            WAITING.fetch_sub(1, Relaxed);
        }
        let since = self.since_ns.swap(0, Relaxed);
        add(&self.blocked_ns, now.0.saturating_sub(since));
    }

    /// Counts so far.
    #[must_use]
    pub fn blocked(&self, now: MonotonicNs) -> Blocked {
        let in_progress = match self.since_ns.load(Relaxed) {
            0 => 0,
            since => now.0.saturating_sub(since),
        };
        Blocked {
            waits: self.waits.load(Relaxed),
            timeouts: self.timeouts.load(Relaxed),
            blocked_ns: self.blocked_ns.load(Relaxed).saturating_add(in_progress),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_in_progress_is_part_of_the_time() {
        let meter = BlockingMeter::default();
        let at = |ms: u64| MonotonicNs(1 + ms * 1_000_000);
        meter.begin(at(10));
        let blocked =
            |waits, timeouts, ms: u64| Blocked { waits, timeouts, blocked_ns: ms * 1_000_000 };
        assert_eq!(meter.blocked(at(15)), blocked(1, 0, 5));
        meter.time_out();
        meter.end(at(30));
        assert_eq!(meter.blocked(at(90)), blocked(1, 1, 20));
        meter.begin(at(90));
        meter.end(at(91));
        assert_eq!(meter.blocked(at(99)), blocked(2, 1, 21));
    }
}
