// SPDX-License-Identifier: Apache-2.0
//! Executors that always have work, on a virtual clock.
use super::*;
use driveline_types::VirtualClock;

/// A component whose timer overruns by a tenth, next to another component. With two threads, the
/// call itself does the work of the second thread: it calls `run_ready`, which finds the group
/// busy.
#[test]
fn a_timer_that_overruns_leaves_the_others_of_its_component_their_calls() {
    for threads in [1, 2] {
        let clock = VirtualClock::starting_at(MonotonicNs(1_000_000_000));
        let _entered = clock.enter();
        let r = Arc::new(rig(threads));
        let timer =
            |name: &str, group: &CallbackGroup, period, tick: Box<dyn Fn() + Send + Sync>| {
                let options = TimerOptions {
                    name: name.into(),
                    group: group.clone(),
                    period: Duration::from_millis(period),
                };
                r.executor.add_timer(options, move |_| tick()).unwrap()
            };
        let feed = Mutex::new(r.publisher("tick"));
        let other = r.executor.group(GroupKind::MutuallyExclusive);
        let source =
            timer("fast", &other, 20, Box::new(move || send(&mut feed.lock().unwrap(), 0, 1)));
        let (time, weak) = (clock.clone(), Arc::downgrade(&r));
        let plan = move || {
            for _ in 0..11 {
                time.advance(Duration::from_millis(10));
                (threads > 1).then(|| weak.upgrade().unwrap().executor.run_ready());
            }
        };
        let group = r.executor.group(GroupKind::MutuallyExclusive);
        let plans = timer("plan", &group, 100, Box::new(plan));
        let beats = timer("beat", &group, 100, Box::new(|| {}));
        let o = CallbackOptions {
            name: "in".into(),
            group,
            trigger: Trigger::any(),
            inputs: vec![r.input("tick", 1)],
        };
        let inputs = r.executor.add_callback(o, |_| {}).unwrap();
        while clock.now() < MonotonicNs(9_000_000_000) {
            if r.executor.run_ready() == 0 {
                clock.advance(Duration::from_millis(1));
            }
        }
        let [published, plans, beats, calls] =
            [&source, &plans, &beats, &inputs].map(|h| h.stats().invocations);
        assert!(
            plans >= 60 && beats * 5 >= plans * 4 && calls * 5 >= plans * 4,
            "plans {plans}, heartbeats {beats}, inputs {calls}"
        );
        let input = &inputs.inputs()[0].stats;
        assert_eq!(published, input.received + input.missed + input.not_read, "{input:?}");
    }
}

#[test]
fn a_stop_ends_work_that_never_ends() {
    let r = rig(2);
    let (feed, handed) = (Mutex::new(r.publisher("feed")), mpsc::channel());
    r.callback(Trigger::any(), vec![r.input("feed", 1)], move |_| {
        send(&mut feed.lock().unwrap(), 0, 1);
        let _ = handed.0.send(());
    });
    send(&mut r.publisher("feed"), 0, 1);
    r.executor.start().unwrap();
    for _ in 0..100 {
        handed.1.recv_timeout(PATIENCE).unwrap();
    }
    r.executor.stop();
    assert_eq!(r.executor.run_ready(), 0, "nothing new is begun after a stop");
}

#[test]
fn events_are_polled_although_work_never_ends() {
    let clock = driveline_types::VirtualClock::starting_at(MonotonicNs(1_000_000_000));
    let _entered = clock.enter();
    let r = rig(1);
    let refusals = Arc::new(Refusals::default());
    r.executor.set_observer(refusals.clone());
    let feed = Mutex::new(r.publisher("feed"));
    let time = clock.clone();
    r.callback(Trigger::any(), vec![r.input("feed", 1), r.input("camera", 1)], move |_| {
        time.advance(Duration::from_millis(1));
        send(&mut feed.lock().unwrap(), 0, 1);
    });
    send(&mut r.publisher("feed"), 0, 1);
    // Each `run_ready` does 64 ms of work. The first call polls events at once, and the next poll
    // comes 100 ms later.
    assert_eq!(r.executor.run_ready(), 64);
    let _other = r.node.bytes_publisher("camera", "another", PublisherOptions::default()).unwrap();
    assert_eq!(r.executor.run_ready(), 64);
    let refusals = refusals.0.lock().unwrap();
    assert!(
        refusals.len() == 1 && refusals[0].starts_with("callback camera: topic 'camera'"),
        "{refusals:?}"
    );
}

