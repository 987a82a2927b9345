// SPDX-License-Identifier: Apache-2.0
//! Reports of a workload that counts each delivery: the same as for links.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::Metric;
use driveline_bench::harness::{Payload, System};
use driveline_bench::observations::{Observations, Point, Quantity};
use driveline_lab::analysis::{Compared, analyse};
use driveline_lab::archive::{Archive, Case, Workload};
use driveline_lab::{ReportArgs, report};
use fixture::{case, experiment, link, manifest, peer, run};
use std::path::Path;

/// Observations of a node with three subscriptions: one gets its messages late, and one gets none.
fn observations() -> Observations {
    let mut o = Observations::default();
    let points = |ns: u64| (0..100).map(move |i| Point { time_ns: i * 1_000_000, value: ns });
    o.put("subscription 0", Quantity::Latency, points(10_000));
    o.put("subscription 1", Quantity::Latency, points(30_000));
    o.put("subscription 2", Quantity::Latency, points(0).take(0));
    o.put("all", Quantity::Latency, points(10_000).chain(points(30_000).take(90)));
    for (name, n) in [
        ("subscriptions", 3),
        ("messages scheduled", 400),
        ("messages sent", 380),
        ("messages scheduled but not sent", 20),
        ("deliveries scheduled", 400),
        ("deliveries due", 380),
        ("deliveries in time", 150),
        ("deliveries late", 50),
        ("deliveries lost", 180),
    ] {
        o.counters.insert(name.into(), n);
    }
    o
}

/// Makes an archive with two rounds of this workload and of a link. The link's payloads are filled,
/// and its scenario names the figure.
fn archive(dir: &Path) -> Archive {
    let workload = Workload {
        name: "topology".into(),
        parameters: serde_json::json!({}),
        duration_ms: 1000,
        warm_up_ms: 100,
    };
    let all_to_one = Case { workload: Some(workload), ..case(System::Driveline, "T3", 0, vec![]) };
    let mut cases = vec![all_to_one];
    for system in [System::Driveline, peer("fastdds/shm")] {
        cases.push(Case {
            figure_is_named: true,
            ..case(system, "T1", cases.len(), vec![link(1024, 1, Payload::Filled)])
        });
    }
    let archive =
        Archive::create(&dir.join("a"), manifest(vec![experiment("X", 2, cases)], 1)).unwrap();
    for c in &archive.manifest.experiments[0].cases {
        for round in 0..2 {
            let (mut run, o) = (
                run(c, round, &[20_000; 100]),
                if c.workload.is_some() { observations() } else { Observations::default() },
            );
            run.counters.clone_from(&o.counters);
            archive.add("X", c, &run, &o).unwrap();
        }
    }
    archive
}

#[test]
fn the_whole_of_a_workload_is_all_its_subscriptions_and_its_counters_are_an_account() {
    let dir = tempfile::tempdir().unwrap();
    let analysis = analyse(&archive(dir.path())).unwrap();
    let c = &analysis.experiments[0].cases[0];
    let (of, figure) = c.headline().unwrap();
    assert_eq!((of, figure.percentiles.n), (Compared::Latency("all".into()), 380));
    // Shares of scheduled deliveries: in time, late, lost, not sent.
    assert_eq!(c.totals.shares(), [300.0 / 800.0, 100.0 / 800.0, 360.0 / 800.0, 40.0 / 800.0]);
    assert_eq!(c.lost(), Some((400, 800)));
    let fair = c.fairness().unwrap();
    assert_eq!(
        (fair.subscribers, fair.served, fair.medians, fair.most_often_last),
        (3, 2, Some((10_000, 30_000)), None)
    );
    assert_eq!(
        c.subscribers.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
        ["subscription 0", "subscription 1"]
    );
}

#[test]
fn a_figure_that_is_named_is_that_of_filled_payloads_too() {
    let dir = tempfile::tempdir().unwrap();
    let analysis = analyse(&archive(dir.path())).unwrap();
    let [_, own, other] = analysis.experiments[0].cases.as_slice() else { panic!("three cases") };
    for c in [own, other] {
        assert_eq!(c.headline().unwrap().0, Compared::Metric(Metric::Transport));
    }
    assert_eq!(other.to_driveline().unwrap().p50.unwrap().estimate, 1.0);
}

#[test]
fn tables_and_pages_have_it_where_they_have_links() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(dir.path());
    let args = |markdown| ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown,
        json: false,
    };
    let text = report(&args(false)).unwrap();
    let row = |cell: &str| {
        let (_, below) = text.split_once(&format!("{cell} (")).unwrap_or_else(|| panic!("{text}"));
        below
            .lines()
            .nth(1)
            .unwrap()
            .split("  ")
            .map(str::trim)
            .filter(|w| !w.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    // The last columns are: late, lost, not sent.
    assert!(row("T3").ends_with(&["100", "360", "40"].map(str::to_owned)), "{text}");
    assert!(
        text.contains("Not arrived, which no percentile shows: 400 of 800 by Driveline (T3)."),
        "{text}"
    );
    let markdown = report(&args(true)).unwrap();
    assert!(
        markdown.contains("| T3 (2 of 3 served) | Driveline | 10.0 | 30.0 | 3.00 |"),
        "{markdown}"
    );
    let page = std::fs::read_to_string(archive.directory().join("report.html")).unwrap();
    let (_, page) = page.split_once("<body>").unwrap();
    assert!(
        page.contains("<span>T3 · Driveline (2 of 3 served)</span>")
            && page.contains("<th scope=row>subscription 1")
    );
    assert!(
        page.contains("of all deliveries that were due")
            && page.contains("its publisher was too late")
    );
    // The workload is in the same column as the link with which it is compared.
    assert!(
        page.contains("class=kind>filled</th>")
            && !page.contains("class=kind>filled and read</th>")
            && !page.contains("loan-only")
    );
    // Payloads of the graph were not verified.
    assert!(page.contains(" No verified payload was torn.") && !page.contains("not sent or torn"));
    let csv = std::fs::read_to_string(archive.directory().join("results.csv")).unwrap();
    assert!(
        csv.lines()
            .any(|l| l.contains("T3") && l.contains(",late,all,count,") && l.ends_with(",100")),
        "{csv}"
    );
    assert_eq!(csv.lines().filter(|l| l.contains("subscription 1")).count(), 1, "{csv}");
}
