// SPDX-License-Identifier: Apache-2.0
//! Hosts in separate networks, joined by routers: gateways that carry no topics and whose Zenoh
//! configuration has `mode: "router"`. Each test measures, so they run one after the other.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline::types::Qos;
use rig::net::{Net, Wire};
use rig::readings::{TOPIC, deep};
use rig::stopwatch::{Gaps, Stopwatch, Took, print_measured};
use rig::talk::{RECOVERY, Speech, Talk};
use rig::{Host, alone, carried, eventually, publisher_options, subscription_options};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// Length of the longest sample, in bytes.
const LEN: u64 = 64;

/// Creates a router as in `examples/router`. It listens at its ends of the cables `networks` and
/// `routers`, and connects to the routers at the ends `connects`. The first network takes the place
/// of the example's `eth0`.
fn router(
    directory: &Path,
    name: &str,
    words: Vec<String>,
    networks: &[(Wire, usize)],
    routers: &[(Wire, usize)],
    connects: &[(Wire, usize)],
) -> Host {
    let mut text = include_str!("../../../examples/router/router.json5").to_owned();
    let mut replace = |what: &str, by: String| {
        assert_eq!(text.matches(what).count(), 1, "the example is another one: {what}");
        text = text.replace(what, &by);
    };
    // Before the list of `listen`, which may also become empty.
    let connects = connects.iter().map(|(wire, end)| wire.endpoint(*end));
    replace("endpoints: [],", format!("endpoints: {},", json!(connects.collect::<Vec<_>>())));
    let listens = networks
        .iter()
        .chain(routers)
        .map(|(wire, end)| format!("{}#so_sndbuf=32768", wire.endpoint(*end)));
    replace(
        r#"["tcp/192.168.1.1:7450#so_sndbuf=32768", "tcp/192.168.2.1:7450#so_sndbuf=32768"]"#,
        json!(listens.collect::<Vec<_>>()).to_string(),
    );
    let cards: Vec<String> = networks.iter().map(|(wire, _)| wire.card()).collect();
    let (first, others) = cards.split_at(cards.len().min(1));
    for (interface, cards) in [(r#"["eth0"]"#, first), (r#"["eth1"]"#, others)] {
        replace(
            interface,
            if cards.is_empty() { json!(["none"]) } else { json!(cards) }.to_string(),
        );
    }
    let file = directory.join(format!("{name}.json5"));
    std::fs::write(&file, text).unwrap();
    let mut host = Host::new(directory, name, words, &json!({ "host": name, "zenoh": file }), &[]);
    host.start();
    host
}

fn host(directory: &Path, name: &str, words: Vec<String>, connect: String, topic: &Value) -> Host {
    let mut host = Host::new(
        directory,
        name,
        words,
        &json!({ "host": name, "connect": [connect] }),
        std::slice::from_ref(topic),
    );
    host.start();
    host
}

/// Time without a packet after which a connection is known to be gone: the lease, and half a second
/// for the remaining data.
const KNOWN_TO_BE_GONE: Duration = Duration::from_millis(2_500);

/// Continues for a while, until all sent samples have arrived or are counted. No sample was heard
/// twice. A sample that arrives after a later one, as when routes change, was already counted as
/// lost; a sample that arrives twice was not.
fn nothing_lost_and_nothing_twice(talk: &mut Talk, b: &Host) {
    talk.until_heard(50);
    talk.all_accounted_for();
    let report = b.report().expect("a report");
    let [inlet] = report.inlets.as_slice() else { panic!("{report:?}") };
    assert!(inlet.figures.duplicate <= inlet.figures.lost, "{report:?}");
}

#[test]
fn three_routers_in_a_ring_carry_samples_by_the_way_that_is_left() {
    let _alone = alone();
    // Hosts 0 and 1 at the first and the second of the routers 2, 3 and 4.
    let Some(mut net) = Net::new(5) else { return };
    let (to_a, to_b) = (net.wire(2, 0), net.wire(3, 1));
    let ring: [Wire; 3] = [net.wire(2, 3), net.wire(3, 4), net.wire(4, 2)];
    let dir = tempfile::tempdir().unwrap();
    let mut routers = [
        router(dir.path(), "r1", net.on(2), &[(to_a, 0)], &[(ring[0], 0), (ring[2], 1)], &[]),
        router(
            dir.path(),
            "r2",
            net.on(3),
            &[(to_b, 0)],
            &[(ring[0], 1), (ring[1], 0)],
            &[(ring[0], 0)],
        ),
        router(
            dir.path(),
            "r3",
            net.on(4),
            &[],
            &[(ring[1], 1), (ring[2], 0)],
            &[(ring[1], 0), (ring[2], 1)],
        ),
    ];
    let speech = Speech::small(&deep());
    let a = host(
        dir.path(),
        "a",
        net.on(0),
        to_a.endpoint(0),
        &carried(TOPIC, true, false, LEN, &speech.qos),
    );
    let b = host(
        dir.path(),
        "b",
        net.on(1),
        to_b.endpoint(0),
        &carried(TOPIC, false, true, LEN, &speech.qos),
    );
    let mut talk = Talk::new(&a, &b, &speech);
    talk.until_heard(50);
    net.drop_silently(ring[0], true);
    talk.recovers_within(
        KNOWN_TO_BE_GONE + RECOVERY,
        &talk.now(),
        "the short way is silent, and the long one is left",
    );
    net.drop_silently(ring[0], false);
    routers[2].kill_gateway();
    talk.recovers_within(
        RECOVERY,
        &talk.now(),
        "the router of the long way killed, and the short one is back",
    );
    talk.recovers("a network in two parts is one again", |talk| {
        net.set_up(ring[0], false);
        eventually("known to be alone", || {
            a.report()
                .is_some_and(|r| r.hosts.iter().all(|h| !h.alive || !h.host.starts_with("b.")))
        });
        net.set_up(ring[0], true);
        talk.now()
    });
    routers[2].start();
    nothing_lost_and_nothing_twice(&mut talk, &b);
}

/// The choice between two paths of equal length is not defined. So both routers die, one after the
/// other, and one of them carries the samples.
#[test]
fn when_a_router_in_a_ring_dies_samples_go_the_other_way_round() {
    let _alone = alone();
    // Hosts 0 and 1 at the first and the third of the routers 2, 3, 4 and 5.
    let Some(mut net) = Net::new(6) else { return };
    let (to_a, to_b) = (net.wire(2, 0), net.wire(4, 1));
    let ring: [Wire; 4] = [net.wire(2, 3), net.wire(3, 4), net.wire(4, 5), net.wire(5, 2)];
    let dir = tempfile::tempdir().unwrap();
    let _first =
        router(dir.path(), "r1", net.on(2), &[(to_a, 0)], &[(ring[0], 0), (ring[3], 1)], &[]);
    let _third =
        router(dir.path(), "r3", net.on(4), &[(to_b, 0)], &[(ring[1], 1), (ring[2], 0)], &[]);
    let mut between = [
        router(dir.path(), "r2", net.on(3), &[], &[], &[(ring[0], 0), (ring[1], 1)]),
        router(dir.path(), "r4", net.on(5), &[], &[], &[(ring[2], 0), (ring[3], 1)]),
    ];
    let whole = |routers: &[Host]| {
        eventually("a ring", || {
            routers.iter().all(|r| r.report().is_some_and(|r| r.network.routers == 2))
        })
    };
    whole(&between);
    let speech = Speech::small(&deep());
    let a = host(
        dir.path(),
        "a",
        net.on(0),
        to_a.endpoint(0),
        &carried(TOPIC, true, false, LEN, &speech.qos),
    );
    let b = host(
        dir.path(),
        "b",
        net.on(1),
        to_b.endpoint(0),
        &carried(TOPIC, false, true, LEN, &speech.qos),
    );
    let mut talk = Talk::new(&a, &b, &speech);
    talk.until_heard(50);
    for n in [0, 1] {
        between[n].kill_gateway();
        // Only samples published from now on count: earlier ones may have passed the router before
        // it was killed.
        talk.recovers_within(RECOVERY, &talk.now(), "a router of the ring killed");
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
    let mut routers = [
        router(dir.path(), "r1", net.on(2), &[(to_a, 0)], &[(between, 0)], &[]),
        router(dir.path(), "r2", net.on(3), &[(to_b, 0)], &[], &[(between, 0)]),
    ];
    let speech = Speech::small(&deep());
    let a = host(
        dir.path(),
        "a",
        net.on(0),
        to_a.endpoint(0),
        &carried(TOPIC, true, false, LEN, &speech.qos),
    );
    let b = host(
        dir.path(),
        "b",
        net.on(1),
        to_b.endpoint(0),
        &carried(TOPIC, false, true, LEN, &speech.qos),
    );
    let mut talk = Talk::new(&a, &b, &speech);
    talk.until_heard(50);
    for router in &mut routers {
        talk.recovers("a router killed and started", |talk| {
            router.kill_gateway();
            talk.go_on_for(Duration::from_millis(300));
            let since = talk.now();
            router.start();
            since
        });
    }
    talk.recovers("the cable between the routers silent for 4 s", |talk| {
        net.drop_silently(between, true);
        talk.go_on_for(Duration::from_secs(4));
        net.drop_silently(between, false);
        talk.now()
    });
    // A second outage, because each connection that ends without an answer holds one of Zenoh's
    // threads.
    talk.recovers("the cable between the routers pulled for 4 s", |talk| {
        net.set_up(between, false);
        talk.go_on_for(Duration::from_secs(4));
        net.set_up(between, true);
        talk.now()
    });
    nothing_lost_and_nothing_twice(&mut talk, &b);
}

/// A router queues data for which it has no space. Otherwise samples longer than the link carries
/// in a few milliseconds would be lost.
#[test]
fn samples_of_any_length_get_through_a_router_whose_outgoing_link_is_slow() {
    const LENGTHS: [usize; 3] = [64, 64 << 10, 1 << 20];
    let _alone = alone();
    // Hosts 0 and 1 at the router 2.
    let Some(mut net) = Net::new(3) else { return };
    let (to_a, to_b) = (net.wire(2, 0), net.wire(2, 1));
    let dir = tempfile::tempdir().unwrap();
    let _router = router(dir.path(), "r", net.on(2), &[(to_a, 0), (to_b, 0)], &[], &[]);
    let qos = Qos { depth: 1, ..Qos::default() };
    let topics = |send: bool| {
        LENGTHS.map(|len| carried(&format!("of/{len}"), send, !send, len as u64, &qos))
    };
    let host = |name: &str, n: usize, wire: Wire, send: bool| {
        let mut host = Host::new(
            dir.path(),
            name,
            net.on(n),
            &json!({ "host": name, "connect": [wire.endpoint(0)] }),
            &topics(send),
        );
        host.start();
        host
    };
    let (a, b) = (host("a", 0, to_a, true), host("b", 1, to_b, false));
    let mut publishers = LENGTHS.map(|len| {
        a.node.bytes_publisher(&format!("of/{len}"), "raw", publisher_options(&qos, len)).unwrap()
    });
    let mut subscriptions = LENGTHS.map(|len| {
        b.node.bytes_subscription(&format!("of/{len}"), "raw", subscription_options(&qos)).unwrap()
    });
    eventually("matched", || publishers.iter_mut().all(|p| p.matched() == 2));
    net.limit(to_b, 20);
    let mut heard = [0; 3];
    eventually("ten heard of each length", || {
        for (publisher, len) in publishers.iter_mut().zip(LENGTHS) {
            let loan = publisher.loan(len).unwrap();
            publisher.publish(loan).unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
        for (subscription, heard) in subscriptions.iter_mut().zip(&mut heard) {
            while subscription.take().unwrap().is_some() {
                *heard += 1;
            }
        }
        heard.iter().all(|heard| *heard >= 10)
    });
    let report = a.report().expect("a report");
    println!("{:?}", report.edges.iter().map(|e| (&e.topic, e.figures)).collect::<Vec<_>>());
    // A sample may be given up because a thread had no processor for 2 s.
    assert!(report.edges.iter().map(|e| e.figures.unacknowledged).sum::<u64>() <= 1, "{report:?}");
}

/// The router waits for space on the path to the silent host, and meanwhile reads nothing from the
/// sender.
#[test]
fn behind_a_router_a_host_that_falls_silent_delays_the_others_for_less_than_a_lease() {
    const LARGE: usize = 4 << 20;
    const SMALL: usize = 64;
    const CAMERAS: [&str; 3] = ["camera/front", "camera/left", "camera/right"];
    const GAP: Duration = Duration::from_millis(1_600);
    /// Maximum delay attributed to the machine. Together with the limit it is less than the 3.6 s
    /// measured when the router waited as long as gateways do.
    const MACHINE: Duration = Duration::from_millis(800);
    let _alone = alone();
    // Hosts 0 to 2 at the router 3.
    let Some(mut net) = Net::new(4) else { return };
    let wires = [0, 1, 2].map(|n| net.wire(3, n));
    let dir = tempfile::tempdir().unwrap();
    let networks = wires.map(|wire| (wire, 0));
    let _router = router(dir.path(), "r", net.on(3), &networks, &[], &[]);
    let qos = Qos::default();
    let cameras = |send: bool| CAMERAS.map(|topic| carried(topic, send, !send, LARGE as u64, &qos));
    let wheel = |send: bool| carried("wheel", send, !send, SMALL as u64, &qos);
    let host = |name: &str, n: usize, topics: &[Value]| {
        let mut host = Host::new(
            dir.path(),
            name,
            net.on(n),
            &json!({ "host": name, "connect": [wires[n].endpoint(0)] }),
            topics,
        );
        host.start();
        host
    };
    let of_a = [&cameras(true)[..], &[wheel(true)]].concat();
    let (a, b, c) =
        (host("a", 0, &of_a), host("b", 1, &cameras(false)), host("c", 2, &[wheel(false)]));
    net.limit(wires[1], 100);
    let publish = |topic: &str, len: usize| {
        a.node.bytes_publisher(topic, "raw", publisher_options(&qos, len)).unwrap()
    };
    let (mut cameras, mut wheel) =
        (CAMERAS.map(|topic| publish(topic, LARGE)), publish("wheel", SMALL));
    let mut seen = CAMERAS
        .map(|topic| b.node.bytes_subscription(topic, "raw", subscription_options(&qos)).unwrap());
    let mut heard = c.node.bytes_subscription("wheel", "raw", subscription_options(&qos)).unwrap();
    eventually("matched", || {
        cameras.iter_mut().all(|camera| camera.matched() == 2) && wheel.matched() == 2
    });
    let mut gaps = Gaps::begin();
    let mut turn = |gaps: &mut Gaps| {
        for (publisher, len) in
            cameras.iter_mut().map(|camera| (camera, LARGE)).chain([(&mut wheel, SMALL)])
        {
            let loan = publisher.loan(len).unwrap();
            publisher.publish(loan).unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
        if heard.take().unwrap().is_some() {
            gaps.heard();
        }
    };
    eventually("each camera is seen", || {
        turn(&mut gaps);
        seen.iter_mut().all(|seen| seen.take().unwrap().is_some())
    });
    let before = gaps.longest();
    net.drop_silently(wires[1], true);
    let watch = Stopwatch::start();
    gaps = Gaps::begin();
    let end = Instant::now() + Duration::from_secs(6);
    while Instant::now() < end {
        turn(&mut gaps);
    }
    let took = Took { time: gaps.longest(), ..watch.read() };
    println!("without a sample before: {before:.2?}");
    print_measured("next to a host that fell silent behind a router, no sample", took, GAP);
    assert!(took.is_within_but_for(GAP, MACHINE), "nothing was heard for {took:?}");
}
