// SPDX-License-Identifier: Apache-2.0
//! Confidence intervals of ratios.
//!
//! Samples of one run are not independent: a run shares its memory layout, its processor frequency
//! and the other load of the machine. So whole runs are resampled, not samples (the percentile
//! bootstrap of Efron, 1979, over clusters). System and baseline are measured in every round, so a
//! round is drawn for both at once, and drift between rounds cancels out.
//!
//! With few rounds the plain percentile bootstrap is too narrow: with five, its 95 % interval
//! covers 85 %. So an interval includes more than 95 % of the resampled values, as many as
//! Student's t requires (the expanded percentile interval of Hesterberg, "What Teachers Should Know
//! About the Bootstrap", 2015). With five rounds it covers 92 %.

use super::Rank;
use super::goodput::{Goodput, NEEDS};
use super::percentile::Runs;
use super::random::Random;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;

/// Number of draws.
const RESAMPLES: usize = 2000;

/// Minimum number of rounds for a reliable interval.
pub const ENOUGH_ROUNDS: usize = 5;

/// Share of resampled values beyond each end of a 95 % interval, for 5 to 20 rounds: Φ(−t √(n ÷ (n
/// − 1))), with the 97.5 % quantile t of Student's distribution with n − 1 degrees of freedom.
const TAILS: [f64; 16] = [
    0.00095, 0.00243, 0.00411, 0.00574, 0.00722, 0.00855, 0.00972, 0.01076, 0.01167, 0.01248,
    0.01321, 0.01386, 0.01444, 0.01497, 0.01544, 0.01588,
];
/// Number of rounds of the first of [`TAILS`].
const FIRST_TAIL: usize = ENOUGH_ROUNDS;

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Estimate from all its rounds.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Number of its rounds; for two measurements that were made at different times, the smaller
    /// number. With fewer than [`ENOUGH_ROUNDS`] the interval is not reliable; from one round it
    /// has no width.
    pub rounds: usize,
}

/// Prints `1.19 (1.06–1.53)`. The lab formats its intervals itself, with suitable digits, and with
/// the number of rounds if that is small.
impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2}–{:.2})", self.estimate, self.low, self.high)
    }
}

/// Returns the ratio of a percentile of `system` to that of `floor`, where run `i` of both was
/// measured in round `i`. It uses only rounds in which both have samples.
///
/// Returns `None` if either has too few samples in these rounds for the percentile, or if the
/// percentile of the floor is zero.
#[must_use]
pub fn ratio_interval(system: &Runs, floor: &Runs, rank: Rank, seed: u64) -> Option<Interval> {
    let rounds = both(system, floor);
    if system.samples_of(&rounds) < rank.needs || floor.samples_of(&rounds) < rank.needs {
        return None;
    }
    paired(rounds, |drawn| ratio(at(system, rank, drawn), at(floor, rank, drawn)), seed)
}

/// Returns the ratio of two goodputs, computed as in [`ratio_interval`]. Above 1, `system` carries
/// more.
#[must_use]
pub fn goodput_interval(system: Goodput<'_>, floor: Goodput<'_>, seed: u64) -> Option<Interval> {
    let rounds = both(system.between_arrivals, floor.between_arrivals);
    if [system, floor].iter().any(|of| of.between_arrivals.samples_of(&rounds) < NEEDS) {
        return None;
    }
    paired(rounds, |drawn| ratio(system.of(drawn), floor.of(drawn)), seed)
}

/// Draws rounds once for both measurements.
fn paired(rounds: Vec<usize>, of: impl Fn(&[usize]) -> Option<f64>, seed: u64) -> Option<Interval> {
    let estimate = of(&rounds)?;
    let mut random = Random::new(seed);
    let mut drawn = rounds.clone();
    // Five rounds have only 126 different draws, so results are cached.
    let mut known = HashMap::<Vec<usize>, Option<f64>>::new();
    let values = (0..RESAMPLES).filter_map(|_| {
        draw(&mut random, &rounds, &mut drawn);
        drawn.sort_unstable();
        if let Some(value) = known.get(&drawn) {
            return *value;
        }
        let value = of(&drawn);
        known.insert(drawn.clone(), value);
        value
    });
    interval(estimate, values.collect(), rounds.len())
}

