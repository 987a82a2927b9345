// SPDX-License-Identifier: Apache-2.0
//! Reports of cases within a process and between processes: each published figure with its
//! counterpart, and the cost of transmission compared with the work of a chain's stages.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::chain::{ChainJob, EdgeSpec, StageSpec};
use driveline_bench::harness::{Payload, Reach, Reliability, System, Wait};
use driveline_bench::observations::{Observations, Point, Quantity};
use driveline_lab::archive::{Archive, Case, Link};
use driveline_lab::{ReportArgs, report, scenario};
use fixture::{case, experiment, link, manifest, peer, run};
use std::path::Path;

/// Measures a round of each case, with these latencies and observations.
fn measured(
    directory: &Path,
    id: &str,
    cases: Vec<(Case, u64, Observations)>,
    edit: impl FnOnce(&mut scenario::Scenario),
) -> Archive {
    let mut e = experiment(id, 1, cases.iter().map(|(c, _, _)| c.clone()).collect());
    edit(&mut e.scenario);
    let mut archive = Archive::create(directory, manifest(vec![e], 1)).unwrap();
    for (c, ns, observations) in cases {
        let mut run = run(&c, 0, &if c.links.is_empty() { vec![] } else { vec![ns; 100] });
        run.counters = observations.counters.clone();
        archive.add(id, &c, &run, &observations).unwrap();
    }
    archive.finish("2020-01-01T00:10:00Z".into()).unwrap();
    archive
}

fn summary(archive: &Archive) -> serde_json::Value {
    serde_json::from_str(
        &report(&ReportArgs {
            directory: archive.directory().into(),
            out: None,
            markdown: false,
            json: true,
        })
        .unwrap(),
    )
    .unwrap()
}

#[test]
fn a_published_figure_stands_next_to_its_reach() {
    let dir = tempfile::tempdir().unwrap();
    let within = |reach| Link { reach, ..link(32 << 10, 1, Payload::Untouched) };
    let mut cases = Vec::new();
    for (system, reach, cell, us) in [
        (System::Driveline, Reach::Process, "process", 10),
        (System::Driveline, Reach::Host, "host", 20),
        (peer("fastdds/udp"), Reach::Host, "host", 50),
    ] {
        let mut c = case(system, cell, cases.len(), vec![within(reach)]);
        c.scenario_case = "latency".into();
        cases.push((c, us * 1000, Observations::default()));
    }
    let published = scenario::load("F").unwrap().published;
    let archive = measured(&dir.path().join("a"), "F", cases, |s| s.published = published);
    let summary = summary(&archive);
    let rows = summary["experiments"][0]["published"].as_array().unwrap();
    let row = |system: &str| {
        let is = |r: &&serde_json::Value| {
            let p = &r["published"];
            p["system"] == system
                && p["case"] == "latency"
                && p["mean_us"] == if system == "FastCycle" { 159.0 } else { 243.0 }
        };
        rows.iter().find(is).unwrap_or_else(|| panic!("no {system}: {rows:?}"))
    };
    assert_eq!(
        (&row("FastCycle")["here"]["case"], &row("FastCycle")["here"]["ratio"]),
        (&"process · driveline".into(), &1.0.into())
    );
    // As in the paper, a system between processes is compared with the reference within a process.
    let inter = row("ROS 2 inter");
    assert_eq!(
        (&inter["here"]["case"], &inter["here"]["ratio"]),
        (&"host · fastdds/udp".into(), &5.0.into())
    );
    assert_eq!(inter["published_ratio"], 243.0 / 159.0);
}

#[test]
fn a_published_figure_stands_next_to_its_reliability() {
    let dir = tempfile::tempdir().unwrap();
    let mut cases = Vec::new();
    for (reliability, cell, us) in
        [(Reliability::Reliable, "reliable", 50), (Reliability::BestEffort, "best effort", 40)]
    {
        let l = Link { reliability, ..link(1 << 10, 1, Payload::Untouched) };
        let c = case(peer("cyclonedds/udp_default"), cell, cases.len(), vec![l]);
        cases.push((c, us * 1000, Observations::default()));
    }
    let published = scenario::load("B1").unwrap().published;
    // The paper's figure is for best effort. Without a best-effort measurement, it has no
    // counterpart.
    for (measured_cases, expected) in
        [(&cases[..], Some("best effort · cyclonedds/udp_default")), (&cases[..1], None)]
    {
        let of = dir.path().join(measured_cases.len().to_string());
        let archive = measured(&of, "B1", measured_cases.to_vec(), |s| {
            s.published = published.clone();
        });
        let summary = summary(&archive);
        let row = &summary["experiments"][0]["published"][0];
        assert_eq!(row["published"]["mean_us"], 9.4);
        assert_eq!(row["here"]["case"].as_str(), expected);
    }
}

