// SPDX-License-Identifier: Apache-2.0
//! Reports of Driveline where it is measured twice because there is no floor: the second case is a
//! control, not another system.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::harness::{Payload, System};
use driveline_bench::observations::{Observations, Point, Quantity};
use driveline_bench::{Comparison, Metric};
use driveline_lab::analysis::analyse;
use driveline_lab::archive::{Archive, Case, Role};
use driveline_lab::{ReportArgs, report};
use fixture::{case, chain_case, experiment, link, manifest, peer, run};

fn again(own: &Case, number: usize) -> Case {
    Case {
        id: format!("{} · again (A/A)", own.id),
        directory: format!("{number:03}"),
        role: Role::Control,
        comparisons: vec![Comparison {
            metric: Metric::Transport,
            to: own.id.clone(),
            of: Metric::Transport,
        }],
        ..own.clone()
    }
}

/// Renders a chain, and two links with filled payloads at the same time. The controls take `times`
/// × 10 µs, the other cases 20 µs. Returns terminal, Markdown and page.
fn rendered(times: u64, with_peer: bool) -> [String; 3] {
    let dir = tempfile::tempdir().unwrap();
    let topics = ["lidar", "camera"]
        .map(|t| driveline_lab::archive::Link { topic: t.into(), ..link(64, 1, Payload::Filled) })
        .to_vec();
    let mut cases = vec![
        chain_case(System::Driveline, "chain", 0, false),
        case(System::Driveline, "both", 1, topics.clone()),
    ];
    cases.extend([again(&cases[0], 2), again(&cases[1], 3)]);
    if with_peer {
        cases.push(case(peer("fastdds/shm"), "both", 4, topics));
    }
    let archive =
        Archive::create(&dir.path().join("a"), manifest(vec![experiment("X", 5, cases)], 1))
            .unwrap();
    for c in &archive.manifest.experiments[0].cases {
        for round in 0..5 {
            let ns = if c.role == Role::Control { times * 10_000 } else { 20_000 };
            let mut o = Observations::default();
            if c.chain.is_some() {
                o.put(
                    "end to end",
                    Quantity::Latency,
                    (0..100).map(|i| Point { time_ns: i * 1000, value: ns }),
                );
            }
            archive.add("X", c, &run(c, round, &[ns; 100]), &o).unwrap();
        }
    }
    let analysis = analyse(&archive).unwrap();
    let e = &analysis.experiments[0];
    assert_eq!((e.measured().count(), e.cells().len()), (2 + usize::from(with_peer), 2));
    let args = |markdown| ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown,
        json: false,
    };
    let (text, markdown) = (report(&args(false)).unwrap(), report(&args(true)).unwrap());
    let page = std::fs::read_to_string(archive.directory().join("report.html")).unwrap();
    [text, markdown, page.split_once("<body>").unwrap().1.to_owned()]
}

#[test]
fn a_control_of_drivelines_stands_where_those_of_floors_do() {
    let [text, markdown, page] = rendered(2, true);
    let (_, table) =
        text.split_once("floors, and what is measured twice").unwrap_or_else(|| panic!("{text}"));
    let row = |cell: &str| {
        table
            .lines()
            .find(|l| l.trim_start().starts_with(&format!("Driveline · {cell} ")))
            .unwrap_or_else(|| panic!("{text}"))
    };
    assert!(
        ["chain", "both"].into_iter().all(|cell| row(cell).contains("1.00 [1.00, 1.00]")),
        "{text}"
    );
    assert!(!text.contains("differ by much"), "{text}");
    assert!(
        markdown.contains("| chain, again (A/A) | Driveline | 500 |")
            && !markdown.contains("floor, chain"),
        "{markdown}"
    );
    assert!(page.contains("Where a cell has no floor, Driveline is measured twice instead."));
    // The control is not listed among the systems: Driveline has one row in each cell.
    let (latencies, _) = text.split_once("floors, and what is measured twice").unwrap();
    assert_eq!(
        latencies
            .lines()
            .filter(|l| l.trim_start().starts_with("Driveline  ") && l.contains("µs"))
            .count(),
        2,
        "{text}"
    );
    // Without another system, the text names the divisor.
    let [_, alone, _] = rendered(2, false);
    assert!(
        alone.lines().any(|l| l.starts_with("| chain, again (A/A) |")
            && l.contains("1.00 (1.00–1.00) ÷ Driveline")),
        "{alone}"
    );
}

#[test]
fn where_driveline_differs_from_itself_the_answer_begins_with_that() {
    let [text, _, page] = rendered(3, true);
    let said = "Two equal things differ by much: Driveline, measured twice, takes 1.50 times as \
         long the second time (A/A control, chain). \
                Smaller differences mean nothing there.";
    assert!(
        text.contains(said) && page.contains(&format!("<div class=answer><p>{said}</p>")),
        "{text}"
    );
}
