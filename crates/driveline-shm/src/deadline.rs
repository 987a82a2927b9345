// SPDX-License-Identifier: Apache-2.0
//! Counts of missed deadlines.
//!
//! A deadline is the longest time between two samples. For a publisher, the count begins with its
//! first sample; for a subscription, with the first sample published after the match. From then on,
//! each period of that length without a sample counts once. A sample at the very end of a period is
//! in time. The end of a publisher, or of a match, ends the count.

use crate::queue::{lock, try_lock};
use driveline_types::MonotonicNs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::atomic::{
    Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::time::Duration;

/// Minimum time between two reports of an endpoint. The next report includes deadlines missed
/// meanwhile.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// Deadlines that an endpoint has missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlinesMissed {
    /// Number since the previous report.
    pub missed: u64,
    /// Number since the endpoint was created.
    pub total: u64,
}

/// Counts the deadlines that one publisher misses. The publishing threads report the times of
/// samples; any thread reads the count.
///
/// Neither locks nor allocates.
#[derive(Debug)]
pub struct DeadlineMeter {
    length: Duration,
    /// Publish time of the newest sample; 0 before the first.
    last_ns: AtomicU64,
    /// Periods missed between samples.
    closed: AtomicU64,
    /// Nothing is counted any more.
    over: AtomicBool,
}

fn periods(length: Duration, last: u64, until: u64) -> u64 {
    let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX).max(1);
    until.saturating_sub(last).saturating_sub(1) / length
}

/// Returns the end of the next period without a publish.
fn next_miss(length: Duration, last: u64, missed: u64) -> MonotonicNs {
    let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX).max(1);
    MonotonicNs(
        last.saturating_add(length.saturating_mul(missed.saturating_add(1))).saturating_add(1),
    )
}