/// Returns the ratio for two measurements that were made at different times: the rounds of each are
/// drawn independently. Rounds without samples are left out.
#[must_use]
pub fn ratio_interval_unpaired(
    one: &Runs,
    other: &Runs,
    rank: Rank,
    seed: u64,
) -> Option<Interval> {
    if one.samples() < rank.needs || other.samples() < rank.needs {
        return None;
    }
    unpaired(
        (both(one, one), both(other, other)),
        |ones, others| ratio(at(one, rank, ones), at(other, rank, others)),
        seed,
    )
}

/// Returns the ratio of two goodputs, computed as in [`ratio_interval_unpaired`]. Above 1, `one`
/// carries more.
#[must_use]
pub fn goodput_interval_unpaired(
    one: Goodput<'_>,
    other: Goodput<'_>,
    seed: u64,
) -> Option<Interval> {
    if [one, other].iter().any(|of| of.between_arrivals.samples() < NEEDS) {
        return None;
    }
    let rounds = |of: Goodput<'_>| both(of.between_arrivals, of.between_arrivals);
    unpaired(
        (rounds(one), rounds(other)),
        |ones, others| ratio(one.of(ones), other.of(others)),
        seed,
    )
}

/// Draws the rounds of each independently.
fn unpaired(
    (of_one, of_other): (Vec<usize>, Vec<usize>),
    of: impl Fn(&[usize], &[usize]) -> Option<f64>,
    seed: u64,
) -> Option<Interval> {
    let estimate = of(&of_one, &of_other)?;
    let mut random = Random::new(seed);
    let (mut ones, mut others) = (of_one.clone(), of_other.clone());
    let values = (0..RESAMPLES).filter_map(|_| {
        draw(&mut random, &of_one, &mut ones);
        draw(&mut random, &of_other, &mut others);
        of(&ones, &others)
    });
    interval(estimate, values.collect(), of_one.len().min(of_other.len()))
}

/// Returns the interval of the ratio or difference of two measurements that were made at different
/// times. `of` computes the ratio or difference of the means of their rounds' values. Returns
/// `None` if one has no rounds, or `of` has no result for these means.
#[must_use]
pub fn mean_interval_unpaired(
    one: &[f64],
    other: &[f64],
    of: fn(f64, f64) -> Option<f64>,
    seed: u64,
) -> Option<Interval> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    if one.is_empty() || other.is_empty() {
        return None;
    }
    let estimate = of(mean(one), mean(other))?;
    let mut random = Random::new(seed);
    let mut drawn_mean = |values: &[f64]| {
        let drawn: Vec<f64> =
            values.iter().filter_map(|_| values.get(random.below(values.len())).copied()).collect();
        mean(&drawn)
    };
    let values: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let (a, b) = (drawn_mean(one), drawn_mean(other));
            of(a, b)
        })
        .collect();
    interval(estimate, values, one.len().min(other.len()))
}

/// Returns the rounds in which both have samples.
fn both(one: &Runs, other: &Runs) -> Vec<usize> {
    (0..one.count().min(other.count()))
        .filter(|i| one.samples_of(&[*i]) > 0 && other.samples_of(&[*i]) > 0)
        .collect()
}

fn at(runs: &Runs, rank: Rank, chosen: &[usize]) -> Option<f64> {
    runs.at_of(rank, chosen).map(|x| x as f64)
}

fn ratio(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    match (above, below) {
        (Some(a), Some(b)) if b > 0.0 => Some(a / b),
        _ => None,
    }
}

/// Draws as many rounds as there are, with repetition.
fn draw(random: &mut Random, rounds: &[usize], drawn: &mut [usize]) {
    for place in drawn {
        if let Some(round) = rounds.get(random.below(rounds.len())) {
            *place = *round;
        }
    }
}

fn interval(estimate: f64, mut values: Vec<f64>, rounds: usize) -> Option<Interval> {
    values.sort_unstable_by(f64::total_cmp);
    let beyond = (values.len() as f64 * tail(rounds)) as usize;
    let (low, high) = (values.get(beyond)?, values.iter().rev().nth(beyond)?);
    Some(Interval { estimate, low: *low, high: *high, rounds })
}

