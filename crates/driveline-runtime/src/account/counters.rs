// SPDX-License-Identifier: Apache-2.0
//! Counters in records: of callbacks, publishers, inputs and services.

use driveline::service::{ServiceCalls, ServiceEnd};
use driveline::{CallbackStats, SubscriptionStats};
use driveline_types::Uncounted;
use serde::{Deserialize, Serialize};

/// Counters of a component's callback and timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallbackCounters {
    /// Calls made.
    pub invocations: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Calls of `on_event` that failed. Neither `invocations` nor `failed` includes them.
    pub failed_events: u64,
    /// Calls skipped because an input had no sample yet.
    pub skipped_missing: u64,
    /// Calls skipped, and reads refused, because an input's sample was too old.
    pub skipped_stale: u64,
    /// Samples that found no partners.
    pub unsynchronised: u64,
    /// Number of times that an input had to wait because the maximum number of samples was held.
    pub held_limit: u64,
    /// Samples that could not be read.
    pub take_errors: u64,
    /// Timer ticks that passed without a call.
    pub overruns: u64,
}

impl CallbackCounters {
    /// Returns the sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            invocations: self.invocations + other.invocations,
            failed: self.failed + other.failed,
            failed_events: self.failed_events + other.failed_events,
            skipped_missing: self.skipped_missing + other.skipped_missing,
            skipped_stale: self.skipped_stale + other.skipped_stale,
            unsynchronised: self.unsynchronised + other.unsynchronised,
            held_limit: self.held_limit + other.held_limit,
            take_errors: self.take_errors + other.take_errors,
            overruns: self.overruns + other.overruns,
        }
    }
}

impl From<CallbackStats> for CallbackCounters {
    fn from(s: CallbackStats) -> Self {
        Self {
            invocations: s.invocations,
            failed: s.failed,
            failed_events: 0,
            skipped_missing: s.skipped_missing,
            skipped_stale: s.skipped_stale,
            unsynchronised: s.unsynchronised,
            held_limit: s.held_limit,
            take_errors: s.take_errors,
            overruns: s.overruns,
        }
    }
}

/// Waits of a reliable output for its readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockedCounters {
    /// Waits of publishes. Inside a process, a publish waits for each full reader by itself.
    pub waits: u64,
    /// Number of these waits that timed out after `max_blocking_ms`.
    pub timeouts: u64,
    /// Time spent waiting, in nanoseconds.
    pub blocked_ns: u64,
}

impl BlockedCounters {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            waits: self.waits.saturating_add(other.waits),
            timeouts: self.timeouts.saturating_add(other.timeouts),
            blocked_ns: self.blocked_ns.saturating_add(other.blocked_ns),
        }
    }

    pub(super) fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl From<driveline::Blocked> for BlockedCounters {
    fn from(of: driveline::Blocked) -> Self {
        Self { waits: of.waits, timeouts: of.timeouts, blocked_ns: of.blocked_ns }
    }
}

/// Counters of an input. At any time, the sum of the counters from `received` to `standby` is the
/// number of samples published since the match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InputCounters {
    /// Samples taken.
    pub received: u64,
    /// Samples that newer ones replaced before they were taken, on an input that triggers.
    pub missed: u64,
    /// Samples that newer ones replaced before they were taken, on an input that does not trigger:
    /// it wants only the newest sample.
    pub superseded: u64,
    /// Samples dropped for their age (lifespan).
    pub expired: u64,
    /// Samples with an invalid header, checksum or index.
    pub corrupt: u64,
    /// Samples that broke their publisher's promise at the match.
    pub refused: u64,
    /// Samples of other hosts that did not reach this one.
    pub lost_on_the_way: u64,
    /// Samples that can be read now.
    pub not_read: u64,
    /// Samples that arrived, or were unread, while the component was inactive.
    #[serde(skip_serializing_if = "is_zero")]
    pub inactive: u64,
    /// Samples of publishers that were not the owner of the topic.
    #[serde(skip_serializing_if = "is_zero")]
    pub standby: u64,
    /// Number of publishers of other hosts that may have published more samples after the newest
    /// one that arrived. Not part of any sum.
    pub uncounted: u64,
    /// Reason, for one of them.
    pub uncounted_reason: Option<Uncounted>,
    /// Deadlines missed. Not a number of samples.
    #[serde(skip_serializing_if = "is_zero")]
    pub deadlines_missed: u64,
}

