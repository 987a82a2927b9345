// SPDX-License-Identifier: Apache-2.0
//! Budget for hints. Every process that can enter the domain directory can send them, so their
//! number must not decide how much time this process spends.
//!
//! Each hint costs a token, and tokens return slowly. Without tokens the socket is not read for a
//! pause, which doubles each time. Then one scan of the directory finds the publishers of the
//! unread hints.

use driveline_types::MonotonicNs;
use std::time::Duration;

/// Maximum number of tokens: more than a vehicle's publishers, which may all start at once.
const STORE: u32 = 256;
/// Time in which one token returns.
const PER_HINT: Duration = Duration::from_millis(20);
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Budget of tokens for hints; see the module.
#[derive(Debug)]
pub(super) struct Attention {
    left: u32,
    counted_at: MonotonicNs,
    pause: Duration,
    deaf_until: Option<MonotonicNs>,
}

impl Attention {
    pub(super) fn new(now: MonotonicNs) -> Self {
        Self { left: STORE, counted_at: now, pause: FIRST_PAUSE, deaf_until: None }
    }

    fn refill(&mut self, now: MonotonicNs) {
        let grown = now.since(self.counted_at).as_nanos() / PER_HINT.as_nanos();
        if grown > 0 {
            self.left =
                STORE.min(self.left.saturating_add(u32::try_from(grown).unwrap_or(u32::MAX)));
            self.counted_at = now;
        }
        if self.left == STORE {
            self.pause = FIRST_PAUSE;
        }
    }

    /// Takes a token for one more hint. Returns false if there is none; then the socket is not read
    /// until [`deaf_until`](Self::deaf_until).
    pub(super) fn hears_one(&mut self, now: MonotonicNs) -> bool {
        self.refill(now);
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            return true;
        }
        self.deaf_until = Some(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        false
    }

    /// Returns the end of the pause in which no hint is received, if there is one.
    pub(super) fn deaf_until(&self) -> Option<MonotonicNs> {
        self.deaf_until
    }

    /// Returns true when a pause has just ended: hints are received again, and a scan of the
    /// directory is due.
    pub(super) fn recovers(&mut self, now: MonotonicNs) -> bool {
        let over = self.deaf_until.is_some_and(|until| until <= now);
        if over {
            self.deaf_until = None;
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_of_a_vehicle_is_heard_to_the_end() {
        let mut a = Attention::new(MonotonicNs(0));
        assert!((0..STORE).all(|_| a.hears_one(MonotonicNs(5))));
    }

    #[test]
    fn a_flood_costs_little_and_more_and_more_seldom() {
        let (mut received, mut pauses) = (0, 0);
        let mut a = Attention::new(MonotonicNs(0));
        // One hint each 10 us for a minute.
        for now in (0..60_000_000_000).step_by(10_000).map(MonotonicNs) {
            if a.deaf_until().is_some_and(|until| now < until) {
                continue;
            }
            pauses += u32::from(a.recovers(now));
            received += u32::from(a.hears_one(now));
        }
        // All stored tokens, and then 50 a second.
        assert!(received <= STORE + 60 * 50 + 1, "{received}");
        assert!((50..100).contains(&pauses), "{pauses}");
        // After some time without hints, the budget is full again.
        let later = MonotonicNs(70_000_000_000);
        assert!(a.recovers(later));
        assert!((0..STORE).all(|_| a.hears_one(later)) && !a.hears_one(later));
        assert_eq!(a.deaf_until(), Some(later + FIRST_PAUSE));
    }
}
