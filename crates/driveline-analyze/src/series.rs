// SPDX-License-Identifier: Apache-2.0
//! Samples of one quantity in constant memory: raw at first, so that percentiles are exact; after
//! [`EXACT_SAMPLES`], a histogram of all.
//!
//! A bucket of the histogram is at most 1/1024 of its values wide and stands for the mean of the
//! samples in it, so a percentile is at most [`HISTOGRAM_ERROR_PERCENT`] off. Number, minimum,
//! maximum and mean stay exact.

use crate::quantiles::{Quantiles, Rank, round_us, us};
use crate::records::AgeSample;
use driveline_types::MonotonicNs;
use std::collections::BTreeMap;

/// Maximum number of samples of one quantity kept raw: about an hour at 30 Hz. With one more, a
/// histogram replaces them.
pub const EXACT_SAMPLES: usize = 100_000;
/// Largest error of a percentile from a histogram, in per cent.
pub const HISTOGRAM_ERROR_PERCENT: f64 = 0.1;
/// Bits of a value that distinguish buckets.
const BITS: u32 = 10;
/// Maximum number of points of a curve over time. With one more, each two points become one.
const POINTS: usize = 8_192;

/// Returns the bucket of a value: numbers below 1024 have one each, every octave above has 1024.
fn bucket(value: i64) -> i32 {
    let size = value.unsigned_abs();
    let octave = size.checked_ilog2().unwrap_or(0).saturating_sub(BITS);
    // There are at most 54 octaves of 1024 buckets, and 1024 buckets below them: an `i32` is
    // enough.
    let index = (octave << BITS) as i32 + (size >> octave) as i32;
    if value < 0 { -index } else { index }
}

/// Returns the bucket that contains the sample at `rank`, counted from 0. The buckets are sorted.
fn ranked<'a, T>(
    buckets: impl Iterator<Item = &'a T>,
    count: impl Fn(&T) -> u64,
    rank: u64,
) -> Option<&'a T> {
    let mut below = 0u64;
    buckets.into_iter().find(|b| {
        below = below.saturating_add(count(b));
        rank < below
    })
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    count: u64,
    sum: i128,
}

impl Bucket {
    fn mean(&self) -> i64 {
        let mean = self.sum / i128::from(self.count.max(1));
        i64::try_from(mean).unwrap_or(i64::MAX)
    }
}

/// Samples of one quantity, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    raw: Vec<i64>,
    /// Histogram of all samples, once there are too many.
    buckets: BTreeMap<i32, Bucket>,
    n: u64,
    sum: i128,
    min: i64,
    max: i64,
}

impl Series {
    /// Adds a sample. A value beyond the range of an `i64` counts as its maximum.
    pub(crate) fn push(&mut self, value: impl TryInto<i64>) {
        let value = value.try_into().unwrap_or(i64::MAX);
        (self.min, self.max) = match self.n {
            0 => (value, value),
            _ => (self.min.min(value), self.max.max(value)),
        };
        self.n += 1;
        self.sum += i128::from(value);
        if self.is_exact() && self.raw.len() < EXACT_SAMPLES {
            return self.raw.push(value);
        }
        for value in std::mem::take(&mut self.raw).into_iter().chain([value]) {
            let bucket = self.buckets.entry(bucket(value)).or_default();
            bucket.count += 1;
            bucket.sum += i128::from(value);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.n == 0
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Returns the values in rising order, each with its number of samples.
    pub(crate) fn weighted(&self) -> Vec<(i64, u64)> {
        if !self.is_exact() {
            return self.buckets.values().map(|b| (b.mean(), b.count)).collect();
        }
        let mut raw = self.raw.clone();
        raw.sort_unstable();
        raw.into_iter().map(|value| (value, 1)).collect()
    }

    pub(crate) fn quantiles(&self) -> Quantiles {
        if self.is_exact() {
            return Quantiles::of_ns(&mut self.raw.clone());
        }
        let at = |rank: Rank| {
            let found =
                rank.index(self.n).and_then(|i| ranked(self.buckets.values(), |b| b.count, i));
            found.map_or(0.0, |b| us(b.mean()))
        };
        Quantiles {
            n: usize::try_from(self.n).unwrap_or(usize::MAX),
            min: us(self.min),
            p50: at(Rank::P50),
            p95: at(Rank::P95),
            p99: at(Rank::P99),
            max: us(self.max),
            mean: round_us(self.sum as f64 / self.n as f64 / 1e3),
            p99_n_too_small: false,
            histogram: true,
        }
    }

    /// Returns the number of values kept.
    #[cfg(test)]
    fn kept(&self) -> usize {
        self.raw.capacity() + self.buckets.len()
    }
}

/// Parts of an age: sums over the samples of a bucket.
#[derive(Clone, Copy, Debug, Default)]
struct AgeBucket {
    count: u64,
    communication: i128,
    computation: i128,
    idle: i128,
}

/// Parts of an age in nanoseconds, which add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AgeParts {
    pub(crate) communication_ns: i64,
    pub(crate) computation_ns: i64,
    pub(crate) idle_ns: i64,
}

impl From<&AgeSample> for AgeParts {
    fn from(s: &AgeSample) -> Self {
        Self {
            communication_ns: s.communication_ns,
            computation_ns: s.computation_ns,
            idle_ns: s.idle_ns,
        }
    }
}

impl AgeBucket {
    fn add(&mut self, s: &AgeSample) {
        self.count += 1;
        self.communication += i128::from(s.communication_ns);
        self.computation += i128::from(s.computation_ns);
        self.idle += i128::from(s.idle_ns);
    }

