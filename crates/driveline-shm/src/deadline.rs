// SPDX-License-Identifier: Apache-2.0
//! Counts of missed deadlines.
//!
//! A deadline is the longest time between two samples. For a publisher, the count begins with its
//! first sample; for a subscription, with the first sample that any publisher has published after
//! its match. From then on, each period of that length without a sample counts once. A sample at
//! the very end of a period is in time. The end of a publisher ends its count. The count of a
//! subscription pauses when no publisher remains that has published since its match.

use crate::protocol::newest_time::NewestTime;
use crate::queue::{lock, try_lock};
use driveline_types::MonotonicNs;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::atomic::{
    Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex};
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

/// Counts the deadlines that one publisher misses, or that all publishers of one subscription miss
/// together if all are in this process. The publishing threads report the times of samples; any
/// thread reads the count.
///
/// Neither locks nor allocates.
#[derive(Debug)]
pub struct DeadlineMeter {
    length: Duration,
    /// Publish time of the newest sample; 0 before the first, and after the end of the count.
    last_ns: AtomicU64,
    /// Periods missed before the newest sample, or before the count ended.
    closed: AtomicU64,
    /// Nothing is counted any more.
    over: AtomicBool,
}

fn periods(length: Duration, last: u64, until: u64) -> u64 {
    let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX).max(1);
    until.saturating_sub(last).saturating_sub(1) / length
}

/// Returns the time at which the next deadline is missed if no sample is published until then.
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

    /// Ends the count until the next sample: the publishers have ended.
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

    /// Returns the time at which the next deadline is missed if no sample is published until then;
    /// `None` while nothing is counted, for example before the first sample.
    #[must_use]
    pub fn next_miss(&self, now: MonotonicNs) -> Option<MonotonicNs> {
        let last = Some(self.last_ns.load(Acquire)).filter(|last| *last != 0)?;
        Some(next_miss(self.length, last, periods(self.length, last, now.0)))
    }
}

/// Counts the deadlines that a subscription misses, from the newest sample of each of its
/// publishers at each check. A sample of any publisher meets the deadline. Exact with a check at
/// the end of each period; never too high.
#[derive(Debug)]
pub(crate) struct DeadlineWatch(Mutex<Gaps>);

/// State of one publisher in the watch of a subscription. Changed only while the watch is locked.
#[derive(Debug)]
pub(crate) struct Heard {
    /// Number of the newest sample at the last check; the maximum if the publisher has ended.
    newest: AtomicU64,
    /// A sample was published since the match.
    any: AtomicBool,
}

/// Samples of one publisher that reach a subscription of its own process as pointers, not through
/// shared memory. They meet the deadline of the subscription like all others.
///
/// The publishing thread writes, any thread reads. Neither locks nor allocates.
#[derive(Debug)]
pub struct InProcessPublisher {
    /// Samples since the match.
    samples: NewestTime,
    heard: Heard,
}

impl InProcessPublisher {
    /// Notes that a sample was published. Only one thread at a time may call this.
    #[inline]
    pub fn published(&self, at: MonotonicNs) {
        self.samples.published(at.0);
    }

    /// Returns true if a sample was published since the match.
    #[must_use]
    pub fn has_published(&self) -> bool {
        self.samples.number() > 0
    }

    fn newest_sample(&self) -> NewestSample<'_> {
        let (sequence, published) = self.samples.newest();
        NewestSample { of: &self.heard, sequence, published: MonotonicNs(published) }
    }
}

/// The state at the match.
impl Default for InProcessPublisher {
    fn default() -> Self {
        Self { samples: NewestTime::default(), heard: Heard::new(0) }
    }
}

/// Newest sample of one publisher, at a check.
pub(crate) struct NewestSample<'a> {
    pub(crate) of: &'a Heard,
    pub(crate) sequence: u64,
    pub(crate) published: MonotonicNs,
}

#[derive(Debug)]
struct Gaps {
    length: Duration,
    /// Publish time of the newest sample of all publishers; `None` while the count pauses.
    last: Option<u64>,
    /// Periods missed before that sample, and since.
    closed: u64,
    open: u64,
    /// Count so far. It does not decrease when a check finds a sample that was published before an
    /// earlier check.
    missed: u64,
    /// Number of publishers that are alive and have published since their match.
    heard: usize,
    /// Publishers in the process of the subscription. Each check includes them in addition to the
    /// publishers that its caller passes.
    in_process: Vec<Arc<InProcessPublisher>>,
}

