// SPDX-License-Identifier: Apache-2.0
//! Verdict of a latency tool on a variant, and its effect on the row whose settings the variant
//! varies.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::harness::Payload;
use driveline_bench::observations::Observations;
use driveline_lab::archive::Archive;
use driveline_lab::{ReportArgs, report};
use fixture::{case, experiment, link, manifest, own_tool, peer, run, tool_run};
use std::path::Path;

/// Rows of Fast DDS and Driveline. The tool of the variant that reads in callbacks reports
/// `said_ns`.
fn archive(dir: &Path, said_ns: u64) -> Archive {
    let systems = ["driveline", "fastdds/udp", "fastdds/udp_listener", "fastdds/shm"];
    let mut cases = Vec::new();
    for cell in ["64 B", "1 MiB"] {
        for system in systems {
            cases.push(case(
                peer(system),
                cell,
                cases.len(),
                vec![link(64, 1, Payload::Untouched)],
            ));
        }
    }
    cases.push(own_tool(&cases[2], cases.len()));
    let archive =
        Archive::create(&dir.join("a"), manifest(vec![experiment("X", 5, cases)], 1)).unwrap();
    for c in &archive.manifest.experiments[0].cases {
        for round in 0..5 {
            let is_tool = c.id.starts_with("own tool");
            let run =
                if is_tool { tool_run(round, said_ns) } else { run(c, round, &[20_000; 100]) };
            archive.add("X", c, &run, &Observations::default()).unwrap();
        }
    }
    archive
}

#[test]
fn a_row_whose_variant_is_contradicted_is_marked_in_its_cell_and_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(dir.path(), 90_000);
    let args = |markdown| ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown,
        json: false,
    };
    let (text, markdown) = (report(&args(false)).unwrap(), report(&args(true)).unwrap());
    let page = std::fs::read_to_string(archive.directory().join("report.html")).unwrap();
    let says = "64 B · fastdds/udp: the latency tool of the system contradicts \
         fastdds/udp_listener, which differs only in settings";
    assert!(text.contains(&format!("NOT CONFIRMED  {says}")), "{text}");
    assert!(
        markdown.contains(
            "NOT CONFIRMED 64 B · fastdds/udp: the latency tool of the system contradicts"
        ),
        "{markdown}"
    );
    assert!(page.contains(says), "the page does not say it");
    for rendered in [&text, &markdown] {
        assert_eq!(
            (
                rendered.matches("fastdds/udp (NOT CONFIRMED)").count(),
                rendered.matches("(NOT CONFIRMED)").count()
            ),
            (1, 1),
            "{rendered}"
        );
        assert_eq!(rendered.matches("_listener (INVALID)").count(), 1, "{rendered}");
    }
    assert_eq!(page.matches("<span class=bad>not confirmed</span>").count(), 1);
    // The row that is not confirmed keeps its ratio. The contradicted row has none.
    assert!(
        text.lines().any(|l| l.contains("fastdds/udp (NOT CONFIRMED)") && l.contains("1.00")),
        "{text}"
    );
}

#[test]
fn where_the_tool_agrees_nothing_is_marked() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(dir.path(), 20_000);
    let text = report(&ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown: false,
        json: false,
    })
    .unwrap();
    assert!(!text.contains("NOT CONFIRMED") && !text.contains("INVALID"), "{text}");
}
