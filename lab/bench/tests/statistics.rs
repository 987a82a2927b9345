// SPDX-License-Identifier: Apache-2.0
//! Our statistics compared with those of a reference library, and intervals compared with known
//! distributions.
//!
//! Percentiles here follow the nearest-rank rule (definition 1 of Hyndman and Fan, 1996): the
//! smallest sample that at least this share of the samples does not exceed. The reference library
//! interpolates (definition 8); both agree to the neighbouring sample.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use driveline_bench::stats::{Random, Rank, Runs, ratio_interval, ratio_interval_unpaired};
use proptest::prelude::*;
use statrs::distribution::{ContinuousCDF, Exp, Gamma, LogNormal, Normal};
use statrs::statistics::{Data, Distribution, Max, Min, OrderStatistics, Statistics};

const RANKS: [Rank; 7] =
    [Rank::P25, Rank::P50, Rank::P75, Rank::P95, Rank::P99, Rank::P999, Rank::P9999];

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

proptest! {
    #[test]
    fn mean_deviation_and_extremes_are_those_of_the_reference(
        samples in prop::collection::vec(0u64..10_000_000_000, 2..400),
        cut in 0usize..400
    ) {
        let cut = cut.min(samples.len());
        let ours = Runs::new(vec![samples[..cut].to_vec(), samples[cut..].to_vec()]).percentiles();
        let real: Vec<f64> = samples.iter().map(|&x| x as f64).collect();
        let (mean, deviation) = ((&real).mean(), (&real).std_dev());
        prop_assert!(close(ours.mean.unwrap(), mean), "{:?} {mean}", ours.mean);
        let own = ours.standard_deviation.unwrap();
        prop_assert!(close(own, deviation), "{own} {deviation}");
        let data = Data::new(real);
        prop_assert_eq!(ours.min.unwrap() as f64, data.min());
        prop_assert_eq!(ours.max.unwrap() as f64, data.max());
    }

    #[test]
    fn a_percentile_is_the_order_statistic_of_its_rank(
        samples in prop::collection::vec(0u64..10_000_000_000, 1..400)
    ) {
        let ours = Runs::new(vec![samples.clone()]);
        let n = samples.len() as u64;
        let mut data = Data::new(samples.iter().map(|&x| x as f64).collect::<Vec<_>>());
        for rank in RANKS {
            let place = (n * rank.per_myriad).div_ceil(10_000) as usize;
            let own = ours.at(rank).unwrap() as f64;
            prop_assert_eq!(own, data.order_statistic(place));
            // An interpolated percentile lies between the neighbours.
            let interpolated = data.quantile(rank.per_myriad as f64 / 10_000.0);
            let below = data.order_statistic((place - 1).max(1));
            let above = data.order_statistic((place + 1).min(n as usize));
            prop_assert!(below <= interpolated && interpolated <= above, "{below} {interpolated} \
                 {above}");
        }
    }
}

/// Computes skewness and excess kurtosis by their definition. The central moments are exact,
/// because they are computed from the integers n·x − Σx.
fn by_definition(samples: &[u64]) -> Option<(f64, f64)> {
    let n = samples.len() as i128;
    let sum: i128 = samples.iter().map(|&x| i128::from(x)).sum();
    let moment = |k: u32| {
        samples.iter().map(|&x| (n * i128::from(x) - sum).pow(k)).sum::<i128>() as f64 / n as f64
    };
    let variance = moment(2);
    (variance > 0.0).then(|| (moment(3) / variance.powf(1.5), moment(4) / variance.powi(2) - 3.0))
}

fn shape(samples: &[u64], cut: usize) -> Option<(f64, f64)> {
    let (one, other) = samples.split_at(cut.min(samples.len()));
    let shape = Runs::new(vec![one.to_vec(), other.to_vec()]).shape().unwrap();
    shape.skewness.zip(shape.excess_kurtosis)
}

/// Generates samples, also many equal ones with few others, for which the moments are large.
fn samples() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![3 => 0u64..1_000_000, 2 => 0u64..4], 1..300)
}

proptest! {
    #[test]
    fn skewness_and_kurtosis_are_the_standardised_central_moments(
        samples in samples(),
        offset in 0u64..1_000_000,
        cut in 0usize..300
    ) {
        let samples: Vec<u64> = samples.into_iter().map(|x| x + offset).collect();
        let (ours, exact) = (shape(&samples, cut), by_definition(&samples));
        prop_assert_eq!(ours.is_some(), exact.is_some());
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (1.0 + b.abs());
        if let Some((ours, exact)) = ours.zip(exact) {
            prop_assert!(near(ours.0, exact.0) && near(ours.1, exact.1), "{ours:?} {exact:?}");
        }
    }

    #[test]
    fn a_mirror_turns_skewness_round_and_neither_place_nor_scale_change_either(
        samples in samples(),
        scale in 1u64..50,
        offset in 0u64..1_000_000
    ) {
        let n = samples.len() as f64;
        let of = |f: &dyn Fn(u64) -> u64| {
            let changed: Vec<u64> = samples.iter().map(|x| f(*x)).collect();
            shape(&changed, 0)
        };
        if let Some((skewness, kurtosis)) = of(&|x| x) {
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (1.0 + b.abs());
            let mirrored = of(&|x| 1_000_000 - x).unwrap();
            prop_assert!(near(mirrored.0, -skewness) && near(mirrored.1, kurtosis), "{mirrored:?} \
                 {skewness} {kurtosis}");
            let moved = of(&|x| scale * x + offset).unwrap();
            prop_assert!(near(moved.0, skewness) && near(moved.1, kurtosis), "{moved:?} {skewness} \
                 {kurtosis}");
            // Bounds for every distribution (Pearson), and for n samples (Wilkins).
            prop_assert!(kurtosis + 3.0 >= skewness * skewness + 1.0 - 1e-6);
            prop_assert!(skewness.abs() <= n.sqrt());
        }
    }
}

