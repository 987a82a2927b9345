// SPDX-License-Identifier: Apache-2.0
//! After start, publishing, reading and calling back allocate nothing.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use allocation_counter::measure;
use driveline::types::{MonotonicNs, Qos};
use driveline::{
    CallbackOptions, Context, ContextOptions, EndpointEvent, Executor, ExecutorOptions, GroupKind,
    Node, PublisherOptions, RawPublisher, Reach, SubscriptionOptions, TimerOptions, Trigger,
};
use std::sync::Mutex;
use std::time::Duration;

fn node(dir: &tempfile::TempDir) -> Node {
    Context::new(ContextOptions {
        name: "test".into(),
        domain_dir: Some(dir.path().join("domain")),
    })
    .unwrap()
    .node("test")
    .unwrap()
}

fn publisher(node: &Node, topic: &str, reach: Reach) -> RawPublisher {
    node.bytes_publisher(topic, "raw", PublisherOptions { reach, ..Default::default() }).unwrap()
}

fn until(mut condition: impl FnMut() -> bool) {
    let deadline = MonotonicNs::now() + Duration::from_secs(60);
    while !condition() {
        assert!(MonotonicNs::now() < deadline, "it did not happen within 60 s");
        // time: a pause between polls; the test fails only after 60 s
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn publishing_and_reading_allocate_nothing() {
    for reach in [Reach::Process, Reach::Host] {
        let dir = tempfile::tempdir().unwrap();
        let node = node(&dir);
        let mut p = publisher(&node, "topic", reach);
        let mut s = node
            .bytes_subscription("topic", "raw", SubscriptionOptions { reach, ..Default::default() })
            .unwrap();
        until(|| p.matched() == 1 && s.matched() == 1);
        let mut round = || {
            let mut loan = p.loan(1000).unwrap();
            loan.payload_mut()[0] = 1;
            p.publish(loan).unwrap();
            let sample = s.latest().unwrap().unwrap();
            assert_eq!(sample.clone().payload().unwrap()[0], 1);
        };
        // In the first round, each end reads the list of its peers, which allocates.
        round();
        let info = measure(|| (0..1000).for_each(|_| round()));
        assert_eq!(info.count_total, 0, "{reach:?}");
    }
}

/// Payload memory inside the process: reserved with the publisher, and added by later
/// subscriptions.
#[test]
fn no_payload_buffer_is_allocated_when_a_reader_comes() {
    const LEN: usize = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let node = node(&dir);
    let mut p = node
        .bytes_publisher(
            "topic",
            "raw",
            PublisherOptions { max_payload: LEN, ..Default::default() },
        )
        .unwrap();
    let mut readers = Vec::new();
    for round in 0..4 {
        let options = SubscriptionOptions { max_held: 3, ..Default::default() };
        readers.push((node.bytes_subscription("topic", "raw", options).unwrap(), Vec::new()));
        let info = measure(|| {
            for _ in 0..5 {
                let loan = p.loan(LEN).unwrap();
                p.publish(loan).unwrap();
                // The slowest permitted readers: each holds as many samples as it may.
                for (s, held) in &mut readers {
                    held.truncate(2);
                    held.insert(0, s.latest().unwrap().unwrap());
                }
            }
        });
        assert!(
            info.bytes_total < LEN as u64 / 2,
            "{} bytes with reader {round}",
            info.bytes_total
        );
    }
    let kept: Vec<_> = readers.into_iter().flat_map(|(_, held)| held).collect();
    let _late = node.bytes_subscription("topic", "raw", SubscriptionOptions::default()).unwrap();
    let mut error = None;
    let lent: Vec<_> =
        std::iter::from_fn(|| p.loan(1).map_err(|e| error = Some(e.to_string())).ok()).collect();
    assert!(
        lent.len() == 2 && error.unwrap().contains("loans"),
        "the declared loans are there whatever others keep"
    );
    drop(kept);
}

#[test]
fn calling_back_allocates_nothing() {
    for reach in [Reach::Process, Reach::Host] {
        let dir = tempfile::tempdir().unwrap();
        let node = node(&dir);
        let executor = Executor::new(ExecutorOptions::default()).unwrap();
        let mut first = publisher(&node, "first", reach);
        let second = Mutex::new(publisher(&node, "second", reach));
        let input = |topic: &str| {
            let options = SubscriptionOptions { reach, max_held: 3, ..Default::default() };
            let mut input = node.bytes_subscription(topic, "raw", options).unwrap();
            // An event allocates, and the executor takes events only every 100 ms.
            until(|| matches!(input.poll_event(), Some(EndpointEvent::Matched { .. })));
            (topic.to_owned(), input)
        };
        let add = |trigger, inputs, f: Box<dyn Fn() + Send + Sync>| {
            let group = executor.group(GroupKind::MutuallyExclusive);
            executor
                .add_callback(
                    CallbackOptions { name: "c".into(), group, trigger, inputs },
                    move |_| f(),
                )
                .unwrap()
        };
        add(
            Trigger::any(),
            vec![input("first")],
            Box::new(move || {
                let mut p = second.lock().unwrap();
                let loan = p.loan(10).unwrap();
                p.publish(loan).unwrap();
            }),
        );
        let last = add(
            Trigger::AllLatest { on: 1, max_age: None },
            vec![input("first"), input("second")],
            Box::new(|| {}),
        );
        until(|| first.matched() == 2);
        let mut rounds = |n: u64| {
            let target = last.stats().invocations + n;
            while last.stats().invocations < target {
                let loan = first.loan(10).unwrap();
                first.publish(loan).unwrap();
                executor.run_ready();
            }
        };
        rounds(20);
        let info = measure(|| rounds(500));
        assert_eq!(info.count_total, 0, "{reach:?}");
    }
}

/// Work of the executor's thread between calls: deadlines of inputs, events, ticks.
#[test]
fn waiting_and_ticking_allocate_nothing() {
    for reach in [Reach::Process, Reach::Host] {
        let dir = tempfile::tempdir().unwrap();
        let node = node(&dir);
        let executor = Executor::new(ExecutorOptions::default()).unwrap();
        let qos = Qos { deadline_ms: Some(60_000), ..Qos::default() };
        let options = PublisherOptions { reach, qos: qos.clone(), ..Default::default() };
        let mut p = node.bytes_publisher("topic", "raw", options).unwrap();
        let options = SubscriptionOptions { reach, qos, max_held: 3, ..Default::default() };
        let mut input = node.bytes_subscription("topic", "raw", options).unwrap();
        // An event allocates, and the executor takes events only every 100 ms.
        until(|| matches!(input.poll_event(), Some(EndpointEvent::Matched { .. })));
        let group = executor.group(GroupKind::MutuallyExclusive);
        let inputs = vec![("topic".to_owned(), input)];
        let options = CallbackOptions {
            name: "c".into(),
            group: group.clone(),
            trigger: Trigger::any(),
            inputs,
        };
        let callback = executor.add_callback(options, |_| {}).unwrap();
        let period = Duration::from_micros(1);
        let options = TimerOptions { name: "t".into(), group, period };
        let timer = executor.add_timer(options, |_| {}).unwrap();
        until(|| p.matched() == 1);
        let mut round = || {
            let ticks = timer.stats().invocations;
            let loan = p.loan(10).unwrap();
            p.publish(loan).unwrap();
            until(|| executor.run_ready() > 0 && timer.stats().invocations > ticks);
            assert!(executor.next_deadline().is_some());
            executor.poll_events();
        };
        // After the match, the input reads the list of its publishers, which allocates.
        until(|| {
            round();
            callback.stats().invocations >= 20
        });
        let calls = callback.stats().invocations;
        let info = measure(|| (0..500).for_each(|_| round()));
        assert_eq!(info.count_total, 0, "{reach:?}");
        assert!(callback.stats().invocations > calls);
    }
}
