// SPDX-License-Identifier: Apache-2.0
//! What whoever may connect can still do. Each of these fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod rig;

use driveline::types::{MonotonicNs, Qos};
use driveline_gateway_zenoh::wire::{Ack, HostId, Outcome, Parsed, QosMark, SampleHead};
use rig::meeting::{Meeting, TOPIC, session};
use rig::{eventually, publisher_options, subscription_options};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use zenoh::Wait;

#[test]
#[ignore = "each edge takes a pin of each publisher, whoever wants it"]
fn hosts_that_are_not_there_leave_pins_for_local_subscriptions() {
    let qos = Qos { depth: 4, ..Qos::default() };
    let offered = QosMark::of(&qos);
    let meeting = Meeting::new(true, &qos);
    let mut publisher = meeting.host.node.bytes_publisher(TOPIC, "raw", publisher_options(&qos, 64)).unwrap();
    eventually("watched", || publisher.matched() >= 1);
    let wants: Vec<_> = (0..16).map(|n| meeting.want(&HostId::new(&format!("nobody{n}"), 1).unwrap(), offered, offered)).collect();
    eventually("wanted", || meeting.host.report().is_some_and(|r| r.edges.len() == wants.len()));
    let subscription = meeting.host.node.bytes_subscription(TOPIC, "raw", subscription_options(&qos)).unwrap();
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(subscription.matched(), 1, "{:?}", meeting.host.report().map(|r| r.refused));
}

#[test]
#[ignore = "Zenoh's `put` waits for each receiver of a key, up to 2 s for one that does not read"]
fn who_listens_and_does_not_read_keeps_nobody_waiting() {
    let qos = Qos { depth: 4, ..Qos::default() };
    let offered = QosMark::of(&qos);
    let meeting = Meeting::with(true, &qos, 1 << 20);
    let mut publisher = meeting.host.node.bytes_publisher(TOPIC, "raw", publisher_options(&qos, 1 << 20)).unwrap();
    let came = Arc::new(AtomicUsize::new(0));
    let (of_callback, keys, answering) = (came.clone(), meeting.keys.clone(), meeting.session.clone());
    let samples = meeting.session.declare_subscriber(meeting.keys.addressed("s", &meeting.me)).callback(move |sample| {
        let received = MonotonicNs::now();
        let Some(Parsed::Sample { to, from, offered, topic }) = keys.parse(sample.key_expr().as_str()) else { return };
        let head = SampleHead::decode(&sample.attachment().unwrap().to_bytes()).unwrap();
        of_callback.fetch_add(1, Ordering::Relaxed);
        let ack =
            Ack { outcome: Outcome::Published, accepts: 32, number: head.number, sent: head.sent, received, answered: MonotonicNs::now() };
        let key = keys.key(&Parsed::Ack { to: from, from: to, offered, topic });
        answering.put(key, ack.encode().to_vec()).wait().unwrap();
    });
    let _samples = samples.wait().unwrap();
    let (_host, _want) = (meeting.token(&Parsed::Host(meeting.me.clone())), meeting.want(&meeting.me, offered, offered));
    eventually("wanted", || publisher.matched() == 2);
    let mut in_five_seconds = || {
        came.store(0, Ordering::Relaxed);
        for _ in 0..250 {
            let _ = publisher.loan(1 << 18).map(|loan| publisher.publish(loan));
            std::thread::sleep(Duration::from_millis(20));
        }
        came.load(Ordering::Relaxed)
    };
    let alone = in_five_seconds();
    let other = session(&meeting.endpoint);
    let hangs = other.declare_subscriber("driveline/**").callback(|_| std::thread::sleep(Duration::from_secs(60)));
    // Its callback would be waited for.
    std::mem::forget((hangs.wait().unwrap(), other));
    let beside_it = in_five_seconds();
    assert!(beside_it * 10 >= alone * 9, "{beside_it} came, and {alone} without it");
}
