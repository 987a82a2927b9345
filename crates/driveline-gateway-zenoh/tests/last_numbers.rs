// SPDX-License-Identifier: Apache-2.0
//! Between two hosts, each sample published after the match is accounted for, also samples lost
//! after the last one that arrived.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline::types::{Qos, Uncounted};
use driveline::{RawSubscription, SubscriptionStats};
use rig::{Carried, Rig, eventually, publisher_options, subscription_options};

const TOPIC: &str = "wheel";
/// Only each third sample is sent, so the others are lost: before, between and after the samples
/// that arrive.
const EVERY: u32 = 3;
const PUBLISHED: u64 = 20;

fn rig() -> (Rig, Qos) {
    let qos = Qos { depth: 64, ..Qos::default() };
    let topic = Carried { every: Some(EVERY), ..Carried::from_a(TOPIC, 64) };
    (Rig::new(&[topic], &qos), qos)
}

fn total(s: &SubscriptionStats) -> u64 {
    s.received
        + s.missed
        + s.superseded
        + s.expired
        + s.corrupt
        + s.refused
        + s.lost_on_the_way
        + s.not_read
}

fn read(subscription: &mut RawSubscription) -> u64 {
    std::iter::from_fn(|| subscription.take().unwrap()).count() as u64
}

/// Publishes on the first host, and waits until the second has received all samples that are sent.
fn publish(rig: &Rig, qos: &Qos) -> (driveline::RawPublisher, RawSubscription) {
    let mut publisher =
        rig.a.node.bytes_publisher(TOPIC, "raw", publisher_options(qos, 64)).unwrap();
    let mut subscription =
        rig.b.node.bytes_subscription(TOPIC, "raw", subscription_options(qos)).unwrap();
    eventually("matched over the network", || {
        publisher.matched() == 2 && subscription.matched() == 1
    });
    for _ in 0..PUBLISHED {
        let loan = publisher.loan(8).unwrap();
        publisher.publish(loan).unwrap();
    }
    let mut received = 0;
    eventually("received", || {
        received += read(&mut subscription);
        received == PUBLISHED / u64::from(EVERY)
    });
    let last = PUBLISHED % u64::from(EVERY);
    assert_eq!(
        total(&subscription.stats()),
        PUBLISHED - last,
        "the samples after the last arrived one are not known yet"
    );
    (publisher, subscription)
}

#[test]
fn a_publisher_that_ends_leaves_no_sample_unaccounted_for() {
    let (rig, qos) = rig();
    let (publisher, mut subscription) = publish(&rig, &qos);
    drop(publisher);
    eventually("gone", || subscription.matched() == 0 && read(&mut subscription) == 0);
    let stats = subscription.stats();
    assert_eq!((total(&stats), stats.uncounted), (PUBLISHED, 0), "{stats:?}");
    assert_eq!((stats.received, stats.lost_on_the_way), (6, 14), "{stats:?}");
}

#[test]
fn a_publisher_none_of_whose_samples_came_is_accounted_for_as_well() {
    let (rig, qos) = rig();
    let mut publisher =
        rig.a.node.bytes_publisher(TOPIC, "raw", publisher_options(&qos, 64)).unwrap();
    let subscription =
        rig.b.node.bytes_subscription(TOPIC, "raw", subscription_options(&qos)).unwrap();
    eventually("matched over the network", || {
        publisher.matched() == 2 && subscription.matched() == 1
    });
    for _ in 0..2 {
        let loan = publisher.loan(8).unwrap();
        publisher.publish(loan).unwrap();
    }
    drop(publisher);
    eventually("gone", || subscription.matched() == 0);
    let stats = subscription.stats();
    assert_eq!((stats.lost_on_the_way, total(&stats), stats.uncounted), (2, 2, 0), "{stats:?}");
}

#[test]
fn after_a_host_vanished_the_count_is_unknown() {
    let (mut rig, qos) = rig();
    let (publisher, mut subscription) = publish(&rig, &qos);
    rig.a.kill_gateway();
    eventually("unknown", || subscription.stats().uncounted == 1);
    assert_eq!(subscription.stats().uncounted_reason, Some(Uncounted::OutOfReach));
    // The host returns with the publisher, which then ends.
    rig.start(0);
    eventually("known again", || subscription.stats().uncounted == 0);
    drop(publisher);
    eventually("gone", || subscription.matched() == 0 && read(&mut subscription) == 0);
    assert_eq!(
        (total(&subscription.stats()), subscription.stats().uncounted),
        (PUBLISHED, 0),
        "{:?}",
        subscription.stats()
    );
}

#[test]
fn after_a_local_gateway_died_the_count_is_unknown_until_the_next_gateway_knows_it() {
    let (mut rig, qos) = rig();
    let (mut publisher, mut subscription) = publish(&rig, &qos);
    rig.b.kill_gateway();
    eventually("unknown", || subscription.stats().uncounted == 1);
    assert_eq!(subscription.stats().uncounted_reason, Some(Uncounted::GatewayGone));
    rig.start(1);
    eventually("matched anew", || publisher.matched() == 2 && subscription.matched() == 1);
    // The gateway creates its publisher, and writes the publisher's count into it right after that.
    eventually("known again", || subscription.stats().uncounted == 0);
    let mut published = PUBLISHED;
    eventually("received anew", || {
        let loan = publisher.loan(8).unwrap();
        publisher.publish(loan).unwrap();
        published += 1;
        read(&mut subscription) > 0
    });
    drop(publisher);
    eventually("gone", || subscription.matched() == 0 && read(&mut subscription) == 0);
    assert_eq!(
        (total(&subscription.stats()), subscription.stats().uncounted),
        (published, 0),
        "{:?}",
        subscription.stats()
    );
}