/// Returns the value of [`TAILS`] for this number of rounds. With fewer rounds it is 0: the
/// interval has all resampled values, and still covers too little. With more rounds it approaches
/// 2.5 %.
fn tail(rounds: usize) -> f64 {
    rounds
        .checked_sub(FIRST_TAIL)
        .map_or(0.0, |i| TAILS.get(i).copied().unwrap_or(0.025 - 0.1824 / rounds as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

    proptest! {
        // Each case resamples 2 000 times.
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_system_that_is_its_own_floor_has_ratio_one(
            runs in prop::collection::vec(prop::collection::vec(1u64..10_000, 1..40), 1..6),
            seed: u64
        ) {
            let runs = Runs::new(runs);
            let i = ratio_interval(&runs, &runs, Rank::P50, seed).unwrap();
            prop_assert_eq!((i.estimate, i.low, i.high), (1.0, 1.0, 1.0));
        }

        #[test]
        fn scaling_the_system_scales_ratio_and_interval(
            runs in prop::collection::vec(
                (
                    prop::collection::vec(1u64..10_000, 5..40),
                    prop::collection::vec(1u64..10_000, 5..40),
                ),
                2..6,
            ),
            factor in 2u64..9, seed: u64
        ) {
            let (a, b): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
            let scaled = a.iter().map(|r| r.iter().map(|x| x * factor).collect()).collect();
            let floor = Runs::new(b);
            let one = ratio_interval(&Runs::new(a), &floor, Rank::P50, seed).unwrap();
            let other = ratio_interval(&Runs::new(scaled), &floor, Rank::P50, seed).unwrap();
            let close = |x: f64, y: f64| (x - y).abs() <= 1e-9 * y;
            prop_assert!(close(other.estimate, one.estimate * factor as f64));
            prop_assert!(close(other.low, one.low * factor as f64));
            prop_assert!(close(other.high, one.high * factor as f64));
        }

        #[test]
        fn bounds_are_in_order_and_a_seed_repeats_them(
            a in prop::collection::vec(prop::collection::vec(1u64..1000, 1..30), 1..6),
            b in prop::collection::vec(prop::collection::vec(1u64..1000, 1..30), 1..6),
            seed: u64
        ) {
            let (a, b) = (Runs::new(a), Runs::new(b));
            let i = ratio_interval(&a, &b, Rank::P50, seed).unwrap();
            prop_assert!(i.low <= i.high);
            prop_assert_eq!(Some(i), ratio_interval(&a, &b, Rank::P50, seed));
        }
    }

    #[test]
    fn rounds_are_drawn_in_pairs_so_that_drift_cancels() {
        // The machine is ten times slower in every other round. The system always takes twice the
        // time of the floor.
        let floor: Vec<Vec<u64>> =
            (0..6).map(|i| vec![if i % 2 == 0 { 100 } else { 1000 }; 9]).collect();
        let system = floor.iter().map(|r| r.iter().map(|x| x * 2).collect()).collect();
        let i = ratio_interval(&Runs::new(system), &Runs::new(floor), Rank::P50, 1).unwrap();
        assert_eq!((i.estimate, i.low, i.high), (2.0, 2.0, 2.0));
    }

    #[test]
    fn only_rounds_that_both_have_count_and_are_counted() {
        // The machine is ten times slower in the last rounds. There, `system` has no valid samples.
        let round = |ns: u64| vec![ns; 300];
        let floor = Runs::new(vec![round(100), round(100), round(1000), round(1000), round(1000)]);
        let system = Runs::new(vec![round(200), round(200), vec![], vec![], vec![]]);
        for (one, other, ratio) in [(&system, &floor, 2.0), (&floor, &system, 0.5)] {
            let i = ratio_interval(one, other, Rank::P99, 1).unwrap();
            assert_eq!(i, Interval { estimate: ratio, low: ratio, high: ratio, rounds: 2 });
        }
        // Samples of other rounds do not count.
        let few = Runs::new(vec![vec![1; 299], vec![], vec![1; 300]]);
        assert_eq!(
            ratio_interval(&few, &Runs::new(vec![round(1), round(1), vec![]]), Rank::P99, 1),
            None
        );
        assert_eq!(
            ratio_interval(&few, &Runs::new(vec![vec![], round(1), vec![]]), Rank::P50, 1),
            None
        );
        assert_eq!(ratio_interval_unpaired(&few, &floor, Rank::P99, 1).unwrap().rounds, 2);
    }

    #[test]
    fn goodput_is_drawn_in_rounds_and_more_of_it_is_more_than_1() {
        // In every other round everything takes ten times as long. The system's samples are four
        // times as large, and take twice as long.
        let floor =
            Runs::new((0..6).map(|i| vec![if i % 2 == 0 { 100 } else { 1000 }; 10]).collect());
        let system =
            Runs::new((0..6).map(|i| vec![if i % 2 == 0 { 200 } else { 2000 }; 10]).collect());
        let few = Runs::new(vec![vec![100; 9]; 6]);
        let (of, nothing) =
            (|runs, size| Goodput { between_arrivals: runs, size }, Runs::new(vec![vec![]; 6]));
        let i = goodput_interval(of(&system, 40), of(&floor, 10), 1).unwrap();
        assert_eq!(i, Interval { estimate: 2.0, low: 2.0, high: 2.0, rounds: 6 });
        // Drift does not cancel out for measurements at different times.
        let i = goodput_interval_unpaired(of(&system, 40), of(&floor, 10), 1).unwrap();
        assert!(i.estimate == 2.0 && i.low < 1.0 && i.high > 4.0 && i.rounds == 6, "{i:?}");
        assert_eq!(goodput_interval(of(&system, 40), of(&nothing, 10), 1), None);
        assert_eq!(goodput_interval(of(&system, 40), of(&few, 10), 1), None);
        assert_eq!(goodput_interval_unpaired(of(&few, 40), of(&floor, 10), 1), None);
        assert_eq!(goodput_interval_unpaired(of(&system, 40), of(&floor, 0), 1), None);
    }

    #[test]
    fn tails_are_those_of_the_reference() {
        for rounds in (5..40).chain([60, 100, 300, 1000]) {
            let n = rounds as f64;
            let t = StudentsT::new(0.0, 1.0, n - 1.0).unwrap().inverse_cdf(0.975);
            let exact = Normal::standard().cdf(-t * (n / (n - 1.0)).sqrt());
            assert!(
                (tail(rounds) / exact - 1.0).abs() < 0.015,
                "{rounds}: {} instead of {exact}",
                tail(rounds)
            );
        }
    }

    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
        // Ten rounds with independent disturbance; the true ratio of medians is 2.
        let mut r = Random::new(42);
        let mut covered = 0;
        for trial in 0..200 {
            let mut make = |base: u64| {
                (0..10)
                    .map(|_| {
                        let shift = r.below(200) as u64;
                        (0..30).map(|_| base + shift + r.below(100) as u64).collect()
                    })
                    .collect()
            };
            let (system, floor): (Vec<Vec<u64>>, Vec<Vec<u64>>) =
                (make(2000 - 150), make(1000 - 150));
            let i =
                ratio_interval(&Runs::new(system), &Runs::new(floor), Rank::P50, trial).unwrap();
            covered += u32::from(i.low <= 2.0 && 2.0 <= i.high);
        }
        assert!((180..=200).contains(&covered), "covered {covered} of 200");
    }

    #[test]
    fn means_of_rounds_are_drawn_on_their_own() {
        let difference: fn(f64, f64) -> Option<f64> = |a, b| Some(a - b);
        let i = mean_interval_unpaired(&[3.0; 5], &[1.0; 5], difference, 1).unwrap();
        assert_eq!((i.estimate, i.low, i.high, i.rounds), (2.0, 2.0, 2.0, 5));
        let i = mean_interval_unpaired(&[3.0, 1.0, 2.0, 2.0, 2.0, 2.0], &[1.0; 5], difference, 1)
            .unwrap();
        assert!(i.estimate == 1.0 && i.low < 1.0 && i.high > 1.0 && i.rounds == 5, "{i:?}");
        assert_eq!(mean_interval_unpaired(&[], &[1.0], difference, 1), None);
        assert_eq!(
            mean_interval_unpaired(&[1.0], &[0.0], |a, b| (b > 0.0).then(|| a / b), 1),
            None
        );
    }

    #[test]
    fn too_few_samples_and_a_zero_floor_give_no_ratio() {
        let few = Runs::new(vec![vec![1; 299]]);
        let enough = Runs::new(vec![vec![1; 300]]);
        assert!(ratio_interval(&few, &enough, Rank::P99, 0).is_none());
        assert!(ratio_interval(&enough, &few, Rank::P99, 0).is_none());
        assert!(ratio_interval(&enough, &enough, Rank::P99, 0).is_some());
        assert!(ratio_interval(&enough, &Runs::new(vec![vec![0; 300]]), Rank::P99, 0).is_none());
    }
}
