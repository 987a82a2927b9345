// SPDX-License-Identifier: Apache-2.0
//! What tables say of archives with figures that are known beforehand, on the terminal and on the page.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::harness::{Payload, System};
use driveline_bench::observations::Observations;
use driveline_bench::stats::Random;
use driveline_lab::archive::{Archive, Case};
use driveline_lab::{ReportArgs, report};
use fixture::{case, chain_case, experiment, latencies, link, manifest, peer, run};
use std::path::Path;

/// An archive of one experiment, and what the terminal and the page say of it.
fn told(dir: &Path, rounds: u64, cases: Vec<Case>, add: impl Fn(&Archive, &Case, u64)) -> (String, String) {
    let archive = Archive::create(&dir.join("a"), manifest(vec![experiment("X", rounds, cases)], 1)).unwrap();
    for c in &archive.manifest.experiments[0].cases {
        (0..rounds).for_each(|round| add(&archive, c, round));
    }
    let text = report(&ReportArgs { directory: archive.directory().into(), out: None, json: false }).unwrap();
    (text, std::fs::read_to_string(archive.directory().join("report.html")).unwrap().split_once("<body>").unwrap().1.to_owned())
}

/// The cells of each line.
fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|l| l.split("  ").map(str::trim).filter(|w| !w.is_empty()).collect())
}

/// The cells of the line whose first one is this.
fn line<'a>(text: &'a str, first: &str) -> Vec<&'a str> {
    lines(text).find(|l| l.first() == Some(&first)).unwrap_or_else(|| panic!("no line '{first}' in:\n{text}"))
}

#[test]
fn tables_have_the_percentiles_that_mean_something() {
    let cases = || {
        vec![
            case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Untouched)]),
            case(peer("fastdds/shm"), "cell", 1, vec![link(64, 1, Payload::Untouched)]),
        ]
    };
    for (samples, ranks) in [([10, 10], "p50 greatest"), ([40, 40], "p50 p95"), ([40, 200], "p50 p95 p99")] {
        let dir = tempfile::tempdir().unwrap();
        let (text, page) = told(dir.path(), 2, cases(), |archive, c, round| {
            let n = samples[usize::from(c.system != System::Driveline)];
            archive.add("X", c, &run(c, round, &latencies(&mut Random::new(round), n, 20_000.0, 0.0)), &Observations::default()).unwrap();
        });
        let head = line(&text, "n").join(" ");
        assert!(head.starts_with(&format!("n {ranks} ÷ Driveline, p50")) && head.ends_with("CPU/message"), "{head}");
        assert_eq!(head.contains("÷ Driveline, p95"), samples[0] == 40, "{head}");
        assert_eq!(page.contains("n too small"), samples[0] != samples[1], "{samples:?}");
        assert!(text.contains("missed, not sent, torn: none"), "{text}");
    }
}

#[test]
fn every_link_of_several_has_a_row() {
    let dir = tempfile::tempdir().unwrap();
    let links: Vec<_> =
        (0..10).map(|i| driveline_lab::archive::Link { topic: format!("sensor{i}"), ..link(64, 1, Payload::Untouched) }).collect();
    let cases = vec![case(System::Driveline, "vehicle", 0, links)];
    let (text, page) = told(dir.path(), 1, cases, |archive, c, round| {
        let mut run = run(c, round, &[20_000; 100]);
        // One of them is late, and loses one.
        let slow = &mut run.accounts[1];
        let lost = slow.stamps.pop().unwrap();
        slow.stamps.iter_mut().for_each(|s| s.transport_ns = 5_000_000);
        slow.stamps.push(driveline_bench::Sample { received: None, transport_ns: 0, ..lost });
        (slow.received[0], slow.missed[0]) = (99, 1);
        archive.add("X", c, &run, &Observations::default()).unwrap();
    });
    assert_eq!(line(&text, "sensor0")[..4], ["sensor0", "100", "20.0 µs", "20.0 µs"], "{text}");
    assert_eq!(line(&text, "sensor1")[..4], ["sensor1", "99", "5.00 ms", "5.00 ms"], "{text}");
    assert_eq!(line(&text, "sensor1").last(), Some(&"1"), "{text}");
    assert!(text.contains("… and 2 more links") && !text.contains("sensor8"), "{text}");
    assert!(page.contains("Links one by one") && page.contains("sensor9"));
}

