// SPDX-License-Identifier: Apache-2.0
//! How sure a ratio is.
//!
//! Samples of one run are anything but independent: a run shares its memory layout, its processor frequency and whatever
//! else the machine did meanwhile. So whole runs are resampled, not samples (the percentile bootstrap of Efron, 1979,
//! over clusters). System and floor are measured side by side in every round, so a round is drawn for both at once, and
//! what drifts between rounds cancels out.

use super::percentile::{Rank, Runs};
use super::random::Random;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// How many times rounds are drawn.
pub const RESAMPLES: usize = 2000;

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// From all runs.
    pub estimate: f64,
    /// 2.5 % of the resampled values lie below.
    pub low: f64,
    /// 2.5 % of the resampled values lie above.
    pub high: f64,
    /// Number of rounds it rests on; with fewer than five the interval is not to be trusted, with one it is none.
    pub rounds: usize,
}

/// The ratio of a percentile of `system` to that of `floor`, where run `i` of both was measured in round `i`.
///
/// `None` if either has too few samples for the percentile, or the floor's is zero.
#[must_use]
pub fn ratio_interval(system: &Runs, floor: &Runs, rank: Rank, seed: u64) -> Option<Interval> {
    if system.samples() < rank.needs || floor.samples() < rank.needs {
        return None;
    }
    let estimate = ratio(system.at(rank), floor.at(rank))?;
    let rounds = system.count().min(floor.count());
    let mut random = Random::new(seed);
    let mut drawn = vec![0; rounds];
    // Of five rounds there are only 126 different draws.
    let mut known = HashMap::<Vec<usize>, Option<f64>>::new();
    let values = (0..RESAMPLES).filter_map(|_| {
        draw(&mut random, &mut drawn);
        drawn.sort_unstable();
        if let Some(value) = known.get(&drawn) {
            return *value;
        }
        // A draw may hit only runs that failed; it says nothing then.
        let value = ratio(system.at_of(rank, &drawn), floor.at_of(rank, &drawn));
        known.insert(drawn.clone(), value);
        value
    });
    interval(estimate, values.collect(), rounds)
}

/// Likewise, of two measurements that were not made side by side: the rounds of each are drawn on their own.
#[must_use]
pub fn ratio_interval_apart(one: &Runs, other: &Runs, rank: Rank, seed: u64) -> Option<Interval> {
    if one.samples() < rank.needs || other.samples() < rank.needs {
        return None;
    }
    let estimate = ratio(one.at(rank), other.at(rank))?;
    let mut random = Random::new(seed);
    let (mut ones, mut others) = (vec![0; one.count()], vec![0; other.count()]);
    let values = (0..RESAMPLES).filter_map(|_| {
        draw(&mut random, &mut ones);
        draw(&mut random, &mut others);
        ratio(one.at_of(rank, &ones), other.at_of(rank, &others))
    });
    interval(estimate, values.collect(), one.count().min(other.count()))
}

fn ratio(above: Option<u64>, below: Option<u64>) -> Option<f64> {
    match (above, below) {
        (Some(a), Some(b)) if b > 0 => Some(a as f64 / b as f64),
        _ => None,
    }
}

fn draw(random: &mut Random, places: &mut [usize]) {
    let rounds = places.len();
    for place in places {
        *place = random.below(rounds);
    }
}

fn interval(estimate: f64, mut values: Vec<f64>, rounds: usize) -> Option<Interval> {
    values.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| values.get(((values.len() as f64 * share) as usize).min(values.len().saturating_sub(1))).copied();
    Some(Interval { estimate, low: at(0.025)?, high: at(0.975)?, rounds })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // Each case resamples 2 000 times.
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_system_that_is_its_own_floor_has_ratio_one(runs in prop::collection::vec(prop::collection::vec(1u64..10_000, 1..40), 1..6), seed: u64) {
            let runs = Runs::new(runs);
            let i = ratio_interval(&runs, &runs, Rank::P50, seed).unwrap();
            prop_assert_eq!((i.estimate, i.low, i.high), (1.0, 1.0, 1.0));
        }

        #[test]
        fn scaling_the_system_scales_ratio_and_interval(
            runs in prop::collection::vec((prop::collection::vec(1u64..10_000, 5..40), prop::collection::vec(1u64..10_000, 5..40)), 2..6),
            factor in 2u64..9, seed: u64
        ) {
            let (a, b): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
            let scaled = a.iter().map(|r| r.iter().map(|x| x * factor).collect()).collect();
            let floor = Runs::new(b);
            let one = ratio_interval(&Runs::new(a), &floor, Rank::P50, seed).unwrap();
            let other = ratio_interval(&Runs::new(scaled), &floor, Rank::P50, seed).unwrap();
            let close = |x: f64, y: f64| (x - y).abs() <= 1e-9 * y;
            prop_assert!(close(other.estimate, one.estimate * factor as f64));
            prop_assert!(close(other.low, one.low * factor as f64) && close(other.high, one.high * factor as f64));
        }

        #[test]
        fn bounds_are_in_order_and_a_seed_repeats_them(
            a in prop::collection::vec(prop::collection::vec(1u64..1000, 1..30), 1..6), b in prop::collection::vec(prop::collection::vec(1u64..1000, 1..30), 1..6), seed: u64
        ) {
            let (a, b) = (Runs::new(a), Runs::new(b));
            let i = ratio_interval(&a, &b, Rank::P50, seed).unwrap();
            prop_assert!(i.low <= i.high);
            prop_assert_eq!(Some(i), ratio_interval(&a, &b, Rank::P50, seed));
        }
    }

    #[test]
    fn rounds_are_drawn_in_pairs_so_that_drift_cancels() {
        // The machine is ten times slower in every other round; the system always takes twice the floor.
        let floor: Vec<Vec<u64>> = (0..6).map(|i| vec![if i % 2 == 0 { 100 } else { 1000 }; 9]).collect();
        let system = floor.iter().map(|r| r.iter().map(|x| x * 2).collect()).collect();
        let i = ratio_interval(&Runs::new(system), &Runs::new(floor), Rank::P50, 1).unwrap();
        assert_eq!((i.estimate, i.low, i.high), (2.0, 2.0, 2.0));
    }

    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
        // Ten rounds with their own disturbance each; the true ratio of medians is 2.
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
            let (system, floor): (Vec<Vec<u64>>, Vec<Vec<u64>>) = (make(2000 - 150), make(1000 - 150));
            let i = ratio_interval(&Runs::new(system), &Runs::new(floor), Rank::P50, trial).unwrap();
            covered += u32::from(i.low <= 2.0 && 2.0 <= i.high);
        }
        assert!((165..=200).contains(&covered), "covered {covered} of 200");
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
