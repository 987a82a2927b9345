// SPDX-License-Identifier: Apache-2.0
//! Summary of a distribution for tables and plots.

use driveline_bench::stats::{Percentiles, Rank, Runs, Shape};
use serde::Serialize;

/// A distribution over all valid runs, in the unit of its samples (mostly nanoseconds).
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figure {
    /// Exact percentiles; none where there are too few samples.
    #[serde(flatten)]
    pub percentiles: Percentiles,
    /// Quartiles, skewness, kurtosis.
    #[serde(flatten)]
    pub shape: Option<Shape>,
    /// Median of each round; none for an invalid run.
    pub p50_by_round: Vec<Option<u64>>,
    /// Exact percentiles for curves: share of samples, and the sample that this share does not
    /// exceed.
    #[serde(skip)]
    pub curve: Vec<(f64, u64)>,
    /// Histogram of the samples.
    #[serde(skip)]
    pub bins: Vec<Bin>,
}

/// Samples from `low` (exclusive) to `high` (inclusive).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Lower edge.
    pub low: f64,
    /// Upper edge.
    pub high: f64,
    /// Number of values.
    pub count: u64,
}

/// Number of bins in each power of ten.
const BINS_PER_DECADE: i32 = 20;

impl Figure {
    pub(crate) fn of(runs: &Runs) -> Self {
        Self {
            percentiles: runs.percentiles(),
            shape: runs.shape(),
            p50_by_round: runs.each(Rank::P50),
            curve: curve(runs),
            bins: bins(runs),
        }
    }
}

/// Returns a point for every percent below p90 and ever closer points above it, so that a
/// logarithmic axis of 1 − q has points over its whole length. Leaves out points that need more
/// samples than there are; always includes the largest sample.
fn curve(runs: &Runs) -> Vec<(f64, u64)> {
    let n = runs.samples();
    let (Some(min), Some(max)) =
        (runs.at(Rank { per_myriad: 1, needs: 1 }), runs.at(Rank { per_myriad: 10_000, needs: 1 }))
    else {
        return Vec::new();
    };
    let coarse = (1..90).map(|p| p * 100);
    let fine = (9_000..9_900).step_by(50);
    let finer = (9_900..9_990).step_by(5);
    let finest = 9_990..10_000;
    let mut points = vec![(0.0, min)];
    for per_myriad in coarse.chain(fine).chain(finer).chain(finest) {
        // Percentiles beyond the second-largest sample are all the largest sample, which is added
        // below.
        if (10_000 - per_myriad) * n < 10_000 {
            break;
        }
        points.extend(
            runs.at(Rank { per_myriad, needs: 1 }).map(|x| (per_myriad as f64 / 10_000.0, x)),
        );
    }
    points.push((1.0, max));
    points
}

fn bins(runs: &Runs) -> Vec<Bin> {
    let p = runs.percentiles();
    let (Some(min), Some(max)) = (p.min, p.max) else { return Vec::new() };
    let place = |x: u64| (x.max(1) as f64).log10() * f64::from(BINS_PER_DECADE);
    let (first, last) = (place(min).floor() as i32 - 1, place(max).ceil() as i32);
    let edge = |k: i32| 10f64.powf(f64::from(k) / f64::from(BINS_PER_DECADE));
    let mut below = 0;
    (first..last.max(first + 1))
        .map(|k| {
            // Because of rounding, the last edge may be just below the largest sample.
            let up_to = if k + 1 >= last { u64::MAX } else { edge(k + 1) as u64 };
            let count = runs.not_above(up_to) - below;
            below += count;
            Bin { low: edge(k), high: edge(k + 1), count }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn curves_rise_and_bins_hold_every_sample(
            runs in prop::collection::vec(
                prop::collection::vec(0u64..10_000_000_000, 0..300),
                1..4,
            )
        ) {
            let runs = Runs::new(runs);
            let f = Figure::of(&runs);
            prop_assert_eq!(f.bins.iter().map(|b| b.count).sum::<u64>(), runs.samples());
            prop_assert!(f.curve.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1));
            prop_assert!(f.curve.len() < 200);
            if runs.samples() > 0 {
                prop_assert_eq!(f.curve.first().map(|c| c.1), f.percentiles.min);
                prop_assert_eq!(f.curve.last().map(|c| c.1), f.percentiles.max);
            }
        }
    }

    #[test]
    fn a_curve_shows_no_percentile_that_is_only_the_maximum() {
        let f = Figure::of(&Runs::new(vec![(1..=100).collect()]));
        assert_eq!(&f.curve[f.curve.len() - 2..], [(0.99, 99), (1.0, 100)]);
    }
}
