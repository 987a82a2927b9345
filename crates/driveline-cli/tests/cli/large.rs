// SPDX-License-Identifier: Apache-2.0
//! A run of hundreds of components.

use crate::fixture::Fixture;
use serde_json::Value;
use std::fmt::Write;

const MODULES: usize = 25;

/// Returns a graph of modules with ten components each: a counter, eight relays in a row, and one
/// component that reads the counter of the previous module. Queues have room for all published
/// samples.
fn graph() -> String {
    let (mut topics, mut modules) = (String::new(), String::new());
    let relay = |topic: &str| format!("library: lib, class: Relay, inputs: {{in: {topic}}}");
    for m in 0..MODULES {
        let qos = "max_payload: 8, qos: {depth: 256}";
        let _ = writeln!(topics, "  m{m}/t0: {{reach: host, {qos}}}");
        for k in 1..8 {
            let _ = writeln!(topics, "  m{m}/t{k}: {{{qos}}}");
        }
        let counter = format!(
            "library: lib, class: Counter, outputs: {{count: m{m}/t0}}, parameters: {{limit: 200}}"
        );
        let _ = writeln!(modules, "  m{m}:\n    components:\n      c{m}: {{{counter}}}");
        for k in 0..7 {
            let component =
                format!("{}, outputs: {{out: m{m}/t{}}}", relay(&format!("m{m}/t{k}")), k + 1);
            let _ = writeln!(modules, "      r{m}_{k}: {{{component}}}");
        }
        let _ = writeln!(modules, "      r{m}_7: {{{}}}", relay(&format!("m{m}/t7")));
        let before = (m + MODULES - 1) % MODULES;
        let _ = writeln!(modules, "      r{m}_8: {{{}}}", relay(&format!("m{before}/t0")));
    }
    format!("driveline: 1\nname: large\ntopics:\n{topics}modules:\n{modules}")
}

#[test]
fn of_250_components_in_25_modules_each_is_called_and_none_misses_a_sample() {
    let f = Fixture::new(&graph());
    let (code, out, err) = f.run(&["run", "g.yaml", "--report", "out"]);
    assert_eq!(code, 0, "{out}{err}");
    let summary = std::fs::read_to_string(f.path("out/summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let stages = summary["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 10 * MODULES);
    assert!(stages.iter().all(|s| s["runs"].as_u64() > Some(0)), "{summary}");
    assert_eq!((&summary["missed_by_triggers"], &summary["superseded"]), (&0.into(), &0.into()));
}
