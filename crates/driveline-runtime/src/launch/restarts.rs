// SPDX-License-Identifier: Apache-2.0
//! When gateways that have ended are started again.

use std::time::{Duration, Instant};

/// After this, and twice as long each time …
const FIRST: Duration = Duration::from_secs(1);
/// … up to this.
const LONGEST: Duration = Duration::from_secs(30);

/// Of one gateway.
#[derive(Clone, Copy, Debug, Default)]
struct Restart {
    /// When it is started again, if it has ended.
    at: Option<Instant>,
    /// How often it was.
    times: u32,
}

/// Of all gateways of a run, by their place among them.
#[derive(Debug)]
pub(super) struct Restarts(Vec<Restart>);

impl Restarts {
    pub(super) fn new(gateways: usize) -> Self {
        Self(vec![Restart::default(); gateways])
    }

    /// It has ended: how long it stays away. `None`: there is no such gateway.
    pub(super) fn ended(&mut self, gateway: usize, now: Instant) -> Option<Duration> {
        let restart = self.0.get_mut(gateway)?;
        let pause = FIRST.saturating_mul(1 << restart.times.min(10)).min(LONGEST);
        *restart = Restart { at: Some(now + pause), times: restart.times.saturating_add(1) };
        Some(pause)
    }

    /// Gateways that are to be started now.
    pub(super) fn due(&self, now: Instant) -> Vec<usize> {
        self.0.iter().enumerate().filter(|(_, r)| r.at.is_some_and(|at| now >= at)).map(|(i, _)| i).collect()
    }

    /// It runs again.
    pub(super) fn started(&mut self, gateway: usize) {
        if let Some(restart) = self.0.get_mut(gateway) {
            restart.at = None;
        }
    }

    /// It could not be started, for want of memory or processes: perhaps later.
    pub(super) fn failed(&mut self, gateway: usize, now: Instant) {
        if let Some(restart) = self.0.get_mut(gateway) {
            restart.at = Some(now + LONGEST);
        }
    }

    /// Whether any is away and comes back.
    pub(super) fn pending(&self) -> bool {
        self.0.iter().any(|r| r.at.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ends_again_and_again_stays_away_longer_and_longer() {
        let (mut restarts, now) = (Restarts::new(2), Instant::now());
        assert!(!restarts.pending() && restarts.ended(2, now).is_none());
        let pauses: Vec<u64> = (0..7).filter_map(|_| restarts.ended(1, now)).map(|p| p.as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert!(restarts.pending() && restarts.due(now + Duration::from_secs(29)).is_empty());
        assert_eq!(restarts.due(now + LONGEST), [1]);
        restarts.failed(1, now + LONGEST);
        assert_eq!((restarts.due(now + LONGEST), restarts.due(now + 2 * LONGEST)), (vec![], vec![1]));
        restarts.started(1);
        assert!(!restarts.pending() && restarts.due(now + 9 * LONGEST).is_empty());
    }
}
