// SPDX-License-Identifier: Apache-2.0
//! Links to nodes on rmw_zenoh that fall silent while many topics send samples over them. No other
//! test here may use Zenoh: its threads belong to the process, and stay in the network namespace of
//! the first test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;
#[path = "../../../tools/skipped.rs"]
mod skipped;

use driveline_namespaces::Namespace;
use driveline_types::{Qos, SampleHeader};
use rig::rmw::{Node, Router, STRING, Subscription};
use rig::samples::{reliable, string, string_schema};
use rig::{PATIENCE, Rig};
use serde_json::json;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CARD: &str = "dl8";
const HERE: Ipv4Addr = Ipv4Addr::new(10, 98, 8, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(10, 98, 8, 2);
const TOPICS: usize = 20;
const LEN: usize = 4096;
const LONGEST: usize = LEN + 64;
/// Durations of silence; messages without space wait for 2 s.
const SILENT_MS: [u64; 4] = [2_200, 3_000, 2_100, 6_000];
/// Durations of silence where a router reports the node. In the last one the gateway loses the
/// router too, after a lease of 10 s.
const SILENT_TO_FOUND_MS: [u64; 4] = [2_200, 3_000, 6_000, 12_000];
/// Time for recovery between two silences.
const BETWEEN: Duration = Duration::from_millis(1_500);
const PACE: Duration = Duration::from_millis(20);

/// Path by which the gateway finds its node.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    /// It is configured with the node's address, and Zenoh itself reconnects.
    Connect,
    /// A router reports it.
    Router,
}

/// Host of the gateway, and host of its nodes and their router, with a cable between them.
struct Hosts([Namespace; 2]);

impl Hosts {
    fn new() -> Option<Self> {
        let remedy = "run it as root, with iproute2, outside a sandbox";
        let skipped = |why| {
            skipped::skipped(
                "a link that is cut",
                &format!("no network namespaces here ({why:#})"),
                remedy,
            )
        };
        let made = Namespace::new().and_then(|here| Ok([here, Namespace::new()?]));
        let [here, there] = made.map_err(skipped).ok()?;
        here.add_veth(CARD, (&there, CARD)).unwrap();
        here.add_address(CARD, HERE).unwrap();
        there.add_address(CARD, THERE).unwrap();
        Some(Self([here, there]))
    }

    /// Sends every packet to a missing network card, in both directions, or to the right card
    /// again. Neither end notices.
    fn drop_silently(&self, dropping: bool) {
        let Self([here, there]) = self;
        for (from, to, address) in [(here, there, THERE), (there, here, HERE)] {
            let real = to.hardware_address(CARD).unwrap();
            let at = if dropping { "02:00:00:00:00:01" } else { &real };
            from.run(&format!("ip neigh replace {address} lladdr {at} nud permanent dev {CARD}"))
                .unwrap();
        }
    }
}

/// Runs all cases in one test: see the head of this file.
#[test]
fn many_reliable_topics_are_heard_again_after_a_link_was_silent() {
    let Some(hosts) = Hosts::new() else { return };
    let on_the_host_of_nodes = || {
        hosts.0[1].enter().unwrap();
        hears_again(&hosts, By::Connect, &SILENT_MS);
        hears_again(&hosts, By::Router, &SILENT_TO_FOUND_MS);
    };
    std::thread::scope(|threads| threads.spawn(on_the_host_of_nodes).join().unwrap());
}

fn hears_again(hosts: &Hosts, by: By, silent_ms: &[u64]) {
    let router = Router::at(&format!("tcp/{THERE}:7447"));
    // With 1 ms, a topic without space does not delay publishing on the others.
    let qos = Qos { max_blocking_ms: 1, ..reliable(8) };
    let names: Vec<String> = (0..TOPICS).map(|n| format!("wheel/n{n}")).collect();
    let topics: Vec<_> =
        names.iter().map(|name| (name.as_str(), LONGEST as u64, qos.clone())).collect();
    let rules = json!([{ "topic": "/wheel/*", "direction": "to_ros" }]);
    let at = format!("tcp/{THERE}:7448");
    let connect: Vec<_> =
        [router.endpoint()].into_iter().chain((by == By::Connect).then(|| at.clone())).collect();
    let zenoh = json!({ "connect": connect });
    let mut rig = Rig::with(
        json!({ "domain_id": 0, "dds": false, "zenoh": zenoh, "topics": rules }),
        &topics,
    );
    rig.stop();
    let _gateway = rig.process_on(&hosts.0[0].command_prefix());
    let node = Node::at(&at, &router, 0, "listener");
    let subscriptions: Vec<_> =
        names.iter().map(|name| node.subscription(&format!("/{name}"), STRING, "rv10")).collect();
    let mut publishers: Vec<_> = names
        .iter()
        .map(|name| rig.publisher(name, "axle", string_schema(), LONGEST, &qos))
        .collect();
    let (payload, over) = (string(&"x".repeat(LEN)), AtomicBool::new(false));
    let publishes = || {
        while !over.load(Ordering::Relaxed) {
            for publisher in &mut publishers {
                let mut loan = publisher.loan(payload.len()).unwrap();
                loan.payload_mut().copy_from_slice(&payload);
                // Errors are ignored: without space, the gateway waits for the link.
                let _ = publisher.publish(loan, &mut SampleHeader::stamped_now());
            }
            std::thread::sleep(PACE);
        }
    };
    // Waits until each topic is heard again. A link that Zenoh does not restore stays silent for
    // good.
    let all_heard = || {
        subscriptions.iter().for_each(Subscription::forget);
        let start = Instant::now();
        let unheard =
            || subscriptions.iter().filter(|subscription| subscription.count() == 0).count();
        while unheard() > 0 && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
        unheard()
    };
    let unheard = std::thread::scope(|threads| {
        threads.spawn(publishes);
        let mut unheard = vec![(Duration::ZERO, all_heard())];
        for silent in silent_ms.iter().copied().map(Duration::from_millis) {
            hosts.drop_silently(true);
            std::thread::sleep(silent);
            hosts.drop_silently(false);
            unheard.push((silent, all_heard()));
            std::thread::sleep(BETWEEN);
        }
        over.store(true, Ordering::Relaxed);
        unheard
    });
    assert!(
        unheard.iter().all(|(_, topics)| *topics == 0),
        "silent for, and topics that were not heard within {PATIENCE:?}, {by:?}: {unheard:?}"
    );
}
