// SPDX-License-Identifier: Apache-2.0
//! Statistics of raw samples: exact percentiles, and intervals for comparisons.

mod bootstrap;
mod goodput;
mod percentile;
mod random;

pub use bootstrap::{
    ENOUGH_ROUNDS, Interval, goodput_interval, goodput_interval_unpaired, mean_interval_unpaired,
    ratio_interval, ratio_interval_unpaired,
};
pub use driveline_analyze::Rank;
pub use goodput::Goodput;
pub use percentile::{Percentiles, Runs, Shape};
pub use random::Random;