fn chain(reach: Reach) -> ChainJob {
    let stage = |name: &str, inputs: &[&str], output: Option<&str>| StageSpec {
        name: name.into(),
        inputs: inputs.iter().map(|i| (*i).to_owned()).collect(),
        output: output.map(str::to_owned),
        work: format!("comp_{name}"),
        parameters: serde_json::Map::from_iter(
            (name == "yolo").then(|| ("model".to_owned(), "/a/<b>.cfg".into())),
        ),
        cpu: (name == "yolo").then_some(1),
    };
    ChainJob {
        stages: vec![stage("camera", &[], Some("image")), stage("yolo", &["image"], None)],
        edges: [("image".to_owned(), EdgeSpec { system: System::Driveline, size: 100 })].into(),
        reach,
        rate_hz: Some(10.0),
        warm_up: 0,
        messages: 4,
        wait: Wait::Block,
        reliability: Reliability::BestEffort,
        depth: 1,
        priority: 0,
    }
}

/// Returns the page about W9, and the printed Markdown. `network`: 1 if the detector used a neural
/// network, 0 if it was a plain one.
fn chain_reports(network: u64) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    let observed = |communication: u64| {
        let mut o = Observations::default();
        let points = |value| (0..4).map(move |i| Point { time_ns: i, value });
        o.put("camera", Quantity::Computation, points(1_000_000));
        o.put("yolo", Quantity::Communication, points(communication));
        o.put("yolo", Quantity::Computation, points(8_000_000));
        o.put("end to end", Quantity::Latency, points(9_000_000));
        o.counters.insert("yolo: network".into(), network);
        o
    };
    let mut cases = Vec::new();
    for (system, reach, cell, ns) in [
        (System::Driveline, Reach::Process, "process", 20_000),
        (System::Driveline, Reach::Host, "host", 200_000),
        (peer("cyclonedds/udp"), Reach::Host, "host", 24_000_000),
    ] {
        let c = Case { chain: Some(chain(reach)), ..case(system, cell, cases.len(), vec![]) };
        cases.push((c, 0, observed(ns)));
    }
    let published = scenario::load("W9").unwrap().published;
    let archive = measured(&dir.path().join("a"), "W9", cases, |s| s.published = published);
    let printed = report(&ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown: true,
        json: false,
    })
    .unwrap();
    (std::fs::read_to_string(archive.directory().join("report.html")).unwrap(), printed)
}

fn page_of_chains(network: u64) -> String {
    chain_reports(network).0
}

#[test]
fn figures_published_of_a_network_do_not_stand_next_to_simpler_reaches() {
    let page = page_of_chains(0);
    assert!(page.contains("The detector was a plain one") && !page.contains("567 %"), "{page}");
    assert!(!page_of_chains(1).contains("The detector was a plain one"));
}

#[test]
fn a_chain_reports_transmission_in_percent_of_processing_next_to_published_ones() {
    let page = page_of_chains(1);
    let (_, rest) = page.split_once("Transmission compared with processing").unwrap();
    let (table, rest) = rest.split_once("</table>").unwrap();
    let (process, host) = table.split_once("<span>host · a process for each stage</span>").unwrap();
    assert!(process.contains("<span>process · all stages in one process</span>"), "{process}");
    for (part, has, lacks) in [
        (process, ["0.25 %", "4.2 %"], ["2.50 %", "566.7 %"]),
        (host, ["2.50 %", "300 %"], ["0.25 %", "4.2 %"]),
    ] {
        for what in has {
            assert!(part.contains(what), "{what}: {part}");
        }
        for what in lacks {
            assert!(!part.contains(&format!("<td>{what}")), "{what}: {part}");
        }
    }
    assert!(host.contains("566.7 %") && host.contains("37 %"), "{host}");
    for what in [
        "model = /a/&lt;b&gt;.cfg",
        "on CPU 1",
        "counted in each run: network 1",
        "the kernel chooses its CPU",
    ] {
        assert!(rest.contains(what), "{what}");
    }
    // The page defines the end-to-end figure next to the figure.
    let way = "End to end is from just before camera publishes a sample until yolo has worked on \
         what came of it, along the inputs that trigger: camera → yolo.";
    assert!(page.split_once("Transmission compared").unwrap().0.contains(way), "{page}");
    assert!(chain_reports(1).1.contains(way));
    // The page has no table of published times, because the published figures are shares.
    assert!(!page.contains("Published, and measured here"));
}

#[test]
fn what_is_published_of_a_chain_has_its_transmission_and_what_its_stages_do() {
    let (_, printed) = chain_reports(1);
    let table = "\
| transmission ÷ processing, means | system | yolo |
|---|---|---|
| process | Driveline | 0.25 % |
| process | Cyber RT IAP (published, PC) | 4.20 % |
";
    assert!(printed.contains(table), "{printed}");
    for row in
        ["| host | cyclonedds/udp | 300 % |", "| host | Cyber RT DDS (published, PC) | 567 % |"]
    {
        assert!(printed.contains(row), "{row}: {printed}");
    }
    let stages = "\
What the stages do:

- camera: comp\\_camera (as it is by default); the kernel chooses its CPU
- yolo: comp\\_yolo (model = /a/\\<b>.cfg); on CPU 1; counted in each run: network 1
";
    assert!(
        printed.contains(stages) && !printed.contains("The detector was a plain one"),
        "{printed}"
    );
    // A simpler workload has no published counterpart, and the report says so.
    let (_, printed) = chain_reports(0);
    assert!(
        printed.contains("The detector was a plain one")
            && printed.contains("| host | cyclonedds/udp | 300 % |"),
        "{printed}"
    );
    assert!(!printed.contains("567 %"), "{printed}");
}
