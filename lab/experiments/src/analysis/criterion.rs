// SPDX-License-Identifier: Apache-2.0
//! Criteria of comparisons: the compared figure, the better direction, and the smallest ratio that
//! counts as a difference. Answers, tables and comparisons of measurements use only these.

use driveline_bench::stats::{ENOUGH_ROUNDS, Interval};
use std::cmp::Ordering;

/// Largest distance of a ratio of goodputs from 1 at which the goodputs count as equal. The goodput
/// of a sender that keeps its rate is that rate, and rounds repeat it to parts per million. An
/// interval over rounds can therefore exclude 1 although no system has more throughput.
const EQUAL_GOODPUT: f64 = 0.005;

/// Criterion by which a case is compared; each case has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Criterion {
    /// A latency, or another time: less is better, and the median decides.
    Latency,
    /// For streams: more is better.
    Goodput,
}

/// Result of a comparison with a reference, mostly Driveline, by the interval of the ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The system takes longer, or carries less: the whole interval is beyond the values that count
    /// as equal.
    Slower,
    /// The system takes less time, or carries more.
    Faster,
    /// The interval contains 1, or reaches what counts as equal.
    NotShown,
    /// Too few rounds for a verdict.
    TooFewRounds,
}

impl Criterion {
    pub(crate) const ALL: [Self; 2] = [Self::Latency, Self::Goodput];

    /// Compares two values. The better value orders as `Less`: the higher goodput, or the shorter
    /// time.
    pub(crate) fn better(self, a: f64, b: f64) -> Ordering {
        match self {
            Self::Latency => a.total_cmp(&b),
            Self::Goodput => b.total_cmp(&a),
        }
    }

    /// Returns `Less` if the whole interval of a ratio is better, `Greater` if it is worse, and
    /// `Equal` if a part of it counts as equal.
    pub(crate) fn side(self, i: &Interval) -> Ordering {
        let equal = match self {
            Self::Latency => 0.0,
            Self::Goodput => EQUAL_GOODPUT,
        };
        match () {
            () if i.low > 1.0 + equal => self.better(i.low, 1.0),
            () if i.high < 1.0 - equal => self.better(i.high, 1.0),
            () => Ordering::Equal,
        }
    }

    /// Returns the same as [`Self::side`] for a ratio without a reliable interval.
    pub(crate) fn side_of(self, ratio: f64) -> Ordering {
        self.side(&Interval { estimate: ratio, low: ratio, high: ratio, rounds: 1 })
    }

    /// Returns the standing for an interval of a ratio to the reference.
    pub(crate) fn standing(self, i: &Interval) -> Standing {
        match self.side(i) {
            _ if i.rounds < ENOUGH_ROUNDS => Standing::TooFewRounds,
            Ordering::Greater => Standing::Slower,
            Ordering::Less => Standing::Faster,
            Ordering::Equal => Standing::NotShown,
        }
    }
}

/// Returns the difference that counts as equal, in percent: `0.5 %`.
pub(crate) fn equal_goodput() -> String {
    format!("{} %", EQUAL_GOODPUT * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(low: f64, high: f64) -> Interval {
        Interval { estimate: f64::midpoint(low, high), low, high, rounds: 5 }
    }

    #[test]
    fn more_goodput_is_better_and_less_time() {
        assert_eq!(Criterion::ALL.map(|c| c.better(2.0, 1.0)), [Ordering::Greater, Ordering::Less]);
        assert_eq!(
            Criterion::ALL.map(|c| c.standing(&of(1.9, 2.1))),
            [Standing::Slower, Standing::Faster]
        );
        assert_eq!(
            Criterion::ALL.map(|c| c.standing(&of(0.4, 0.6))),
            [Standing::Faster, Standing::Slower]
        );
        assert_eq!(
            Criterion::ALL.map(|c| c.standing(&Interval { rounds: 4, ..of(0.4, 0.6) })),
            [Standing::TooFewRounds; 2]
        );
    }

    #[test]
    fn goodputs_that_differ_by_next_to_nothing_are_equal_and_times_are_not() {
        assert_eq!(equal_goodput(), "0.5 %");
        for (low, high) in
            [(1.000_001, 1.000_002), (0.999_998, 0.999_999), (1.004, 1.02), (0.98, 0.996)]
        {
            assert_eq!(
                Criterion::Goodput.standing(&of(low, high)),
                Standing::NotShown,
                "{low} to {high}"
            );
            assert_ne!(
                Criterion::Latency.standing(&of(low, high)),
                Standing::NotShown,
                "{low} to {high}"
            );
        }
        assert_eq!(Criterion::Goodput.standing(&of(1.006, 1.007)), Standing::Faster);
        assert_eq!(Criterion::Goodput.standing(&of(0.993, 0.994)), Standing::Slower);
        assert_eq!(
            [1.003, 0.997, 1.01].map(|x| Criterion::Goodput.side_of(x)),
            [Ordering::Equal, Ordering::Equal, Ordering::Less]
        );
    }
}
