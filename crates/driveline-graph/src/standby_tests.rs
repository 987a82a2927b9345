// SPDX-License-Identifier: Apache-2.0
//! Strengths of outputs.

use super::*;

/// A lane detector and its standby, and a reader.
fn with_standby(topic: &str, main: &str, spare: &str) -> Loaded {
    let lane = |name: &str, strength: &str| {
        format!(
            "  {name}:\n    components:\n      {name}_lane: {{library: libdemo.so, class: Lane, \
             inputs: {{image: camera/image}}, outputs: {{lanes: {{topic: lanes{strength}}}}}}}\n"
        )
    };
    graph(&format!(
        "driveline: 1\ntopics:\n  camera/image: {{reach: host, max_payload: 8, external: true}}\n  \
         lanes: {{{topic}}}\n  scene: {{external: true, reach: host, max_payload: 8}}\n  before: \
         {{external: true, reach: host, max_payload: 8}}\nmodules:\n{}{}  fusion:\n    \
         components:\n      fusion: {{library: libdemo.so, class: Fusion, inputs: {{lanes: lanes, \
         scene: before}}, outputs: {{scene: scene}}}}\n",
        lane("main", main),
        lane("spare", spare),
    ))
}

const TOPIC: &str = "reach: host, max_payload: 8, qos: {deadline_ms: 100}";

#[test]
fn ends_of_a_topic_with_strengths_select_by_them() {
    let g = sound(with_standby(TOPIC, ", strength: 2", ""));
    let strength = |module: &str| g.module(module).unwrap().components[0].outputs[0].qos.strength;
    assert_eq!((strength("main"), strength("spare")), (Some(2), Some(0)));
    let fusion = &g.module("fusion").unwrap().components[0];
    assert_eq!((fusion.inputs[0].qos.strength, fusion.outputs[0].qos.strength), (Some(0), None));
    let g = sound(with_standby(TOPIC, "", ""));
    assert_eq!(g.module("fusion").unwrap().components[0].inputs[0].qos.strength, None);
}

#[test]
fn a_standby_needs_host_reach_a_deadline_and_different_strengths() {
    let refused = |topic: &str, spare: &str, line, message: &str, help: &str| {
        let loaded = with_standby(topic, ", strength: 2", spare);
        let found: Vec<_> =
            loaded.diagnostics.iter().filter(|d| d.message.contains(message)).collect();
        assert_eq!(found.len(), 1, "{}", loaded.diagnostics.render(Colour::No));
        assert_eq!(found[0].place.as_ref().unwrap().span.line, line);
        assert!(found[0].help.as_ref().unwrap().contains(help), "{found:?}");
        assert!(loaded.graph.is_none());
    };
    let network = TOPIC.replace("host", "network");
    refused(&network, "", 10, "has a hot standby and does not have `reach: host`", "one host");
    refused(
        "reach: host, max_payload: 8",
        "",
        10,
        "has a hot standby and no deadline",
        "deadline_ms",
    );
    refused(
        TOPIC,
        ", strength: 2",
        13,
        "two outputs of the topic `lanes` have strength 2",
        "greater",
    );
}
