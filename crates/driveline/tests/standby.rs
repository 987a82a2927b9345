// SPDX-License-Identifier: Apache-2.0
//! Tests which samples a subscription delivers if two publishers of different strength publish the
//! topic at host reach (`docs/protocols/standby.md`).
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use driveline::types::{MonotonicNs, Qos, VirtualClock};
use driveline::{
    Context, ContextOptions, Node, Protobuf, PublisherOptions, RawPublisher, RawSample,
    RawSubscription, Reach, SubscriptionOptions,
};
use driveline_msgs::proto::Detections2D;
use std::time::Duration;

/// Only a failure takes that long.
const PATIENCE: Duration = Duration::from_secs(60);
const PERIOD: Duration = Duration::from_millis(40);

/// Returns a node of a context of its own, which counts as a process of its own.
fn node(dir: &tempfile::TempDir, name: &str) -> Node {
    let options = ContextOptions {
        domain_dir: Some(dir.path().join("domain")),
        ..ContextOptions::named(name)
    };
    Context::new(options).unwrap().node(name).unwrap()
}

fn qos(strength: u32) -> Qos {
    Qos { depth: 16, deadline_ms: Some(100), strength: Some(strength), ..Qos::default() }
}

fn publisher(node: &Node, strength: u32) -> RawPublisher {
    let o = PublisherOptions {
        reach: Reach::Host,
        qos: qos(strength),
        max_payload: 8,
        ..PublisherOptions::default()
    };
    node.bytes_publisher("command", "raw", o).unwrap()
}

/// Publishes the result of a frame.
fn send(publisher: &mut RawPublisher, who: u8, frame: u64) {
    let mut loan = publisher.loan(1).unwrap();
    loan.payload_mut()[0] = who;
    loan.set_source_time(MonotonicNs(1_000_000 * frame));
    publisher.publish(loan).unwrap();
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = MonotonicNs::real_now() + PATIENCE;
    while !condition() {
        assert!(MonotonicNs::real_now() < end, "not {what} within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

fn frame(sample: &RawSample) -> u64 {
    sample.header().origins.as_slice()[0].source_newest.0 / 1_000_000
}

/// Takes all unread samples. Returns publisher, frame and publish time of each.
fn take(subscription: &mut RawSubscription) -> Vec<(u8, u64, MonotonicNs)> {
    let mut taken = Vec::new();
    while let Some(sample) = subscription.take().unwrap() {
        taken.push((sample.payload().unwrap()[0], frame(&sample), sample.header().publish_time));
    }
    taken
}

#[test]
fn the_weaker_takes_over_within_the_deadline_without_a_frame_twice() {
    let clock = VirtualClock::starting_at(MonotonicNs(1_000_000_000_000));
    let _entered = clock.enter();
    let dir = tempfile::tempdir().unwrap();
    let [near, one, two] = ["reader", "strong", "weak"].map(|name| node(&dir, name));
    let o = SubscriptionOptions {
        reach: Reach::Host,
        qos: qos(0),
        max_held: 4,
        ..SubscriptionOptions::default()
    };
    let mut subscription = near.bytes_subscription("command", "raw", o).unwrap();
    let (mut strong, mut weak) = (Some(publisher(&one, 2)), publisher(&two, 1));
    until("matched", || {
        subscription.matched() == 2
            && strong.as_mut().unwrap().matched() == 1
            && weak.matched() == 1
    });
    let mut got = Vec::new();
    let mut published = 0;
    for frame in 1..=60 {
        // The stronger publisher dies, hangs and comes back.
        if frame == 20 {
            strong = None;
            until("gone", || subscription.matched() == 1);
        }
        if frame == 30 {
            strong = Some(publisher(&one, 2));
            until("back", || {
                subscription.matched() == 2 && strong.as_mut().unwrap().matched() == 1
            });
        }
        let hangs = (40..50).contains(&frame);
        if let Some(strong) = strong.as_mut().filter(|_| !hangs) {
            send(strong, 2, frame);
            published += 1;
        }
        clock.advance(Duration::from_millis(3));
        send(&mut weak, 1, frame);
        published += 1;
        got.extend(take(&mut subscription));
        clock.advance(PERIOD - Duration::from_millis(3));
    }
    let frames: Vec<u64> = got.iter().map(|(_, frame, _)| *frame).collect();
    assert!(frames.is_sorted() && frames.windows(2).all(|w| w[0] < w[1]), "{frames:?}");
    for pair in got.windows(2) {
        let gap = pair[1].2.since(pair[0].2);
        assert!(gap <= Duration::from_millis(100), "{gap:?} between {pair:?}");
    }
    let by = |who: u8| got.iter().filter(move |(by, ..)| *by == who).map(|(_, frame, _)| *frame);
    assert_eq!(by(1).collect::<Vec<_>>(), (20..30).chain(41..50).collect::<Vec<_>>());
    assert_eq!(by(2).count(), 19 + 10 + 11);
    let stats = subscription.stats();
    assert_eq!(stats.received + stats.standby, published);
    assert_eq!((stats.missed, stats.not_read), (0, 0));
}

#[test]
fn the_newest_is_the_newest_of_the_owner() {
    let dir = tempfile::tempdir().unwrap();
    let [near, one, two] = ["reader", "strong", "weak"].map(|name| node(&dir, name));
    let o = SubscriptionOptions {
        reach: Reach::Host,
        qos: qos(0),
        max_held: 1,
        ..SubscriptionOptions::default()
    };
    let mut subscription = near.bytes_subscription("command", "raw", o).unwrap();
    let (mut strong, mut weak) = (publisher(&one, 2), publisher(&two, 1));
    until("matched", || {
        subscription.matched() == 2 && strong.matched() == 1 && weak.matched() == 1
    });
    for frame in 1..=5 {
        send(&mut strong, 2, frame);
        send(&mut weak, 1, frame);
    }
    let newest = subscription.latest().unwrap().unwrap();
    assert_eq!((newest.payload().unwrap()[0], frame(&newest)), (2, 5));
    drop(newest);
    assert!(subscription.latest().unwrap().is_none());
    let stats = subscription.stats();
    assert_eq!((stats.received, stats.missed, stats.standby, stats.not_read), (1, 4, 5, 0));
}

/// The stronger publisher is in the reader's process and delivers by pointer.
#[test]
fn an_owner_inside_the_process_is_not_taken_for_one_that_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let [near, far] = ["near", "far"].map(|name| node(&dir, name));
    let options = |strength| PublisherOptions {
        reach: Reach::Host,
        qos: qos(strength),
        ..Default::default()
    };
    let o = SubscriptionOptions { reach: Reach::Host, qos: qos(0), ..Default::default() };
    let mut subscription = near.value_subscription::<Protobuf<Detections2D>>("boxes", o).unwrap();
    let mut strong = near.value_publisher::<Protobuf<Detections2D>>("boxes", options(2)).unwrap();
    let mut weak = far.value_publisher::<Protobuf<Detections2D>>("boxes", options(1)).unwrap();
    until("matched", || strong.raw().matched() == 1 && weak.raw().matched() == 1);
    let mut delivered = Vec::new();
    for frame in 1..=5_u64 {
        strong.publish_measured(Detections2D::default(), MonotonicNs(10 * frame)).unwrap();
        weak.publish_measured(Detections2D::default(), MonotonicNs(10 * frame + 1)).unwrap();
        while let Some(sample) = subscription.take().unwrap() {
            delivered.push(sample.header().origins.as_slice()[0].source_newest.0);
        }
    }
    assert_eq!(delivered, [10, 20, 30, 40, 50]);
}
