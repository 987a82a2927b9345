// SPDX-License-Identifier: Apache-2.0
//! Timers at the end of a run, on a virtual clock.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use super::tests::{PATIENCE, rig, send};
use super::*;
use crate::SubscriptionOptions;
use driveline_types::{MonotonicNs, VirtualClock};
use std::sync::atomic::{AtomicU64, Ordering};

const PERIOD: Duration = Duration::from_millis(50);

/// Counts calls.
fn counter() -> (Arc<AtomicU64>, impl Fn() + Send + Sync + 'static) {
    let count = Arc::new(AtomicU64::new(0));
    let add = count.clone();
    (count, move || {
        add.fetch_add(1, Ordering::Relaxed);
    })
}

#[test]
fn a_draining_timer_ticks_once_more_and_then_only_for_samples_that_it_has_not_read() {
    let clock = VirtualClock::starting_at(MonotonicNs::real_now());
    let _entered = clock.enter();
    let r = rig(1);
    let mut publisher = r.publisher("number");
    let subscription =
        r.node.bytes_subscription("number", "raw", SubscriptionOptions::default()).unwrap();
    let timer = |period| Trigger::Timer { period, max_age: None };
    let planner =
        r.callback(timer(PERIOD), vec![("in".to_owned(), subscription)], |i| drop(i.read(0)));
    let source = r.callback(timer(PERIOD), vec![], |_| {});
    let ticks = || (planner.stats().invocations, source.stats().invocations);
    let step = || {
        clock.advance(PERIOD);
        r.executor.run_ready();
    };
    r.executor.run_ready();
    (0..3).for_each(|_| step());
    assert_eq!(ticks(), (3, 3));
    for timer in [&planner, &source] {
        timer.timer_end().drain();
        timer.timer_end().drain();
    }
    send(&mut publisher, 1, 1);
    step();
    assert_eq!(ticks(), (4, 4), "the last one");
    (0..20).for_each(|_| step());
    assert_eq!(ticks(), (4, 4), "nothing new");
    send(&mut publisher, 2, 1);
    step();
    step();
    assert_eq!(ticks(), (5, 4), "a late sample is read, once");
    let stats = planner.stats();
    assert_eq!(
        (stats.overruns, planner.inputs()[0].stats.not_read),
        (0, 0),
        "ticks that are not wanted are no overruns"
    );
}

#[test]
fn a_draining_timer_without_inputs_ticks_after_calls_that_feed_it() {
    let clock = VirtualClock::starting_at(MonotonicNs::real_now());
    let _entered = clock.enter();
    let r = rig(1);
    let mut publisher = r.publisher("number");
    let subscription =
        r.node.bytes_subscription("number", "raw", SubscriptionOptions::default()).unwrap();
    let callback = r.callback(Trigger::any(), vec![("in".to_owned(), subscription)], |_| {});
    let (flushed, flush) = counter();
    let options = TimerOptions {
        name: "flush".into(),
        group: r.executor.group(GroupKind::MutuallyExclusive),
        period: PERIOD,
    };
    let timer = r.executor.add_timer(options, move |_| flush()).unwrap();
    timer.fed_by(&callback);
    let step = || {
        clock.advance(PERIOD);
        r.executor.run_ready();
    };
    r.executor.run_ready();
    timer.timer_end().drain();
    (0..5).for_each(|_| step());
    assert_eq!(flushed.load(Ordering::Relaxed), 1, "the last one");
    send(&mut publisher, 1, 1);
    r.executor.run_ready();
    (0..5).for_each(|_| step());
    assert_eq!((callback.stats().invocations, flushed.load(Ordering::Relaxed)), (1, 2));
}

#[test]
fn a_draining_timer_does_not_tick_for_samples_that_it_cannot_or_does_not_read() {
    let clock = VirtualClock::starting_at(MonotonicNs::real_now());
    let _entered = clock.enter();
    let r = rig(1);
    let mut publisher = r.publisher("number");
    let input = |max_held| {
        let options = SubscriptionOptions { max_held, ..SubscriptionOptions::default() };
        vec![("in".to_owned(), r.node.bytes_subscription("number", "raw", options).unwrap())]
    };
    let timer = || Trigger::Timer { period: PERIOD, max_age: None };
    let kept = std::sync::Mutex::new(Vec::new());
    // `keeper` keeps as many samples as it may hold; `deaf` reads none.
    let keeper = r.callback(timer(), input(2), move |i| kept.lock().unwrap().extend(i.read(0)));
    let deaf = r.callback(timer(), input(2), |_| {});
    let ticks = || (keeper.stats().invocations, deaf.stats().invocations);
    let step = || {
        clock.advance(PERIOD);
        r.executor.run_ready();
    };
    r.executor.run_ready();
    for number in 1..=3 {
        send(&mut publisher, number, 1);
        step();
    }
    assert_eq!((ticks(), keeper.inputs()[0].stats.not_read), ((3, 3), 1));
    [&keeper, &deaf].iter().for_each(|timer| timer.timer_end().drain());
    (0..20).for_each(|_| step());
    assert_eq!(ticks(), (4, 4), "the last one: the third sample stays unread");
    assert_eq!(
        [&keeper, &deaf].map(|t| t.pending()),
        [PendingWork::default(), PendingWork::default()]
    );
    send(&mut publisher, 4, 1);
    assert_eq!(deaf.pending().unread, [(0, 1)]);
    (0..20).for_each(|_| step());
    assert_eq!(ticks(), (5, 5), "one more for the sample that came");
}

