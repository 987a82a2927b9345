// SPDX-License-Identifier: Apache-2.0
//! Exact percentiles of several runs together, without ever averaging percentiles.

use driveline_analyze::Rank;
use serde::{Deserialize, Serialize};

/// Samples of several runs, each sorted, as one collection.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    runs: Vec<Vec<u64>>,
    /// Sum of each run; the means of many choices of runs use these sums repeatedly.
    sums: Vec<u128>,
}

impl Runs {
    /// Makes the collection from the samples of each run, which may be in any order.
    #[must_use]
    pub fn new(mut runs: Vec<Vec<u64>>) -> Self {
        for run in &mut runs {
            run.sort_unstable();
        }
        let sums = runs.iter().map(|r| r.iter().map(|&x| u128::from(x)).sum()).collect();
        Self { runs, sums }
    }

    /// Returns the number of runs, including empty ones.
    #[must_use]
    pub fn count(&self) -> usize {
        self.runs.len()
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.runs.iter().map(|r| r.len() as u64).sum()
    }

    /// Returns the number of samples in a choice of runs.
    #[must_use]
    pub fn samples_of(&self, chosen: &[usize]) -> u64 {
        chosen.iter().filter_map(|&i| self.runs.get(i)).map(|r| r.len() as u64).sum()
    }

    /// Returns the percentile over all runs; `None` without samples. It does not check that there
    /// are enough.
    #[must_use]
    pub fn at(&self, rank: Rank) -> Option<u64> {
        let all: Vec<&[u64]> = self.runs.iter().map(Vec::as_slice).collect();
        select(&all, rank)
    }

    /// Returns the percentile over a choice of runs; a run may be chosen several times.
    #[must_use]
    pub fn at_of(&self, rank: Rank, chosen: &[usize]) -> Option<u64> {
        let some: Vec<&[u64]> =
            chosen.iter().filter_map(|&i| self.runs.get(i)).map(Vec::as_slice).collect();
        select(&some, rank)
    }

    /// Returns the arithmetic mean of the samples of a choice of runs; a run may be chosen several
    /// times. `None` without samples.
    #[must_use]
    pub fn mean_of(&self, chosen: &[usize]) -> Option<f64> {
        let n = self.samples_of(chosen);
        let sum: u128 = chosen.iter().filter_map(|&i| self.sums.get(i)).sum();
        (n > 0).then(|| sum as f64 / n as f64)
    }

    /// Returns the number of samples of all runs that are at most `x`.
    #[must_use]
    pub fn not_above(&self, x: u64) -> u64 {
        self.runs.iter().map(|r| r.partition_point(|&y| y <= x) as u64).sum()
    }

    /// Returns the percentile of each run; `None` for an empty one. It does not check that there
    /// are enough samples.
    #[must_use]
    pub fn each(&self, rank: Rank) -> Vec<Option<u64>> {
        self.runs.iter().map(|r| select(&[r.as_slice()], rank)).collect()
    }

    /// Returns quartiles and moments beyond the second, over all runs; `None` without samples.
    #[must_use]
    pub fn shape(&self) -> Option<Shape> {
        let n = self.samples() as f64;
        let (quarter, three_quarters) = (self.at(Rank::P25)?, self.at(Rank::P75)?);
        let mean = self.sums.iter().sum::<u128>() as f64 / n;
        let moment = |k: i32| {
            self.runs.iter().flatten().map(|&x| (x as f64 - mean).powi(k)).sum::<f64>() / n
        };
        let variance = moment(2);
        // Equal samples have no skewness and no kurtosis. Their variance can be a little above 0,
        // because the mean is rounded.
        let spread = variance > 0.0 && variance.sqrt() > 1e-12 * mean.abs();
        Some(Shape {
            p25: quarter,
            p75: three_quarters,
            skewness: spread.then(|| moment(3) / variance.powf(1.5)),
            excess_kurtosis: spread.then(|| moment(4) / variance.powi(2) - 3.0),
        })
    }

    /// Returns the percentiles of a report.
    #[must_use]
    pub fn percentiles(&self) -> Percentiles {
        let n = self.samples();
        let at = |rank: Rank| if n >= rank.needs { self.at(rank) } else { None };
        let mean = (n > 0).then(|| self.sums.iter().sum::<u128>() as f64 / n as f64);
        let squares =
            |m: f64| self.runs.iter().flatten().map(|&x| (x as f64 - m).powi(2)).sum::<f64>();
        Percentiles {
            n,
            min: self.runs.iter().filter_map(|r| r.first()).min().copied(),
            p50: at(Rank::P50),
            p95: at(Rank::P95),
            p99: at(Rank::P99),
            p999: at(Rank::P999),
            p9999: at(Rank::P9999),
            max: self.runs.iter().filter_map(|r| r.last()).max().copied(),
            mean,
            standard_deviation: mean
                .filter(|_| n > 1)
                .map(|m| (squares(m) / (n - 1) as f64).sqrt()),
        }
    }
}

