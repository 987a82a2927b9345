// SPDX-License-Identifier: Apache-2.0
//! Reliable samples over a path with a long delay, on which several are in flight at a time; and
//! acknowledgements over a full path.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline::RawPublisher;
use driveline::types::{Qos, Reliability};
use rig::certificates::calls_over_tls;
use rig::readings::Heard;
use rig::{Carried, Host, Rig, eventually, publisher_options, subscription_options};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Delay of each direction.
const WAY: Duration = Duration::from_millis(10);
const TOPIC: &str = "lidar/objects";

/// Checks that a stream of samples of this length is complete and in order, and that further
/// samples are sent before the first is acknowledged. The test does not judge the duration: a lost
/// packet may delay TCP for a second.
fn stream(len: usize, last: u64, loss_percent: u32) {
    // The publisher waits as long as a test may take.
    let qos = Qos {
        depth: 64,
        reliability: Reliability::Reliable,
        max_blocking_ms: 120_000,
        ..Qos::default()
    };
    let Some(rig) = Rig::with_delays(&[Carried::from_a(TOPIC, len as u64)], &qos, 0, [WAY; 2])
    else {
        return;
    };
    let mut publisher =
        rig.a.node.bytes_publisher(TOPIC, "raw", publisher_options(&qos, len)).unwrap();
    let mut subscription =
        rig.b.node.bytes_subscription(TOPIC, "raw", subscription_options(&qos)).unwrap();
    eventually("matched", || publisher.matched() == 2);
    if loss_percent > 0 && !rig.cable.lose(loss_percent) {
        return;
    }
    let speaks = std::thread::spawn(move || {
        for number in 1..=last {
            let mut loan = publisher.loan(len).unwrap();
            loan.payload_mut().fill(number as u8);
            publisher.publish(loan).unwrap();
        }
        publisher
    });
    let figures_now = || rig.a.report().and_then(|r| Some(r.edges.first()?.figures));
    let (mut heard, mut most_in_flight) = (Heard::default(), 0);
    eventually(&format!("heard {last}"), || {
        heard.read_raw(&mut subscription, len);
        most_in_flight = most_in_flight.max(figures_now().map_or(0, |f| f.in_flight));
        heard.numbers.last() == Some(&last)
    });
    assert_eq!(heard.missed, 0);
    assert!(heard.numbers.iter().copied().eq(1..=last));
    let _publisher = speaks.join().unwrap();
    let mut figures = None;
    eventually("all acknowledged", || {
        figures = figures_now();
        figures.is_some_and(|f| f.delivered == last)
    });
    let figures = figures.unwrap();
    println!(
        "{last} of {len} bytes, {loss_percent} % lost: at most {most_in_flight} seen in flight: \
         {figures:?}"
    );
    assert_eq!(
        (figures.refused, figures.unacknowledged, figures.superseded),
        (0, 0, 0),
        "{figures:?}"
    );
    assert!(most_in_flight > 1, "only one sample is sent in each round trip");
    let dropped = rig.cable.relay().unwrap().figures().map(|direction| direction.dropped);
    assert_eq!(dropped, [0, 0], "the relay drops nothing: only the cable loses packets");
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

/// Each sample is alone in flight. Its acknowledgement has the priority of the data that fills the
/// path back. A lost acknowledgement would cost seconds.
#[test]
fn acknowledgements_wait_for_space_on_a_full_path() {
    const LARGE: usize = 64 << 10;
    const SMALL: usize = 8 << 10;
    const BACK: [&str; 8] =
        ["back/a", "back/b", "back/c", "back/d", "back/e", "back/f", "back/g", "back/h"];
    let qos = Qos { depth: 4, ..Qos::default() };
    let back = BACK.map(|topic| Carried {
        from_a: false,
        from_b: true,
        ..Carried::from_a(topic, SMALL as u64)
    });
    let rig = Rig::new(&[&[Carried::from_a(TOPIC, LARGE as u64)], &back[..]].concat(), &qos);
    if !rig.limit(20, "a way back that is full") {
        return;
    }
    let mut publisher =
        rig.a.node.bytes_publisher(TOPIC, "raw", publisher_options(&qos, LARGE)).unwrap();
    let mut subscription =
        rig.b.node.bytes_subscription(TOPIC, "raw", subscription_options(&qos)).unwrap();
    let mut fill: Vec<_> = BACK
        .map(|topic| {
            rig.b.node.bytes_publisher(topic, "raw", publisher_options(&qos, SMALL)).unwrap()
        })
        .into();
    let _read: Vec<_> = BACK
        .map(|topic| {
            rig.a.node.bytes_subscription(topic, "raw", subscription_options(&qos)).unwrap()
        })
        .into();
    eventually("matched", || publisher.matched() == 2 && fill.iter_mut().all(|p| p.matched() == 2));
    let say = |publisher: &mut RawPublisher, len: usize| {
        let mut loan = publisher.loan(len).unwrap();
        loan.payload_mut().fill(1);
        publisher.publish(loan).unwrap();
    };
    let figures = |host: &Host| {
        host.report()
            .map(|r| r.edges.iter().map(|e| e.figures).collect::<Vec<_>>())
            .unwrap_or_default()
    };
    let mut heard = 0;
    eventually("50 of them heard", || {
        fill.iter_mut().for_each(|publisher| say(publisher, SMALL));
        say(&mut publisher, LARGE);
        while subscription.take().unwrap().is_some() {
            heard += 1;
        }
        heard >= 50
    });
    let back = figures(&rig.b);
    assert!(back.iter().all(|f| f.sent > 10), "the way back is in use: {back:?}");
    let figures = figures(&rig.a);
    println!("{figures:?}");
    // A sample may be given up because a gateway had no processor for 2 s.
    assert!(figures.iter().map(|f| f.unacknowledged).sum::<u64>() <= 1, "{figures:?}");
}

/// The other host is alive all the time. The data that it receives does not delay the data that it
/// sends, and it acknowledges received data step by step.
#[test]
fn a_sample_that_is_on_its_way_for_longer_than_a_lease_ends_no_connection() {
    ends_no_connection(&|_, endpoint| {
        [
            json!({ "host": "a", "listen": [endpoint] }),
            json!({ "host": "b", "connect": [endpoint] }),
        ]
    });
    ends_no_connection(&calls_over_tls);
}

fn ends_no_connection(network: &dyn Fn(&Path, &str) -> [Value; 2]) {
    const LEN: usize = 4 << 20;
    const MBIT: u32 = 10;
    let qos = Qos { depth: 1, ..Qos::default() };
    let slow = |directory: &Path, endpoint: &str| {
        network(directory, endpoint).map(|mut host| {
            host["bandwidth_mbit"] = json!(MBIT);
            host
        })
    };
    let rig = Rig::with(&[Carried::from_a(TOPIC, LEN as u64)], &qos, 0, &slow);
    if !rig.limit(MBIT, "a way that takes long") {
        return;
    }
    let mut publisher =
        rig.a.node.bytes_publisher(TOPIC, "raw", publisher_options(&qos, LEN)).unwrap();
    let mut subscription =
        rig.b.node.bytes_subscription(TOPIC, "raw", subscription_options(&qos)).unwrap();
    eventually("matched", || publisher.matched() == 2);
    let (mut heard, mut number) = (Heard::default(), 0_u64);
    eventually("two of them heard", || {
        number += 1;
        let mut loan = publisher.loan(LEN).unwrap();
        loan.payload_mut().fill(number as u8);
        publisher.publish(loan).unwrap();
        // time: paces the publisher
        std::thread::sleep(Duration::from_millis(100));
        heard.read_raw(&mut subscription, LEN);
        heard.numbers.len() >= 2
    });
    for host in [&rig.a, &rig.b] {
        let report = host.report().expect("a report");
        assert!(report.hosts.iter().all(|h| h.alive && h.outages == 0), "{report:?}");
    }
}
