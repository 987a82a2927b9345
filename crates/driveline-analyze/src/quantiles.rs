// SPDX-License-Identifier: Apache-2.0
//! Exact percentiles of raw samples.

use serde::Serialize;

/// A percentile in hundredths of a percent, with the number of samples that make it meaningful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// 9990 is p99.9.
    pub per_myriad: u64,
    /// Number of samples below which the percentile is not meaningful.
    pub needs: u64,
}

impl Rank {
    /// The 25th percentile.
    pub const P25: Self = Self { per_myriad: 2500, needs: 1 };
    /// The median.
    pub const P50: Self = Self { per_myriad: 5000, needs: 1 };
    /// The 75th percentile.
    pub const P75: Self = Self { per_myriad: 7500, needs: 1 };
    /// The 95th percentile.
    pub const P95: Self = Self { per_myriad: 9500, needs: 60 };
    /// The 99th percentile. From 300 samples on, at least three lie beyond it.
    pub const P99: Self = Self { per_myriad: 9900, needs: 300 };
    /// The 99.9th percentile. From 3 000 samples on, at least three lie beyond it.
    pub const P999: Self = Self { per_myriad: 9990, needs: 3000 };
    /// The 99.99th percentile. From 30 000 samples on, at least three lie beyond it.
    pub const P9999: Self = Self { per_myriad: 9999, needs: 30_000 };

    /// Returns the position of the percentile among `n` sorted samples, by the nearest-rank rule:
    /// the smallest value that at least this share of the samples does not exceed. It is always a
    /// sample that occurred; `None` without samples.
    #[must_use]
    pub fn index(self, n: u64) -> Option<u64> {
        let rank =
            (u128::from(n) * u128::from(self.per_myriad.min(10_000))).div_ceil(10_000).max(1);
        (n > 0).then(|| rank as u64 - 1)
    }

    /// Returns the percentile of sorted samples; `None` without samples.
    pub(crate) fn of<T>(self, sorted: &[T]) -> Option<&T> {
        sorted.get(self.index(sorted.len() as u64)? as usize)
    }
}

/// Percentiles of one quantity in microseconds (nearest rank).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Number of samples.
    pub n: usize,
    /// Smallest sample; may be negative because of the clock error between hosts.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile; see [`Quantiles::p99_n_too_small`].
    pub p99: f64,
    /// Largest sample.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// True if `n` is less than [`Rank::P99`] needs, so that `p99` adds little to `max`.
    pub p99_n_too_small: bool,
    /// True if the percentiles come from a histogram, because there were too many samples to keep:
    /// at most [`crate::HISTOGRAM_ERROR_PERCENT`] off. Otherwise they are exact.
    pub histogram: bool,
}

impl Quantiles {
    /// Returns the percentiles of samples in nanoseconds, in any order. Sorts in place. All figures
    /// are 0 without samples.
    #[must_use]
    pub fn of_ns<T: Copy + Ord + Into<i128>>(samples: &mut [T]) -> Self {
        samples.sort_unstable();
        let n = samples.len();
        let at = |rank: Rank| rank.of(samples).map_or(0.0, |&s| us(s));
        let sum: i128 = samples.iter().map(|&s| s.into()).sum();
        Self {
            n,
            min: samples.first().map_or(0.0, |&s| us(s)),
            p50: at(Rank::P50),
            p95: at(Rank::P95),
            p99: at(Rank::P99),
            max: samples.last().map_or(0.0, |&s| us(s)),
            mean: if n == 0 { 0.0 } else { round_us(sum as f64 / n as f64 / 1e3) },
            p99_n_too_small: (n as u64) < Rank::P99.needs,
            histogram: false,
        }
    }
}

/// Converts nanoseconds to microseconds.
pub(crate) fn us(ns: impl Into<i128>) -> f64 {
    ns.into() as f64 / 1e3
}

/// Rounds to whole nanoseconds, so that no file shows digits that were not measured.
pub(crate) fn round_us(us: f64) -> f64 {
    (us * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        let mut samples: Vec<u64> = (1..=1000).map(|i| i * 1000).collect();
        samples.reverse();
        let q = Quantiles::of_ns(&mut samples);
        assert_eq!(
            (q.n, q.p50, q.p95, q.p99, q.max, q.mean),
            (1000, 500.0, 950.0, 990.0, 1000.0, 500.5)
        );
        assert!(!q.p99_n_too_small);
    }

    #[test]
    fn few_samples_are_flagged_and_none_is_no_crash() {
        assert_eq!(
            Quantiles::of_ns::<u64>(&mut []),
            Quantiles { p99_n_too_small: true, ..Quantiles::default() }
        );
        let q = Quantiles::of_ns(&mut [7_000_i64]);
        assert_eq!((q.n, q.p50, q.p99, q.max), (1, 7.0, 7.0, 7.0));
        assert!(Quantiles::of_ns(&mut vec![1_u64; 299]).p99_n_too_small);
        assert!(!Quantiles::of_ns(&mut vec![1_u64; 300]).p99_n_too_small);
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        let q = Quantiles::of_ns(&mut [u64::MAX; 3]);
        assert_eq!(q.p50, u64::MAX as f64 / 1e3);
        assert!(q.mean.is_finite());
    }

    proptest! {
        /// Checks the definition itself, by counting.
        #[test]
        fn a_percentile_is_the_smallest_sample_that_enough_do_not_exceed(
            mut samples in prop::collection::vec(0u64..10_000, 1..400), per_myriad in 1u64..=10_000,
        ) {
            samples.sort_unstable();
            let value = *Rank { per_myriad, needs: 1 }.of(&samples).unwrap();
            let not_above = |v| samples.iter().filter(|&&s| s <= v).count() as u64 * 10_000;
            prop_assert!(not_above(value) >= per_myriad * samples.len() as u64);
            if let Some(&smaller) = samples.iter().rev().find(|&&s| s < value) {
                prop_assert!(not_above(smaller) < per_myriad * samples.len() as u64);
            }
        }

        #[test]
        fn order_does_not_matter_and_percentiles_rise(
            samples in prop::collection::vec(any::<i32>(), 1..400),
        ) {
            let mut there: Vec<i64> = samples.iter().map(|&s| i64::from(s)).collect();
            let mut back: Vec<i64> = there.iter().rev().copied().collect();
            let q = Quantiles::of_ns(&mut there);
            prop_assert_eq!(q, Quantiles::of_ns(&mut back));
            prop_assert!(q.min <= q.p50 && q.p50 <= q.p95 && q.p95 <= q.p99 && q.p99 <= q.max);
            prop_assert_eq!(q.min, us(there[0]));
            prop_assert!(q.min <= q.mean + 1e-3 && q.mean <= q.max + 1e-3);
            prop_assert_eq!(q.max, us(*there.last().unwrap()));
        }
    }
}
