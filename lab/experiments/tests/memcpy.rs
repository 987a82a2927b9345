// SPDX-License-Identifier: Apache-2.0
//! Reports of a floor that copies, and of the rows that are compared with it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::harness::{Payload, System};
use driveline_bench::observations::Observations;
use driveline_bench::stats::Random;
use driveline_bench::{Comparison, Metric};
use driveline_lab::archive::{Archive, Case, Role};
use driveline_lab::compare::{Difference, Verdict, archives};
use driveline_lab::{ReportArgs, report};
use fixture::{case, copies, copy_run, experiment, floors, latencies, link, manifest, peer, run};
use std::path::Path;

const SIZE: usize = 1 << 20;

/// Compares a case with one copy of this size.
fn beside(case: Case, size: usize) -> Case {
    let to = copies(size, 0).id;
    let comparisons = case
        .comparisons
        .iter()
        .cloned()
        .chain([Comparison { metric: Metric::FillAndTransport, to, of: Metric::Copy }])
        .collect();
    Case { comparisons, ..case }
}

fn archive(dir: &Path, cases: Vec<Case>, seed: u64, ns: impl Fn(&Case) -> f64) -> Archive {
    let archive = Archive::create(dir, manifest(vec![experiment("X", 6, cases)], seed)).unwrap();
    let mut random = Random::new(seed);
    for c in &archive.manifest.experiments[0].cases {
        for round in 0..6 {
            let ns = latencies(&mut random, 100, ns(c), 0.01);
            let run = if c.system == System::Memcpy {
                copy_run(c, round, &ns)
            } else {
                run(c, round, &ns)
            };
            archive.add("X", c, &run, &Observations::default()).unwrap();
        }
    }
    archive
}

