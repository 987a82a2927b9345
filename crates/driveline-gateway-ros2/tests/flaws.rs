// SPDX-License-Identifier: Apache-2.0
//! Invalid samples, as a hostile or broken node sends them on rmw_zenoh's keys and as a component
//! here publishes them. Each is counted under its reason.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline_types::Qos;
use rig::rmw::{IMAGE, Node, Router, STRING, framed_image, image};
use rig::samples::{publish, reliable, string, string_schema, take};
use rig::{Rig, eventually};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Starts a gateway without DDS, on this router.
fn rig(router: &Router, rules: Value, topics: &[(&str, u64, Qos)]) -> Rig {
    let zenoh = json!({ "connect": [router.endpoint()] });
    Rig::with(json!({ "domain_id": 0, "dds": false, "zenoh": zenoh, "topics": rules }), topics)
}

/// Invalid images, whether converted or passed unchanged, and valid images that Driveline's type
/// cannot hold.
#[test]
fn each_flaw_of_an_image_is_counted_under_its_name() {
    let router = Router::new();
    // Deep enough for all samples, whenever they are read.
    let qos = json!({ "depth": 32 });
    let rules = json!([
        { "topic": "/camera", "direction": "from_ros", "qos": qos },
        { "topic": "/as_it_is", "direction": "from_ros", "as": "cdr", "qos": qos }
    ]);
    let rig = rig(&router, rules, &[]);
    let node = Node::new(&router, 0, "attacker");
    let good = image(64, b'x');
    let with = |at: usize, bytes: &[u8]| {
        let mut flawed = good.clone();
        flawed[at..at + bytes.len()].copy_from_slice(bytes);
        flawed
    };
    // Offsets after the encapsulation: stamp 0, name of the frame 8, height and width 16, encoding
    // 24, step 36, length of the data 40.
    let broken = [
        ("no_header", good[..3].to_vec()),
        ("encapsulation", with(1, &[7])),
        ("truncated", good[..4 + 22].to_vec()),
        ("length", good[..100].to_vec()),
        ("length", with(4 + 8, &0x7fff_ffff_u32.to_le_bytes())),
        ("length", with(4 + 40, &u32::MAX.to_le_bytes())),
        // The encapsulation says big endian.
        ("byte_order", with(1, &[0])),
        ("terminator", with(4 + 15, b"x")),
        ("trailing", [good.as_slice(), &[0; 8]].concat()),
    ];
    let unfit = [
        ("image", with(4 + 16, &2_u32.to_le_bytes())),
        ("image", with(4 + 36, &128_u32.to_le_bytes())),
        ("frame_id", framed_image(&"f".repeat(48), 64, b'x')),
    ];
    for (topic, converted) in [("camera", true), ("as_it_is", false)] {
        let of = || rig.report().from_ros.into_iter().find(|t| t.topic == topic).unwrap();
        let mut publisher = node.publisher(&format!("/{topic}"), IMAGE, "rv0");
        eventually("asked for", || publisher.matched() && of().publishers.len() == 1);
        let mut subscription = rig.subscription(topic, &reliable(32));
        eventually("matched", || subscription.matched() == 1);
        publisher.publish(&good);
        for (_, sample) in broken.iter().chain(&unfit) {
            publisher.publish(sample);
        }
        // A valid image after them, to see that they were handled in order.
        publisher.publish(&image(64, b'y'));
        let fits = if converted { 0 } else { unfit.len() };
        let mut last = 0;
        let missed =
            take(&mut subscription, 2 + fits, |payload, _| last = *payload.last().unwrap());
        let mut expected = BTreeMap::new();
        for (reason, _) in broken.iter().chain(unfit.iter().filter(|_| converted)) {
            *expected.entry((*reason).to_owned()).or_insert(0) += 1;
        }
        assert_eq!(
            (missed, last),
            (expected.values().sum(), b'y'),
            "{topic}: broken samples reach no reader, and are missed"
        );
        eventually("counted", || of().carried == 2 + fits as u64);
        assert_eq!(of().dropped, expected, "{topic}");
        assert!(
            rig.logged(&format!(
                "topic '/{topic}': a sample of node 'ros2/attacker' is dropped (byte_order)"
            )),
            "{topic}"
        );
    }
}

/// The definition comes from a file, and local publishers send the same broken samples.
#[test]
fn text_that_is_none_is_counted_in_either_direction() {
    let router = Router::new();
    let rules = json!([
        { "topic": "/in", "direction": "from_ros" },
        { "topic": "/out", "direction": "to_ros" },
    ]);
    let rig = rig(&router, rules, &[("out", 4096, reliable(16))]);
    let node = Node::new(&router, 0, "attacker");
    let heard = node.subscription("/out", STRING, "rv0");
    let mut publisher = rig.publisher("out", "talker", string_schema(), 4096, &reliable(16));
    rig.is_read_by("/attacker");
    let mut attacker = node.publisher("/in", STRING, "rv0");
    eventually("asked for", || {
        attacker.matched() && rig.report().from_ros[0].publishers.len() == 1
    });
    let good = string("good");
    let broken = [
        ("truncated", good[..6].to_vec()),
        ("length", good[..10].to_vec()),
        ("byte_order", [&[0, 0], &good[2..]].concat()),
        ("terminator", [&good[..12], &[1]].concat()),
        ("trailing", [good.as_slice(), &[0; 4]].concat()),
    ];
    for (_, sample) in &broken {
        attacker.publish(sample);
        publish(&mut publisher, sample);
    }
    attacker.publish(&good);
    publish(&mut publisher, &good);
    let expected: BTreeMap<_, _> =
        broken.iter().map(|(reason, _)| ((*reason).to_owned(), 1)).collect();
    eventually("carried", || {
        rig.report().from_ros[0].carried == 1 && rig.report().to_ros[0].carried == 1
    });
    assert_eq!(
        (rig.report().from_ros[0].dropped.clone(), rig.report().to_ros[0].dropped.clone()),
        (expected.clone(), expected)
    );
    eventually("heard", || !heard.heard().is_empty());
    assert_eq!(heard.strings(), ["good"]);
}
