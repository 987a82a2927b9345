// SPDX-License-Identifier: Apache-2.0
//! `driveline health` in detail, and its topic, during a run.

use crate::fixture::{Background, Fixture, GRAPH};
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};

pub(crate) fn start(f: &Fixture, more: &[&str]) -> Background {
    let set = ["run", "g.yaml", "--set", "counter.limit=0"];
    let mut command = f.command(&[&set[..], more].concat());
    let run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (code, out, err) = f.run(&["health", "--wait", "ready", "--timeout", "60"]);
    assert_eq!(code, 0, "{out}{err}");
    Background(run)
}

/// Returns the health of a component as soon as `wanted` accepts it.
fn component(f: &Fixture, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let run = f.json(&["health", "--json"]);
        let modules = run["processes"].as_array().unwrap().iter();
        let mut components = modules.flat_map(|m| m["health"]["components"].as_array().unwrap());
        let found = components.find(|c| c["name"] == name).unwrap().clone();
        if wanted(&found) {
            return found;
        }
        assert!(Instant::now() < end, "{found}");
    }
}

#[test]
fn components_executors_and_rates_of_topics_are_shown() {
    let graph = GRAPH
        .replace("outputs: {count: a}", "outputs: {count: {topic: a, rate_hz: {min: 1}}}")
        .replace("outputs: {out: b}", "outputs: {out: {topic: b, rate_hz: {max: 5}}}");
    let f = Fixture::new(&format!(
        "{graph}modes:\n  drive: {{active: [relay, printer], enter_within_ms: 60000}}\n  \
         quiet: {{active: [relay], enter_within_ms: 60000}}\n"
    ));
    let _run = start(&f, &[]);
    // The first mode is entered after all modules are ready. Until then, requests for another mode
    // are refused.
    f.json_until(&["mode", "--json"], |mode| mode["current"] == "drive");
    let (code, out, err) = f.run(&["mode", "quiet"]);
    assert_eq!(code, 0, "{out}{err}");
    let counter = component(&f, "counter", |c| c["outputs"][0]["state"] == "flowing");
    assert_eq!((&counter["state"], &counter["executor"]), (&"active".into(), &"main".into()));
    assert!(counter["calls"].as_u64().unwrap() > 0, "{counter}");
    let end = &counter["outputs"][0];
    assert_eq!((&end["topic"], &end["min_hz"]), (&"a".into(), &1.0.into()));
    assert!(end["rate_hz"].as_f64().unwrap() > 0.0 && end["samples"].as_u64().unwrap() > 0);
    // The launcher checks rates over a window of its own, so its fault of the component may come
    // later than the state.
    let relay = component(&f, "relay", |c| {
        c["outputs"][0]["state"] == "fast" && !c["last_fault"].is_null()
    });
    let fault = relay["last_fault"]["text"].as_str().unwrap();
    assert!(fault.contains("`rate_hz: {max: 5}`"), "{fault}");
    let printer = component(&f, "printer", |c| c["state"] == "inactive");
    assert_eq!(printer["inputs"][0]["state"], "off");

    let (code, out, err) = f.run(&["health"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let words = |start: &str| -> Vec<String> {
        let line = out.lines().find(|l| l.starts_with(start)).unwrap_or_else(|| panic!("{out}"));
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(words("printer")[1], "inactive", "{out}");
    assert_eq!(words("main of source")[3], "active", "{out}");
    let a = words("a ");
    assert_eq!(a[1..4], ["counter", "publishes", "flowing"], "{out}");
    assert!(out.contains("1 Hz or more") && out.contains("5 Hz or less"), "{out}");
    let faults = out.lines().filter(|l| l.contains("`rate_hz: {max: 5}`")).count();
    assert_eq!(faults, 1, "the fault of module 'rest' is that of 'relay': {out}");
    let status = f.json(&["status", "--json"]);
    assert_eq!(status["processes"][0]["health"], Value::Null, "only where health is asked for");
}

#[test]
fn the_launcher_publishes_the_health_of_the_run_on_the_topic_of_the_graph() {
    let graph = GRAPH.replace(
        "topics:\n",
        "health_topic: run/health\ntopics:\n  run/health: {reach: host, external: true}\n",
    );
    let f = Fixture::new(&graph);
    let mut run = start(&f, &[]);
    let status = f.json(&["status", "--json"]);
    let source = status["processes"][0]["pid"].as_u64().unwrap();
    let echo = ["topic", "echo", "run/health", "--count", "1", "--json"];
    let words = ["\"demo\"", "\"running\"", "\"printer\"", "\"flowing\"", &source.to_string()];
    f.asked(&echo, &words);
    f.run(&["stop", "--timeout", "60"]);
    assert_eq!(run.0.wait().unwrap().code(), Some(0));
    let left: Vec<_> = std::fs::read_dir(f.path("domain")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