impl Heard {
    /// `newest` is the number of the publisher's newest sample at the match.
    pub(crate) fn new(newest: u64) -> Self {
        Self { newest: AtomicU64::new(newest), any: AtomicBool::new(false) }
    }
}

impl DeadlineWatch {
    pub(crate) fn new(length: Duration) -> Self {
        Self(Mutex::new(Gaps {
            length,
            last: None,
            closed: 0,
            open: 0,
            missed: 0,
            heard: 0,
            in_process: Vec::new(),
        }))
    }

    /// Adds a publisher in the process of the subscription, at its match. Each check includes its
    /// newest sample.
    pub(crate) fn add_in_process(&self, publisher: Arc<InProcessPublisher>) {
        lock(&self.0).in_process.push(publisher);
    }

    /// As [`Self::end`], for a publisher in the process of the subscription.
    pub(crate) fn end_in_process<'a>(
        &self,
        publisher: &Arc<InProcessPublisher>,
        newest: impl Iterator<Item = NewestSample<'a>>,
        now: MonotonicNs,
    ) {
        let mut gaps = lock(&self.0);
        gaps.look(newest, now);
        gaps.in_process.retain(|p| !Arc::ptr_eq(p, publisher));
        gaps.silence(&publisher.heard);
    }

    /// Notes the newest sample of each publisher. Returns the deadlines missed so far, and the time
    /// of the next check.
    pub(crate) fn look<'a>(
        &self,
        newest: impl Iterator<Item = NewestSample<'a>>,
        now: MonotonicNs,
    ) -> (u64, MonotonicNs) {
        lock(&self.0).look(newest, now)
    }

    /// As [`Self::look`] without waiting: `None` while another thread checks.
    pub(crate) fn try_look<'a>(
        &self,
        newest: impl Iterator<Item = NewestSample<'a>>,
        now: MonotonicNs,
    ) -> Option<(u64, MonotonicNs)> {
        Some(try_lock(&self.0)?.look(newest, now))
    }

    /// Notes that a publisher has ended, after a last check. If no other publisher that has
    /// published since its match remains, the count pauses until the next sample.
    pub(crate) fn end<'a>(
        &self,
        publisher: &Heard,
        newest: impl Iterator<Item = NewestSample<'a>>,
        now: MonotonicNs,
    ) {
        let mut gaps = lock(&self.0);
        gaps.look(newest, now);
        publisher.newest.store(u64::MAX, Relaxed);
        gaps.silence(publisher);
    }
}

