// SPDX-License-Identifier: Apache-2.0
//! Decides when the remote publisher of a departed writer ends: when no more samples can arrive and
//! all arrived samples are taken. Other writers may continue meanwhile.

use std::time::{Duration, Instant};

/// State of a departed writer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draining {
    /// Time until which its samples may arrive.
    until: Instant,
    /// Round of the topic's feed after which all samples that had arrived by `until` are taken.
    last: Option<u64>,
}

impl Draining {
    /// `grace`: time for which its samples may still arrive.
    pub(super) fn new(grace: Duration, now: Instant) -> Self {
        Self { until: now + grace, last: None }
    }

    /// Returns the time until the next check; until then its samples may arrive.
    pub(super) fn rests(&self, now: Instant) -> Duration {
        self.until.saturating_duration_since(now)
    }

    /// Returns true if its remote publisher ends. `now`: time before the feed was polled; `rounds`:
    /// number of rounds with samples; `kept`: maximum number of waiting samples; `is_empty`: no
    /// sample waits.
    pub(super) fn ends(&mut self, now: Instant, is_empty: bool, rounds: u64, kept: u64) -> bool {
        now >= self.until && (is_empty || rounds >= *self.last.get_or_insert(rounds + kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::dds;
    use crate::engine::zenoh::GRACE;

    const KEPT: u64 = 32;

    #[test]
    fn samples_in_flight_are_taken_and_endless_publishers_delay_nothing() {
        let (went, mut idle) = (Instant::now(), Draining::new(GRACE, Instant::now()));
        let mut busy = idle;
        let late = went + GRACE / 2;
        assert!(
            !idle.ends(late, true, 0, KEPT) && !busy.ends(late, false, 100, KEPT),
            "its last sample may arrive after its departure"
        );
        let (over, rounds) = (went + GRACE * 2, 1000);
        assert!(idle.ends(over, true, rounds, KEPT), "nothing waits");
        assert_eq!(
            (0..=KEPT + 1).position(|n| busy.ends(over, false, rounds + n, KEPT)),
            Some(KEPT as usize),
            "as many as can wait"
        );
    }

    #[test]
    fn over_dds_nothing_is_overtaken() {
        let now = Instant::now();
        assert_eq!(Draining::new(dds::GRACE, now).rests(now), Duration::ZERO);
        assert!(Draining::new(dds::GRACE, now).ends(now, true, 0, KEPT));
    }
}
