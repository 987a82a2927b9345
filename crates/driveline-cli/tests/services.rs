// SPDX-License-Identifier: Apache-2.0
//! Services as the command line shows them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use driveline::types::Schema;
use driveline::{
    ClientOptions, Context, ContextOptions, Executor, ExecutorOptions, GroupKind, Reach,
    ServiceCallback, ServiceOptions,
};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Repeats the command until its output has all the words, and returns that output: ends are
/// matched a moment after they are made.
fn asked(domain: &Path, arguments: &[&str], words: &[&str]) -> String {
    let start = Instant::now();
    loop {
        let output = Command::new(env!("CARGO_BIN_EXE_driveline"))
            .args(arguments)
            .env("DRIVELINE_DOMAIN_DIR", domain)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        if words.iter().all(|w| text.contains(w)) {
            return text;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{words:?} are not in {text}");
    }
}

#[test]
fn services_have_a_list_of_their_own_and_their_topics_do_not_stand_among_others() {
    let dir = tempfile::tempdir().unwrap();
    let domain = dir.path().join("domain");
    let context = |name: &str| {
        Context::new(ContextOptions { name: name.into(), domain_dir: Some(domain.clone()) })
            .unwrap()
    };
    let (server, client) = (
        context("map_process").node("map").unwrap(),
        context("planner_process").node("planner").unwrap(),
    );
    let schema = |name: &'static str| Schema::bytes(name, "raw", "");
    let o = ClientOptions { reach: Reach::Host, ..Default::default() };
    let _client = client.raw_client("map/tile", schema("TileRequest"), schema("Tile"), o).unwrap();
    let lonely = asked(&domain, &["service", "list"], &["no process offers 'map/tile' here"]);
    assert!(
        lonely.ends_with(&format!(
            "1 host service in the domain in {} (DRIVELINE_DOMAIN_DIR)\n",
            domain.display()
        )),
        "{lonely}"
    );

    let o = || ServiceOptions { reach: Reach::Host, ..Default::default() };
    let service =
        server.raw_service("map/tile", schema("TileRequest"), schema("Tile"), o()).unwrap();
    let list =
        asked(&domain, &["service", "list"], &["SERVICE", "map/tile  TileRequest  Tile", "map "]);
    assert!(!list.contains("no process "), "{list}");
    // The list is complete when it has the parts of both participants.
    let both = ["\"map\"", "\"clients\": 1"];
    let list: serde_json::Value =
        serde_json::from_str(&asked(&domain, &["service", "list", "--json"], &both)).unwrap();
    let entry = &list[0];
    assert_eq!(
        (&entry["service"], &entry["servers"][0], &entry["clients"]),
        (&"map/tile".into(), &"map".into(), &1.into())
    );
    assert_eq!((&entry["requests"], &entry["responses"]), (&0.into(), &0.into()));
    asked(&domain, &["topic", "list"], &["no host topics", "2 processes"]);
    asked(
        &domain,
        &["topic", "info", "_service/map/tile/request"],
        &["type TileRequest", "publisher planner", "subscription map"],
    );

    let _second =
        client.raw_service("map/tile", schema("TileRequest"), schema("Tile"), o()).unwrap();
    asked(
        &domain,
        &["service", "list"],
        &["several nodes offer 'map/tile' (", "calls are refused until one is left"],
    );
    drop(service);
}

#[test]
fn requests_of_clients_that_have_gone_still_count() {
    let dir = tempfile::tempdir().unwrap();
    let domain = dir.path().join("domain");
    let context = |name: &str| {
        Context::new(ContextOptions { name: name.into(), domain_dir: Some(domain.clone()) })
            .unwrap()
    };
    let (server, client) = (
        context("map_process").node("map").unwrap(),
        context("planner_process").node("planner").unwrap(),
    );
    let schema = |name: &'static str| Schema::bytes(name, "raw", "");
    let o = ServiceOptions { reach: Reach::Host, ..Default::default() };
    let service = server.raw_service("map/tile", schema("TileRequest"), schema("Tile"), o).unwrap();
    let executor = Executor::new(ExecutorOptions::default()).unwrap();
    let callback = ServiceCallback {
        name: "tile".into(),
        group: executor.group(GroupKind::MutuallyExclusive),
    };
    executor
        .add_raw_service(service, callback, |asked| drop(asked.responder.send_bytes(b"tile")))
        .unwrap();
    executor.start().unwrap();
    let calls = |n: u32| {
        let o = ClientOptions { reach: Reach::Host, ..Default::default() };
        let mut client =
            client.raw_client("map/tile", schema("TileRequest"), schema("Tile"), o).unwrap();
        assert!(client.wait_for_server(Duration::from_secs(60)));
        (0..n).for_each(|_| drop(client.call_bytes(b"where", Duration::from_secs(60)).unwrap()));
    };
    calls(2);
    calls(1);
    let list = || {
        serde_json::from_str::<serde_json::Value>(&asked(
            &domain,
            &["service", "list", "--json"],
            &["\"map\""],
        ))
        .unwrap()
    };
    let start = Instant::now();
    while list()[0]["clients"] != 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "the clients have gone: {}", list());
    }
    assert_eq!(list()[0]["requests"], 3, "{}", list());
}

/// Like a gateway to ROS 2: one process that announces its kind.
#[test]
fn a_service_behind_a_gateway_is_shown_as_one_of_ros_2() {
    let dir = tempfile::tempdir().unwrap();
    let domain = dir.path().join("domain");
    let context = Context::new(ContextOptions {
        name: "gateway-ros2".into(),
        domain_dir: Some(domain.clone()),
    })
    .unwrap();
    context.set_description(r#"{"gateway": "ros2"}"#.into());
    let schema = |name: &'static str| Schema::bytes(name, "cdr", "");
    let o = ServiceOptions { reach: Reach::Host, ..Default::default() };
    let node = context.node("gateway_ros2").unwrap();
    let _service = node
        .raw_service(
            "map/tile",
            schema("map_msgs/srv/GetTile_Request"),
            schema("map_msgs/srv/GetTile_Response"),
            o,
        )
        .unwrap();
    let hint = "'map/tile' is served in ROS 2, through the gateway: `driveline gateway list \
         --explain` says by whom";
    asked(&domain, &["service", "list"], &["map_msgs/srv/GetTile_Request", "gateway_ros2", hint]);
}