/// Returns the sample at a rank of the union of sorted slices, by bisection over its value: exact,
/// and without merging.
fn select(runs: &[&[u64]], rank: Rank) -> Option<u64> {
    let n: u64 = runs.iter().map(|r| r.len() as u64).sum();
    let index = rank.index(n)?;
    let mut low = runs.iter().filter_map(|r| r.first()).min().copied()?;
    let mut high = runs.iter().filter_map(|r| r.last()).max().copied()?;
    // The search ends at the smallest value with more than `index` samples at or below it. That
    // value is itself a sample.
    while low < high {
        let middle = low + (high - low) / 2;
        let not_above: u64 = runs.iter().map(|r| r.partition_point(|&x| x <= middle) as u64).sum();
        if not_above > index {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

/// Exact percentiles in the unit of the samples. A percentile is `None` if there are too few
/// samples for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Number of samples.
    pub n: u64,
    /// Minimum.
    pub min: Option<u64>,
    /// Median.
    pub p50: Option<u64>,
    /// Needs 60 samples.
    pub p95: Option<u64>,
    /// Needs 300 samples.
    pub p99: Option<u64>,
    /// Needs 3 000 samples.
    pub p999: Option<u64>,
    /// Needs 30 000 samples.
    pub p9999: Option<u64>,
    /// Maximum.
    pub max: Option<u64>,
    /// Arithmetic mean of the samples.
    pub mean: Option<f64>,
    /// Standard deviation of the samples (with n − 1).
    pub standard_deviation: Option<f64>,
}

/// Shape of a distribution, in addition to its percentiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Lower quartile.
    pub p25: u64,
    /// Upper quartile.
    pub p75: u64,
    /// Third standardised moment of the samples (Fisher and Pearson's g₁): 0 if symmetric, positive
    /// with a tail to the right; none if all are equal.
    pub skewness: Option<f64>,
    /// Fourth standardised moment less 3 (g₂): 0 for a normal distribution, positive with heavy
    /// tails; none if all are equal.
    pub excess_kurtosis: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Rank; 5] = [Rank::P50, Rank::P95, Rank::P99, Rank::P999, Rank::P9999];

    /// The literal definition: the smallest sample that at least this share of the samples does not
    /// exceed.
    fn by_definition(samples: &[u64], rank: Rank) -> u64 {
        let share = |x: u64| samples.iter().filter(|&&y| y <= x).count() as u128 * 10_000;
        let wanted = u128::from(rank.per_myriad) * samples.len() as u128;
        samples.iter().copied().filter(|&x| share(x) >= wanted).min().unwrap()
    }

    proptest! {
        #[test]
        fn percentiles_are_what_their_definition_says(
            runs in prop::collection::vec(
                prop::collection::vec(prop_oneof![0u64..20, any::<u64>()], 0..60),
                1..6,
            )
        ) {
            let all: Vec<u64> = runs.iter().flatten().copied().collect();
            let made = Runs::new(runs.clone());
            prop_assert_eq!(made.samples(), all.len() as u64);
            for rank in ALL {
                let expected = (!all.is_empty()).then(|| by_definition(&all, rank));
                prop_assert_eq!(made.at(rank), expected);
            }
            // Splitting into runs, and the order of samples, change nothing.
            let mut turned = all.clone();
            turned.reverse();
            prop_assert_eq!(made.percentiles().p50, Runs::new(vec![turned]).percentiles().p50);
        }

        #[test]
        fn a_run_chosen_twice_counts_twice(
            a in prop::collection::vec(0u64..1000, 1..40),
            b in prop::collection::vec(0u64..1000, 1..40)
        ) {
            let both = Runs::new(vec![a.clone(), b.clone()]);
            let spelled_out = Runs::new(vec![a.clone(), a, b]);
            for rank in ALL {
                prop_assert_eq!(both.at_of(rank, &[0, 0, 1]), spelled_out.at(rank));
            }
            prop_assert_eq!(both.mean_of(&[0, 0, 1]), spelled_out.percentiles().mean);
        }

        #[test]
        fn mean_and_deviation_agree_with_two_plain_passes(
            samples in prop::collection::vec(0u64..1_000_000, 2..200)
        ) {
            let p = Runs::new(vec![samples.clone()]).percentiles();
            let mean = samples.iter().map(|&x| x as f64).sum::<f64>() / samples.len() as f64;
            let squares = samples.iter().map(|&x| (x as f64 - mean).powi(2)).sum::<f64>();
            let deviation = (squares / (samples.len() - 1) as f64).sqrt();
            prop_assert!((p.mean.unwrap() - mean).abs() < 1e-6 * (1.0 + mean));
            let difference = (p.standard_deviation.unwrap() - deviation).abs();
            prop_assert!(difference < 1e-6 * (1.0 + deviation));
        }
    }

    #[test]
    fn a_percentile_is_withheld_when_there_are_too_few_samples() {
        let of = |n: u64| Runs::new(vec![(1..=n).collect()]).percentiles();
        assert_eq!((of(299).p99, of(300).p99), (None, Some(297)));
        assert_eq!((of(2999).p999, of(3000).p999), (None, Some(2997)));
        assert_eq!((of(29_999).p9999, of(30_000).p9999), (None, Some(29_997)));
        assert_eq!(of(0), Percentiles::default());
        assert_eq!((of(1).p50, of(1).max, of(1).standard_deviation), (Some(1), Some(1), None));
    }
}
