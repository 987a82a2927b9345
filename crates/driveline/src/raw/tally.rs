// SPDX-License-Identifier: Apache-2.0
//! Counters of a subscription, read by other threads without a lock.
//!
//! The *reading thread* is the thread that reads samples. It may be a real-time thread. If a lock
//! protected the counters, this thread would have to wait while a thread of lower priority holds
//! the lock. So the reading thread publishes its own counts in a seqlock. Other threads load them
//! together with the counters of both transports, and repeat until nothing changed meanwhile.

use super::SubscriptionStats;
use crate::local::{LocalEnd, LocalQueue, OwnLocal};
use driveline_shm::Publishers;
use driveline_types::MonotonicNs;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Maximum number of attempts at a consistent read. After that, samples that are read or skipped at
/// this moment may be missing or counted twice.
const TRIES: usize = 1000;
const WORDS: usize = 14;

/// Numbers of received samples, of samples replaced by newer ones, and of missed deadlines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) received: u64,
    pub(super) replaced: u64,
    pub(super) deadlines: u64,
}

/// Counts of the time in which the component was inactive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Inactive {
    pub(super) received: u64,
    replaced: u64,
    deadlines: u64,
    /// While the component is inactive: the counts at the beginning of this time.
    pub(super) since: Option<Taken>,
}

impl Inactive {
    pub(super) fn until(&self, now: Taken) -> Taken {
        let since = self.since.unwrap_or(now);
        Taken {
            received: self.received + now.received.saturating_sub(since.received),
            replaced: self.replaced + now.replaced.saturating_sub(since.replaced),
            deadlines: self.deadlines + now.deadlines.saturating_sub(since.deadlines),
        }
    }

    pub(super) fn end(&mut self, now: Taken) {
        let Taken { received, replaced, deadlines } = self.until(now);
        *self = Self { received, replaced, deadlines, since: None };
    }
}

/// Counts that only the reading thread knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Own {
    pub(super) received: u64,
    pub(super) heads_passed_over: u64,
    pub(super) standby: u64,
    /// True if a sample was taken out of the host transport and is not read yet.
    pub(super) has_host_head: bool,
    pub(super) newest_only: bool,
    pub(super) inactive: Inactive,
    pub(super) deadlines_end: Option<u64>,
    pub(super) local: OwnLocal,
}

impl Own {
    fn words(&self) -> [u64; WORDS] {
        let since = self.inactive.since.unwrap_or_default();
        let flags = [
            self.has_host_head,
            self.newest_only,
            self.local.has_head,
            self.inactive.since.is_some(),
            self.deadlines_end.is_some(),
        ];
        let flags = flags.iter().enumerate().fold(0, |all, (i, set)| all | u64::from(*set) << i);
        [
            flags,
            self.received,
            self.heads_passed_over,
            self.standby,
            self.inactive.received,
            self.inactive.replaced,
            self.inactive.deadlines,
            since.received,
            since.replaced,
            since.deadlines,
            self.deadlines_end.unwrap_or(0),
            self.local.head_overwritten,
            self.local.passed_over,
            self.local.expired,
        ]
    }

    fn from_words(words: [u64; WORDS]) -> Self {
        let [
            flags,
            received,
            heads_passed_over,
            standby,
            inactive_received,
            replaced,
            deadlines,
            since_received,
            since_replaced,
            since_deadlines,
            deadlines_end,
            head_overwritten,
            passed_over,
            expired,
        ] = words;
        let flag = |i: u32| flags >> i & 1 == 1;
        let since = Taken {
            received: since_received,
            replaced: since_replaced,
            deadlines: since_deadlines,
        };
        Self {
            received,
            heads_passed_over,
            standby,
            has_host_head: flag(0),
            newest_only: flag(1),
            inactive: Inactive {
                received: inactive_received,
                replaced,
                deadlines,
                since: flag(3).then_some(since),
            },
            deadlines_end: flag(4).then_some(deadlines_end),
            local: OwnLocal { has_head: flag(2), head_overwritten, passed_over, expired },
        }
    }
}