impl DeadlineMeter {
    /// Creates a meter that counts from the first sample on.
    #[must_use]
    pub fn new(length: Duration) -> Self {
        Self {
            length,
            last_ns: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Notes that a sample was published.
    #[inline]
    pub fn published(&self, at: MonotonicNs) {
        if self.over.load(Relaxed) {
            return;
        }
        // `last` first: a reader that sees the sum with this gap in it must not add the gap again.
        let last = self.last_ns.fetch_max(at.0, AcqRel);
        let missed = if last == 0 { 0 } else { periods(self.length, last, at.0) };
        if missed > 0 {
            self.closed.fetch_add(missed, Release);
        }
    }

    /// Ends the count: the publisher, or the match, has ended.
    pub fn end(&self, now: MonotonicNs) {
        let last = self.last_ns.swap(0, AcqRel);
        if last != 0 {
            self.closed.fetch_add(periods(self.length, last, now.0), Release);
        }
    }

    /// Ends the count permanently: later samples begin no new one.
    pub fn close(&self, now: MonotonicNs) {
        self.over.store(true, Relaxed);
        self.end(now);
    }

    /// Deadlines missed until now.
    #[must_use]
    pub fn missed(&self, now: MonotonicNs) -> u64 {
        // Acquire pairs with the Release above, in the order of `published`.
        let closed = self.closed.load(Acquire);
        match self.last_ns.load(Acquire) {
            0 => closed,
            last => closed + periods(self.length, last, now.0),
        }
    }

    /// Returns when the next deadline is missed without a publish; `None` before the first sample.
    #[must_use]
    pub fn next_miss(&self, now: MonotonicNs) -> Option<MonotonicNs> {
        let last = Some(self.last_ns.load(Acquire)).filter(|last| *last != 0)?;
        Some(next_miss(self.length, last, periods(self.length, last, now.0)))
    }
}

/// Counts the missed deadlines of one publisher as seen by a subscription in another process, from
/// its newest sample at each check. Exact with a check at the end of each period; never too high.
#[derive(Debug)]
pub(crate) struct DeadlineWatch(Mutex<Gaps>);

#[derive(Debug)]
struct Gaps {
    length: Duration,
    /// Number of the newest sample, and its publish time if it came after the match.
    sequence: u64,
    last: Option<u64>,
    /// Periods missed before that sample, and since.
    closed: u64,
    open: u64,
    ended: bool,
}

impl DeadlineWatch {
    /// `newest` is the number of the newest sample at the match.
    pub(crate) fn new(length: Duration, newest: u64) -> Self {
        Self(Mutex::new(Gaps {
            length,
            sequence: newest,
            last: None,
            closed: 0,
            open: 0,
            ended: false,
        }))
    }

    /// Notes the newest sample. Returns the deadlines missed so far, and the time of the next
    /// check.
    pub(crate) fn look(
        &self,
        sequence: u64,
        published: MonotonicNs,
        now: MonotonicNs,
    ) -> (u64, MonotonicNs) {
        lock(&self.0).look(sequence, published, now)
    }

    /// As [`Self::look`] without waiting: `None` while another thread checks.
    pub(crate) fn try_look(
        &self,
        sequence: u64,
        published: MonotonicNs,
        now: MonotonicNs,
    ) -> Option<(u64, MonotonicNs)> {
        Some(try_lock(&self.0)?.look(sequence, published, now))
    }

    /// Ends the count: the publisher has ended.
    pub(crate) fn end(&self) {
        let mut gaps = lock(&self.0);
        gaps.closed += std::mem::take(&mut gaps.open);
        (gaps.last, gaps.ended) = (None, true);
    }
}

impl Gaps {
    fn look(
        &mut self,
        sequence: u64,
        published: MonotonicNs,
        now: MonotonicNs,
    ) -> (u64, MonotonicNs) {
        let length = self.length;
        if self.ended {
            return (self.closed, MonotonicNs(u64::MAX));
        }
        if sequence > self.sequence {
            // A time from the future (another process wrote it) counts as now.
            let at = published.0.min(now.0).max(self.last.unwrap_or(0));
            if let Some(last) = self.last {
                // Each unseen sample met the deadline of at most one period.
                let unseen = sequence - self.sequence - 1;
                self.closed += periods(length, last, at).saturating_sub(unseen).max(self.open);
            }
            (self.sequence, self.last, self.open) = (sequence, Some(at), 0);
        }
        let Some(last) = self.last else { return (self.closed, now + length) };
        self.open = self.open.max(periods(length, last, now.0));
        (self.closed + self.open, next_miss(length, last, self.open))
    }
}

/// Turns a count of missed deadlines into reports, at most one in 100 ms.
#[derive(Debug, Default)]
pub struct DeadlineReports {
    reported: u64,
    not_before: MonotonicNs,
}

impl DeadlineReports {
    /// Returns a report of the deadlines missed since the previous report; `total` is the present
    /// count.
    pub fn next(&mut self, total: u64, now: MonotonicNs) -> Option<DeadlinesMissed> {
        if total <= self.reported || now < self.not_before {
            return None;
        }
        let missed = total - std::mem::replace(&mut self.reported, total);
        self.not_before = now + REPORT_INTERVAL;
        Some(DeadlinesMissed { missed, total })
    }

    /// Returns the time at which the next report is due. If a report is due already, that time is
    /// in the past. `missed_at` is the time at which the next deadline is missed.
    #[must_use]
    pub fn due(&self, total: u64, missed_at: MonotonicNs) -> MonotonicNs {
        if total > self.reported { self.not_before } else { missed_at.max(self.not_before) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    fn at(ms: u64) -> MonotonicNs {
        MonotonicNs(1_000 * MS + ms * MS)
    }

    #[test]
    fn every_missed_period_counts_once_from_the_first_sample_on() {
        let meter = DeadlineMeter::new(Duration::from_millis(5));
        assert_eq!(
            (meter.missed(at(100)), meter.next_miss(at(100))),
            (0, None),
            "before the first sample"
        );
        meter.published(at(100));
        for i in 1..=10 {
            meter.published(at(100 + 5 * i));
        }
        assert_eq!(meter.missed(at(155)), 0, "a sample at the end of its period is in time");
        assert_eq!(meter.next_miss(at(150)), Some(MonotonicNs(at(155).0 + 1)));
        assert_eq!(meter.missed(MonotonicNs(at(155).0 + 1)), 1);
        assert_eq!(meter.next_miss(at(158)), Some(MonotonicNs(at(160).0 + 1)));
        assert_eq!(meter.missed(at(171)), 4);
        meter.published(at(172));
        assert_eq!(
            (meter.missed(at(172)), meter.missed(at(178))),
            (4, 5),
            "what was counted while nothing came is not counted again"
        );
        meter.end(at(178));
        assert_eq!(meter.missed(at(900)), 5, "a publisher that is gone misses nothing");
    }

    #[test]
    fn a_subscription_counts_from_the_first_sample_after_the_match_and_never_too_many() {
        let watch = DeadlineWatch::new(Duration::from_millis(10), 7);
        assert_eq!(watch.look(7, at(0), at(500)).0, 0, "from before the match");
        assert_eq!(watch.look(8, at(505), at(506)), (0, MonotonicNs(at(515).0 + 1)));
        assert_eq!(watch.look(8, at(505), at(536)).0, 3);
        // Two samples since, the first of them unseen: it may have been published at any time.
        assert_eq!(
            watch.look(10, at(560), at(561)).0,
            4,
            "55 ms with one sample in between are 4 periods at least"
        );
        assert_eq!(watch.look(11, at(9_999), at(565)).0, 4, "a time in the future counts as now");
        assert_eq!(watch.look(12, at(100), at(566)).0, 4, "an earlier time counts as the last one");
        assert_eq!(watch.look(12, at(100), at(576)), (5, MonotonicNs(at(585).0 + 1)));
        watch.end();
        assert_eq!(watch.look(13, at(900), at(1000)).0, 5);
    }

    #[test]
    fn reports_add_up_to_the_total_and_are_spaced() {
        let mut reports = DeadlineReports::default();
        assert_eq!(reports.next(0, at(0)), None);
        assert!(
            reports.due(1, at(9)) < at(1) && reports.due(0, at(9)) == at(9),
            "the time of a report that is due is in the past"
        );
        assert_eq!(reports.next(1, at(1)), Some(DeadlinesMissed { missed: 1, total: 1 }));
        assert_eq!((reports.next(5, at(100)), reports.due(5, at(104))), (None, at(101)));
        assert_eq!(reports.next(20, at(101)), Some(DeadlinesMissed { missed: 19, total: 20 }));
        assert_eq!((reports.next(20, at(900)), reports.due(20, at(905))), (None, at(905)));
    }

    #[test]
    fn a_reader_does_not_wait_for_another_thread_that_looks() {
        let watch = DeadlineWatch::new(Duration::from_millis(10), 0);
        let looking = lock(&watch.0);
        assert_eq!(watch.try_look(0, at(0), at(1)), None);
        drop(looking);
        assert_eq!(watch.try_look(0, at(0), at(1)), Some((0, at(11))));
    }
}
