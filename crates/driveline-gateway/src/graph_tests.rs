// SPDX-License-Identifier: Apache-2.0
//! Whole graphs with sections of the gateways.

use crate::SECTIONS;
use crate::fixture::*;
use driveline_graph::json_schema;
use std::path::Path;

#[test]
fn a_gateway_that_reads_a_topic_by_a_rule_has_a_pin_of_it() {
    let mut text = SOUND.to_owned();
    for i in 0..4 {
        text += &format!(
            "      lane{i}: {{library: libdemo.so, class: Lane, inputs: {{image: {{topic: \
             camera/image, max_held: 5}}}}, outputs: {{lanes: lanes}}}}\n"
        );
    }
    let alone = sound(graph(&text));
    assert!(!alone.topics[&"camera/image".parse().unwrap()].carried);
    let bridged = text.replace(
        "driveline: 1\n",
        "driveline: 1\nros2: {topics: [{topic: /camera/*, direction: to_ros}]}\n",
    );
    assert_eq!(
        sound(graph(&bridged)).topics[&"camera/image".parse().unwrap()].pins,
        3 + 4 * 5 + 1,
        "the gateway reads it, too"
    );
    assert!(sound(graph(&bridged)).topics[&"camera/image".parse().unwrap()].carried);
    let from_ros = bridged
        .replace("to_ros", "from_ros")
        .replace("reach: host, max_payload", "reach: host, external: true, max_payload");
    assert_eq!(
        graph(&from_ros).graph.unwrap().topics[&"camera/image".parse().unwrap()].pins,
        3 + 4 * 5
    );
}

#[test]
fn a_mistake_hides_no_other_next_to_it() {
    let text = SOUND
        .replace("domain: comp\n", "domain: comp\nnetwork: {interface: \"eth0 \"}\n")
        .replace("reach: host, max_payload", "reach: hosst, max_payload")
        .replace("gain: 2", "gian: 2")
        .replace("class: Camera", "class: Camra")
        + "  more:\n    components:\n      lane: {library: libdemo.so, clas: Lane}\n  most:\n    \
             components:\n      lane: {library: libdemo.so, class: Lan}\n";
    finds(
        &graph(&text),
        &[
            (4, "cannot be the name of a network interface", "ip link"),
            (6, "`reach` cannot be `hosst`", "did you mean `host`?"),
            (13, "has no component class `Camra`", "did you mean `Camera`?"),
            (24, "the class `Lane` has no parameter `gian`", "did you mean `gain`?"),
            (29, "the key `class` is missing", ""),
            (29, "unknown key `clas`", "did you mean `class`?"),
            (32, "the component `lane` exists twice", "most_lane"),
            (32, "has no component class `Lan`", "did you mean `Lane`?"),
        ],
    );
    // Mistakes that only follow from an unreadable part are not reported. Here `topics` is
    // unreadable: the check must not report that `camera/image` has no entry and leaves its
    // process.
    finds(
        &replaced(&[("driveline: 1\n", ""), ("topics:", "topcs:")]),
        &[(1, "the key `driveline` is missing", ""), (3, "`topcs`", "topics")],
    );
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/graph.schema.json");
    let committed: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let generated = json_schema(SECTIONS).to_value();
    assert!(
        committed == generated,
        "docs/graph.schema.json is out of date; run: cargo run -p driveline-cli -- schema > \
         docs/graph.schema.json"
    );
}
