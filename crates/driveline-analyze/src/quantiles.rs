// SPDX-License-Identifier: Apache-2.0
//! Exact percentiles of raw samples.

use serde::Serialize;

/// Fewer samples than this leave the 99th percentile to three or fewer of them: too few to rely on.
pub const ENOUGH_FOR_P99: usize = 300;

/// Index of the percentile `permille`/1000 in `n` sorted samples, by the nearest-rank rule: the smallest sample that at
/// least that share of all samples does not exceed. Always a sample that occurred; `None` without samples.
#[must_use]
pub fn nearest_rank(n: usize, permille: usize) -> Option<usize> {
    let rank = (n * permille.min(1000)).div_ceil(1000).max(1);
    (n > 0).then(|| rank - 1)
}

/// Percentiles of one quantity in microseconds, exact (nearest rank).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Number of samples.
    pub n: usize,
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
    /// Whether `n` is below [`ENOUGH_FOR_P99`], so that `p99` says little more than `max`.
    pub p99_n_too_small: bool,
}

impl Quantiles {
    /// Of samples in nanoseconds, in any order. Sorts in place. All figures are 0 without samples.
    #[must_use]
    pub fn of_ns(samples: &mut [u64]) -> Self {
        samples.sort_unstable();
        let n = samples.len();
        let at = |permille| nearest_rank(n, permille).map_or(0.0, |i| us(samples[i]));
        let sum: u128 = samples.iter().map(|&s| u128::from(s)).sum();
        Self {
            n,
            p50: at(500),
            p95: at(950),
            p99: at(990),
            max: at(1000),
            mean: if n == 0 { 0.0 } else { round_us(sum as f64 / n as f64 / 1e3) },
            p99_n_too_small: n < ENOUGH_FOR_P99,
        }
    }
}

/// Nanoseconds as microseconds.
pub(crate) fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// To whole nanoseconds, so that no file shows digits that were never measured.
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
        assert_eq!((q.n, q.p50, q.p95, q.p99, q.max, q.mean), (1000, 500.0, 950.0, 990.0, 1000.0, 500.5));
        assert!(!q.p99_n_too_small);
    }

    #[test]
    fn few_samples_are_flagged_and_none_is_no_crash() {
        assert_eq!(Quantiles::of_ns(&mut []), Quantiles { p99_n_too_small: true, ..Quantiles::default() });
        let q = Quantiles::of_ns(&mut [7_000]);
        assert_eq!((q.n, q.p50, q.p99, q.max), (1, 7.0, 7.0, 7.0));
        assert!(Quantiles::of_ns(&mut vec![1; ENOUGH_FOR_P99 - 1]).p99_n_too_small);
        assert!(!Quantiles::of_ns(&mut vec![1; ENOUGH_FOR_P99]).p99_n_too_small);
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        let q = Quantiles::of_ns(&mut [u64::MAX; 3]);
        assert_eq!(q.p50, u64::MAX as f64 / 1e3);
        assert!(q.mean.is_finite());
    }

    proptest! {
        /// The definition itself, checked by counting.
        #[test]
        fn a_percentile_is_the_smallest_sample_that_enough_do_not_exceed(
            mut samples in prop::collection::vec(0u64..10_000, 1..400), permille in 1usize..=1000,
        ) {
            samples.sort_unstable();
            let value = samples[nearest_rank(samples.len(), permille).unwrap()];
            let not_above = |v| samples.iter().filter(|&&s| s <= v).count() * 1000;
            prop_assert!(not_above(value) >= permille * samples.len());
            if let Some(&smaller) = samples.iter().rev().find(|&&s| s < value) {
                prop_assert!(not_above(smaller) < permille * samples.len());
            }
        }

        #[test]
        fn order_does_not_matter_and_percentiles_rise(samples in prop::collection::vec(any::<u32>(), 1..400)) {
            let mut there: Vec<u64> = samples.iter().map(|&s| u64::from(s)).collect();
            let mut back: Vec<u64> = there.iter().rev().copied().collect();
            let q = Quantiles::of_ns(&mut there);
            prop_assert_eq!(q, Quantiles::of_ns(&mut back));
            prop_assert!(q.p50 <= q.p95 && q.p95 <= q.p99 && q.p99 <= q.max);
            prop_assert!(us(there[0]) <= q.mean + 1e-3 && q.mean <= q.max + 1e-3);
            prop_assert_eq!(q.max, us(*there.last().unwrap()));
        }
    }
}
