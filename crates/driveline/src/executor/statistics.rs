// SPDX-License-Identifier: Apache-2.0
//! Counters of callbacks and inputs, and work that waits for a call.

use crate::raw::SubscriptionStats;
use driveline_types::{MonotonicNs, TopicName};
use std::time::Duration;

/// One tick of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerTick {
    /// Scheduled time. Ticks are on a fixed grid: lateness does not add up.
    pub scheduled: MonotonicNs,
    /// Grid points that passed without a tick since the previous tick.
    pub overruns: u64,
}

/// Counters of a callback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallbackStats {
    /// Calls made.
    pub invocations: u64,
    /// Calls that reported failure or panicked.
    pub failed: u64,
    /// Calls skipped because an input had no sample (`AllLatest`).
    pub skipped_missing: u64,
    /// Calls skipped, and reads refused, because an input's sample was older than `max_age`.
    pub skipped_stale: u64,
    /// Samples that found no partners (`Exact`, `Approximate`).
    pub unsynchronised: u64,
    /// Number of times that an input had to wait, or a read of an input failed, because the
    /// callback held as many samples as permitted.
    pub held_limit: u64,
    /// Samples that could not be read; the first error is logged.
    pub take_errors: u64,
    /// Timer ticks that passed without a call.
    pub overruns: u64,
}

/// Counters of one input of a callback. They are the subscription's, so they include samples that
/// no call has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputStats {
    /// Name of the input.
    pub input: String,
    /// Its topic.
    pub topic: TopicName,
    /// The subscription's counters.
    pub stats: SubscriptionStats,
}

/// Calls of a callback or timer in progress, and work that waits for a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingWork {
    /// Calls in progress.
    pub running: u32,
    /// Index of each input with unread samples that a call will read, and the number of these
    /// samples. If only completed sets wait for a call: index 0, and the number of sets.
    pub unread: Vec<(usize, u64)>,
    /// Time until the next tick of a timer, if unread samples wait for it, or data of calls that
    /// feed it ([`CallbackHandle::fed_by`](super::CallbackHandle::fed_by)).
    pub tick: Option<Duration>,
}
