// SPDX-License-Identifier: Apache-2.0
//! Links at rest, start-up, and publisher and callback on one thread: measured, archived and
//! reported.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::harness::{Payload, System};
use driveline_bench::observations::Observations;
use driveline_bench::{Account, Metric};
use driveline_lab::archive::{Archive, Case, LinkMeasure, Run};
use driveline_lab::{ReportArgs, report};
use fixture::{case, experiment, link, manifest, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the outputs of a measurement: terminal, Markdown, CSV, page.
fn outputs(directory: &Path) -> [String; 4] {
    let of = |markdown| {
        let directory = directory.into();
        report(&ReportArgs { directory, out: None, markdown, json: false }).unwrap()
    };
    let file = |name| std::fs::read_to_string(directory.join(name)).unwrap();
    let page = || file("report.html").split_once("<body>").unwrap().1.to_owned();
    [of(false), of(true), file("results.csv"), page()]
}

/// Returns the words of the line that begins with some words and follows a heading.
fn row<'t>(text: &'t str, heading: &str, begins: &str) -> Vec<&'t str> {
    let after = text.split_once(heading).unwrap_or_else(|| panic!("{heading}: {text}")).1;
    let line = after.lines().find(|l| l.trim_start().starts_with(begins));
    line.unwrap_or_else(|| panic!("{begins}: {after}")).split_whitespace().collect()
}

#[test]
fn what_a_run_measures_once_is_reported_with_its_unit_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let measured = |cell: &str, number, measure, figure| Case {
        measure: Some(measure),
        figure,
        ..case(System::Driveline, cell, number, vec![link(64, 1, Payload::Untouched)])
    };
    let at_rest = LinkMeasure::AtRest { duration_ms: 1000 };
    let cases = vec![
        measured("quiet", 0, at_rest, Metric::IdlePublisherCpu),
        measured("start", 1, LinkMeasure::StartUp, Metric::StartPublisher),
    ];
    let archive =
        Archive::create(&dir.path().join("a"), manifest(vec![experiment("X", 3, cases)], 1))
            .unwrap();
    let account = |c: &Case, round: u64| {
        let values: &[(Metric, u64)] = if c.cell == "quiet" {
            &[
                (Metric::IdlePublisherCpu, 2_000),
                (Metric::IdleSubscriberCpu, 3_000),
                (Metric::IdleReaderCpu, 1_000),
            ]
        } else {
            &[(Metric::StartPublisher, 4_000_000), (Metric::StartSubscriber, 6_000_000)]
        };
        let idle_wakeups_per_s = (c.cell == "quiet").then_some(2.5);
        let once = values.iter().map(|(metric, ns)| (*metric, ns + 1000 * round));
        Account { once: once.collect::<BTreeMap<_, _>>(), idle_wakeups_per_s, ..Account::default() }
    };
    for c in &archive.manifest.experiments[0].cases {
        for round in 0..3 {
            let of_links = run(c, round, &[]);
            let run = Run { accounts: vec![account(c, round)], ..of_links };
            archive.add("X", c, &run, &Observations::default()).unwrap();
        }
    }
    let [terminal, markdown, csv, page] = outputs(archive.directory());
    let rest = ["Driveline", "3", "3.00", "µs", "4.00", "µs", "2.00", "µs", "2.50"];
    assert_eq!(row(&terminal, "links at rest, means", "Driveline"), rest);
    let start = ["4.00", "ms", "4.00", "ms", "6.00", "ms", "6.00", "ms"];
    assert_eq!(row(&terminal, "subscriber, greatest", "Driveline")[2..], start);
    assert!(row(&terminal, "quiet", "Driveline").join(" ").ends_with("see the links at rest"));
    assert!(terminal.contains("the publisher's process uses 3.00 µs of processor time"));
    assert!(!terminal.contains("CPU/message"), "{terminal}");
    for says in [
        "| quiet | Driveline | 3 | 3.00 µs | 4.00 µs | 2.00 µs | 2.50 |",
        "| start | Driveline | 3 | 4.00 ms | 4.00 ms | 6.00 ms | 6.00 ms |",
    ] {
        assert!(markdown.contains(says), "{says}: {markdown}");
    }
    for says in [
        "idle_publisher_cpu,all,ns/s,3,2000,3000.000,",
        "start_subscriber,all,ns,3,6000000,6001000.000,",
        "idle_wakeups,all,count/s,",
    ] {
        assert!(csv.contains(says), "{says}: {csv}");
    }
    // A link at rest and a start-up count no samples.
    assert!(!csv.contains(",scheduled,"), "{csv}");
    assert!(page.contains("<h3>Links at rest</h3>") && page.contains("<h3>Start-up</h3>"));
    assert!(!page.contains("What it means on the road"));
    let summary: Value = serde_json::from_str(
        &std::fs::read_to_string(archive.directory().join("summary.json")).unwrap(),
    )
    .unwrap();
    let cases = &summary["experiments"][0]["cases"];
    assert_eq!(cases[0]["measure"]["at_rest"]["duration_ms"], 1000);
    assert_eq!(cases[0]["totals"]["idle_wakeups_per_s"], 2.5);
    assert_eq!(cases[1]["figures"]["start_publisher"]["n"], 3);
}

/// Runs the program as a user does. Checks the results, not the speed.
#[test]
fn a_scenario_with_measure_is_measured_and_archived() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = "scenario: 1
id: mine
title: A link at rest
source: a test
question: What does it use?
systems: [driveline]
link: {size: 64, cpus: any}
cases:
  rest: {measure: at_rest}
  start: {measure: start_up}
  pointer: {measure: same_thread, reach: process}
  memory: {measure: same_thread}
run: {rounds: 2, seconds: 0.1, warm_up: 2}
";
    std::fs::write(dir.path().join("mine.yaml"), scenario).unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_driveline-bench"))
        .args(["run", "./mine.yaml", "--out", "out", "--json"])
        .current_dir(dir.path())
        .env("DRIVELINE_PEERS", dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    let said: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    // The hypervisor may take processor time; then a run is invalid.
    let faults: Vec<String> = said["experiments"][0]["cases"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|c| c["runs"].as_array().unwrap())
        .flat_map(|r| r["reasons"].as_array().unwrap())
        .map(ToString::to_string)
        .filter(|reason| !reason.contains("hypervisor"))
        .collect();
    assert_eq!(faults, Vec::<String>::new());
    if run.status.code() != Some(0) {
        return;
    }
    let n = |cell: &str, figure: &str| {
        let cases = said["experiments"][0]["cases"].as_array().unwrap();
        let case = cases.iter().find(|c| c["cell"] == cell && c["role"] == "measured").unwrap();
        case["figures"][figure]["n"].as_u64()
    };
    for (cell, figure, expected) in [
        ("rest", "idle_publisher_cpu", 2),
        ("rest", "idle_subscriber_cpu", 2),
        ("rest", "idle_reader_cpu", 2),
        ("start", "start_publisher", 2),
        ("start", "start_subscriber", 2),
        ("pointer", "transport", 2000),
        ("memory", "transport", 2000),
    ] {
        assert_eq!(n(cell, figure), Some(expected), "{cell} {figure}: {text}");
    }
}
