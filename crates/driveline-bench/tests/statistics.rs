// SPDX-License-Identifier: Apache-2.0
//! Our statistics beside those of a reference library, and intervals beside distributions that are known.
//!
//! Percentiles here follow the nearest-rank rule (definition 1 of Hyndman and Fan, 1996): the smallest sample that at least this
//! share of the samples does not exceed. The reference library interpolates (definition 8); both agree to the neighbouring sample.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use driveline_bench::stats::{Random, Rank, Runs, ratio_interval, ratio_interval_unpaired};
use proptest::prelude::*;
use statrs::distribution::{ContinuousCDF, Exp, Gamma, LogNormal, Normal};
use statrs::statistics::{Data, Distribution, Max, Min, OrderStatistics, Statistics};

const RANKS: [Rank; 7] = [Rank::P25, Rank::P50, Rank::P75, Rank::P95, Rank::P99, Rank::P999, Rank::P9999];

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

proptest! {
    #[test]
    fn mean_deviation_and_extremes_are_those_of_the_reference(samples in prop::collection::vec(0u64..10_000_000_000, 2..400), cut in 0usize..400) {
        let cut = cut.min(samples.len());
        let ours = Runs::new(vec![samples[..cut].to_vec(), samples[cut..].to_vec()]).percentiles();
        let real: Vec<f64> = samples.iter().map(|&x| x as f64).collect();
        prop_assert!(close(ours.mean.unwrap(), (&real).mean()), "{:?} {}", ours.mean, (&real).mean());
        prop_assert!(close(ours.standard_deviation.unwrap(), (&real).std_dev()), "{:?} {}", ours.standard_deviation, (&real).std_dev());
        let data = Data::new(real);
        prop_assert_eq!((ours.min.unwrap() as f64, ours.max.unwrap() as f64), (data.min(), data.max()));
    }

    #[test]
    fn a_percentile_is_the_order_statistic_of_its_rank(samples in prop::collection::vec(0u64..10_000_000_000, 1..400)) {
        let ours = Runs::new(vec![samples.clone()]);
        let n = samples.len() as u64;
        let mut data = Data::new(samples.iter().map(|&x| x as f64).collect::<Vec<_>>());
        for rank in RANKS {
            let place = (n * rank.per_myriad).div_ceil(10_000) as usize;
            let own = ours.at(rank).unwrap() as f64;
            prop_assert_eq!(own, data.order_statistic(place));
            // An interpolated one lies between the neighbours.
            let interpolated = data.quantile(rank.per_myriad as f64 / 10_000.0);
            let (below, above) = (data.order_statistic((place - 1).max(1)), data.order_statistic((place + 1).min(n as usize)));
            prop_assert!(below <= interpolated && interpolated <= above, "{below} {interpolated} {above}");
        }
    }
}

/// A number between 0 and 1, neither included.
fn uniform(random: &mut Random) -> f64 {
    (random.below(1 << 30) as f64 + 0.5) / f64::from(1 << 30)
}

/// The distribution itself, as nearly as so many samples can be: its quantiles at even distances.
fn grid<D: ContinuousCDF<f64, f64>>(d: &D, n: u32, scale: f64) -> Runs {
    Runs::new(vec![(0..n).map(|i| (d.inverse_cdf((f64::from(i) + 0.5) / f64::from(n)) * scale) as u64).collect()])
}

#[test]
fn skewness_and_kurtosis_are_those_of_known_distributions() {
    let of = |r: Runs| r.shape().map(|s| (s.skewness.unwrap(), s.excess_kurtosis.unwrap())).unwrap();
    let near = |a: f64, b: f64, tolerance: f64| assert!((a - b).abs() < tolerance, "{a} instead of {b}");
    let normal = Normal::new(10.0, 1.0).unwrap();
    let (skewness, kurtosis) = of(grid(&normal, 20_000, 1e6));
    near(skewness, normal.skewness().unwrap(), 1e-3);
    near(kurtosis, 0.0, 0.01);
    let exponential = Exp::new(1.0).unwrap();
    let (skewness, kurtosis) = of(grid(&exponential, 100_000, 1e6));
    near(skewness, exponential.skewness().unwrap(), 0.02);
    // Its fourth moment lies far out; 6 in the limit.
    near(kurtosis, 6.0, 0.2);
    let gamma = Gamma::new(4.0, 1.0).unwrap();
    let (skewness, kurtosis) = of(grid(&gamma, 20_000, 1e6));
    near(skewness, gamma.skewness().unwrap(), 0.01);
    near(kurtosis, 6.0 / 4.0, 0.05);
}

#[test]
fn of_equal_samples_there_is_no_skewness() {
    let shape = Runs::new(vec![vec![123_456_789; 7]]).shape().unwrap();
    assert_eq!((shape.skewness, shape.excess_kurtosis, shape.p25), (None, None, 123_456_789));
    assert_eq!(Runs::new(vec![vec![], vec![]]).shape(), None);
}

#[test]
fn quartiles_are_those_of_known_distributions() {
    for (shape, scale) in [(0.2, 1e5), (1.0, 1e4)] {
        let d = LogNormal::new(0.0, shape).unwrap();
        let runs = grid(&d, 10_001, scale);
        let s = runs.shape().unwrap();
        for (ours, q) in [(s.p25, 0.25), (runs.at(Rank::P50).unwrap(), 0.5), (s.p75, 0.75)] {
            let exact = d.inverse_cdf(q) * scale;
            assert!((ours as f64 / exact - 1.0).abs() < 0.001, "{ours} instead of {exact}");
        }
    }
}

/// Rounds of log-normal samples, each round off by a log-normal factor of its own.
fn rounds(random: &mut Random, count: usize, median: f64) -> Runs {
    let (within, between) = (LogNormal::new(0.0, 0.3).unwrap(), LogNormal::new(0.0, 0.05).unwrap());
    let round = |random: &mut Random| {
        let off = between.inverse_cdf(uniform(random));
        (0..25).map(|_| (median * off * within.inverse_cdf(uniform(random))) as u64).collect()
    };
    Runs::new((0..count).map(|_| round(random)).collect())
}

/// How many of 60 intervals contain the truth, 2.
fn covered(count: usize, unpaired: bool) -> u32 {
    let mut random = Random::new(2026);
    (0..60)
        .map(|trial| {
            let (one, other) = (rounds(&mut random, count, 200_000.0), rounds(&mut random, count, 100_000.0));
            let interval = if unpaired { ratio_interval_unpaired } else { ratio_interval };
            let i = interval(&one, &other, Rank::P50, trial).unwrap();
            u32::from(i.low <= 2.0 && 2.0 <= i.high)
        })
        .sum()
}

#[test]
fn intervals_cover_the_truth_about_as_often_as_they_say() {
    // 95 % of 60 are 57. With five rounds 55 are expected; plain percentiles, which are too narrow, would cover 51.
    for (count, unpaired, least) in [(12, false, 51), (12, true, 51), (5, false, 51), (5, true, 51)] {
        let n = covered(count, unpaired);
        assert!((least..=60).contains(&n), "{count} rounds, unpaired: {unpaired}: {n} of 60");
    }
}
