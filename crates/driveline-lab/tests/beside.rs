// SPDX-License-Identifier: Apache-2.0
//! What stands beside the table of latencies, on the terminal, on the page and as Markdown: spreads, published figures, lateness of the
//! sender, drops over time, what there are too few samples for, parts of latencies.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::harness::{Payload, System};
use driveline_bench::observations::Observations;
use driveline_lab::archive::{Archive, Case, Experiment, Link, Run};
use driveline_lab::{ReportArgs, report, scenario};
use fixture::{case, experiment, link, manifest, peer, run};

/// What is said of an experiment: on the terminal, on the page, as Markdown.
fn told(e: Experiment, make: impl Fn(&Case, u64) -> (Run, Observations)) -> [String; 3] {
    let dir = tempfile::tempdir().unwrap();
    let rounds = e.rounds;
    let archive = Archive::create(&dir.path().join("a"), manifest(vec![e], 1)).unwrap();
    for c in &archive.manifest.experiments[0].cases {
        for round in 0..rounds {
            let (run, observations) = make(c, round);
            archive.add("X", c, &run, &observations).unwrap();
        }
    }
    let args = |markdown| ReportArgs { directory: archive.directory().into(), out: None, markdown, json: false };
    let terminal = report(&args(false)).unwrap();
    let page = std::fs::read_to_string(archive.directory().join("report.html")).unwrap();
    [terminal, page.split_once("<body>").unwrap().1.to_owned(), report(&args(true)).unwrap()]
}

fn only(run: Run) -> (Run, Observations) {
    (run, Observations::default())
}

/// F with its published figures, and latencies that lie 10 µs to both sides of 20 µs.
fn jitter() -> [String; 3] {
    let f = scenario::load("F").unwrap();
    let mut cases = Vec::new();
    for (size, name) in [(32 << 10, "32 KiB"), (1 << 20, "1 MiB")] {
        for system in [System::Driveline, peer("as_published/fastcycle")] {
            let cell = format!("latency · {name} · process · untouched");
            let link = Link { reach: driveline_bench::harness::Reach::Process, ..link(size, 1, Payload::Untouched) };
            cases.push(Case { scenario_case: "latency".into(), ..case(system, &cell, cases.len(), vec![link]) });
        }
    }
    let mut e = experiment("X", 5, cases);
    (e.scenario.answer, e.scenario.published) = (f.answer, f.published);
    told(e, |c, round| {
        let middle = if c.system == System::Driveline { 20_000 } else { 200_000 };
        only(run(c, round, &[middle - 10_000, middle + 10_000].repeat(50)))
    })
}

#[test]
fn a_question_about_jitter_is_answered_with_mean_and_deviation() {
    let [terminal, page, markdown] = jitter();
    // Of 500 samples, with n − 1: 10.01 µs.
    let about = "Mean ± standard deviation";
    let own = "Driveline 20.0 ± 10.0 µs at 32 KiB, 20.0 ± 10.0 µs at 1 MiB";
    let other = "as_published/fastcycle 200 ± 10.0 µs at 32 KiB, 200 ± 10.0 µs at 1 MiB";
    assert!(terminal.contains(&format!("{about}:\n  {own}\n  {other}\n")), "{terminal}");
    assert!(page.contains(&format!("<p>{about}:</p><p class=part>{own}</p><p class=part>")), "no answer on the page");
    assert!(markdown.contains(&format!("{about}:\n\n- {own}\n")), "{markdown}");
}
