// SPDX-License-Identifier: Apache-2.0
//! Topics that are exchanged with ROS 2.

use super::*;
use crate::ros2::{Direction, Ros2GatewayConfig, ServedBy};

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
    let config = Ros2GatewayConfig::of_graph(&g, Path::new("/d")).unwrap();
    assert_eq!(config.ros2.topics[0].direction, Direction::ToRos);
    let topics: Vec<_> = config.topics.iter().map(|t| (t.topic.as_str(), t.max_payload)).collect();
    assert_eq!(topics, [("camera/image", 2 << 20)]);
    let json = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<Ros2GatewayConfig>(&json).unwrap(), config);
}

#[test]
fn without_rules_there_is_no_gateway() {
    let text =
        CAR.replace("  topics: [{topic: /camera/**, direction: to_ros}, {topic: /tf_static, direction: from_ros}]\n", "  domain_id: 3\n");
    let loaded = graph(&text.replace("  inside: {external: true}\n", ""));
    finds(&loaded, &[(2, "has no rules", "direction: to_ros")]);
    assert_eq!(Ros2GatewayConfig::of_graph(&loaded.graph.unwrap(), Path::new("/d")), None);
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
    let config = Ros2GatewayConfig::of_graph(&g, Path::new("/d")).unwrap();
    let services: Vec<_> = config.ros2.services.iter().map(|s| (s.name().unwrap().to_string(), s.server, s.max_response.0)).collect();
    assert_eq!(services, [("map/tile".to_owned(), ServedBy::Driveline, 4 << 20), ("plan".to_owned(), ServedBy::Ros, 256 << 10)]);
    let json = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<Ros2GatewayConfig>(&json).unwrap(), config);
}

#[test]
fn mistakes_in_services_are_told_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("map_msgs/srv")).unwrap();
    std::fs::write(dir.path().join("map_msgs/srv/GetTile.srv"), "---\n").unwrap();
    let types = dir.path().join("map_msgs").display().to_string();
    let with = |from: &str, to: &str| graph(&SERVED.replace("[map_msgs]", &format!("[{types}]")).replacen(from, to, 1));
    finds(&with("/map/tile", "map/tile"), &[(5, "entry 1 of `services`: `map/tile` cannot be the name", "`/map/tile`")]);
    finds(&with("/plan", "/map/tile"), &[(6, "entry 2 of `services`: an earlier rule decides", "one side")]);
    finds(
        &with("GetTile, server: ros", "GetTiles, server: ros"),
        &[(6, "no directory under `types` defines map_msgs/srv/GetTiles", "share/map_msgs")],
    );
    finds(&with("server: ros", "server: rose"), &[(6, "rose", "ros")]);
    finds(&with("server: ros", "server: ros, penning: 3"), &[(6, "`penning`", "did you mean `pending`?")]);
    finds(&with("server: ros", "server: ros, across: true"), &[(6, "`across` needs nodes on DDS and nodes on rmw_zenoh", "zenoh: {}")]);
    finds(&with("4 MiB", "4 GiB"), &[(5, "`max_response` is at least 4 bytes and at most 1 GiB", "")]);
}

#[test]
fn mistakes_under_ros2_are_told_with_their_line() {
    let sound = CAR.replace("  inside: {external: true}\n", "");
    let with = |rules: &str| graph(&sound.replace("{topic: /camera/**, direction: to_ros}", rules));
    finds(&with("{topic: camera, direction: to_ros}"), &[(3, "has no leading `/`", "/camera/image")]);
    finds(&with("{topic: /camera-1, direction: to_ros}"), &[(3, "cannot be the name", "letters, digits")]);
    finds(&with("{topic: /cemera, direction: to_ros}"), &[(3, "no topic of the graph that leaves its process is covered", "spelling")]);
    finds(&with("{topic: /camera/**, direction: to_rose}"), &[(3, "to_rose", "to_ros")]);
    finds(&with("{topic: /camera/**, direction: to_ros, pinz: 3}"), &[(3, "`pinz`", "did you mean `pins`?")]);
    let inside = sound.replace("/camera/**", "/camera/image").replace("reach: host, ", "");
    finds(&graph(&inside), &[(3, "`camera/image` does not leave its process", "reach: host")]);
    let listed = sound.replace(
        "[{topic: /camera/**, direction: to_ros}, {topic: /tf_static, direction: from_ros}]",
        "\n  - {topic: /camera/**, direction: to_ros}\n  - {topic: tf, direction: from_ros}\n  - {topic: /lidar, direction: to_ros}",
    );
    finds(&graph(&listed), &[(5, "entry 2 of `topics`: `tf` has no leading", ""), (6, "entry 3 of `topics`: no topic", "")]);
    let typed = sound.replace("ros2:\n", "ros2:\n  types: [nowhere]\n");
    finds(&graph(&typed), &[(3, "nowhere", "relative to the graph file")]);
    let zenoh = |spec: &str| graph(&sound.replace("ros2:\n", &format!("ros2:\n  {spec}\n")));
    finds(&zenoh("zenoh: {connect: [tcp/10.0.0.1]}"), &[(3, "`tcp/10.0.0.1` is no endpoint", "tcp/192.168.1.10:7447")]);
    finds(&zenoh("zenoh: {router: tcp/10.0.0.1:7447}"), &[(3, "`router`", "")]);
    finds(&zenoh("dds: false"), &[(3, "neither nodes on DDS nor nodes on rmw_zenoh", "zenoh: {}")]);
    finds(&zenoh("zenoh: {}"), &[]);
}