impl Gaps {
    fn look<'a>(
        &mut self,
        newest: impl Iterator<Item = NewestSample<'a>>,
        now: MonotonicNs,
    ) -> (u64, MonotonicNs) {
        let length = self.length;
        let (mut new, mut latest, mut anyone) = (0_u64, 0, false);
        let heard = &mut self.heard;
        let mut note = |NewestSample { of, sequence, published }: NewestSample<'_>| {
            let before = of.newest.load(Relaxed);
            anyone |= before != u64::MAX;
            if sequence > before {
                new = new.saturating_add(sequence - before);
                // A time from the future (another process wrote it) counts as now.
                latest = published.0.min(now.0).max(latest);
                of.newest.store(sequence, Relaxed);
                *heard += usize::from(!of.any.swap(true, Relaxed));
            }
        };
        newest.for_each(&mut note);
        self.in_process.iter().for_each(|p| note(p.newest_sample()));
        if new > 0 {
            let at = latest.max(self.last.unwrap_or(0));
            if let Some(last) = self.last {
                let elapsed = periods(length, last, at);
                // Each unseen sample met the deadline of at most one period. Periods that an
                // earlier check has counted stay missed up to the newest sample. Those after it
                // are not missed: this sample was published before that check, which did not see
                // it yet.
                self.closed += elapsed.saturating_sub(new - 1).max(self.open.min(elapsed));
            }
            (self.last, self.open) = (Some(at), 0);
        }
        let Some(last) = self.last else {
            return (self.missed, if anyone { now + length } else { MonotonicNs(u64::MAX) });
        };
        self.open = self.open.max(periods(length, last, now.0));
        self.missed = self.missed.max(self.closed + self.open);
        (self.missed, next_miss(length, last, self.open))
    }

    /// Notes that a publisher has ended. If no other publisher that has published since its match
    /// remains, the count pauses.
    fn silence(&mut self, publisher: &Heard) {
        if !publisher.any.swap(false, Relaxed) {
            return;
        }
        self.heard -= 1;
        if self.heard == 0 {
            self.closed += std::mem::take(&mut self.open);
            self.last = None;
        }
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
    use proptest::prelude::*;

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

    /// A watch with a length of 10 ms, and the newest sample of each publisher outside the process.
    struct Watched {
        watch: DeadlineWatch,
        publishers: Vec<(Heard, u64, MonotonicNs)>,
    }

    impl Watched {
        fn new(publishers: usize) -> Self {
            let publisher = |_| (Heard::new(7), 7, at(0));
            Self {
                watch: DeadlineWatch::new(Duration::from_millis(10)),
                publishers: (0..publishers).map(publisher).collect(),
            }
        }

        fn newest(&self) -> impl Iterator<Item = NewestSample<'_>> {
            self.publishers.iter().map(|(of, sequence, published)| NewestSample {
                of,
                sequence: *sequence,
                published: *published,
            })
        }

        fn publish(&mut self, publisher: usize, samples: u64, published: MonotonicNs) {
            let (_, sequence, time) = &mut self.publishers[publisher];
            (*sequence, *time) = (*sequence + samples, published);
        }

        fn look(&self, now: MonotonicNs) -> (u64, MonotonicNs) {
            self.watch.look(self.newest(), now)
        }

        fn end(&self, publisher: usize, now: MonotonicNs) {
            self.watch.end(&self.publishers[publisher].0, self.newest(), now);
        }
    }

    const NEVER: MonotonicNs = MonotonicNs(u64::MAX);

    fn after(ms: u64) -> MonotonicNs {
        MonotonicNs(at(ms).0 + 1)
    }

    #[test]
    fn a_subscription_counts_from_the_first_sample_after_the_match_and_never_too_many() {
        let mut w = Watched::new(1);
        assert_eq!(w.look(at(500)), (0, at(510)), "from before the match");
        w.publish(0, 1, at(505));
        assert_eq!(w.look(at(506)), (0, after(515)));
        assert_eq!(w.look(at(536)).0, 3);
        // Two samples since, the first of them unseen: it may have been published at any time.
        w.publish(0, 2, at(560));
        assert_eq!(w.look(at(561)).0, 4, "55 ms with one sample in between are 4 periods at least");
        w.publish(0, 1, at(9_999));
        assert_eq!(w.look(at(565)).0, 4, "a time in the future counts as now");
        w.publish(0, 1, at(100));
        assert_eq!(w.look(at(566)).0, 4, "an earlier time counts as the last one");
        assert_eq!(w.look(at(576)), (5, after(585)));
        w.end(0, at(576));
        w.publish(0, 1, at(900));
        assert_eq!(w.look(at(1000)), (5, NEVER));
    }

    #[test]
    fn a_sample_of_any_publisher_meets_the_deadline() {
        let mut w = Watched::new(2);
        w.publish(1, 1, at(20));
        w.look(at(20));
        for ms in (25..400).step_by(10) {
            w.publish(0, 1, at(ms));
            assert_eq!(w.look(at(ms + 9)), (0, after(ms + 10)), "publisher 1 is silent");
        }
        assert_eq!(w.look(at(426)), (3, after(435)), "both are silent: one miss in each period");
        // Both have published once between two checks, in the order 1, 0.
        w.publish(1, 1, at(427));
        w.publish(0, 1, at(433));
        assert_eq!(w.look(at(434)), (3, after(443)));
    }

    #[test]
    fn a_count_goes_on_from_the_newest_sample_when_its_publisher_ends() {
        let mut w = Watched::new(2);
        w.publish(0, 1, at(10));
        assert_eq!(w.look(at(10)).0, 0);
        for ms in (15..60_000).step_by(10) {
            w.publish(1, 1, at(ms));
            w.look(at(ms));
        }
        // The last sample of a publisher may be unseen when it ends.
        w.publish(1, 1, at(60_005));
        w.end(1, at(60_018));
        assert_eq!(w.look(at(60_026)), (2, after(60_035)), "silent for a minute, yet no jump");
        w.publish(0, 1, at(60_030));
        assert_eq!(w.look(at(60_030)), (2, after(60_040)));
    }

    #[test]
    fn a_count_pauses_while_no_publisher_remains_that_has_published() {
        let mut w = Watched::new(3);
        w.publish(0, 1, at(10));
        w.publish(1, 1, at(12));
        assert_eq!(w.look(at(33)).0, 2);
        w.end(0, at(33));
        assert_eq!(w.look(at(45)).0, 3);
        w.end(1, at(54));
        assert_eq!(
            w.look(at(9_000)),
            (4, at(9_010)),
            "what was missed stays; publisher 2 has published nothing"
        );
        w.publish(2, 1, at(9_005));
        assert_eq!(w.look(at(9_010)).0, 4, "the count begins again");
        assert_eq!(w.look(at(9_016)).0, 5);
        w.end(2, at(9_016));
        assert_eq!(w.look(at(99_000)), (5, NEVER));
    }

    #[test]
    fn a_publisher_in_the_process_meets_the_deadline_like_the_others() {
        let mut w = Watched::new(1);
        let inside = Arc::<InProcessPublisher>::default();
        w.watch.add_in_process(inside.clone());
        assert_eq!(w.look(at(5)), (0, at(15)));
        inside.published(at(10));
        assert_eq!(w.look(at(10)), (0, after(20)));
        w.publish(0, 1, at(15));
        for ms in (20..100).step_by(10) {
            w.publish(0, 1, at(ms));
            assert_eq!(w.look(at(ms + 5)), (0, after(ms + 10)), "the one inside is silent");
        }
        w.end(0, at(95));
        assert_eq!(w.look(at(101)).0, 1, "the one inside has published, so the count goes on");
        inside.published(at(105));
        inside.published(at(135));
        assert_eq!(w.look(at(136)), (3, after(145)), "an unseen sample met one period");
        w.watch.end_in_process(&inside, w.newest(), at(146));
        assert_eq!(w.look(at(900)), (4, NEVER), "none remains");
    }

    /// A publisher takes the publish time first; its sample can be seen later.
    #[test]
    fn a_sample_that_appears_late_is_not_counted_against() {
        let mut w = Watched::new(2);
        w.publish(0, 1, at(100));
        assert_eq!(w.look(at(131)).0, 3);
        w.publish(1, 1, at(99));
        assert_eq!(w.look(at(131)).0, 3, "older than the newest");
        w.publish(1, 1, at(105));
        assert_eq!(w.look(at(131)).0, 3, "there were only two, but a count never falls");
        assert_eq!(w.look(at(136)).0, 3);
        assert_eq!(w.look(at(146)).0, 4);
    }

    proptest! {
        /// Publishers publish and end, and a thread checks, all at random times. If the thread
        /// checks after each act, the count is exact.
        #[test]
        fn a_subscription_never_counts_too_many(
            always in any::<bool>(),
            acts in prop::collection::vec((0..12_u64, 0..20_usize, any::<bool>()), 1..200)
        ) {
            let mut w = Watched::new(3);
            let (mut now, mut last, mut expected) = (1, None, 0);
            let (mut alive, mut heard) = ([true; 3], [false; 3]);
            for (pause, act, checks) in acts {
                now += pause;
                let until_now = |last: Option<u64>| {
                    last.map_or(0, |last| periods(Duration::from_millis(10), at(last).0, at(now).0))
                };
                match act {
                    0..15 if alive[act % 3] => {
                        expected += until_now(last);
                        (last, heard[act % 3]) = (Some(now), true);
                        w.publish(act % 3, 1, at(now));
                    }
                    15..18 if alive[act % 3] => {
                        w.end(act % 3, at(now));
                        (alive[act % 3], heard[act % 3]) = (false, false);
                        if heard == [false; 3] {
                            expected += until_now(last.take());
                        }
                    }
                    18 => {
                        // New publishers match.
                        for p in (0..3).filter(|p| !alive[*p]) {
                            w.publishers[p] = (Heard::new(7), 7, at(0));
                        }
                        alive = [true; 3];
                    }
                    _ => {}
                }
                if checks || always {
                    let (missed, all) = (w.look(at(now)).0, expected + until_now(last));
                    prop_assert!(missed <= all, "{missed} of {all} at {now}");
                    prop_assert!(missed == all || !always, "{missed}, not {all}, at {now}");
                }
            }
        }
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
        let w = Watched::new(1);
        let looking = lock(&w.watch.0);
        assert_eq!(w.watch.try_look(w.newest(), at(1)), None);
        drop(looking);
        assert_eq!(w.watch.try_look(w.newest(), at(1)), Some((0, at(11))));
    }
}
