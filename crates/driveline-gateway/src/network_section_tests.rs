// SPDX-License-Identifier: Apache-2.0
//! Topics that reach other hosts.

use crate::fixture::*;
use crate::network::GatewayConfig;
use driveline::Reach;
use driveline_graph::Colour;
use std::path::Path;

/// Graph with the camera on this host; the lanes come from another host.
const CAR: &str = "\
driveline: 1
domain: pilot
network: {host: car, connect: [\"tcp/10.0.0.2:7450\"], zenoh: null}
topics:
  camera/image: {reach: network, max_payload: 2 MiB, network: {max_rate_hz: 10, every: 2}}
  lanes: {reach: network, pins: 12}
modules:
  sensing:
    components:
      camera: {library: libdemo.so, class: Camera, outputs: {image: camera/image}}
      fusion: {library: libdemo.so, class: Fusion, inputs: {lanes: lanes, scene: scene}, outputs: \
     {scene: scene}, trigger: {kind: any, on: [lanes]}}
";

#[test]
fn topics_of_other_hosts_are_not_missing_here() {
    let g = sound(graph(CAR));
    assert_eq!(g.topics[&"lanes".parse().unwrap()].reach, Reach::Network);
    let config = GatewayConfig::of_graph(&g, "pilot", Path::new("/d")).unwrap();
    assert_eq!((config.domain.as_str(), config.network.host.as_deref()), ("pilot", Some("car")));
    let carried: Vec<_> = config
        .topics
        .iter()
        .map(|t| {
            (t.topic.as_str(), t.send, t.receive, t.max_payload, t.pins, t.max_rate_hz, t.every)
        })
        .collect();
    assert_eq!(
        carried,
        [
            ("camera/image", true, false, 2 << 20, 8, Some(10.0), Some(2)),
            ("lanes", false, true, 256 << 10, 12, None, None)
        ],
        "each in the directions in which this graph has ends"
    );
    // The gateway's watching subscription uses one pin of each topic: 7 of the 8 pins of
    // `camera/image` remain. The local subscription may hold two more of the 12 pins of `lanes`.
    let hosts = |text: &str| {
        let config =
            GatewayConfig::of_graph(&sound(graph(text)), "pilot", Path::new("/d")).unwrap();
        config.topics.iter().map(|t| t.hosts.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(hosts(CAR), [7, 9]);
    let bridged = CAR.replace(
        "topics:\n  camera",
        "ros2: {topics: [{topic: /camera/image, direction: both}]}\ntopics:\n  camera",
    );
    assert_eq!(hosts(&bridged), [6, 9], "one pin is for the gateway to ROS 2");
    let json = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<GatewayConfig>(&json).unwrap(), config);
}

#[test]
fn a_refused_endpoint_gets_no_further_remark() {
    for endpoint in
        ["tcp/192.0.2.1:75000", "tcp/192.0.2.1", "tcp/192.0.2.1:7450#iface=nosuch;dscp=x"]
    {
        let text =
            CAR.replace("connect: [\"tcp/10.0.0.2:7450\"]", &format!("listen: [\"{endpoint}\"]"));
        let found = graph(&text).diagnostics;
        assert_eq!((found.iter().count(), found.errors()), (1, 1), "{}", found.render(Colour::No));
    }
}

#[test]
fn a_graph_without_network_topics_has_no_gateway() {
    let text = CAR.replace("reach: network", "reach: host, external: true");
    let loaded = graph(&text);
    finds(
        &loaded,
        &[
            (3, "no topic has `reach: network`", "reach: network"),
            (5, "`network` of the topic `camera/image` has no effect", "reach: network"),
        ],
    );
    assert_eq!(GatewayConfig::of_graph(&loaded.graph.unwrap(), "pilot", Path::new("/d")), None);
}

#[test]
fn a_gateway_alone_carries_topics_of_programs_outside_of_the_graph() {
    let text = "driveline: 1\nnetwork: {listen: [\"tcp/127.0.0.1:7450\"]}\ntopics:\n  \
         camera/image: {reach: network, external: true, max_payload: 2 MiB}\n";
    let config = GatewayConfig::of_graph(&sound(graph(text)), "pilot", Path::new("/d")).unwrap();
    let carried: Vec<_> = config
        .topics
        .iter()
        .map(|t| (t.topic.as_str(), t.send, t.receive, t.max_payload))
        .collect();
    assert_eq!(carried, [("camera/image", true, true, 2 << 20)]);
    let inside = graph(&text.replace(", external: true", ""));
    finds(
        &inside,
        &[
            (1, "no modules", "external: true"),
            (4, "no component uses the topic `camera/image`", "add `external: true`"),
        ],
    );
    finds(
        &graph(&text.replace(", max_payload: 2 MiB", "")),
        &[(4, "needs `max_payload`: no component uses it", "max_payload: 2 MiB")],
    );
}

#[test]
fn a_router_carries_no_topics_of_its_own() {
    let text = "driveline: 1\ndomain: pilot\nnetwork: {host: junction, zenoh: router.json5}\n";
    let files = Fixture::new(&[("g.yaml", text), ("router.json5", "{ mode: 'router' }")]);
    let config = GatewayConfig::of_graph(&sound(files.load()), "pilot", Path::new("/d")).unwrap();
    assert_eq!(
        (config.topics.len(), config.network.zenoh),
        (0, Some(files.dir.path().join("router.json5")))
    );
}

#[test]
fn mistakes_under_network_are_reported_with_their_line() {
    let with = |network: &str| {
        graph(&CAR.replace("host: car, connect: [\"tcp/10.0.0.2:7450\"], zenoh: null", network))
    };
    finds(
        &with("listen: [\"tcp/0.0.0.0:7450\"]"),
        &[(3, "permits every program that reaches this host", "insecure: true")],
    );
    finds(&with("connect: [\"tcp/10.0.0.2\"]"), &[(3, "has no port", "7450 is usual")]);
    finds(&with("host: car"), &[(3, "names no interface and no endpoint", "interface: eth0")]);
    finds(
        &with("connect: [\"tcp/10.0.0.2:7450#so_sndbuf=64KiB\"]"),
        &[(
            3,
            "`64KiB` is no size of a buffer",
            "write how many bytes, as a number: `so_sndbuf=65536`",
        )],
    );
    let tls =
        with("interface: lo, tls: {authority: ca.pem, certificate: /dev/null, private_key: a.key}");
    finds(
        &tls,
        &[
            (3, "ca.pem", "relative"),
            (3, "/dev/null: it is not a regular file", "relative"),
            (3, "a.key", "graph file"),
        ],
    );
    let marked =
        tls.diagnostics.iter().map(|d| d.place.as_ref().unwrap().span.len).collect::<Vec<_>>();
    assert_eq!(
        marked,
        ["ca.pem", "/dev/null", "a.key"].map(|path| path.len() as u32),
        "each is marked where it is named"
    );
    let listed = with("connect: [\"tcp/10.0.0.2:7450\", \"tcp/10.0.0.3\"]");
    finds(&listed, &[(3, "has no port", "7450 is usual")]);
    assert_eq!(
        listed.diagnostics.iter().next().unwrap().place.as_ref().unwrap().span.len as usize,
        "\"tcp/10.0.0.3\"".len(),
        "the entry is marked"
    );
    finds(
        &with("interface: nosuch0"),
        &[(3, "this computer has no network interface `nosuch0`", "`ip link` lists them")],
    );
    sound(with("interface: lo"));
    finds(&with("zenoh: nowhere.json5"), &[(3, "nowhere.json5", "relative to the graph file")]);
    finds(
        &with("connect: [\"tcp/10.0.0.2:7450\"], bandwidth_mbit: 0"),
        &[(3, "`bandwidth_mbit` is out of range", "400000")],
    );
    finds(&with("lissten: []"), &[(3, "`lissten`", "did you mean `listen`?")]);
    let none = CAR
        .lines()
        .filter(|l| !l.starts_with("network:"))
        .map(|l| format!("{l}\n"))
        .collect::<String>();
    finds(&graph(&none), &[(0, "nothing says how this host is reached", "interface: eth0")]);
}

#[test]
fn impossible_rates_are_reported_with_their_line() {
    let with = |network: &str| graph(&CAR.replace("max_rate_hz: 10, every: 2", network));
    finds(&with("max_rate_hz: 0"), &[(5, "max_rate_hz", "0.001")]);
    finds(&with("max_rate_hz: -1"), &[(5, "max_rate_hz", "0.001")]);
    finds(&with("max_rate_hz: fast"), &[(5, "fast", "")]);
    finds(&with("every: 0"), &[(5, "every", "1")]);
    finds(&with("evry: 2"), &[(5, "`evry`", "did you mean `every`?")]);
}

#[test]
fn a_receiver_must_know_how_much_may_come() {
    let text = CAR.replace(
        "class: Camera, outputs: {image: camera/image}",
        "class: Lane, inputs: {image: camera/image}",
    );
    sound(graph(&text));
    let text = text.replace(", max_payload: 2 MiB", "");
    finds(&graph(&text), &[(5, "needs `max_payload`", "max_payload: 2 MiB")]);
}

#[test]
fn network_keys_of_a_topic_without_network_reach_are_reported() {
    for reach in ["reach: host, ", ""] {
        let text = format!(
            "driveline: 1\ntopics:\n  image: {{{reach}max_payload: 9, network: {{every: \
             2}}}}\nmodules:\n  m:\n    components:\n      camera: {{library: libdemo.so, class: \
             Camera, outputs: {{image: image}}}}\n      lane: {{library: libdemo.so, class: Lane, \
             inputs: {{image: image}}}}\n"
        );
        let loaded = graph(&text);
        finds(
            &loaded,
            &[(
                3,
                "`network` of the topic `image` has no effect",
                "give it `reach: network`, or remove `network`",
            )],
        );
        assert!(loaded.graph.is_some(), "a warning");
    }
}

#[test]
fn raised_pins_name_the_reason() {
    let text = "driveline: 1\nnetwork: {listen: [\"tcp/127.0.0.1:7450\"]}\ntopics:\n  g: {reach: \
         network, external: true, max_payload: 2 MiB, pins: 1}\n";
    finds(
        &graph(text),
        &[(
            4,
            "`pins` of the topic `g` is raised from 1 to 4: the gateway to other hosts needs 4",
            "write `pins: 4`",
        )],
    );
    let read = CAR.replace("pins: 12", "pins: 2");
    finds(
        &graph(&read),
        &[(
            6,
            "raised from 2 to 6: its subscriptions hold up to 2 samples, the gateway to other \
             hosts needs 4",
            "pins: 6",
        )],
    );
    let bridged =
        text.replace("topics:", "ros2: {topics: [{topic: /g, direction: both}]}\ntopics:");
    let reported = graph(&bridged).diagnostics.render(Colour::No);
    assert!(
        reported.contains(
            "from 1 to 5: the gateway to other hosts needs 4, the gateway to ROS 2 needs 1"
        ),
        "{reported}"
    );
}
