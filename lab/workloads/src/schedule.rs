// SPDX-License-Identifier: Apache-2.0
//! Publishing at fixed times, whatever happens to the samples (open loop).

use crate::deliveries::{MESSAGES_NOT_SENT, MESSAGES_SCHEDULED, MESSAGES_SENT};
use crate::record::{Window, sleep_until};
use anyhow::Result;
use driveline::RawPublisher;
use driveline::types::MonotonicNs;
use driveline_bench::observations::Observations;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Due times of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Schedule {
    pub(crate) period_ns: u64,
    /// Time from the beginning of the measured time to its first sample. So the phases of several
    /// publishers are the same in every run with the same seed.
    pub(crate) phase_ns: u64,
}

/// Counts of the samples that were due in the measured time. `scheduled == sent + not_sent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) scheduled: u64,
    pub(crate) sent: u64,
    /// Number of samples that could not be sent before the next sample was due.
    pub(crate) not_sent: u64,
    /// Number of samples sent before the measured time; not part of `sent`.
    pub(crate) sent_before: u64,
}

impl Schedule {
    /// Makes a schedule with a rate, and with a phase as a share of the period.
    pub(crate) fn new(period: Duration, phase: f64) -> Self {
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1);
        Self { period_ns, phase_ns: (period_ns as f64 * phase) as u64 }
    }

    /// Returns the first due time from `now` on, but no later one than the first in the measured
    /// time.
    fn first_due(self, now: u64, window: Window) -> u64 {
        let due = window.from_ns + self.phase_ns;
        due - due.saturating_sub(now) / self.period_ns * self.period_ns
    }

    /// Publishes samples of `bytes` bytes, whose first word is their due time, until the end of the
    /// measured time. `fill` writes the rest.
    pub(crate) fn publish(
        self,
        publisher: &mut RawPublisher,
        bytes: usize,
        window: Window,
        mut fill: impl FnMut(&mut [u8]),
    ) -> Result<Sent> {
        let mut account = Sent::default();
        let mut due = self.first_due(MonotonicNs::now().0, window);
        while due < window.until_ns {
            sleep_until(due);
            let counts = u64::from(window.contains(due));
            account.scheduled += counts;
            if MonotonicNs::now().0 < due + self.period_ns {
                let mut loan = publisher.loan(bytes)?;
                let (stamp, rest) = loan.payload_mut().split_at_mut(8);
                stamp.copy_from_slice(&due.to_le_bytes());
                fill(rest);
                publisher.publish(loan)?;
                account.sent += counts;
                account.sent_before += 1 - counts;
            } else {
                account.not_sent += counts;
            }
            due += self.period_ns;
        }
        Ok(account)
    }
}

impl Sent {
    pub(crate) fn into_observations(self) -> Observations {
        let mut o = Observations::default();
        for (name, n) in [
            (MESSAGES_SCHEDULED, self.scheduled),
            (MESSAGES_SENT, self.sent),
            (MESSAGES_NOT_SENT, self.not_sent),
        ] {
            o.counters.insert(name.into(), n);
        }
        o
    }
}

/// Returns the due time of a sample, from its first word.
pub(crate) fn due_ns(payload: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*payload.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_those_of_the_window_whenever_a_publisher_begins() {
        let window = Window { from_ns: 1000, until_ns: 2000 };
        let schedule = Schedule { period_ns: 30, phase_ns: 7 };
        for now in 900..1000 {
            let due = schedule.first_due(now, window);
            assert!((now..now + 30).contains(&due) && (1007 - due).is_multiple_of(30), "{now}");
        }
        // A schedule that begins late starts within the window.
        assert_eq!(schedule.first_due(1500, window), 1007);
    }
}