impl InputCounters {
    /// Returns the samples that newer ones replaced, on an input that triggers or not.
    #[must_use]
    pub fn replaced(&self) -> u64 {
        self.missed.saturating_add(self.superseded)
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            received: self.received.saturating_add(other.received),
            missed: self.missed.saturating_add(other.missed),
            superseded: self.superseded.saturating_add(other.superseded),
            expired: self.expired.saturating_add(other.expired),
            corrupt: self.corrupt.saturating_add(other.corrupt),
            refused: self.refused.saturating_add(other.refused),
            lost_on_the_way: self.lost_on_the_way.saturating_add(other.lost_on_the_way),
            not_read: self.not_read.saturating_add(other.not_read),
            inactive: self.inactive.saturating_add(other.inactive),
            standby: self.standby.saturating_add(other.standby),
            uncounted: self.uncounted.saturating_add(other.uncounted),
            uncounted_reason: other.uncounted_reason.or(self.uncounted_reason),
            deadlines_missed: self.deadlines_missed.saturating_add(other.deadlines_missed),
        }
    }

    /// Returns the sum of the counters from `received` to `standby`.
    #[must_use]
    pub fn accounted(&self) -> u64 {
        let parts = [
            self.received,
            self.replaced(),
            self.expired,
            self.corrupt,
            self.refused,
            self.lost_on_the_way,
            self.not_read,
            self.inactive,
            self.standby,
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

impl From<SubscriptionStats> for InputCounters {
    fn from(s: SubscriptionStats) -> Self {
        Self {
            received: s.received,
            missed: s.missed,
            superseded: s.superseded,
            expired: s.expired,
            corrupt: s.corrupt,
            refused: s.refused,
            lost_on_the_way: s.lost_on_the_way,
            not_read: s.not_read,
            inactive: s.inactive,
            standby: s.standby,
            uncounted: s.uncounted,
            uncounted_reason: s.uncounted_reason,
            deadlines_missed: s.deadlines_missed,
        }
    }
}

/// End of a service: client or server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEnd {
    /// Sends requests.
    Client,
    /// Answers requests.
    Server,
}

impl From<ServiceEnd> for CallEnd {
    fn from(end: ServiceEnd) -> Self {
        match end {
            ServiceEnd::Client => Self::Client,
            ServiceEnd::Server => Self::Server,
        }
    }
}

/// Calls of one service at one end. Each call is in `calls`; it is either in flight, or in exactly
/// one of the other counts as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallCounters {
    /// Calls made, or requests taken.
    pub calls: u64,
    /// Calls with a response.
    pub answered: u64,
    /// Calls refused by the server, by its callback or for lack of space.
    pub refused: u64,
    /// Calls that timed out; only clients count them.
    pub timed_out: u64,
    /// Calls whose other end had ended or could not be reached.
    pub peer_gone: u64,
    /// Calls not sent, for lack of a server or of space; only clients count them.
    pub not_sent: u64,
}

impl CallCounters {
    /// Returns the sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            answered: self.answered.saturating_add(other.answered),
            refused: self.refused.saturating_add(other.refused),
            timed_out: self.timed_out.saturating_add(other.timed_out),
            peer_gone: self.peer_gone.saturating_add(other.peer_gone),
            not_sent: self.not_sent.saturating_add(other.not_sent),
        }
    }
}

impl From<&ServiceCalls> for CallCounters {
    fn from(c: &ServiceCalls) -> Self {
        Self {
            calls: c.calls,
            answered: c.answered,
            refused: c.refused,
            timed_out: c.timed_out,
            peer_gone: c.peer_gone,
            not_sent: c.not_sent,
        }
    }
}

pub(super) fn is_zero(n: &u64) -> bool {
    *n == 0
}