/// A seqlock with one writer. The version is odd while the writer changes anything that readers
/// count.
#[derive(Debug, Default)]
pub(super) struct Tally {
    version: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Tally {
    /// Begins a change. Called before the reading thread takes or drops samples.
    #[inline]
    pub(super) fn begin(&self) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version | 1, Ordering::Relaxed);
        // A reader that sees anything stored after this fence sees the odd version when it reads
        // the version again.
        fence(Ordering::Release);
    }

    /// Ends a change and publishes the counts.
    #[inline]
    pub(super) fn end(&self, own: &Own) {
        for (word, value) in self.words.iter().zip(own.words()) {
            word.store(value, Ordering::Relaxed);
        }
        let version = self.version.load(Ordering::Relaxed);
        self.version.store((version | 1).wrapping_add(1), Ordering::Release);
    }

    /// Calls `read` with the published counts until nothing changed meanwhile, at most 1000 times.
    /// Never waits for the writer.
    fn read<T>(&self, mut read: impl FnMut(Own) -> T) -> T {
        for _ in 1..TRIES {
            if let Some(value) = self.try_read(&mut read) {
                return value;
            }
        }
        read(self.words())
    }

    /// One attempt. Returns `None` if the writer changed something before or meanwhile.
    fn try_read<T>(&self, read: &mut impl FnMut(Own) -> T) -> Option<T> {
        let before = self.version.load(Ordering::Acquire);
        if before & 1 == 1 {
            std::thread::yield_now();
            return None;
        }
        let value = read(self.words());
        fence(Ordering::Acquire);
        (self.version.load(Ordering::Relaxed) == before).then_some(value)
    }

    fn words(&self) -> Own {
        Own::from_words(std::array::from_fn(|i| self.words[i].load(Ordering::Relaxed)))
    }
}

/// Counter of the deadlines that an input has missed. Outlives the subscription; any thread may
/// read it.
#[derive(Clone)]
pub struct DeadlineCounter(Counts);

impl DeadlineCounter {
    pub(crate) fn new(counts: Counts) -> Self {
        Self(counts)
    }

    /// Periods of the requested deadline in which nothing was published, until now; 0 without a
    /// deadline. The owner of the subscription never waits for the caller. At host reach the caller
    /// holds a lock while it checks the publishers.
    #[must_use]
    pub fn missed(&self) -> u64 {
        let counts = &self.0;
        let missed = counts.tally.read(|own| counts.deadlines(&own, MonotonicNs::now()));
        missed.map_or(0, |(missed, _)| missed)
    }
}

impl fmt::Debug for DeadlineCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineCounter").field("missed", &self.missed()).finish()
    }
}

/// Access to the counters of a subscription.
#[derive(Clone)]
pub(crate) struct Counts {
    pub(super) local: Option<(Arc<LocalEnd>, Arc<LocalQueue>)>,
    pub(super) host: Option<Publishers>,
    pub(super) deadline_ms: Option<u32>,
    pub(super) tally: Arc<Tally>,
}

impl Counts {
    /// Returns the counters, for a thread that does not own the subscription. The owner never waits
    /// for it. At host reach it holds a lock while it copies the list of publishers.
    pub(crate) fn read(&self) -> SubscriptionStats {
        self.tally.read(|own| self.stats(&own))
    }

    pub(super) fn stats(&self, own: &Own) -> SubscriptionStats {
        let local = self.local.as_ref().map(|(_, q)| own.local.ledger(q)).unwrap_or_default();
        let host = self.host.as_ref().map(Publishers::stats).unwrap_or_default();
        let overwritten =
            local.overwritten.saturating_add(host.missed.saturating_sub(host.passed_over));
        let passed_over = local.passed_over.saturating_add(own.heads_passed_over);
        let replaced = local.overwritten.saturating_add(passed_over).saturating_add(host.missed);
        let now = Taken { received: own.received, replaced, deadlines: 0 };
        let inactive = own.inactive.until(now);
        let replaced = replaced.saturating_sub(inactive.replaced);
        let (missed, superseded) = if own.newest_only { (0, replaced) } else { (replaced, 0) };
        SubscriptionStats {
            received: own.received.saturating_sub(inactive.received),
            missed,
            superseded,
            expired: local.expired.saturating_add(host.expired),
            corrupt: host
                .corrupt_header
                .saturating_add(host.corrupt_checksum)
                .saturating_add(host.corrupt_index),
            refused: host.refused,
            lost_on_the_way: host.lost_on_the_way,
            not_read: local
                .not_read
                .saturating_add(host.not_read)
                .saturating_add(u64::from(own.has_host_head)),
            standby: own.standby,
            inactive: inactive.received.saturating_add(inactive.replaced),
            overwritten: overwritten.min(replaced),
            uncounted: host.uncounted,
            uncounted_reason: host.uncounted_reason,
            deadlines_missed: self
                .deadlines(own, MonotonicNs::now())
                .map_or(0, |(missed, _)| missed),
        }
    }

