// SPDX-License-Identifier: Apache-2.0
//! Rate at which the last stage of a chain finishes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::harness::System;
use driveline_bench::observations::{Observations, Point, Quantity};
use driveline_lab::archive::Archive;
use driveline_lab::{ReportArgs, report};
use fixture::{chain_case, experiment, manifest, run};

#[test]
fn the_output_of_a_chain_is_printed_in_hertz_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let cases = vec![chain_case(System::Driveline, "every edge", 0, false)];
    let archive =
        Archive::create(&dir.path().join("a"), manifest(vec![experiment("X", 2, cases)], 1))
            .unwrap();
    let c = &archive.manifest.experiments[0].cases[0];
    for round in 0..2 {
        let mut o = Observations::default();
        for quantity in [Quantity::Communication, Quantity::Computation] {
            o.put(
                "detector",
                quantity,
                (0..100).map(|i| Point { time_ns: i * 1000, value: 20_000 }),
            );
        }
        o.put(
            "end to end",
            Quantity::Latency,
            (0..100).map(|i| Point { time_ns: i * 1000, value: 40_000 }),
        );
        let mut run = run(c, round, &[]);
        run.counters =
            [("output mHz".to_owned(), 9_500 + 1_000 * round), ("completed".to_owned(), 100)]
                .into();
        archive.add("X", c, &run, &o).unwrap();
    }
    let args = |markdown| ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown,
        json: false,
    };
    let row = |text: String| {
        text.lines().find(|l| l.contains("100 %")).unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert!(
        row(report(&args(false)).unwrap()).ends_with("100 %       10.00"),
        "{}",
        report(&args(false)).unwrap()
    );
    assert_eq!(row(report(&args(true)).unwrap()), "| every edge | Driveline | 100 % | 10.00 |");
    let page = std::fs::read_to_string(archive.directory().join("report.html")).unwrap();
    let (_, page) = page.split_once("<body>").unwrap();
    assert!(page.contains("<th scope=row>output, Hz</th><td></td><td>9.50, 10.50</td>"));
    assert!(!page.contains("mHz") && page.contains("<td>10.00"));
}
