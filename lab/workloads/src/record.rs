// SPDX-License-Identifier: Apache-2.0
//! Recording of observations: memory is reserved in advance, and observations beyond it are
//! counted.

use driveline::types::MonotonicNs;
use driveline_bench::observations::{Observations, Point, Quantity};
use driveline_bench::stats;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Measured time of a run, on `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Window {
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
}

impl Window {
    /// Returns the window that begins `warm_up` from now and lasts for `duration`.
    pub(crate) fn after(warm_up: Duration, duration: Duration) -> Self {
        let from = MonotonicNs::now() + warm_up;
        Self { from_ns: from.0, until_ns: (from + duration).0 }
    }

    pub(crate) fn contains(self, time_ns: u64) -> bool {
        (self.from_ns..self.until_ns).contains(&time_ns)
    }

    pub(crate) fn duration(self) -> Duration {
        Duration::from_nanos(self.until_ns - self.from_ns)
    }

    pub(crate) fn sleep_until_start(self) {
        sleep_until(self.from_ns);
    }

    pub(crate) fn sleep_until_end(self) {
        sleep_until(self.until_ns);
    }
}

/// Sleeps until a time on `CLOCK_MONOTONIC`; returns at once if it has passed.
pub(crate) fn sleep_until(time_ns: u64) {
    while let left @ 1.. = time_ns.saturating_sub(MonotonicNs::now().0) {
        std::thread::sleep(Duration::from_nanos(left));
    }
}

/// Series to which callbacks add observations. Clones share it; adding does not allocate.
#[derive(Clone)]
pub(crate) struct Recorder {
    points: Arc<Mutex<Vec<Point>>>,
    room: usize,
    dropped: Arc<AtomicU64>,
}

impl Recorder {
    /// Makes a series with room for twice the expected number of observations, at most 8 million,
    /// and for 64 more.
    pub(crate) fn new(per_second: f64, duration: Duration) -> Self {
        let room = (2.0 * per_second * duration.as_secs_f64()).min(8e6) as usize + 64;
        Self {
            points: Arc::new(Mutex::new(Vec::with_capacity(room))),
            room,
            dropped: Arc::default(),
        }
    }

    pub(crate) fn add(&self, time: MonotonicNs, value: u64) {
        let mut points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        if points.len() < self.room {
            points.push(Point { time_ns: time.0, value });
        } else {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Adds the series to the observations. If some did not fit, the run is invalid.
    pub(crate) fn finish(&self, subject: &str, quantity: Quantity, into: &mut Observations) {
        let points =
            std::mem::take(&mut *self.points.lock().unwrap_or_else(PoisonError::into_inner));
        into.put(subject, quantity, points);
        let dropped = self.dropped.load(Relaxed);
        if dropped > 0 {
            into.invalid.push(format!(
                "{dropped} points of '{subject}' ({quantity:?}) had no room and are missing"
            ));
        }
    }
}

/// Random numbers for phases and payloads: the same seed and purpose give the same numbers on every
/// machine.
#[derive(Clone, Debug)]
pub(crate) struct Random(stats::Random);

impl Random {
    pub(crate) fn new(seed: u64, what: &str) -> Self {
        Self(stats::Random::new(seed ^ twox_hash::XxHash3_64::oneshot(what.as_bytes())))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number of at least 0 and below 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted_and_invalidates() {
        let r = Recorder::new(0.0, Duration::from_secs(1));
        for i in 0..70 {
            r.add(MonotonicNs(i), i);
        }
        let mut o = Observations::default();
        r.finish("a", Quantity::Age, &mut o);
        assert_eq!((o.series[0].points.len(), o.series[0].points[63].value), (64, 63));
        assert!(o.invalid[0].starts_with("6 points of 'a'"), "{:?}", o.invalid);
    }

    #[test]
    fn randomness_is_the_seeds() {
        let draw = |seed, what| {
            (0..100)
                .map(move |_| ())
                .scan(Random::new(seed, what), |r, ()| Some(r.share()))
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(1, "phases"), draw(1, "phases"));
        assert_ne!(draw(1, "phases"), draw(2, "phases"));
        assert_ne!(draw(1, "phases"), draw(1, "payload"));
        assert!(draw(3, "x").iter().all(|s| (0.0..1.0).contains(s)));
    }
}
