// SPDX-License-Identifier: Apache-2.0
//! Measures whether a stopped host delays others. One host sends images and small samples to two
//! others. In every second phase, the gateway of one of the two is stopped (SIGSTOP). Such a phase
//! covers the time before and after the end of the stopped gateway's lease. Run it on a quiet
//! machine, as root: `cargo bench -p driveline-gateway-zenoh --features engine --bench
//! stalled_host`. ROUNDS= sets the number of rounds instead of 8. Exit status 1: the 99th
//! percentile of the running host grew by more than a tenth.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark may stop at a surprise"
)]

#[path = "../tests/rig/mod.rs"]
mod rig;

use driveline::types::Qos;
use driveline::{RawPublisher, RawSubscription};
use rig::net::Net;
use rig::{Host, Transit, carried, eventually, publisher_options, signed_ms, subscription_options};
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};

struct Load {
    topic: &'static str,
    bytes: usize,
    period: Duration,
}

const LOADS: [Load; 2] = [
    Load { topic: "small", bytes: 1024, period: Duration::from_millis(2) },
    Load { topic: "camera", bytes: 1 << 20, period: Duration::from_millis(50) },
];
/// Duration of a phase. The lease of a gateway is 2 s.
const PHASE: Duration = Duration::from_secs(4);
const NAMES: [&str; 3] = ["a", "b", "c"];
const MOST: f64 = 1.10;

/// Transit times of each load, in nanoseconds.
type Transits = [Vec<i64>; LOADS.len()];

fn read(subscriptions: &mut [RawSubscription], transits: &mut Transits) {
    for (subscription, transits) in subscriptions.iter_mut().zip(transits) {
        while let Some(sample) = subscription.take().unwrap() {
            transits.push(sample.header().remote.unwrap().transit_ns);
        }
    }
}

/// Publishes for one phase, and reads samples that arrive at the running host.
fn phase(
    publishers: &mut [RawPublisher],
    subscriptions: &mut [RawSubscription],
    transits: &mut Transits,
) {
    let began = Instant::now();
    let mut sent = [0; LOADS.len()];
    while began.elapsed() < PHASE {
        for ((publisher, load), sent) in publishers.iter_mut().zip(&LOADS).zip(&mut sent) {
            if began + load.period * *sent <= Instant::now() {
                let loan = publisher.loan(load.bytes).unwrap();
                publisher.publish(loan).unwrap();
                *sent += 1;
            }
        }
        read(subscriptions, transits);
        std::thread::sleep(Duration::from_micros(500));
    }
}

fn main() -> ExitCode {
    let rounds: usize =
        std::env::var("ROUNDS").ok().map_or(8, |text| text.parse().expect("ROUNDS"));
    let Some(mut net) = Net::new(4) else { return ExitCode::FAILURE };
    let addresses = net.switch(3);
    let dir = tempfile::tempdir().unwrap();
    let qos = Qos::default();
    let mut hosts: Vec<Host> = (0..3)
        .map(|h| {
            let topics: Vec<_> = LOADS
                .iter()
                .map(|l| carried(l.topic, h == 0, h != 0, l.bytes as u64, &qos))
                .collect();
            let network =
                json!({ "host": NAMES[h], "listen": [addresses[h]], "connect": &addresses[..h] });
            Host::new(dir.path(), NAMES[h], net.on(h), &network, &topics)
        })
        .collect();
    let mut publishers: Vec<_> = LOADS
        .iter()
        .map(|l| {
            hosts[0].node.bytes_publisher(l.topic, "raw", publisher_options(&qos, l.bytes)).unwrap()
        })
        .collect();
    let of = |host: usize| -> Vec<RawSubscription> {
        LOADS
            .iter()
            .map(|l| {
                hosts[host]
                    .node
                    .bytes_subscription(l.topic, "raw", subscription_options(&qos))
                    .unwrap()
            })
            .collect()
    };
    let (mut running, mut stopped) = (of(1), of(2));
    hosts.iter_mut().for_each(Host::start);
    // The gateway has a subscription that watches, and one that sends for each host.
    let all = |publishers: &mut [RawPublisher]| publishers.iter_mut().all(|p| p.matched() == 3);
    eventually("all matched", || all(&mut publishers));
    std::thread::sleep(Duration::from_secs(2));

    let (mut with, mut without, mut unused) =
        (Transits::default(), Transits::default(), Transits::default());
    for round in 0..2 * rounds {
        // Alternates the order, so that a change of the machine's speed affects both.
        let still = round % 4 == 1 || round % 4 == 2;
        hosts[2].stand_still(still);
        phase(&mut publishers, &mut running, if still { &mut without } else { &mut with });
        hosts[2].stand_still(false);
        // Transit times do not count until the host is back.
        let mut back = Transits::default();
        eventually("received again by the host that stood still", || {
            for (publisher, load) in publishers.iter_mut().zip(&LOADS) {
                let loan = publisher.loan(load.bytes).unwrap();
                publisher.publish(loan).unwrap();
            }
            std::thread::sleep(Duration::from_millis(50));
            read(&mut running, &mut unused);
            read(&mut stopped, &mut back);
            back.iter().all(|t| t.len() >= 5) && all(&mut publishers)
        });
    }
    let mut exit = ExitCode::SUCCESS;
    for ((load, with), without) in LOADS.iter().zip(with).zip(without) {
        let [with, without] = [with, without].map(Transit::of);
        print!(
            "{} ({} B every {} ms), transit to the running host: next to a running host n {}, p50 \
             {}, p99 {}; next to a stopped one n {}, p50 {}, p99 {}: ",
            load.topic,
            load.bytes,
            load.period.as_millis(),
            with.n,
            signed_ms(with.p50),
            signed_ms(with.p99),
            without.n,
            signed_ms(without.p50),
            signed_ms(without.p99),
        );
        let ratio = with.p99.zip(without.p99).map(|(with, without)| without as f64 / with as f64);
        match ratio {
            Some(ratio) => println!("{ratio:.2} (at most {MOST})"),
            None => println!("nothing can be said of so few: more ROUNDS="),
        }
        if ratio.is_none_or(|ratio| ratio > MOST) {
            exit = ExitCode::FAILURE;
        }
    }
    exit
}
