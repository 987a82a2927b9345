// SPDX-License-Identifier: Apache-2.0
//! Behaviour beyond each limit inside a process. `docs/protocols/shm.md` section 8 lists the limits
//! and these tests.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use driveline::types::{Qos, Schema};
use driveline::{
    CallbackOptions, Context, ContextOptions, EndpointEvent, Executor, ExecutorOptions, GroupKind,
    Node, PublisherOptions, RawPublisher, RawSubscription, Reach, SubscriptionOptions, Trigger,
};

fn node() -> (Node, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let context = Context::new(ContextOptions {
        name: "limits".into(),
        domain_dir: Some(dir.path().join("domain")),
    })
    .unwrap();
    (context.node("limits").unwrap(), dir)
}

fn publisher(node: &Node) -> RawPublisher {
    let o = PublisherOptions { reach: Reach::Process, max_payload: 8, ..Default::default() };
    node.raw_publisher("t", Schema::bytes("test/Bytes", "b", ""), o).unwrap()
}

fn subscription(node: &Node) -> RawSubscription {
    let qos = Qos { depth: Qos::MAX_DEPTH, ..Qos::default() };
    node.raw_subscription(
        "t",
        Schema::bytes("test/Bytes", "b", ""),
        SubscriptionOptions { reach: Reach::Process, qos, ..Default::default() },
    )
    .unwrap()
}

fn say(p: &mut RawPublisher) {
    let loan = p.loan(1).unwrap();
    p.publish(loan).unwrap();
}

/// MAX_PUBLISHERS of `local/reader.rs`: publishers that are matched are never forgotten.
#[test]
fn the_257th_publisher_inside_a_process_is_heard_and_nothing_is_called_missed() {
    let (node, _dir) = node();
    let mut s = subscription(&node);
    let mut all: Vec<RawPublisher> = (0..300).map(|_| publisher(&node)).collect();
    for round in 1..=3 {
        all.iter_mut().for_each(say);
        let missed: Vec<u64> =
            std::iter::from_fn(|| s.take().unwrap()).map(|x| x.missed()).collect();
        assert_eq!((missed.len(), missed.iter().sum::<u64>()), (300, 0), "round {round}");
    }
}

/// MAX_GONE_WRITERS: while samples of a departed publisher wait, its baseline is remembered, no
/// matter how many publishers have departed since.
#[test]
fn what_a_publisher_lost_before_it_left_is_known_after_many_others_have_left() {
    let (node, _dir) = node();
    let mut s = subscription(&node);
    let (mut first, mut filler) = (publisher(&node), publisher(&node));
    say(&mut first);
    for _ in 1..Qos::MAX_DEPTH {
        say(&mut filler);
    }
    // Replaces the first sample of this publisher in the full queue.
    say(&mut first);
    drop(first);
    for _ in 0..300 {
        say(&mut publisher(&node));
    }
    let missed: u64 = std::iter::from_fn(|| s.take().unwrap()).map(|x| x.missed()).sum();
    // One sample of the first publisher, and 300 samples that the 300 new publishers have replaced.
    assert_eq!(missed, 301);
}

/// MAX_EVENTS of `local/topic.rs`.
#[test]
fn events_beyond_those_that_wait_are_counted() {
    let (node, _dir) = node();
    let mut s = subscription(&node);
    let _all: Vec<RawPublisher> = (0..100).map(|_| publisher(&node)).collect();
    assert_eq!(s.poll_event(), Some(EndpointEvent::EventsLost { count: 36 }));
    assert_eq!(std::iter::from_fn(|| s.poll_event()).count(), 64);
}

/// MAX_EXECUTOR_THREADS and MAX_INPUTS of `driveline-types`.
#[test]
fn more_threads_or_inputs_than_an_executor_has_are_refused_with_the_bound() {
    let refused = Executor::new(ExecutorOptions { threads: 257, ..Default::default() })
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("threads = 257 is not possible; 1 to 256 are"), "{refused}");
    let (node, _dir) = node();
    let executor = Executor::new(ExecutorOptions::default()).unwrap();
    let inputs = (0..17).map(|i| (format!("in{i}"), subscription(&node))).collect();
    let group = executor.group(GroupKind::MutuallyExclusive);
    let callback = CallbackOptions { name: "many".into(), group, trigger: Trigger::any(), inputs };
    let refused = executor.add_callback(callback, |_| {}).map(drop).unwrap_err().to_string();
    assert!(refused.contains("17 inputs are more than 16; split the component"), "{refused}");
}