/// Each event comes within the poll interval after the previous event. Nothing else wakes the
/// executor.
#[test]
fn the_last_event_of_an_idle_executor_is_polled() {
    for reach in [crate::Reach::Process, crate::Reach::Host] {
        let r = rig(1);
        let refusals = Arc::new(Refusals::default());
        r.executor.set_observer(refusals.clone());
        let options = SubscriptionOptions { reach, max_held: 8, ..Default::default() };
        let camera = r.node.bytes_subscription("camera", "raw", options).unwrap();
        r.callback(Trigger::any(), vec![("camera".to_owned(), camera)], |_| {});
        r.executor.start().unwrap();
        let mut publishers = Vec::new();
        for (n, encoding) in ["one", "two", "three"].into_iter().enumerate() {
            let options = PublisherOptions { reach, ..Default::default() };
            publishers.push(r.node.bytes_publisher("camera", encoding, options).unwrap());
            let end = std::time::Instant::now() + PATIENCE;
            while refusals.0.lock().unwrap().len() <= n {
                assert!(std::time::Instant::now() < end, "{reach:?}: {n}");
                std::thread::yield_now();
            }
        }
        r.executor.stop();
    }
}

/// Missed deadlines of inputs: number since the previous event, and total.
#[derive(Default)]
struct Deadlines(Mutex<Vec<(u64, u64)>>);