    fn mean(&self) -> AgeParts {
        let mean =
            |sum: i128| i64::try_from(sum / i128::from(self.count.max(1))).unwrap_or(i64::MAX);
        AgeParts {
            communication_ns: mean(self.communication),
            computation_ns: mean(self.computation),
            idle_ns: mean(self.idle),
        }
    }
}

/// Ages of one origin at one component.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ages {
    raw: Vec<AgeSample>,
    buckets: BTreeMap<i32, AgeBucket>,
    parts: [Series; 5],
    max: Option<AgeSample>,
    /// Lowest and highest age over time.
    pub(crate) over_time: Spans,
}

/// Quantities of an age, for [`Ages::quantiles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgePart {
    Age,
    Communication,
    Computation,
    Idle,
    Newest,
}

impl AgePart {
    const ALL: [Self; 5] =
        [Self::Age, Self::Communication, Self::Computation, Self::Idle, Self::Newest];

    fn of(self, s: &AgeSample) -> i64 {
        match self {
            Self::Age => s.age_ns(),
            Self::Communication => s.communication_ns,
            Self::Computation => s.computation_ns,
            Self::Idle => s.idle_ns,
            Self::Newest => s.newest_ns,
        }
    }
}

impl Ages {
    pub(crate) fn push(&mut self, sample: AgeSample) {
        self.over_time.push(sample.end, sample.age_ns());
        if self.max.is_none_or(|max| sample.age_ns() >= max.age_ns()) {
            self.max = Some(sample);
        }
        if self.buckets.is_empty() && self.raw.len() < EXACT_SAMPLES {
            return self.raw.push(sample);
        }
        for sample in std::mem::take(&mut self.raw).into_iter().chain([sample]) {
            self.buckets.entry(bucket(sample.age_ns())).or_default().add(&sample);
            for (part, series) in AgePart::ALL.into_iter().zip(&mut self.parts) {
                series.push(part.of(&sample));
            }
        }
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.buckets.is_empty()
    }

    pub(crate) fn quantiles(&self, part: AgePart) -> Quantiles {
        if self.is_exact() {
            return Quantiles::of_ns(&mut self.raw.iter().map(|s| part.of(s)).collect::<Vec<_>>());
        }
        let series = AgePart::ALL.into_iter().zip(&self.parts).find(|(p, _)| *p == part);
        series.map(|(_, series)| series.quantiles()).unwrap_or_default()
    }

    /// Returns the parts of the sample at each rank, or the means of its bucket.
    pub(crate) fn splits(&self, ranks: [Rank; 3]) -> [AgeParts; 3] {
        if self.is_exact() {
            let mut sorted: Vec<&AgeSample> = self.raw.iter().collect();
            sorted.sort_by_key(|s| s.age_ns());
            return ranks
                .map(|rank| rank.of(&sorted).map_or_else(AgeParts::default, |s| (*s).into()));
        }
        let n = self.buckets.values().map(|b| b.count).sum();
        ranks.map(|rank| {
            let found = rank.index(n).and_then(|i| ranked(self.buckets.values(), |b| b.count, i));
            found.map_or_else(AgeParts::default, AgeBucket::mean)
        })
    }

    /// Returns the parts of the highest age.
    pub(crate) fn max(&self) -> AgeParts {
        self.max.as_ref().map_or_else(AgeParts::default, AgeParts::from)
    }
}

/// Lowest and highest value of intervals of a run, in constant memory.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    points: Vec<(MonotonicNs, i64, i64)>,
    /// Number of values merged into each point; `filled` is the number merged into the last point.
    each: u64,
    filled: u64,
}

impl Default for Spans {
    fn default() -> Self {
        Self { points: Vec::new(), each: 1, filled: 0 }
    }
}

impl Spans {
    fn push(&mut self, at: MonotonicNs, value: i64) {
        if let Some(last) = self.points.last_mut().filter(|_| self.filled < self.each) {
            (last.1, last.2) = (last.1.min(value), last.2.max(value));
            self.filled += 1;
            return;
        }
        if self.points.len() == POINTS {
            let merged = self.points.chunks(2).map(|pair| {
                let last = pair[pair.len() - 1];
                (pair[0].0, pair[0].1.min(last.1), pair[0].2.max(last.2))
            });
            self.points = merged.collect();
            self.each *= 2;
        }
        self.points.push((at, value, value));
        self.filled = 1;
    }

    /// Returns start, lowest and highest value of each interval, in their order.
    pub(crate) fn points(&self) -> &[(MonotonicNs, i64, i64)] {
        &self.points
    }
}

/// A counter over time, in constant memory: when it grew, and how far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Growth {
    points: Vec<(MonotonicNs, u64)>,
    last: Option<(MonotonicNs, u64)>,
    /// One of every 2^`thinned` points is kept; `seen` is the number of points so far.
    thinned: u32,
    seen: u64,
}

impl Growth {
    pub(crate) fn push(&mut self, at: MonotonicNs, value: u64) {
        self.last = Some((at, value));
        if self.seen.is_multiple_of(1 << self.thinned) {
            if self.points.len() == POINTS {
                let mut keep = false;
                self.points.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.thinned += 1;
            }
            if self.seen.is_multiple_of(1 << self.thinned) {
                self.points.push((at, value));
            }
        }
        self.seen += 1;
    }

    /// Returns the newest point.
    pub(crate) fn last(&self) -> Option<(MonotonicNs, u64)> {
        self.last
    }

    pub(crate) fn points(&self) -> &[(MonotonicNs, u64)] {
        &self.points
    }
}

#[cfg(test)]
#[path = "series_tests.rs"]
mod tests;
