// SPDX-License-Identifier: Apache-2.0
//! Reliable samples over a way that takes long, on which several are in flight at a time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod rig;

use driveline::types::{Qos, Reliability};
use rig::readings::Heard;
use rig::stopwatch::Stopwatch;
use rig::{Carried, Rig, eventually, publisher_options, subscription_options};
use std::time::Duration;

/// Each direction.
const WAY: Duration = Duration::from_millis(10);
const TOPIC: &str = "lidar/objects";

/// A stream of so many samples of that length is complete and in order, and faster than one sample for each round trip.
fn stream(len: usize, last: u64, loss_percent: u32) {
    // The publisher waits as long as a test may take.
    let qos = Qos { depth: 64, reliability: Reliability::Reliable, max_blocking_ms: 120_000, ..Qos::default() };
    let Some(rig) = Rig::with_delays(&[Carried::from_a(TOPIC, len as u64)], &qos, 0, [WAY; 2]) else { return };
    let mut publisher = rig.a.node.bytes_publisher(TOPIC, "raw", publisher_options(&qos, len)).unwrap();
    let mut subscription = rig.b.node.bytes_subscription(TOPIC, "raw", subscription_options(&qos)).unwrap();
    eventually("matched", || publisher.matched() == 2);
    if loss_percent > 0 && !rig.cable.lose(loss_percent) {
        return;
    }
    let watch = Stopwatch::start();
    let speaks = std::thread::spawn(move || {
        for number in 1..=last {
            let mut loan = publisher.loan(len).unwrap();
            loan.payload_mut().fill(number as u8);
            publisher.publish(loan).unwrap();
        }
        publisher
    });
    let mut heard = Heard::default();
    eventually(&format!("heard {last}"), || {
        heard.read_raw(&mut subscription, len);
        heard.numbers.last() == Some(&last)
    });
    let took = watch.read();
    assert_eq!(heard.missed, 0);
    assert!(heard.numbers.iter().copied().eq(1..=last));
    let _publisher = speaks.join().unwrap();
    let mut figures = None;
    eventually("all acknowledged", || {
        figures = rig.a.report().and_then(|r| Some(r.edges.first()?.figures));
        figures.is_some_and(|f| f.delivered == last)
    });
    let figures = figures.unwrap();
    println!("{last} of {len} bytes, {loss_percent} % lost: {:?}, without a processor for {:?}: {figures:?}", took.time, took.waited);
    assert_eq!((figures.refused, figures.unacknowledged, figures.superseded), (0, 0, 0), "{figures:?}");
    let one_by_one = 2 * WAY * last as u32;
    assert!(took.is_within(one_by_one / 2), "{took:?}: one in each round trip takes {one_by_one:?}");
    let dropped = rig.cable.relay().unwrap().figures().map(|direction| direction.dropped);
    assert_eq!(dropped, [0, 0], "what is lost is the cable's share");
}

#[test]
fn reliable_samples_share_a_window_over_a_long_way() {
    stream(64, 2000, 0);
    stream(16 << 10, 200, 0);
}

#[test]
fn reliable_samples_share_a_window_over_a_long_way_that_loses_packets() {
    stream(64, 2000, 2);
    stream(16 << 10, 200, 2);
}
