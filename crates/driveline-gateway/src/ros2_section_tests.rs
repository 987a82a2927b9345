// SPDX-License-Identifier: Apache-2.0
//! Topics exchanged with ROS 2.

use crate::fixture::*;
use crate::ros2::{Direction, Ros2GatewayConfig, ServedBy};
use driveline_graph::Colour;
use std::path::Path;

const CAR: &str = "\
driveline: 1
ros2:
  topics: [{topic: /camera/**, direction: to_ros}, {topic: /tf_static, direction: from_ros}]
topics:
  camera/image: {reach: host, external: true, max_payload: 2 MiB}
  inside: {external: true}
modules:
  sensing:
    components:
      camera: {library: libdemo.so, class: Camera, outputs: {image: camera/image}}
";

#[test]
fn a_gateway_is_started_with_the_rules_and_the_topics_that_leave_their_process() {
    let g = sound(graph(&CAR.replace("  inside: {external: true}\n", "")));
    let config = Ros2GatewayConfig::of_graph(&g, "car", Path::new("/d")).unwrap();
    assert_eq!(config.ros2.topics[0].direction, Direction::ToRos);
    let topics: Vec<_> = config.topics.iter().map(|t| (t.topic.as_str(), t.max_payload)).collect();
    assert_eq!(topics, [("camera/image", 2 << 20)]);
    let json = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<Ros2GatewayConfig>(&json).unwrap(), config);
}

#[test]
fn without_rules_there_is_no_gateway() {
    let text = CAR.replace(
        "  topics: [{topic: /camera/**, direction: to_ros}, {topic: /tf_static, \
             direction: from_ros}]\n",
        "  domain_id: 3\n",
    );
    let loaded = graph(&text.replace("  inside: {external: true}\n", ""));
    finds(&loaded, &[(2, "has no rules", "direction: to_ros")]);
    assert_eq!(Ros2GatewayConfig::of_graph(&loaded.graph.unwrap(), "car", Path::new("/d")), None);
}

const SERVED: &str = "\
driveline: 1
ros2:
  types: [map_msgs]
  services:
    - {service: /map/tile, type: map_msgs/srv/GetTile, server: driveline, max_response: 4 MiB}
    - {service: /plan, type: map_msgs/srv/GetTile, server: ros}
modules:
  sensing:
    components:
      camera: {library: libdemo.so, class: Camera}
";

#[test]
fn services_alone_start_a_gateway() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("map_msgs/srv")).unwrap();
    std::fs::write(dir.path().join("map_msgs/srv/GetTile.srv"), "---\n").unwrap();
    let types = dir.path().join("map_msgs").display().to_string();
    let g = sound(graph(&SERVED.replace("[map_msgs]", &format!("[{types}]"))));
    let config = Ros2GatewayConfig::of_graph(&g, "car", Path::new("/d")).unwrap();
    let services: Vec<_> = config
        .ros2
        .services
        .iter()
        .map(|s| (s.name().unwrap().to_string(), s.server, s.max_response.0))
        .collect();
    assert_eq!(
        services,
        [
            ("map/tile".to_owned(), ServedBy::Driveline, 4 << 20),
            ("plan".to_owned(), ServedBy::Ros, 256 << 10)
        ]
    );
    let json = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<Ros2GatewayConfig>(&json).unwrap(), config);
}

#[test]
fn mistakes_in_services_are_reported_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("map_msgs/srv")).unwrap();
    std::fs::write(dir.path().join("map_msgs/srv/GetTile.srv"), "---\n").unwrap();
    let types = dir.path().join("map_msgs").display().to_string();
    let with = |from: &str, to: &str| {
        graph(&SERVED.replace("[map_msgs]", &format!("[{types}]")).replacen(from, to, 1))
    };
    finds(
        &with("/map/tile", "map/tile"),
        &[(5, "entry 1 of `services`: `map/tile` cannot be the name", "`/map/tile`")],
    );
    finds(
        &with("/plan", "/map/tile"),
        &[(6, "entry 2 of `services`: an earlier rule decides", "one side")],
    );
    finds(
        &with("GetTile, server: ros", "GetTiles, server: ros"),
        &[(6, "map_msgs/srv/GetTiles is not defined", "did you mean `map_msgs/srv/GetTile`?")],
    );
    finds(&with("server: ros", "server: rose"), &[(6, "rose", "ros")]);
    finds(
        &with(", server: ros", ""),
        &[(
            6,
            "the key `server` is missing in `ros2.services[1]`",
            "`server:` Side of the server. Write `server: driveline` or `server: ros`",
        )],
    );
    finds(
        &with("service: /plan, ", ""),
        &[(
            6,
            "the key `service` is missing in `ros2.services[1]`",
            "`service:` Full name in ROS 2",
        )],
    );
    finds(
        &with("server: ros", "server: ros, timeout_ms: 2 s"),
        &[(
            6,
            "`timeout_ms` needs an integer",
            "in milliseconds. Default 10 s. Write a plain number, which is in milliseconds: \
             `timeout_ms: 2000`",
        )],
    );
    finds(
        &with("server: ros", "server: ros, timeout_ms: 99"),
        &[(6, "`timeout_ms` is out of range", "between 100 and 600000")],
    );
    finds(
        &with("server: ros", "server: ros, penning: 3"),
        &[(6, "`penning`", "did you mean `pending`?")],
    );
    finds(
        &with("server: ros", "server: ros, across: true"),
        &[(6, "`across` needs nodes on DDS and nodes on rmw_zenoh", "zenoh: {}")],
    );
    finds(
        &with("4 MiB", "4 GiB"),
        &[(5, "`max_response` is at least 4 bytes and at most 1 GiB", "")],
    );
}

#[test]
fn an_incomplete_service_definition_is_reported_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("map_msgs/srv/GetTile.srv", "int32 x\ngeometry_msgs/Point at\n---\n");
    let types = dir.path().join("map_msgs").display().to_string();
    let g = || {
        graph(
            &SERVED
                .replace("[map_msgs]", &format!("[{types}]"))
                .replace("    - {service: /plan, type: map_msgs/srv/GetTile, server: ros}\n", ""),
        )
    };
    let reported = |says: &[&str]| {
        let text = g().diagnostics.render(Colour::No);
        says.iter().for_each(|s| assert!(text.contains(s), "{s:?} is not in\n{text}"));
    };
    finds(
        &g(),
        &[(
            5,
            "map_msgs/srv/GetTile cannot pass: the type geometry_msgs/msg/Point of 'at' is not \
             defined",
            "package geometry_msgs, such as",
        )],
    );
    reported(&["map_msgs/srv/GetTile.srv:2:1: here", "2 | geometry_msgs/Point at"]);
    write("geometry_msgs/msg/Point.msg", "float64 x\n");
    finds(
        &g(),
        &[(
            5,
            "geometry_msgs/msg/Point",
            &format!("add {}/geometry_msgs to `types`", dir.path().display()),
        )],
    );
    for (broken, says) in
        [("int33 x\n---\n", "GetTile.srv:1:1: here"), ("int32 x\n", "GetTile.srv")]
    {
        write("map_msgs/srv/GetTile.srv", broken);
        assert_eq!(g().diagnostics.errors(), 1);
        reported(&["entry 1 of `services`: map_msgs/srv/GetTile cannot pass: ", says, "help: "]);
    }
    // A mistake in a definition that no rule needs does not prevent a start.
    write("map_msgs/srv/GetTile.srv", "---\n");
    write("map_msgs/srv/Other.srv", "int33 x\n---\n");
    sound(g());
}

#[test]
fn message_types_that_cannot_be_converted_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let package = dir.path().join("tf2_msgs/msg");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::write(package.join("TFMessage.msg"), "geometry_msgs/TransformStamped[] transforms\n")
        .unwrap();
    let types = format!("ros2:\n  types: [{}]\n", dir.path().join("tf2_msgs").display());
    let text = CAR.replace("  inside: {external: true}\n", "").replace("ros2:\n", &types);
    finds(
        &graph(&text),
        &[(
            3,
            "the message type tf2_msgs/msg/TFMessage is left out for topics from ROS 2: the type \
             geometry_msgs",
            "geometry_msgs",
        )],
    );
    let to_ros = text
        .replace("direction: from_ros", "direction: to_ros")
        .replace("/tf_static", "/camera/image");
    assert!(
        !graph(&to_ros).diagnostics.render(Colour::No).contains("left out"),
        "it needs no definitions"
    );
    std::fs::write(package.join("TFMessage.msg"), "int8 x\nfloat65 y\n").unwrap();
    let reported = graph(&text).diagnostics.render(Colour::No);
    assert!(
        reported.contains("is left out") && reported.contains("TFMessage.msg:2:1: here"),
        "{reported}"
    );
}

const BRIDGE: &str = "\
driveline: 1
ros2:
  topics: [{topic: /camera/**, direction: both, max_payload: 1 MiB}]
topics:
  camera/image: {reach: host, external: true, max_payload: 8 MiB, pins: 5}
  camera/info: {reach: host, external: true}
";

#[test]
fn a_bridge_is_a_graph_and_knows_the_topics_of_programs_outside_of_it() {
    let g = sound(graph(BRIDGE));
    let config = Ros2GatewayConfig::of_graph(&g, "car", Path::new("/d")).unwrap();
    let topics: Vec<_> =
        config.topics.iter().map(|t| (t.topic.as_str(), t.max_payload, t.pins)).collect();
    assert_eq!(
        topics,
        [("camera/image", 8 << 20, 5), ("camera/info", 1 << 20, 8)],
        "what the topic does not say, the rule does"
    );
    assert_eq!(config.domain, "car");
    let inside = BRIDGE.replacen("external: true", "external: false", 1);
    finds(
        &graph(&inside),
        &[(5, "no component uses the topic `camera/image`", "add `external: true`")],
    );
    let inside = inside
        .replace("reach: host, external: true", "reach: host")
        .replace("/camera/**, direction: both", "/a, direction: to_ros");
    finds(
        &graph(&inside),
        &[
            (5, "no component uses the topic `camera/image`", ""),
            (6, "no component uses the topic `camera/info`", ""),
        ],
    );
    let beside =
        CAR.replace("inside: {external: true}", "camera/info: {reach: host, external: true}");
    sound(graph(&beside));
    let with = |topic: &str| graph(&CAR.replace("inside: {external: true}", topic));
    finds(
        &with("camera/info: {reach: host}"),
        &[(6, "no component uses the topic `camera/info`", "external: true")],
    );
    finds(
        &with("camera/info: {external: true}"),
        &[(6, "no component uses the topic `camera/info`", "reach: host")],
    );
    finds(
        &with("lidar: {reach: host, external: true}"),
        &[(6, "no component uses the topic `lidar`", "connect a port")],
    );
}

#[test]
fn excessive_memory_causes_a_remark() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("map_msgs/srv")).unwrap();
    std::fs::write(dir.path().join("map_msgs/srv/GetTile.srv"), "---\n").unwrap();
    let types = dir.path().join("map_msgs").display().to_string();
    let text =
        SERVED.replace("[map_msgs]", &format!("[{types}]")).replace("4 MiB", "1 GiB, pending: 64");
    finds(&graph(&text), &[(5, "amount to 196.0 GiB of shared memory", "lower `max_response`")]);
}

#[test]
fn mistakes_under_ros2_are_reported_with_their_line() {
    let sound = CAR.replace("  inside: {external: true}\n", "");
    let with = |rules: &str| graph(&sound.replace("{topic: /camera/**, direction: to_ros}", rules));
    finds(
        &with("{topic: camera, direction: to_ros}"),
        &[(3, "has no leading `/`", "/camera/image")],
    );
    finds(
        &with("{topic: /camera-1, direction: to_ros}"),
        &[(3, "cannot be the name", "letters, digits")],
    );
    finds(
        &with("{topic: /cemera, direction: to_ros}"),
        &[(3, "no topic of the graph that leaves its process is covered", "spelling")],
    );
    finds(&with("{topic: /camera/**, direction: to_rose}"), &[(3, "to_rose", "to_ros")]);
    finds(
        &with("{topic: /camera/**, direction: to_ros, pinz: 3}"),
        &[(3, "`pinz`", "did you mean `pins`?")],
    );
    let inside = sound.replace("/camera/**", "/camera/image").replace("reach: host, ", "");
    finds(&graph(&inside), &[(3, "`camera/image` does not leave its process", "reach: host")]);
    let listed = sound.replace(
        "[{topic: /camera/**, direction: to_ros}, {topic: /tf_static, direction: from_ros}]",
        "\n  - {topic: /camera/**, direction: to_ros}\n  - {topic: tf, direction: from_ros}\n  - \
         {topic: /lidar, direction: to_ros}",
    );
    finds(
        &graph(&listed),
        &[
            (5, "entry 2 of `topics`: `tf` has no leading", ""),
            (6, "entry 3 of `topics`: no topic", ""),
        ],
    );
    let typed = sound.replace("ros2:\n", "ros2:\n  types: [nowhere]\n");
    finds(&graph(&typed), &[(3, "nowhere", "relative to the graph file")]);
    let zenoh = |spec: &str| graph(&sound.replace("ros2:\n", &format!("ros2:\n  {spec}\n")));
    finds(
        &zenoh("zenoh: {connect: [tcp/10.0.0.1]}"),
        &[(3, "`tcp/10.0.0.1` has no port", "tcp/192.168.1.10:7447")],
    );
    finds(&zenoh("zenoh: {router: tcp/10.0.0.1:7447}"), &[(3, "`router`", "")]);
    finds(&zenoh("dds: false"), &[(3, "neither nodes on DDS nor nodes on rmw_zenoh", "zenoh: {}")]);
    finds(&zenoh("zenoh: {}"), &[]);
}

/// Graph in which images of the camera go to ROS 2, and a component reads road images from ROS 2.
const BOTH_WAYS: &str = "\
driveline: 1
ros2:
  topics: [{topic: /camera/image, direction: to_ros}, {topic: /road/*, direction: from_ros}]
topics:
  camera/image: {reach: host, external: true, max_payload: 2 MiB}
  road/image: {reach: host, external: true, max_payload: 2 MiB}
modules:
  sensing:
    components:
      camera: {library: libdemo.so, class: Camera, outputs: {image: camera/image}}
      lane: {library: libdemo.so, class: Lane, inputs: {image: road/image}, outputs: {lanes: \
     road/lanes}}
      fusion: {library: libdemo.so, class: Fusion, inputs: {lanes: road/lanes, scene: scene}, \
     outputs: {scene: scene}, trigger: {kind: any, on: [lanes]}}
";

#[test]
fn rules_without_effect_in_the_graph_cause_a_remark() {
    sound(graph(BOTH_WAYS));
    let with = |from: &str, to: &str| graph(&BOTH_WAYS.replacen(from, to, 1));
    finds(
        &with("road/image: {reach: host, ", "road/image: {"),
        &[(3, "entry 2 of `topics`: the topic `road/image` does not leave", "reach: host")],
    );
    finds(
        &with("/road/*", "/raod/*"),
        &[(
            3,
            "covered by `/raod/*`, and no rule covers `road/image`, which a component reads",
            "did you mean `/road/*`?",
        )],
    );
    finds(
        &with("/camera/image", "/camera/imgae"),
        &[(
            3,
            "no rule covers `camera/image`, which a component publishes",
            "did you mean `/camera/image`?",
        )],
    );
    sound(with("/road/*", "/road/image, direction: both}, {topic: /other/*"));
    finds(
        &with("/road/*, direction: from_ros", "/road/*, direction: to_ros"),
        &[(
            3,
            "no component publishes `road/image`, so only samples of programs outside",
            "`direction: from_ros`",
        )],
    );
    sound(with("/road/*, direction: from_ros", "/road/*, direction: both"));
    // A publisher outside of the graph is excluded only if the topic is not `external`.
    sound(with("/camera/image, direction: to_ros", "/camera/image, direction: from_ros"));
    let read = BOTH_WAYS
        .replace("camera/image: {reach: host, external: true", "camera/image: {reach: host")
        .replace("{image: road/image}", "{image: camera/image}");
    let read =
        read.replace("  road/image: {reach: host, external: true, max_payload: 2 MiB}\n", "");
    sound(graph(&read));
    finds(
        &graph(
            &read.replace("/camera/image, direction: to_ros", "/camera/image, direction: from_ros"),
        ),
        &[(
            3,
            "a component publishes `camera/image`, and the rule carries only samples of ROS 2 \
             nodes",
            "`direction: to_ros`",
        )],
    );
}

#[test]
fn an_input_that_requests_checksums_from_ros_2_causes_a_remark() {
    let with = |qos: &str| {
        graph(&BOTH_WAYS.replacen(
            "{image: road/image}",
            &format!("{{image: {{topic: road/image, {qos}}}}}"),
            1,
        ))
    };
    sound(with("qos: {checksum: false}"));
    finds(
        &with("qos: {checksum: true}"),
        &[(
            11,
            "requests checksums of the topic `road/image`, and samples from ROS 2 have none",
            "`qos.checksum: false` at the input",
        )],
    );
}

#[test]
fn a_misspelt_type_of_a_topic_from_ros_causes_a_remark() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("road_msgs/msg")).unwrap();
    std::fs::write(dir.path().join("road_msgs/msg/Lane.msg"), "int8 x\n").unwrap();
    let with = |name: &str| {
        let types = format!("ros2:\n  types: [{}]\n", dir.path().join("road_msgs").display());
        graph(
            &BRIDGE
                .replace("ros2:\n", &types)
                .replace("info: {", &format!("info: {{type: {name}, ")),
        )
    };
    for fine in
        ["road_msgs/msg/Lane", "driveline.msgs.Lanes", "driveline/Image", "sensor_msgs/msg/Image"]
    {
        sound(with(fine));
    }
    finds(
        &with("road_msgs/msg/Lan"),
        &[(
            7,
            "the type `road_msgs/msg/Lan` of the topic `camera/info` cannot come from ROS 2",
            "did you mean `road_msgs/msg/Lane`?",
        )],
    );
}

#[test]
fn a_rule_for_a_misspelt_topic_gets_no_further_remark() {
    let with = |from: &str, to: &str| graph(&BOTH_WAYS.replacen(from, to, 1));
    finds(
        &with("image: camera/image", "image: camera/imag"),
        &[(
            10,
            "no component reads the topic `camera/imag`",
            "did you mean `camera/image`? If `camera/imag` is right",
        )],
    );
    // Two of three entries have this spelling.
    finds(
        &with("  camera/image:", "  camera/imag:"),
        &[(
            10,
            "no component reads the topic `camera/image`",
            "names `camera/image`, too: did you mean it where `camera/imag` is declared?",
        )],
    );
    finds(
        &with("image: road/image", "image: road/imag"),
        &[(11, "no component publishes the topic `road/imag`", "did you mean `road/image`?")],
    );
}

#[test]
fn a_rule_that_misspells_a_topic_is_reported_with_its_place() {
    let loaded = graph(
        &BRIDGE
            .replacen("/camera/**", "/camera/imaeg", 1)
            .replace("  camera/info: {reach: host, external: true}\n", ""),
    );
    finds(
        &loaded,
        &[(
            5,
            "no component uses the topic `camera/image`",
            "the rule for `/camera/imaeg` nearly does: did you mean `/camera/image` there?",
        )],
    );
    let rule = &loaded.diagnostics.iter().next().unwrap().related[0];
    assert_eq!((rule.place.span.line, rule.place.span.len), (3, "/camera/imaeg".len() as u32));
}
