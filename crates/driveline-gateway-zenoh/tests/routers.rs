// SPDX-License-Identifier: Apache-2.0
//! Hosts in networks of their own, joined by routers: gateways whose Zenoh configuration says `mode: "router"`, and that carry no topics.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod rig;

use rig::net::{Net, Wire};
use rig::readings::{Heard, Reading, TOPIC, between, deep, say};
use rig::{Host, carried, eventually};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// A gateway that is a router, listens at these endpoints and connects to those.
fn router(directory: &Path, name: &str, words: Vec<String>, listen: &[String], connect: &[String]) -> Host {
    let config = json!({
        "mode": "router",
        "listen": { "endpoints": listen },
        "connect": { "endpoints": connect, "timeout_ms": -1, "exit_on_failure": false,
                     "retry": { "period_init_ms": 200, "period_max_ms": 200, "period_increase_factor": 1 } },
        "scouting": { "multicast": { "enabled": false } },
        "transport": { "unicast": { "open_timeout": 2000, "accept_timeout": 2000 }, "link": { "tx": { "lease": 2000, "batch_size": 16384 } } },
    });
    let file = directory.join(format!("{name}.json5"));
    std::fs::write(&file, config.to_string()).unwrap();
    let mut host = Host::new(directory, name, words, &json!({ "host": name, "zenoh": file }), &[]);
    host.start();
    host
}

fn host(directory: &Path, name: &str, words: Vec<String>, connect: String, topic: &Value) -> Host {
    let mut host = Host::new(directory, name, words, &json!({ "host": name, "connect": [connect] }), std::slice::from_ref(topic));
    host.start();
    host
}

/// Publishes without a pause until so many more have arrived.
#[track_caller]
fn until_heard(
    more: usize,
    number: &mut u64,
    publisher: &mut driveline::Publisher<Reading>,
    subscription: &mut driveline::Subscription<Reading>,
    heard: &mut Heard,
) {
    let before = heard.numbers.len();
    eventually("received again", || {
        *number += 1;
        say(publisher, *number);
        std::thread::sleep(Duration::from_millis(5));
        heard.read(subscription);
        heard.numbers.len() >= before + more
    });
}

#[test]
fn three_routers_in_a_ring_carry_samples_by_the_way_that_is_left() {
    // Hosts 0 and 1 at the first and the second of the routers 2, 3 and 4.
    let Some(mut net) = Net::new(5) else { return };
    let (to_a, to_b) = (net.wire(2, 0), net.wire(3, 1));
    let ring: [Wire; 3] = [net.wire(2, 3), net.wire(3, 4), net.wire(4, 2)];
    let dir = tempfile::tempdir().unwrap();
    let at = |wire: Wire, end: usize| wire.endpoint(end);
    let mut routers = [
        router(dir.path(), "r1", net.on(2), &[at(to_a, 0), at(ring[0], 0), at(ring[2], 1)], &[]),
        router(dir.path(), "r2", net.on(3), &[at(to_b, 0), at(ring[0], 1), at(ring[1], 0)], &[at(ring[0], 0)]),
        router(dir.path(), "r3", net.on(4), &[at(ring[1], 1), at(ring[2], 0)], &[at(ring[1], 0), at(ring[2], 1)]),
    ];
    let qos = deep();
    let a = host(dir.path(), "a", net.on(0), at(to_a, 0), &carried(TOPIC, true, false, 64, &qos));
    let b = host(dir.path(), "b", net.on(1), at(to_b, 0), &carried(TOPIC, false, true, 64, &qos));
    let (mut publisher, mut subscription) = between(&a, &b, &qos);
    let (mut heard, mut number) = (Heard::default(), 0);
    let mut go_on = |heard: &mut Heard| until_heard(50, &mut number, &mut publisher, &mut subscription, heard);
    go_on(&mut heard);
    // The short way is gone; then there is only that; then one side is alone.
    net.drop_silently(ring[0], true);
    go_on(&mut heard);
    net.drop_silently(ring[0], false);
    routers[2].kill_gateway();
    go_on(&mut heard);
    net.set_up(ring[0], false);
    eventually("known to be alone", || a.report().is_some_and(|r| r.hosts.iter().all(|h| !h.alive || !h.host.starts_with("b."))));
    net.set_up(ring[0], true);
    go_on(&mut heard);
    routers[2].start();
    go_on(&mut heard);
    heard.until(&mut subscription, number);
    assert_eq!(heard.numbers.len() as u64 + heard.missed + heard.numbers[0] - 1, number, "each was received or counted");
    let report = b.report().expect("a report");
    assert_eq!((report.inlets.len(), report.inlets[0].figures.duplicate), (1, 0), "{report:?}");
}