    /// Samples received and replaced so far.
    pub(super) fn taken(&self, own: &Own) -> Taken {
        let local = self.local.as_ref().map(|(_, q)| own.local.ledger(q)).unwrap_or_default();
        let missed = self.host.as_ref().map_or(0, |h| h.stats().missed);
        let replaced = local
            .overwritten
            .saturating_add(local.passed_over)
            .saturating_add(own.heads_passed_over)
            .saturating_add(missed);
        let deadlines = self.all_deadlines(MonotonicNs::now()).map_or(0, |(missed, _)| missed);
        Taken { received: own.received, replaced, deadlines }
    }

    /// Deadlines missed until now at every reach, and when the next one may be; `None` without a
    /// deadline.
    pub(super) fn deadlines(&self, own: &Own, now: MonotonicNs) -> Option<(u64, MonotonicNs)> {
        if let Some(total) = own.deadlines_end {
            return Some((total, MonotonicNs(u64::MAX)));
        }
        Some(without_inactive(own, self.all_deadlines(now)?))
    }

    /// As [`Self::deadlines`], for the owner: `Err` if another thread holds a lock that it needs.
    pub(super) fn try_deadlines(
        &self,
        own: &Own,
        now: MonotonicNs,
    ) -> Result<Option<(u64, MonotonicNs)>, Contended> {
        if let (Some(total), true) = (own.deadlines_end, self.deadline_ms.is_some()) {
            return Ok(Some((total, MonotonicNs(u64::MAX))));
        }
        if self.deadline_ms.is_none() {
            return Ok(None);
        }
        let outside = match &self.host {
            Some(host) => host.try_deadlines(now).ok_or(Contended)?,
            None => None,
        };
        Ok(Some(without_inactive(own, self.with_local(outside, now))))
    }

    /// As [`Self::deadlines`], including deadlines missed while the component was inactive.
    fn all_deadlines(&self, now: MonotonicNs) -> Option<(u64, MonotonicNs)> {
        self.deadline_ms?;
        let outside = self.host.as_ref().and_then(|h| h.deadlines(now));
        Some(self.with_local(outside, now))
    }

    /// Adds the deadlines that this process counts itself: those of a subscription all of whose
    /// publishers are in this process. For any other subscription they are 0, because the host
    /// transport counts.
    fn with_local(
        &self,
        outside: Option<(u64, MonotonicNs)>,
        now: MonotonicNs,
    ) -> (u64, MonotonicNs) {
        let (inside, next) = self.local.as_ref().map_or((0, None), |(end, _)| end.deadlines(now));
        let (outside, at) = outside.unwrap_or((0, MonotonicNs(u64::MAX)));
        (inside.saturating_add(outside), next.map_or(at, |next| next.min(at)))
    }
}

/// Another thread holds a lock for a moment.
#[derive(Debug)]
pub(super) struct Contended;

fn without_inactive(own: &Own, all: (u64, MonotonicNs)) -> (u64, MonotonicNs) {
    let (deadlines, next) = all;
    let inactive = own.inactive.until(Taken { deadlines, ..Taken::default() }).deadlines;
    (deadlines.saturating_sub(inactive), next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_reading_thread_knows_survives_its_words() {
        let since = Taken { received: 7, replaced: 8, deadlines: 9 };
        let own = Own {
            received: 1,
            heads_passed_over: 2,
            standby: 3,
            has_host_head: true,
            newest_only: false,
            inactive: Inactive { received: 4, replaced: 5, deadlines: 6, since: Some(since) },
            deadlines_end: Some(10),
            local: OwnLocal { has_head: true, head_overwritten: 11, passed_over: 12, expired: 13 },
        };
        for own in [own, Own { newest_only: true, ..Own::default() }, Own::default()] {
            assert_eq!(Own::from_words(own.words()), own);
        }
    }

    /// Two counters that always change together are never seen apart.
    #[test]
    fn no_reader_sees_half_a_change() {
        let tally = Tally::default();
        let outside = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for n in 1..=20_000 {
                    tally.begin();
                    outside.store(n, Ordering::Relaxed);
                    tally.end(&Own { received: n, ..Own::default() });
                    std::hint::black_box(n);
                }
            });
            while !writer.is_finished() {
                let both = |own: Own| (own.received, outside.load(Ordering::Relaxed));
                if let Some((own, other)) = tally.try_read(&mut { both }) {
                    assert_eq!(own, other);
                }
            }
        });
        assert_eq!(tally.read(|own| own.received), 20_000);
    }

    #[test]
    fn a_stopped_writer_delays_no_reader() {
        let tally = Tally::default();
        tally.end(&Own { received: 5, ..Own::default() });
        tally.begin();
        assert_eq!(tally.read(|own| own.received), 5);
    }
}