impl Observer for Deadlines {
    fn callback(&self, _: &CallbackRecord<'_>) {}

    fn event(&self, _: &str, _: &str, event: &crate::EndpointEvent) {
        if let crate::EndpointEvent::DeadlineMissed { missed, total, .. } = event {
            self.0.lock().unwrap().push((*missed, *total));
        }
    }
}

/// The publisher publishes every 20 ms, but the deadline is 5 ms. The reader works 120 ms on each
/// sample.
#[test]
fn both_ends_count_every_missed_deadline_once_although_work_never_ends() {
    let clock = VirtualClock::starting_at(MonotonicNs(1_000_000_000));
    let _entered = clock.enter();
    let r = rig(1);
    let seen = Arc::new(Deadlines::default());
    r.executor.set_observer(seen.clone());
    let qos = Qos { deadline_ms: Some(5), ..Qos::default() };
    let mut publisher = r
        .node
        .bytes_publisher("tick", "raw", PublisherOptions { qos: qos.clone(), ..Default::default() })
        .unwrap();
    let counter = publisher.published_counter();
    let input = r
        .node
        .bytes_subscription("tick", "raw", SubscriptionOptions { qos, ..Default::default() })
        .unwrap();
    while publisher.poll_event().is_some() {}
    clock.advance(Duration::from_secs(1));
    assert_eq!(
        (publisher.poll_event(), counter.deadlines_missed()),
        (None, 0),
        "the first deadline begins with the first sample"
    );
    send(&mut publisher, 0, 1);
    let (time, ends) = (clock.clone(), Mutex::new((publisher, Vec::new())));
    let ends = Arc::new(ends);
    let work = ends.clone();
    let handle = r.callback(Trigger::any(), vec![("tick".into(), input)], move |_| {
        let (publisher, events) = &mut *work.lock().unwrap();
        for _ in 0..6 {
            time.advance(Duration::from_millis(20));
            send(publisher, 0, 1);
        }
        events.extend(std::iter::from_fn(|| publisher.poll_event()));
    });
    assert_eq!(r.executor.run_ready(), 64);
    // A gap of 20 ms contains three missed periods of 5 ms. The next sample arrives exactly at the
    // end of the fourth period, which is in time.
    let expected = 3 * 64 * 6;
    assert_eq!(
        (counter.deadlines_missed(), handle.inputs()[0].stats.deadlines_missed),
        (expected, expected)
    );
    clock.advance(Duration::from_secs(1));
    assert_eq!(counter.deadlines_missed(), expected + 199, "silence counts as well");
    let seen = seen.0.lock().unwrap();
    assert_eq!(seen.iter().map(|(missed, _)| missed).sum::<u64>(), seen.last().unwrap().1);
    assert!(
        seen.len() >= 60 && seen[0].0 > 0 && seen.last().unwrap().1 >= expected - 3 * 12,
        "{seen:?}"
    );
    let (publisher, events) = &mut *ends.lock().unwrap();
    events.extend(std::iter::from_fn(|| publisher.poll_event()));
    let missed = |e: &crate::EndpointEvent| {
        if let crate::EndpointEvent::DeadlineMissed { missed, .. } = e { *missed } else { 0 }
    };
    assert_eq!(events.iter().map(missed).sum::<u64>(), expected + 199, "{events:?}");
    // At the end of the 64th call one sample waits.
    let stats = handle.inputs()[0].stats;
    assert_eq!(counter.get(), stats.received + stats.missed + stats.not_read);
}

/// Publishers are created and dropped. The count of a publisher begins with its first sample and
/// ends when it is dropped. A subscription counts all its publishers together.
#[test]
fn a_subscription_misses_no_deadline_while_any_publisher_publishes() {
    let clock = VirtualClock::starting_at(MonotonicNs(1_000_000_000));
    let _entered = clock.enter();
    let r = rig(1);
    let qos = Qos { deadline_ms: Some(10), ..Qos::default() };
    let publisher = || {
        r.node
            .bytes_publisher(
                "tick",
                "raw",
                PublisherOptions { qos: qos.clone(), ..Default::default() },
            )
            .unwrap()
    };
    let mut early = publisher();
    send(&mut early, 0, 1);
    clock.advance(Duration::from_millis(95));
    let subscription = r
        .node
        .bytes_subscription(
            "tick",
            "raw",
            SubscriptionOptions { qos: qos.clone(), ..Default::default() },
        )
        .unwrap();
    clock.advance(Duration::from_millis(100));
    assert_eq!(
        (early.stats().deadlines_missed, subscription.stats().deadlines_missed),
        (19, 0),
        "nothing has come since the match"
    );
    let mut other = publisher();
    send(&mut other, 0, 1);
    clock.advance(Duration::from_millis(35));
    send(&mut early, 0, 1);
    assert_eq!(subscription.stats().deadlines_missed, 3);
    for _ in 0..10 {
        clock.advance(Duration::from_millis(10));
        send(&mut early, 0, 1);
    }
    assert_eq!(subscription.stats().deadlines_missed, 3, "only the other one is silent");
    clock.advance(Duration::from_millis(15));
    assert_eq!(subscription.stats().deadlines_missed, 4, "both are silent");
    let count = early.published_counter();
    drop(early);
    clock.advance(Duration::from_millis(10));
    assert_eq!(subscription.stats().deadlines_missed, 5, "no jump");
    drop(other);
    let _silent = publisher();
    clock.advance(Duration::from_millis(100));
    assert_eq!(subscription.stats().deadlines_missed, 5, "the remaining one is silent");
    let mut next = publisher();
    send(&mut next, 0, 1);
    clock.advance(Duration::from_millis(25));
    assert_eq!((subscription.stats().deadlines_missed, count.deadlines_missed()), (7, 22 + 1));
}

/// Each event is one call, even if samples never end. This call never runs at the same time as
/// another call of the group.
#[test]
fn events_are_calls_of_the_group_in_their_order_and_lost_ones_are_counted() {
    let clock = VirtualClock::starting_at(MonotonicNs(1_000_000_000));
    let _entered = clock.enter();
    let r = Arc::new(rig(2));
    let group = r.executor.group(GroupKind::MutuallyExclusive);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (events, weak) = (seen.clone(), Arc::downgrade(&r));
    let called = move |_: &Invocation<'_>, event: &PortEvent| {
        events.lock().unwrap().push(format!("{}: {}", event.port, event.event));
        assert_eq!(weak.upgrade().unwrap().executor.run_ready(), 0, "the group is busy");
    };
    let (handle, sender) =
        r.executor.add_event_callback("component", group.clone(), called).unwrap();
    let feed = Mutex::new(r.publisher("feed"));
    let inputs = vec![r.input("feed", 1), r.input("camera", 1)];
    let options =
        CallbackOptions { name: "component".into(), group, trigger: Trigger::any(), inputs };
    let time = clock.clone();
    let work = r.executor.add_callback(options, move |_| {
        time.advance(Duration::from_millis(50));
        send(&mut feed.lock().unwrap(), 0, 1);
    });
    work.unwrap().send_events_to(sender.clone());
    send(&mut r.publisher("feed"), 0, 1);
    let _other = r.node.bytes_publisher("camera", "another", PublisherOptions::default()).unwrap();
    assert_eq!(r.executor.run_ready(), 128);
    let refused = |events: &[String]| {
        events.iter().filter(|e| e.starts_with("camera: topic 'camera'")).count()
    };
    assert_eq!(refused(&seen.lock().unwrap()), 1, "{:?}", seen.lock().unwrap());
    let before = seen.lock().unwrap().len();
    for i in 0..70 {
        sender.send("out", true, &crate::EndpointEvent::Matched { peer: i.to_string() });
    }
    assert_eq!(r.executor.run_ready(), 128);
    let seen = seen.lock().unwrap();
    assert_eq!(seen[before], ": 6 events were lost because they were not polled");
    assert_eq!(
        (seen.len() - before, seen.last().unwrap().as_str()),
        (65 - 1, "out: matched with 68"),
        "half of the 128 calls are for events"
    );
    assert_eq!(handle.stats().invocations, seen.len() as u64);
}

