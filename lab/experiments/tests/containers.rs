// SPDX-License-Identifier: Apache-2.0
//! Use of processor time and memory by a container engine, in all outputs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::deployment::{Deployment, ENGINE_CPU, ENGINE_MEMORY, ENGINE_START};
use driveline_bench::harness::{Payload, System};
use driveline_bench::observations::Observations;
use driveline_bench::{Beside, Comparison};
use driveline_lab::archive::{Archive, Case};
use driveline_lab::{ReportArgs, report};
use fixture::{case, experiment, link, manifest, run};

#[test]
fn the_use_of_a_container_engine_is_in_every_output() {
    let dir = tempfile::tempdir().unwrap();
    let one =
        |cell, number| case(System::Driveline, cell, number, vec![link(64, 1, Payload::Untouched)]);
    let beside = Beside { deployment: Deployment::Containers, ..Beside::default() };
    let cases = vec![one("bare", 0), Case { beside, ..one("a container each", 1) }];
    let e = experiment("X", 2, cases);
    let archive = Archive::create(&dir.path().join("a"), manifest(vec![e], 1)).unwrap();
    for c in &archive.manifest.experiments[0].cases {
        for round in 0..2 {
            let mut run = run(c, round, &[20_000; 100]);
            if c.beside.deployment == Deployment::Containers {
                run.counters.insert(ENGINE_START.into(), 200_000_000);
                run.counters.insert(ENGINE_CPU.into(), (1 + 2 * round) * 1_000_000);
                run.counters.insert(ENGINE_MEMORY.into(), (70 + round) << 20);
            }
            archive.add("X", c, &run, &Observations::default()).unwrap();
        }
    }
    let directory = archive.directory();
    let args =
        |markdown| ReportArgs { directory: directory.into(), out: None, markdown, json: false };
    let (terminal, markdown) = (report(&args(false)).unwrap(), report(&args(true)).unwrap());
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let (page, csv, summary) = (read("report.html"), read("results.csv"), read("summary.json"));

    let row = "| a container each | Driveline | 2.00 ms | 71 MiB |";
    assert!(
        markdown.contains(row) && !markdown.contains("| bare | Driveline | 2.00"),
        "{markdown}"
    );
    let words: Vec<&str> = terminal.split_whitespace().collect();
    assert!(words.join(" ").contains("Driveline 2.00 ms 71 MiB"), "{terminal}");
    for text in [&terminal, &markdown, &page] {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("while the ends run, mean of all valid runs"), "{text}");
    }
    assert!(page.contains("<td>2.00 ms</td><td>71 MiB</td>"), "no table on the page");
    // The sum of both runs and each run; a peak has no sum.
    assert!(page.contains("<td>400 ms</td><td>200 ms, 200 ms</td>"), "no counter on the page");
    assert!(page.contains("<td></td><td>70 MiB, 71 MiB</td>"), "no peak on the page");
    for (counter, unit, value) in [
        ("processor time to start the ends", "ns", "200000000"),
        ("processor time while the ends run", "ns", "3000000"),
        ("peak memory", "byte", "74448896"),
    ] {
        let start = format!("counter,container engine: {counter} (valid run 2),{unit},");
        let is_it = |l: &str| l.contains(&start) && l.ends_with(&format!(",{value}"));
        assert!(csv.lines().any(is_it), "{start}: {csv}");
        assert!(summary.contains(&format!("container engine: {counter}, {unit}")), "{summary}");
    }
}

#[test]
fn a_comparison_with_the_bare_link_is_no_comparison_of_edges() {
    let dir = tempfile::tempdir().unwrap();
    let peer = || System::Peer { name: "zenoh".into(), variant: "tcp".into() };
    let one = |cell, number| case(peer(), cell, number, vec![link(64, 1, Payload::Untouched)]);
    let bare = one("bare", 0);
    let beside = Beside { deployment: Deployment::Containers, ..Beside::default() };
    let contained = one("a container each", 1);
    let (metric, of) = (contained.figure, contained.figure);
    let comparisons = vec![Comparison { metric, to: bare.id.clone(), of }];
    let cases = vec![bare, Case { beside, comparisons, ..contained }];
    let archive =
        Archive::create(&dir.path().join("a"), manifest(vec![experiment("X", 2, cases)], 1))
            .unwrap();
    for c in &archive.manifest.experiments[0].cases {
        for round in 0..2 {
            let run = run(c, round, &[20_000; 100]);
            archive.add("X", c, &run, &Observations::default()).unwrap();
        }
    }
    let directory = archive.directory();
    let args = ReportArgs { directory: directory.into(), out: None, markdown: false, json: false };
    let terminal = report(&args).unwrap();
    let page = std::fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(!terminal.contains("some edges Driveline's"), "{terminal}");
    assert!(!page.contains("With Driveline on some edges"), "a table of edges is on the page");
}
