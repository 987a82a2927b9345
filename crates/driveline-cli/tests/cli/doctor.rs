// SPDX-License-Identifier: Apache-2.0
//! `driveline doctor`.

use crate::fixture::Fixture;
use serde_json::Value;

const GRAPH: &str = "driveline: 1\nmodules:\n  one:\n    limits: {memory: 1 MiB}\n    \
     components:\n      c: {library: lib, class: Printer, inputs: {count: {topic: a}}}\ntopics:\n  \
     a: {external: true, max_payload: 8}\n";

#[test]
fn a_graph_that_does_not_get_what_it_asks_for_fails_with_the_remedy() {
    let f = Fixture::new(GRAPH);
    let (code, out, err) = f.run(&["doctor"]);
    assert_eq!(code, 0, "{out}{err}");
    for name in ["kernel", "preemption", "clock source", "control group", "NUMA nodes", "memory"] {
        assert!(out.contains(name), "{name} is not in\n{out}");
    }
    let (code, out, err) = f.run(&["doctor", "g.yaml"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("limits of modules 1 MiB"), "{out}");

    let f = Fixture::new(&GRAPH.replace("1 MiB", "1024 GiB"));
    let (code, out, _) = f.run(&["doctor", "g.yaml"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("FAILS   memory of the graph") && out.contains("does not get"), "{out}");
    let (code, out, _) = f.run(&["doctor", "g.yaml", "--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["verdict"]), (1, &"failure".into()));
    let checks = told["checks"].as_array().unwrap();
    let memory = checks.iter().find(|c| c["name"] == "memory of the graph").unwrap();
    assert!(memory["change"].as_str().unwrap().contains("more memory"), "{memory}");

    let f = Fixture::new("driveline: 7\n");
    assert_eq!(f.run(&["doctor", "g.yaml"]).0, 3);
}

#[test]
fn a_graph_with_sections_of_gateways_is_checked() {
    let f = Fixture::new(&format!("{GRAPH}network: {{host: car}}\nros2: {{topics: []}}\n"));
    let (code, out, err) = f.run(&["doctor", "g.yaml"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("limits of modules 1 MiB"), "{out}");
}
