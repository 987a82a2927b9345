// SPDX-License-Identifier: Apache-2.0
//! Inputs whose callback keeps as many samples as it may hold.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use super::tests::{PATIENCE, Rig, rig, send};
use super::*;
use crate::raw::RawSample;
use crate::trigger::InputStall;
use crate::{PublisherOptions, RawPublisher, Reach, SubscriptionOptions};
use driveline_shm::{WaitBackend, WaitSet, Wake};
use driveline_types::{MonotonicNs, VirtualClock};
use std::sync::mpsc::Sender;

/// Forwards reports of stalls.
struct Reports(Sender<(String, String, InputStall)>);

impl Observer for Reports {
    fn callback(&self, _: &CallbackRecord<'_>) {}

    fn stall(&self, callback: &str, input: &str, stall: &InputStall) {
        let _ = self.0.send((callback.to_owned(), input.to_owned(), stall.clone()));
    }
}

/// Returns a publisher, and a matched input that may hold two samples.
fn edge(rig: &Rig, reach: Reach) -> (RawPublisher, (String, RawSubscription)) {
    edge_of(rig, reach, "topic")
}

fn edge_of(rig: &Rig, reach: Reach, topic: &str) -> (RawPublisher, (String, RawSubscription)) {
    let mut publisher = rig
        .node
        .bytes_publisher(topic, "raw", PublisherOptions { reach, ..Default::default() })
        .unwrap();
    let o = SubscriptionOptions { reach, max_held: 2, ..Default::default() };
    let subscription = rig.node.bytes_subscription(topic, "raw", o).unwrap();
    // Each end detects the match on its own. The subscription does not read samples published
    // earlier.
    while publisher.matched() == 0 || subscription.matched() == 0 {
        std::thread::yield_now();
    }
    (publisher, ("in".to_owned(), subscription))
}

#[test]
fn an_input_whose_samples_are_kept_is_reported_once_and_when_it_goes_on() {
    for reach in [Reach::Process, Reach::Host] {
        let clock = VirtualClock::starting_at(MonotonicNs::real_now());
        let _entered = clock.enter();
        let rig = rig(1);
        let (mut publisher, input) = edge(&rig, reach);
        let kept: Arc<Mutex<Vec<RawSample>>> = Arc::default();
        let keep = kept.clone();
        let handle = rig.callback(Trigger::any(), vec![input], move |i| {
            keep.lock().unwrap().push(i.sample(0).unwrap().clone())
        });
        let (reports, reported) = mpsc::channel();
        let look = || handle.entry.log_events(Some(&Reports(reports.clone())));
        for n in 0..5 {
            send(&mut publisher, n, 1);
            rig.executor.run_ready();
        }
        look();
        assert!(reported.try_recv().is_err(), "{reach:?}: it may be over in a moment");
        let due = handle.entry.silence_deadline().unwrap();
        assert!(due > clock.now(), "{reach:?}: the executor wakes for it");
        clock.advance(due.since(clock.now()));
        look();
        look();
        let (callback, name, stall) = reported.try_recv().unwrap();
        assert_eq!(
            (&*callback, &*name, stall.topic.as_str(), stall.held, stall.triggers),
            ("callback", "in", "topic", 2, true),
            "{reach:?}"
        );
        assert_eq!(stall.end, None);
        assert!(
            stall.to_string().contains(
                "2 of its samples are held, which is max_held; drop one first, or write `max_held: \
                 3` at this input"
            ),
            "{stall}"
        );
        assert!(
            reported.try_recv().is_err() && handle.entry.silence_deadline().is_none(),
            "{reach:?}: once"
        );
        let stats = handle.inputs()[0].stats;
        assert_eq!((stats.received, stats.missed, stats.not_read), (2, 2, 1), "{reach:?}");

        send(&mut publisher, 5, 1);
        clock.advance(Duration::from_secs(2));
        kept.lock().unwrap().clear();
        assert_eq!(rig.executor.run_ready(), 1, "{reach:?}: it goes on by itself");
        assert!(
            handle.entry.silence_deadline().is_some_and(|at| at <= clock.now()),
            "{reach:?}: the executor wakes for that as well"
        );
        look();
        let end = reported.try_recv().unwrap().2.end.unwrap();
        assert_eq!((end.lasted, end.missed), (Duration::from_millis(2500), 3), "{reach:?}");
        assert!(reported.try_recv().is_err());
        let stats = handle.inputs()[0].stats;
        assert_eq!((stats.received, stats.missed, stats.not_read), (3, 3, 0), "{reach:?}");
    }
}

#[test]
fn a_wait_ends_when_a_sample_of_the_other_reach_is_given_back() {
    // Each case lists the publishers of the two held samples, and the publisher of the waiting
    // sample. Publisher 0 is inside the process.
    for (held_of, waits) in [([0, 0], 1), ([1, 1], 0), ([0, 1], 1), ([1, 0], 0)] {
        let rig = rig(1);
        let (inside, (_, mut input)) = edge(&rig, Reach::Host);
        drop(inside);
        let publisher = |reach, matched| {
            let o = PublisherOptions { reach, ..Default::default() };
            let mut p = rig.node.bytes_publisher("topic", "raw", o).unwrap();
            while p.matched() == 0 || input.matched() != matched {
                std::thread::yield_now();
            }
            p
        };
        let mut publishers = [publisher(Reach::Process, 1), publisher(Reach::Host, 2)];
        let mut set = WaitSet::new(WaitBackend::Auto).unwrap();
        input.attach(&mut set).unwrap();
        input.watch_room(&set);
        let mut held = Vec::new();
        for from in held_of {
            send(&mut publishers[from], 0, 1);
            held.push(input.take().unwrap().unwrap());
        }
        send(&mut publishers[waits], 1, 1);
        input.take().unwrap_err();
        input.mute(&mut set, true);
        while set.wait(Some(MonotonicNs::real_now()), Duration::ZERO) != Wake::TimedOut {}
        held.remove(0);
        let end = MonotonicNs::real_now() + PATIENCE;
        assert_ne!(set.wait(Some(end), Duration::ZERO), Wake::TimedOut, "{held_of:?}, {waits}");
        assert_eq!(input.take().unwrap().unwrap().payload().unwrap()[0], 1);
    }
}

#[test]
fn a_sleeping_executor_wakes_to_report_a_stall() {
    for (reach, threads) in [(Reach::Process, 1), (Reach::Host, 1), (Reach::Host, 2)] {
        let rig = rig(threads);
        let (mut publisher, input) = edge(&rig, reach);
        let kept: Arc<Mutex<Vec<RawSample>>> = Arc::default();
        let keep = kept.clone();
        let handle = rig.callback(Trigger::any(), vec![input], move |i| {
            keep.lock().unwrap().push(i.sample(0).unwrap().clone())
        });
        let (reports, reported) = mpsc::channel();
        rig.executor.set_observer(Arc::new(Reports(reports)));
        rig.executor.start().unwrap();
        for n in 0..3 {
            send(&mut publisher, n, 1);
            while n < 2 && handle.stats().invocations <= u64::from(n) {
                std::thread::yield_now();
            }
        }
        assert_eq!(reported.recv_timeout(PATIENCE).unwrap().2.end, None, "{reach:?}");
        kept.lock().unwrap().clear();
        assert!(reported.recv_timeout(PATIENCE).unwrap().2.end.is_some(), "{reach:?}");
        rig.executor.stop();
    }
}

#[test]
fn a_read_that_fails_again_and_again_is_reported_and_one_that_failed_once_is_not() {
    let clock = VirtualClock::starting_at(MonotonicNs::real_now());
    let _entered = clock.enter();
    let rig = rig(1);
    let (mut publisher, input) = edge(&rig, Reach::Process);
    let kept: Arc<Mutex<Vec<RawSample>>> = Arc::default();
    let keep = kept.clone();
    let timer = Trigger::Timer { period: Duration::from_secs(1), max_age: None };
    let handle = rig.callback(timer, vec![input], move |i| keep.lock().unwrap().extend(i.read(0)));
    let (reports, reported) = mpsc::channel();
    let look = || handle.entry.log_events(Some(&Reports(reports.clone())));
    rig.executor.run_ready();
    for n in 0..3 {
        send(&mut publisher, n, 1);
        clock.advance(Duration::from_secs(1));
        assert_eq!(rig.executor.run_ready(), 1);
    }
    clock.advance(Duration::from_millis(900));
    look();
    assert!(reported.try_recv().is_err(), "no read has failed after the first 0.5 s");
    clock.advance(Duration::from_millis(100));
    assert_eq!(rig.executor.run_ready(), 1);
    look();
    let stall = reported.try_recv().unwrap().2;
    assert!(
        !stall.triggers && stall.held == 2 && stall.to_string().contains("cannot be read"),
        "{stall}"
    );
}

#[test]
fn a_stall_that_has_just_begun_is_reported_when_the_run_ends() {
    let rig = rig(1);
    let (mut publisher, input) = edge(&rig, Reach::Process);
    let kept: Arc<Mutex<Vec<RawSample>>> = Arc::default();
    let keep = kept.clone();
    let handle = rig.callback(Trigger::any(), vec![input], move |i| {
        keep.lock().unwrap().push(i.sample(0).unwrap().clone())
    });
    for n in 0..3 {
        send(&mut publisher, n, 1);
        rig.executor.run_ready();
    }
    let stalls = handle.unreported_stalls();
    assert_eq!(
        stalls.iter().map(|(input, s)| (input.as_str(), s.held)).collect::<Vec<_>>(),
        [("in", 2)]
    );
    assert!(handle.unreported_stalls().is_empty(), "once");
}

#[test]
fn an_input_whose_samples_are_kept_leaves_the_other_inputs_alone() {
    for (reach, threads) in [(Reach::Process, 1), (Reach::Host, 1), (Reach::Host, 2)] {
        let rig = rig(threads);
        let (mut kept_publisher, a) = edge_of(&rig, reach, "kept");
        let (mut publisher, b) = edge_of(&rig, reach, "read");
        let kept: Arc<Mutex<Vec<RawSample>>> = Arc::default();
        let keep = kept.clone();
        let (calls, called) = mpsc::channel();
        let _handle = rig.callback(Trigger::any(), vec![a, b], move |i| {
            keep.lock().unwrap().extend(i.sample(0).cloned());
            calls.send(i.sample(1).is_some()).unwrap();
        });
        rig.executor.start().unwrap();
        for n in 0..2 {
            send(&mut kept_publisher, n, 1);
            assert!(!called.recv_timeout(PATIENCE).unwrap(), "{reach:?}");
        }
        for n in 0..50 {
            send(&mut kept_publisher, n, 1);
            send(&mut publisher, n, 1);
            assert!(called.recv_timeout(PATIENCE).unwrap(), "{reach:?}: sample {n} is read");
        }
        // Releases the samples. The executor wakes without any other event.
        kept.lock().unwrap().clear();
        assert!(!called.recv_timeout(PATIENCE).unwrap(), "{reach:?}: the kept one goes on");
        rig.executor.stop();
    }
}
