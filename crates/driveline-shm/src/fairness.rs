// SPDX-License-Identifier: Apache-2.0
//! Chooses the publisher that a subscription reads from next.
//!
//! The publish times that decide come from the publishers, so they are used only while they are
//! plausible:
//! - A time in the future is implausible, because all publishers share the machine's clock. When
//!   the oldest sample is wanted, such a sample counts as published now, so it comes last. When the
//!   newest is wanted, it counts as older than all others.
//! - At most `depth` samples of a publisher can be older than an unread sample of another
//!   publisher. Once that many have been read in a row while the other publisher waits, the other
//!   one has its turn, regardless of the times.
//! - Equal times take turns.

use crate::limits::{MAX_ENDED, MAX_MATCHES};
use crate::protocol::reader::Want;

/// Publishers that are skipped during one take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed([u64; (MAX_MATCHES + MAX_ENDED).div_ceil(64)]);

impl Passed {
    pub(crate) fn add(&mut self, index: usize) {
        if let Some(word) = self.0.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }

    /// Beyond the maximum number of publishers, all count as skipped, so that a take ends.
    pub(crate) fn contains(&self, index: usize) -> bool {
        self.0.get(index / 64).is_none_or(|word| word >> (index % 64) & 1 == 1)
    }
}

/// Next sample of a publisher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// Publish time in nanoseconds on `CLOCK_MONOTONIC`, as claimed by its publisher.
    pub(crate) claimed_ns: u64,
    /// Maximum number of unread samples of its publisher.
    pub(crate) depth: u64,
}

/// State of the turns. Used only by the consuming thread.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    last: usize,
    /// Choices of `last` in a row while others waited.
    in_a_row: u64,
}

impl Turn {
    /// Returns the publisher to read from, among those with unread samples that were not skipped.
    /// `candidate` is called with indexes below `count` and reads a publish time. After that, the
    /// clock `now` is read if that time is later than its last reading.
    pub(crate) fn choose(
        &mut self,
        want: Want,
        passed: &Passed,
        count: usize,
        candidate: impl Fn(usize) -> Option<Candidate>,
        now: impl Fn() -> u64,
    ) -> Option<usize> {
        let mut latest_now = 0;
        let mut best: Option<(usize, u64)> = None;
        let mut last_waits = None;
        let mut waiting = 0;
        for i in (1..=count).map(|step| (self.last + step) % count) {
            let Some(c) = (if passed.contains(i) { None } else { candidate(i) }) else { continue };
            if c.claimed_ns > latest_now {
                latest_now = now();
            }
            waiting += 1;
            let time = match want {
                Want::Next => c.claimed_ns.min(latest_now),
                Want::Latest if c.claimed_ns > latest_now => 0,
                Want::Latest => c.claimed_ns,
            };
            if i == self.last {
                last_waits = Some((time, c.depth));
                continue;
            }
            let better = |(_, other): (usize, u64)| {
                if want == Want::Next { time < other } else { time > other }
            };
            if best.is_none_or(better) {
                best = Some((i, time));
            }
        }
        // The publisher that was read last is last in the round. It is chosen again only if no
        // other has an unread sample, or if its time is better. For the oldest sample, it must also
        // have been chosen fewer than `depth` times in a row while others waited.
        let stays = last_waits.is_some_and(|(time, depth)| {
            best.is_none_or(|(_, other)| match want {
                Want::Next => time < other && self.in_a_row < depth,
                Want::Latest => time > other,
            })
        });
        if stays {
            self.in_a_row = if waiting > 1 { self.in_a_row.saturating_add(1) } else { 0 };
            return Some(self.last);
        }
        let (index, _) = best?;
        self.last = index;
        self.in_a_row = u64::from(waiting > 1);
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000;

    /// Chooses among claimed times; `None` has no unread sample. All have depth 3.
    fn choose(
        turn: &mut Turn,
        want: Want,
        passed: &Passed,
        times: &[Option<u64>],
    ) -> Option<usize> {
        turn.choose(
            want,
            passed,
            times.len(),
            |i| times[i].map(|claimed_ns| Candidate { claimed_ns, depth: 3 }),
            || NOW,
        )
    }

    #[test]
    fn the_oldest_or_the_newest_is_chosen_and_the_future_is_neither() {
        let all = Passed::default();
        let t = &mut Turn::default();
        assert_eq!(choose(t, Want::Next, &all, &[Some(30), Some(10), Some(20)]), Some(1));
        assert_eq!(choose(t, Want::Latest, &all, &[Some(30), Some(10), Some(20)]), Some(0));
        assert_eq!(choose(t, Want::Next, &all, &[Some(u64::MAX), Some(NOW - 1), None]), Some(1));
        assert_eq!(
            choose(t, Want::Latest, &all, &[Some(u64::MAX), Some(1), Some(NOW + 1)]),
            Some(1)
        );
        assert_eq!(
            choose(t, Want::Latest, &all, &[Some(u64::MAX), None, None]),
            Some(0),
            "a sample from the future is read if there is no other"
        );
        assert_eq!(choose(t, Want::Next, &all, &[None, None, None]), None);
        assert_eq!(choose(t, Want::Next, &all, &[]), None);
    }

    #[test]
    fn equals_take_turns() {
        for (want, time) in
            [(Want::Next, 5), (Want::Latest, 5), (Want::Latest, u64::MAX), (Want::Next, u64::MAX)]
        {
            let t = &mut Turn::default();
            let order: Vec<_> = (0..6)
                .map(|_| choose(t, want, &Passed::default(), &[Some(time); 3]).unwrap())
                .collect();
            assert_eq!(order, [1, 2, 0, 1, 2, 0], "{want:?} {time}");
        }
    }

    #[test]
    fn a_publisher_that_always_claims_to_be_oldest_has_its_share_and_no_more() {
        let t = &mut Turn::default();
        let order: Vec<_> = (0..9)
            .map(|_| {
                choose(t, Want::Next, &Passed::default(), &[Some(0), Some(700), None]).unwrap()
            })
            .collect();
        assert_eq!(order.iter().filter(|i| **i == 1).count(), 2, "{order:?}");
        assert!(order.windows(5).all(|w| w.contains(&1)), "{order:?}");
        // Without another publisher it may continue.
        assert!(
            (0..20)
                .all(|_| choose(t, Want::Next, &Passed::default(), &[Some(0), None, None])
                    == Some(0))
        );
    }

    #[test]
    fn who_was_passed_over_is_not_chosen_and_too_many_end_the_take() {
        let mut passed = Passed::default();
        let t = &mut Turn::default();
        passed.add(1);
        assert_eq!(choose(t, Want::Next, &passed, &[Some(2), Some(1)]), Some(0));
        passed.add(0);
        assert_eq!(choose(t, Want::Next, &passed, &[Some(2), Some(1)]), None);
        let many = vec![None; MAX_MATCHES + MAX_ENDED + 200];
        let mut last_only = many.clone();
        *last_only.last_mut().unwrap() = Some(1);
        assert_eq!(choose(t, Want::Next, &Passed::default(), &last_only), None);
    }
}
