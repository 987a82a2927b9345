// SPDX-License-Identifier: Apache-2.0
//! Triggers: when a callback runs, and with which samples.

mod set;
mod stall;
pub mod synchronize;

pub(crate) use set::{Fresh, InputPort, Polled, Samples, Skips, TriggerState, count, is_stale};
pub use stall::{InputStall, StallEnd};

use std::time::Duration;

/// Rule that decides when a callback runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Trigger {
    /// On each new sample of any of the inputs `on` (all inputs if empty), oldest first per input.
    /// The other inputs can be read in the callback.
    Any {
        /// Indices of the inputs that trigger.
        on: Vec<usize>,
        /// An older sample neither triggers nor is read; both cases are counted.
        max_age: Option<Duration>,
    },
    /// At fixed times; inputs can be read in the callback.
    Timer {
        /// Time between two calls.
        period: Duration,
        /// An older sample is not read; it is counted.
        max_age: Option<Duration>,
    },
    /// On each new sample of input `on`, together with the newest sample of every other input, new
    /// or not. If an input has no sample, or its newest sample has a source time older than
    /// `max_age`, the call is skipped and counted.
    AllLatest {
        /// Index of the input that triggers.
        on: usize,
        /// Greatest age of any contributed sample, by its oldest source time.
        max_age: Option<Duration>,
    },
    /// On each set of samples, one per input, with exactly the same source time.
    Exact {
        /// Number of samples per input that wait for their partners.
        queue: usize,
        /// Sets with an older sample are dropped and counted.
        max_age: Option<Duration>,
    },
    /// On each set of samples, one per input, whose source times lie closest together (ROS
    /// ApproximateTime).
    Approximate {
        /// Number of samples per input that wait for their partners.
        queue: usize,
        /// Greatest spread of source times within a set.
        max_interval: Option<Duration>,
        /// Sets with an older sample are dropped and counted.
        max_age: Option<Duration>,
    },
}

impl Trigger {
    /// On any input.
    #[must_use]
    pub fn any() -> Self {
        Self::Any { on: Vec::new(), max_age: None }
    }

    /// Greatest age of a sample that a call gets, by its oldest source time.
    #[must_use]
    pub fn max_age(&self) -> Option<Duration> {
        match self {
            Self::Any { max_age, .. }
            | Self::Timer { max_age, .. }
            | Self::AllLatest { max_age, .. }
            | Self::Exact { max_age, .. }
            | Self::Approximate { max_age, .. } => *max_age,
        }
    }

    /// Returns the number of samples that each input must be able to hold for this trigger, in
    /// addition to samples that the callback keeps.
    #[must_use]
    pub fn holds(&self) -> u32 {
        match self {
            Self::Any { .. } | Self::Timer { .. } => 1,
            // The cached newest sample, and the next sample while it replaces the cached one.
            Self::AllLatest { .. } => 2,
            Self::Exact { queue, .. } | Self::Approximate { queue, .. } => {
                u32::try_from(*queue).unwrap_or(u32::MAX).saturating_add(2)
            }
        }
    }
}
