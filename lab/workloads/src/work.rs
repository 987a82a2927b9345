// SPDX-License-Identifier: Apache-2.0
//! Work for callbacks: real, repeatable, and of the requested duration on this machine.
//!
//! It counts primes by trial division, as the public reference system does. The thread's processor
//! time determines the limit, so that other processes on the machine do not make the work shorter.

use anyhow::{Result, ensure};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::time::Duration;

/// Maximum limit: some minutes.
const MAX_LIMIT: u32 = 1 << 26;
/// Number of attempts; the fastest counts.
const ATTEMPTS: usize = 3;
/// Maximum number of calibrations. They are repeated if the result is off by more than a twentieth,
/// because the machine is busy.
const CALIBRATIONS: usize = 5;

/// Work that takes a certain time alone on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Crunch {
    /// Limit up to which primes are counted.
    pub(crate) limit: u32,
    /// Number of repetitions, for work that is a multiple of a unit.
    pub(crate) times: u32,
    /// Time of one unit at the calibration, in nanoseconds of processor time.
    pub(crate) unit_ns: u64,
}

impl Crunch {
    /// No work.
    pub(crate) const NONE: Self = Self { limit: 0, times: 0, unit_ns: 0 };

    /// Finds the work that takes `duration`. The calibration takes some dozen times this duration,
    /// on a busy machine some hundred times.
    pub(crate) fn calibrated(duration: Duration) -> Result<Self> {
        if duration.is_zero() {
            return Ok(Self::NONE);
        }
        let wanted = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let mut best = Self::calibrate(wanted)?;
        for _ in 1..CALIBRATIONS {
            if best.unit_ns.abs_diff(wanted) <= wanted / 20 {
                break;
            }
            let again = Self::calibrate(wanted)?;
            if again.unit_ns.abs_diff(wanted) < best.unit_ns.abs_diff(wanted) {
                best = again;
            }
        }
        Ok(best)
    }

    fn calibrate(wanted: u64) -> Result<Self> {
        // Raises the limit in steps until the work takes too long, then searches between the last
        // two limits.
        let mut high = 64;
        while cost_ns(high, ATTEMPTS) < wanted {
            ensure!(
                high < MAX_LIMIT,
                "{wanted} ns of work in one callback are more than can be calibrated; give less \
                 than a minute"
            );
            high *= 2;
        }
        let mut low = high / 2;
        while high - low > 1.max(high / 256) {
            let middle = low + (high - low) / 2;
            if cost_ns(middle, ATTEMPTS) < wanted { low = middle } else { high = middle }
        }
        Ok(Self { limit: high, times: 1, unit_ns: cost_ns(high, ATTEMPTS) })
    }

    /// Returns this work as often as fits into `duration`, rounded.
    pub(crate) fn for_duration(self, duration: Duration) -> Self {
        let times = (duration.as_nanos() as f64 / self.unit_ns.max(1) as f64).round();
        Self { times: times as u32, ..self }
    }

    /// Does the work.
    pub(crate) fn run(self) {
        for _ in 0..self.times {
            black_box(primes_up_to(black_box(self.limit)));
        }
    }
}

fn cost_ns(limit: u32, attempts: usize) -> u64 {
    let one = |_| {
        let start = cpu_ns();
        black_box(primes_up_to(black_box(limit)));
        cpu_ns() - start
    };
    (0..attempts).map(one).min().unwrap_or(0)
}

/// Returns the processor time of this thread.
fn cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    (t.tv_sec as u64) * 1_000_000_000 + t.tv_nsec as u64
}

/// Returns the number of primes up to `limit`, by dividing each number by all numbers from 2 to its
/// square root, until one divides it.
fn primes_up_to(limit: u32) -> u32 {
    (2..=limit)
        .filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d)))
        .count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_is_what_it_says() {
        assert_eq!([0, 1, 2, 3, 10, 100, 4096].map(primes_up_to), [0, 0, 1, 2, 4, 25, 564]);
    }

    /// Returns the shortest processor time of this thread for some work.
    fn taken_ns(work: Crunch) -> u64 {
        let one = |_| {
            let start = cpu_ns();
            work.run();
            cpu_ns() - start
        };
        (0..20).map(one).min().unwrap()
    }

    /// Processor time, independent of preemption. If even that is disturbed, the test is repeated.
    #[test]
    fn calibrated_work_takes_as_long_as_was_asked_for() {
        let fits = |us: u64| {
            let wanted = us * 1000;
            let work = Crunch::calibrated(Duration::from_micros(us)).unwrap();
            let (once, thrice) =
                (taken_ns(work), taken_ns(work.for_duration(Duration::from_micros(3 * us))));
            let near = |ns: u64, wanted: u64| (wanted * 3 / 4..wanted * 4 / 3).contains(&ns);
            println!("{us} µs: {work:?} takes {once} ns, and {thrice} ns three times");
            near(once, wanted) && near(work.unit_ns, wanted) && near(thrice, 3 * wanted)
        };
        for us in [300, 1500] {
            assert!((0..20).any(|_| fits(us)), "{us} µs");
        }
    }

    #[test]
    fn longer_work_counts_further() {
        let [short, long] =
            [200, 2000].map(|us| Crunch::calibrated(Duration::from_micros(us)).unwrap());
        assert!(short.limit > 64 && long.limit > 2 * short.limit, "{short:?} {long:?}");
        assert_eq!(Crunch::calibrated(Duration::ZERO).unwrap(), Crunch::NONE);
        let ten =
            Crunch { limit: 100, times: 1, unit_ns: 1000 }.for_duration(Duration::from_micros(10));
        assert_eq!(ten.times, 10);
        ten.run();
    }
}
