// SPDX-License-Identifier: Apache-2.0
//! Hosts in networks of their own, joined by routers: gateways whose Zenoh configuration says `mode: "router"`, and that carry no topics.
//! Each test measures, so they run one after the other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at a surprise")]

mod rig;

use rig::net::{Net, Wire};
use rig::readings::{TOPIC, deep};
use rig::talk::{RECOVERY, Speech, Talk};
use rig::{Host, alone, carried, eventually};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Longest sample, in bytes.
const LEN: u64 = 64;

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

/// After so long without a packet a connection is known to be gone: the lease, and half a second for what is still to be written.
const KNOWN_TO_BE_GONE: Duration = Duration::from_millis(2_500);

/// Goes on for a while, and until all that was sent has arrived or is counted, once.
fn nothing_lost_and_nothing_twice(talk: &mut Talk, b: &Host) {
    talk.until_heard(50);
    talk.all_accounted_for();
    let report = b.report().expect("a report");
    assert_eq!((report.inlets.len(), report.inlets[0].figures.duplicate), (1, 0), "{report:?}");
}

#[test]
fn three_routers_in_a_ring_carry_samples_by_the_way_that_is_left() {
    let _alone = alone();
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
    let speech = Speech::small(&deep());
    let a = host(dir.path(), "a", net.on(0), at(to_a, 0), &carried(TOPIC, true, false, LEN, &speech.qos));
    let b = host(dir.path(), "b", net.on(1), at(to_b, 0), &carried(TOPIC, false, true, LEN, &speech.qos));
    let mut talk = Talk::new(&a, &b, &speech);
    talk.until_heard(50);
    net.drop_silently(ring[0], true);
    talk.recovers_within(KNOWN_TO_BE_GONE + RECOVERY, &talk.now(), "the short way is silent, and the long one is left");
    net.drop_silently(ring[0], false);
    routers[2].kill_gateway();
    talk.recovers(&talk.now(), "the router of the long way killed, and the short one is back");
    net.set_up(ring[0], false);
    eventually("known to be alone", || a.report().is_some_and(|r| r.hosts.iter().all(|h| !h.alive || !h.host.starts_with("b."))));
    net.set_up(ring[0], true);
    talk.recovers(&talk.now(), "a network in two parts is one again");
    routers[2].start();
    nothing_lost_and_nothing_twice(&mut talk, &b);
}

/// Which of two ways of the same length is used nobody says, so that one of the deaths is of a router that carries.
#[test]
fn when_a_router_in_a_ring_dies_samples_go_the_other_way_round() {
    let _alone = alone();
    // Hosts 0 and 1 at the first and the third of the routers 2, 3, 4 and 5.
    let Some(mut net) = Net::new(6) else { return };
    let (to_a, to_b) = (net.wire(2, 0), net.wire(4, 1));
    let ring: [Wire; 4] = [net.wire(2, 3), net.wire(3, 4), net.wire(4, 5), net.wire(5, 2)];
    let dir = tempfile::tempdir().unwrap();
    let at = |wire: Wire, end: usize| wire.endpoint(end);
    let _first = router(dir.path(), "r1", net.on(2), &[at(to_a, 0), at(ring[0], 0), at(ring[3], 1)], &[]);
    let _third = router(dir.path(), "r3", net.on(4), &[at(to_b, 0), at(ring[1], 1), at(ring[2], 0)], &[]);
    let mut between = [
        router(dir.path(), "r2", net.on(3), &[], &[at(ring[0], 0), at(ring[1], 1)]),
        router(dir.path(), "r4", net.on(5), &[], &[at(ring[2], 0), at(ring[3], 1)]),
    ];
    let whole = |routers: &[Host]| eventually("a ring", || routers.iter().all(|r| r.report().is_some_and(|r| r.network.routers == 2)));
    whole(&between);
    let speech = Speech::small(&deep());
    let a = host(dir.path(), "a", net.on(0), at(to_a, 0), &carried(TOPIC, true, false, LEN, &speech.qos));
    let b = host(dir.path(), "b", net.on(1), at(to_b, 0), &carried(TOPIC, false, true, LEN, &speech.qos));
    let mut talk = Talk::new(&a, &b, &speech);
    talk.until_heard(50);
    for n in [0, 1] {
        between[n].kill_gateway();
        // What has passed it before.
        talk.recovers(&talk.now(), "a router of the ring killed");
        between[n].start();
        whole(&between);
        talk.until_heard(20);
    }
    nothing_lost_and_nothing_twice(&mut talk, &b);
}

#[test]
fn routers_that_are_started_again_and_a_partition_that_heals_carry_samples_in_time() {
    let _alone = alone();
    // Hosts 0 and 1 at the first and the second of the routers 2 and 3.
    let Some(mut net) = Net::new(4) else { return };
    let (to_a, between, to_b) = (net.wire(2, 0), net.wire(2, 3), net.wire(3, 1));
    let dir = tempfile::tempdir().unwrap();
    let at = |wire: Wire, end: usize| wire.endpoint(end);
    let mut routers = [
        router(dir.path(), "r1", net.on(2), &[at(to_a, 0), at(between, 0)], &[]),
        router(dir.path(), "r2", net.on(3), &[at(to_b, 0)], &[at(between, 0)]),
    ];
    let speech = Speech::small(&deep());
    let a = host(dir.path(), "a", net.on(0), at(to_a, 0), &carried(TOPIC, true, false, LEN, &speech.qos));
    let b = host(dir.path(), "b", net.on(1), at(to_b, 0), &carried(TOPIC, false, true, LEN, &speech.qos));
    let mut talk = Talk::new(&a, &b, &speech);
    talk.until_heard(50);
    for router in &mut routers {
        router.kill_gateway();
        talk.go_on_for(Duration::from_millis(300));
        let since = talk.now();
        router.start();
        talk.recovers(&since, "a router killed and started");
    }
    net.drop_silently(between, true);
    talk.go_on_for(Duration::from_secs(4));
    net.drop_silently(between, false);
    talk.recovers(&talk.now(), "the cable between the routers silent for 4 s");
    net.set_up(between, false);
    talk.go_on_for(Duration::from_secs(4));
    net.set_up(between, true);
    // Twice: each connection that ends without an answer holds one of Zenoh's threads.
    talk.recovers(&talk.now(), "the cable between the routers pulled for 4 s");
    nothing_lost_and_nothing_twice(&mut talk, &b);
}