#[test]
fn work_is_pending_until_the_call_that_reads_a_sample_has_ended() {
    let clock = VirtualClock::starting_at(MonotonicNs::real_now());
    let _entered = clock.enter();
    let r = rig(1);
    let mut publisher = r.publisher("number");
    let options = || SubscriptionOptions { max_held: 1, ..SubscriptionOptions::default() };
    let subscription = || r.node.bytes_subscription("number", "raw", options()).unwrap();
    let within = Arc::new(std::sync::Mutex::new(None::<CallbackHandle>));
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = std::sync::Mutex::new(Vec::new());
    let (own, saw) = (within.clone(), seen.clone());
    let input = vec![("in".to_owned(), subscription())];
    let callback = r.callback(Trigger::any(), input, move |i| {
        saw.lock().unwrap().extend(own.lock().unwrap().as_ref().map(CallbackHandle::pending));
        kept.lock().unwrap().extend(i.sample(0).cloned());
    });
    *within.lock().unwrap() = Some(callback.clone());
    r.executor.run_ready();
    assert_eq!(callback.pending(), PendingWork::default());
    send(&mut publisher, 1, 1);
    assert_eq!(callback.pending(), PendingWork { unread: vec![(0, 1)], ..Default::default() });
    r.executor.run_ready();
    assert_eq!(*seen.lock().unwrap(), [PendingWork { running: 1, ..Default::default() }]);
    assert_eq!(callback.pending(), PendingWork::default());
    // The component keeps the only sample that it may hold, so the next sample waits. After 0.5 s
    // the input counts as stalled, and the waiting sample is no longer pending work.
    send(&mut publisher, 2, 1);
    r.executor.run_ready();
    assert_eq!(callback.pending().unread, [(0, 1)]);
    clock.advance(Duration::from_millis(500));
    r.executor.run_ready();
    assert_eq!(callback.pending(), PendingWork::default());
    within.lock().unwrap().take();
}

#[test]
fn deadlines_are_missed_until_they_are_ended_and_not_after() {
    for reach in [crate::Reach::Process, crate::Reach::Host] {
        let clock = VirtualClock::starting_at(MonotonicNs::real_now());
        let _entered = clock.enter();
        let r = rig(1);
        let qos = driveline_types::Qos { deadline_ms: Some(50), ..Default::default() };
        let options = crate::PublisherOptions { reach, qos: qos.clone(), ..Default::default() };
        let mut publisher = r.node.bytes_publisher("number", "raw", options).unwrap();
        let options = SubscriptionOptions { reach, qos, ..SubscriptionOptions::default() };
        let subscription = r.node.bytes_subscription("number", "raw", options).unwrap();
        // Between processes a match takes a moment, which the clock of the test does not show.
        let end = MonotonicNs::real_now() + PATIENCE;
        while publisher.matched() == 0 || subscription.matched() == 0 {
            assert!(MonotonicNs::real_now() < end, "not matched at {reach:?}");
            std::thread::yield_now();
        }
        let callback = r.callback(Trigger::any(), vec![("in".to_owned(), subscription)], |_| {});
        let counter = publisher.published_counter();
        let missed = || (callback.inputs()[0].stats.deadlines_missed, counter.deadlines_missed());
        send(&mut publisher, 1, 1);
        r.executor.run_ready();
        // Checks more often than once per deadline, as an executor does.
        let wait = || {
            (0..5).for_each(|_| {
                clock.advance(PERIOD);
                let _ = missed();
                r.executor.run_ready();
            });
        };
        wait();
        let before = missed();
        assert!(before.0 >= 4 && before.1 >= 4, "{before:?} at {reach:?}");
        callback.end_deadlines();
        counter.end_deadlines();
        wait();
        send(&mut publisher, 2, 1);
        r.executor.run_ready();
        wait();
        assert_eq!(missed(), before, "{reach:?}");
        assert_eq!(callback.stats().invocations, 2);
    }
}