/// Sends each reported missed deadline: number since the previous event, and total.
struct ReportedDeadlines(Mutex<mpsc::Sender<(u64, u64)>>);

impl Observer for ReportedDeadlines {
    fn callback(&self, _: &CallbackRecord<'_>) {}

    fn event(&self, _: &str, _: &str, event: &crate::EndpointEvent) {
        if let crate::EndpointEvent::DeadlineMissed { missed, total, .. } = event {
            let _ = self.0.lock().unwrap().send((*missed, *total));
        }
    }
}

/// Only the missed deadline wakes the executor.
#[test]
fn an_executor_that_sleeps_wakes_for_a_missed_deadline_at_every_reach() {
    for reach in [crate::Reach::Process, crate::Reach::Host] {
        let r = rig(1);
        let (report, reports) = mpsc::channel();
        r.executor.set_observer(Arc::new(ReportedDeadlines(Mutex::new(report))));
        let qos = Qos { deadline_ms: Some(200), ..Qos::default() };
        let o = PublisherOptions { qos: qos.clone(), reach, ..Default::default() };
        let mut publisher = r.node.bytes_publisher("tick", "raw", o).unwrap();
        let input = r
            .node
            .bytes_subscription(
                "tick",
                "raw",
                SubscriptionOptions { qos, reach, ..Default::default() },
            )
            .unwrap();
        while publisher.matched() == 0 || input.matched() == 0 {
            std::thread::yield_now();
        }
        let (called, calls) = mpsc::channel();
        r.callback(Trigger::any(), vec![("tick".into(), input)], move |_| called.send(()).unwrap());
        r.executor.start().unwrap();
        send(&mut publisher, 0, 1);
        calls.recv_timeout(PATIENCE).unwrap();
        let [first, second] = [(); 2].map(|()| reports.recv_timeout(PATIENCE).unwrap());
        r.executor.stop();
        assert!(
            first.0 == first.1 && second.1 == first.1 + second.0,
            "{reach:?}: {first:?}, {second:?}"
        );
    }
}