/// A number between 0 and 1, neither included.
fn uniform(random: &mut Random) -> f64 {
    (random.below(1 << 30) as f64 + 0.5) / f64::from(1 << 30)
}

/// Approximates the distribution with this many samples: its quantiles at even distances.
fn grid<D: ContinuousCDF<f64, f64>>(d: &D, n: u32, scale: f64) -> Runs {
    Runs::new(vec![
        (0..n)
            .map(|i| (d.inverse_cdf((f64::from(i) + 0.5) / f64::from(n)) * scale) as u64)
            .collect(),
    ])
}

#[test]
fn skewness_and_kurtosis_are_those_of_known_distributions() {
    let of =
        |r: Runs| r.shape().map(|s| (s.skewness.unwrap(), s.excess_kurtosis.unwrap())).unwrap();
    let near =
        |a: f64, b: f64, tolerance: f64| assert!((a - b).abs() < tolerance, "{a} instead of {b}");
    let normal = Normal::new(10.0, 1.0).unwrap();
    let (skewness, kurtosis) = of(grid(&normal, 20_000, 1e6));
    near(skewness, normal.skewness().unwrap(), 1e-3);
    near(kurtosis, 0.0, 0.01);
    let exponential = Exp::new(1.0).unwrap();
    let (skewness, kurtosis) = of(grid(&exponential, 100_000, 1e6));
    near(skewness, exponential.skewness().unwrap(), 0.02);
    // The fourth moment depends on the far tail; the excess kurtosis is 6 in the limit.
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

/// Rounds of log-normal samples, each round with its own log-normal factor.
fn rounds(random: &mut Random, count: usize, median: f64) -> Runs {
    let (within, between) = (LogNormal::new(0.0, 0.3).unwrap(), LogNormal::new(0.0, 0.05).unwrap());
    let round = |random: &mut Random| {
        let off = between.inverse_cdf(uniform(random));
        (0..25).map(|_| (median * off * within.inverse_cdf(uniform(random))) as u64).collect()
    };
    Runs::new((0..count).map(|_| round(random)).collect())
}

/// The plain percentile bootstrap of Efron, without the correction for few rounds.
fn plain_interval(one: &Runs, other: &Runs, unpaired: bool, random: &mut Random) -> (f64, f64) {
    let n = one.count();
    let mut draw = || (0..n).map(|_| random.below(n)).collect::<Vec<_>>();
    let median = |runs: &Runs, drawn: &[usize]| runs.at_of(Rank::P50, drawn).unwrap() as f64;
    let mut ratios: Vec<f64> = (0..500)
        .map(|_| {
            let drawn = draw();
            median(one, &drawn)
                / if unpaired { median(other, &draw()) } else { median(other, &drawn) }
        })
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let beyond = (ratios.len() as f64 * 0.025) as usize;
    (ratios[beyond], ratios[ratios.len() - 1 - beyond])
}

/// Counts the intervals that contain the true value, 2: first our intervals, then the plain
/// intervals of the same rounds.
fn covered(trials: u64, count: usize, unpaired: bool) -> [u64; 2] {
    let (mut random, mut plain) = (Random::new(2026), Random::new(1979));
    let mut covered = [0; 2];
    for trial in 0..trials {
        let (one, other) =
            (rounds(&mut random, count, 200_000.0), rounds(&mut random, count, 100_000.0));
        let interval = if unpaired { ratio_interval_unpaired } else { ratio_interval };
        let i = interval(&one, &other, Rank::P50, trial).unwrap();
        let (low, high) = plain_interval(&one, &other, unpaired, &mut plain);
        for (covered, (low, high)) in covered.iter_mut().zip([(i.low, i.high), (low, high)]) {
            *covered += u64::from(low <= 2.0 && 2.0 <= high);
        }
    }
    covered
}

#[test]
fn intervals_cover_the_truth_about_as_often_as_they_say() {
    // The seed is fixed, so the counts are exact; a margin of one allows for other results of a C
    // library's logarithm. The intervals promise 95 %. With five rounds they cover 92 %; plain
    // percentiles are too narrow and cover 85 %.
    for (trials, count, unpaired, least) in
        [(60, 12, false, 55), (60, 12, true, 57), (200, 5, false, 186), (200, 5, true, 191)]
    {
        let [ours, plain] = covered(trials, count, unpaired);
        println!(
            "{count} rounds, unpaired {unpaired}: {ours} of {trials}, plain percentiles {plain}"
        );
        assert!(ours >= least, "{count} rounds, unpaired: {unpaired}: {ours} of {trials}");
        assert!(
            ours >= plain,
            "{count} rounds, unpaired: {unpaired}: plain percentiles cover {plain} of {trials}, \
             these {ours}"
        );
        // Shows that the correction has an effect.
        assert!(
            count > 5 || (plain < least && ours >= plain + trials / 50),
            "of {trials}, plain percentiles cover {plain} and these {ours}"
        );
    }
}