#[test]
fn a_copy_is_a_row_among_the_floors_next_to_filled_payloads() {
    let dir = tempfile::tempdir().unwrap();
    let of = |system: System, number| {
        beside(case(system, "1 MiB · filled", number, vec![link(SIZE, 1, Payload::Filled)]), SIZE)
    };
    let mut cases = vec![
        of(System::Driveline, 0),
        of(peer("fastdds/shm"), 1),
        case(System::Driveline, "1 MiB · untouched", 2, vec![link(SIZE, 1, Payload::Untouched)]),
    ];
    cases.push(copies(SIZE, 3));
    cases.extend(floors(4));
    let archive = archive(&dir.path().join("a"), cases, 1, |c| match &c.system {
        System::Memcpy => 50_000.0,
        System::Driveline if c.cell == "1 MiB · filled" => 91_000.0,
        System::Peer { .. } => 191_000.0,
        _ => 20_000.0,
    });
    let rendered = |markdown| {
        report(&ReportArgs {
            directory: archive.directory().into(),
            out: None,
            markdown,
            json: false,
        })
        .unwrap()
    };
    let row = |text: &str, start: &str| {
        let line = text
            .lines()
            .find(|l| l.trim_start().starts_with(start))
            .unwrap_or_else(|| panic!("no line '{start}' in:\n{text}"));
        line.split(if line.starts_with('|') { "|" } else { "  " })
            .map(|w| w.trim().to_owned())
            .filter(|w| !w.is_empty())
            .collect::<Vec<_>>()
    };
    let near = |cell: &str, value: f64| {
        let rendered: f64 = cell.split([' ', '×']).next().unwrap().parse().unwrap();
        assert!((rendered / value - 1.0).abs() < 0.05, "{cell} is not {value}");
    };
    // Checks the terminal.
    let text = rendered(false);
    let floor = row(&text, "memcpy · into shared slots in turn · 1048576 B");
    assert_eq!(floor[1], "600", "{text}");
    near(&floor[2], 50.0);
    assert!(
        text.contains("p50 ÷ memcpy") && text.contains("compared with one copy of as many bytes"),
        "{text}"
    );
    // Fill and transport take 9 µs more than transport.
    let (_, table) = text.split_once("CPU/message").unwrap();
    let column = |of: &str, system: &str, nth: usize| {
        row(table.split(of).nth(1).unwrap(), system)[nth].clone()
    };
    near(&column("1 MiB · filled (", "Driveline", 4), 2.0);
    near(&column("1 MiB · filled (", "fastdds/shm", 6), 4.0);
    // An untouched payload is not written, so it has no such ratio. The next column, processor
    // time, takes its place.
    assert!(column("1 MiB · untouched (", "Driveline", 4).ends_with("µs"), "{text}");
    // Checks the published Markdown: this floor is listed with the other floors, without a ratio to
    // itself.
    let table = rendered(true);
    assert!(table.contains("| p50 ÷ memcpy |"), "{table}");
    let floor = row(&table, "| floor, into shared slots in turn · 1048576 B |");
    assert_eq!((floor[1].as_str(), floor[2].as_str()), ("memcpy", "600"), "{table}");
    let head = row(&table, "| |");
    let cells = |start: &str| {
        table
            .lines()
            .find(|l| l.starts_with(start))
            .unwrap()
            .split('|')
            .map(str::trim)
            .collect::<Vec<_>>()
    };
    let at = cells("| |")
        .iter()
        .position(|c| *c == "p50 ÷ memcpy")
        .unwrap_or_else(|| panic!("{head:?}"));
    near(cells("| 1 MiB · filled (fill + transport) | Driveline |")[at], 2.0);
    assert_eq!(
        (cells("| 1 MiB · untouched (transport) |")[at], cells("| floor, floor |")[at]),
        ("", ""),
        "{table}"
    );
    // The ratio to the floor is still the ratio to a bare word. Figures that include filling have
    // no such ratio.
    assert!(!table.lines().any(|l| l.starts_with("| 1 MiB") && l.contains("÷ floor")), "{table}");
    // Checks the page and the CSV file.
    let page = std::fs::read_to_string(archive.directory().join("report.html")).unwrap();
    for what in [
        "p50 ÷ memcpy",
        "memcpy · into shared slots in turn · 1048576 B",
        "\"floor: memcpy\"",
        "compared with one copy of as many bytes on this machine",
    ] {
        assert!(page.contains(what), "the page lacks '{what}'");
    }
    let csv = std::fs::read_to_string(archive.directory().join("results.csv")).unwrap();
    assert!(
        csv.lines()
            .any(|l| l
                .contains(",floor,into shared slots in turn · 1048576 B,memcpy,copy,all,ns,600,")),
        "{csv}"
    );
}

#[test]
fn a_copy_that_changed_excuses_only_what_has_it_in_it() {
    let dir = tempfile::tempdir().unwrap();
    // Every measured row, and the copy of 1 MiB, take 0.7 times as long as before.
    let measured = |name: &str, factor: f64, seed: u64| {
        let of = |cell: &str, payload, number| {
            case(System::Driveline, cell, number, vec![link(SIZE, 1, payload)])
        };
        let cases = vec![
            beside(of("filled", Payload::Filled, 0), SIZE),
            of("untouched", Payload::Untouched, 1),
            copies(SIZE, 2),
        ];
        // Subtracts the 9 µs that the fixture adds for filling, so that the whole figure changes by
        // `factor`.
        archive(&dir.path().join(name), cases, seed, |c| {
            if c.cell == "filled" { 109_000.0 * factor - 9_000.0 } else { 50_000.0 * factor }
        })
    };
    let rows = archives(&measured("a", 1.0, 1), &measured("b", 0.7, 2)).unwrap().rows;
    let p50 =
        |cell: &str| rows.iter().find(|r: &&Difference| r.rank == "p50" && r.cell == cell).unwrap();
    let floor = rows.iter().find(|r| r.role == Role::Floor && r.rank == "p50").unwrap();
    assert_eq!((floor.system.as_str(), floor.verdict), ("memcpy", Verdict::Faster));
    assert_eq!(p50("filled").verdict, Verdict::MachineChanged);
    assert_eq!(p50("untouched").verdict, Verdict::Faster);
}