#[test]
fn chains_tell_of_transmission_and_of_drivelines_edges() {
    let dir = tempfile::tempdir().unwrap();
    let dds = || peer("cyclonedds/udp");
    let mut with = chain_case(dds(), "image is Driveline's", 2, true);
    with.comparisons =
        vec![driveline_bench::Comparison { metric: with.figure, to: "every edge · cyclonedds/udp".into(), of: with.figure }];
    let cases = vec![chain_case(System::Driveline, "every edge", 0, false), chain_case(dds(), "every edge", 1, false), with];
    let (text, page) = told(dir.path(), 5, cases, |archive, c, round| {
        let slow = c.cell == "every edge" && c.system != System::Driveline;
        let (transmission, work) = (if slow { 30_000 } else { 10_000 }, 20_000);
        let mut o = Observations::default();
        let points = |ns: u64| (0..100).map(move |i| driveline_bench::observations::Point { time_ns: i * 1000, value: ns });
        use driveline_bench::observations::Quantity::{Communication, Computation, Latency};
        for (subject, quantity, ns) in
            [("end to end", Latency, transmission + work), ("detector", Communication, transmission), ("detector", Computation, work)]
        {
            o.put(subject, quantity, points(ns));
        }
        archive.add("X", c, &run(c, round, &[]), &o).unwrap();
    });
    assert!(text.contains("transmission ÷ processing, means  detector"), "{text}");
    assert!(lines(&text).any(|l| l == ["cyclonedds/udp", "150 %"]), "{text}");
    assert!(lines(&text).any(|l| l == ["Driveline", "50.0 %"]), "{text}");
    let edges = line(&text, "image is Driveline's · cyclonedds/udp");
    assert_eq!(edges[1..], ["50.0 µs", "30.0 µs", "0.60 [0.60, 0.60]", "0.60 [0.60, 0.60]"], "{text}");
    assert!(page.contains("With Driveline on some edges, and without") && page.contains("150 %"));
}

#[test]
fn a_link_in_the_place_of_a_report_is_replaced_and_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let c = case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Untouched)]);
    let archive = Archive::create(&dir.path().join("a"), manifest(vec![experiment("X", 1, vec![c])], 1)).unwrap();
    let mine = dir.path().join("mine");
    std::fs::write(&mine, "dear").unwrap();
    let names = ["report.html", "results.csv", "summary.json"];
    for name in names.into_iter().chain(["report.part"]) {
        std::os::unix::fs::symlink(&mine, archive.directory().join(name)).unwrap();
    }
    report(&ReportArgs { directory: archive.directory().into(), out: None, json: false }).unwrap();
    // A whole page in its place would be megabytes: it is not shown.
    assert!(std::fs::read_to_string(&mine).unwrap() == "dear", "the file behind the link was written to");
    assert!(names.iter().all(|n| archive.directory().join(n).symlink_metadata().unwrap().is_file()));
    // Where it is named, it is the caller's.
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&mine, &link).unwrap();
    report(&ReportArgs { directory: archive.directory().into(), out: Some(link.clone()), json: false }).unwrap();
    assert!(link.is_symlink() && std::fs::read_to_string(&mine).unwrap().contains("</html>"));
}

#[test]
fn payloads_that_were_torn_are_counted_although_their_run_does_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let cases = vec![
        case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Filled)]),
        case(peer("as_published/sim_code"), "cell", 1, vec![link(64, 1, Payload::Filled)]),
    ];
    let (text, page) = told(dir.path(), 2, cases, |archive, c, round| {
        let mut run = run(c, round, &[20_000; 100]);
        if c.system != System::Driveline {
            run.accounts[0].torn = 3;
            run.accounts[0].invalid.push("payload mismatch at subscriber 0: the checksum does not fit".into());
        }
        archive.add("X", c, &run, &Observations::default()).unwrap();
    });
    assert!(text.contains("no valid run: 6 payloads torn") && page.contains("no valid run: 6 payloads torn"), "{text}");
    assert!(!text.contains("not sent, torn: none"), "{text}");
    assert!(text.contains("Torn payloads: 6 by as_published/sim_code (cell)."), "{text}");
}
