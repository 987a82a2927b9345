// SPDX-License-Identifier: Apache-2.0
//! Estimates the offset of another host's clock, and bounds its error.
//!
//! Reasons and rules: `docs/protocols/network.md`, section 6. The only assumption about delays is
//! that they are not negative.

use driveline_types::MonotonicNs;
use std::time::Duration;

/// Interval between requests for the time of a host that sends a topic received here. After a step
/// of a clock, offsets are wrong until the next answer, so for about this interval at most.
pub const ASK_EVERY: Duration = Duration::from_millis(500);
/// Maximum assumed drift between two clocks: 100 ns per millisecond. Crystals stay below 50 ppm
/// each.
const DRIFT_PER_MILLION: i128 = 100;

/// One exchange with another host: a request for the time and its answer, or a sample (in the place
/// of the request) and its acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Time of the request, on this host's clock.
    pub sent: MonotonicNs,
    /// Arrival of the request, on the other host's clock.
    pub received: MonotonicNs,
    /// Time of the answer, on the other host's clock.
    pub answered: MonotonicNs,
    /// Arrival of the answer, on this host's clock.
    pub returned: MonotonicNs,
}

/// Offset of another host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Clock of the other host minus the clock of this host, in nanoseconds.
    pub ns: i64,
    /// Maximum difference from the true offset, in nanoseconds.
    pub error_ns: u64,
}

impl Offset {
    /// Converts a time of the other host to this host's clock. Impossible times wrap.
    #[must_use]
    pub fn to_local(&self, remote: MonotonicNs) -> MonotonicNs {
        MonotonicNs(remote.0.wrapping_sub(self.ns as u64))
    }
}

/// Range of possible offsets at one time.
#[derive(Clone, Copy, Debug)]
struct Interval {
    at: MonotonicNs,
    low: i128,
    high: i128,
}

impl Interval {
    /// Returns the range at another time, wider by the possible drift.
    fn at(self, now: MonotonicNs) -> Self {
        let passed = i128::from(now.0.abs_diff(self.at.0));
        let drift = (passed * DRIFT_PER_MILLION + 999_999) / 1_000_000;
        Self { at: now, low: self.low - drift, high: self.high + drift }
    }
}

/// Estimate of one host's clock. Accepts any number of exchanges in any order, and needs constant
/// memory.
#[derive(Clone, Debug, Default)]
pub struct ClockEstimate {
    interval: Option<Interval>,
    exchanges: u64,
    steps: u64,
    nonsense: u64,
}

impl ClockEstimate {
    /// Adds an exchange. Returns false if it is impossible and was only counted: an answer precedes
    /// its request, or the other host claims more time than the whole exchange took.
    pub fn exchange(&mut self, e: &Exchange) -> bool {
        if e.returned < e.sent || e.answered < e.received {
            self.nonsense += 1;
            return false;
        }
        let ns = |t: MonotonicNs| i128::from(t.0);
        // The clocks drift during the exchange too.
        let drift = (ns(e.returned) - ns(e.sent)) * DRIFT_PER_MILLION / 1_000_000 + 1;
        let (low, high) =
            (ns(e.answered) - ns(e.returned) - drift, ns(e.received) - ns(e.sent) + drift);
        if low > high {
            // The other host claims to have taken longer than the whole exchange.
            self.nonsense += 1;
            return false;
        }
        self.exchanges += 1;
        let new = Interval { at: e.returned, low, high };
        let Some(known) = self.interval else {
            self.interval = Some(new);
            return true;
        };
        let now = known.at.max(new.at);
        let (known, new) = (known.at(now), new.at(now));
        let (low, high) = (known.low.max(new.low), known.high.min(new.high));
        self.interval = Some(if low <= high {
            Interval { at: now, low, high }
        } else {
            // The ranges contradict each other: a clock has stepped.
            self.steps += 1;
            new
        });
        true
    }

    /// Returns the offset as of `now` on this host's clock; `None` before the first exchange.
    #[must_use]
    pub fn offset(&self, now: MonotonicNs) -> Option<Offset> {
        let i = self.interval?.at(now);
        let middle = i.low + (i.high - i.low) / 2;
        let bound = |v: i128| u64::try_from(v).unwrap_or(u64::MAX);
        // A host that sends false numbers harms only its own estimate.
        let ns = middle.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        Some(Offset { ns, error_ns: bound((i.high - middle).max(middle - i.low)) })
    }

    /// Number of exchanges used.
    #[must_use]
    pub fn exchanges(&self) -> u64 {
        self.exchanges
    }

    /// Returns how often one of the clocks has stepped by more than the error bound.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Number of impossible exchanges.
    #[must_use]
    pub fn nonsense(&self) -> u64 {
        self.nonsense
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
