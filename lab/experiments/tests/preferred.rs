// SPDX-License-Identifier: Apache-2.0
//! Answers about a preferred subscriber.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::harness::{Payload, System};
use driveline_bench::observations::Observations;
use driveline_bench::{Beside, Favour};
use driveline_lab::archive::{Archive, Case};
use driveline_lab::scenario::AnswerSpec;
use driveline_lab::{ReportArgs, report};
use fixture::{case, experiment, link, manifest, peer, run};

#[test]
fn effects_of_a_preference_are_reported_of_its_holder_and_of_the_slowest_other() {
    let dir = tempfile::tempdir().unwrap();
    let hogs = Beside { hogs: 4, ..Beside::default() };
    let favour = |subscriber| Some(Favour { subscriber, priority: 80, exclusive_cpu: None });
    let mut cases = Vec::new();
    for (cell, beside) in [
        ("quiet", Beside::default()),
        ("hogs", hogs.clone()),
        ("hogs, priority", Beside { favour: favour(2), ..hogs.clone() }),
        ("hogs, another", Beside { favour: favour(1), ..hogs }),
    ] {
        for system in [System::Driveline, peer("fastdds/shm")] {
            if cell != "hogs" || system == System::Driveline {
                cases.push(Case {
                    beside: beside.clone(),
                    ..case(system, cell, cases.len(), vec![link(64, 3, Payload::Untouched)])
                });
            }
        }
    }
    let mut e = experiment("X", 5, cases);
    e.scenario.answer = Some(AnswerSpec::Preferred);
    let archive = Archive::create(&dir.path().join("a"), manifest(vec![e], 1)).unwrap();
    for c in &archive.manifest.experiments[0].cases {
        for round in 0..5 {
            // Each subscriber takes a tenth longer than the previous one. The preferred one takes
            // nearly no time.
            let mut run = run(c, round, &[if c.cell == "quiet" { 10_000 } else { 100_000 }; 100]);
            let preferred = c.beside.favour.as_ref().map(|f| f.subscriber);
            let stamps = run.accounts[0].stamps.iter_mut();
            stamps
                .filter(|s| Some(s.subscriber) == preferred)
                .for_each(|s| s.transport_ns = 20_000);
            archive.add("X", c, &run, &Observations::default()).unwrap();
        }
    }
    let args = |markdown| ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown,
        json: false,
    };
    let text = report(&args(false)).unwrap();
    let answer = "\
The preferred subscriber and the slowest other one, and what both take without preference (hogs, \
         priority):
  Driveline subscriber 2 20.0 µs (p99 20.0 µs), without 120 µs (p99 120 µs); the slowest other \
         (subscriber 1) 110 µs (p99 110 µs), without 110 µs (p99 110 µs)
  fastdds/shm subscriber 2 20.0 µs (p99 20.0 µs); the slowest other (subscriber 1) 110 µs (p99 110 \
         µs); without preference it was not measured
The preferred subscriber and the slowest other one, and what both take without preference (hogs, \
         another):
  Driveline subscriber 1 20.0 µs (p99 20.0 µs), without 110 µs (p99 110 µs); the slowest other \
         (subscriber 2) 120 µs (p99 120 µs), without 120 µs (p99 120 µs); the slowest without was \
         subscriber 2
";
    assert!(text.contains(answer), "{text}");
    assert!(report(&args(true)).unwrap().contains("- Driveline subscriber 2 20.0 µs"), "{text}");
}

#[test]
fn the_slowest_other_is_the_same_one_without_the_preference() {
    let dir = tempfile::tempdir().unwrap();
    let favour = Some(Favour { subscriber: 2, priority: 80, exclusive_cpu: None });
    let cell = |name: &str, number, beside| Case {
        beside,
        ..case(System::Driveline, name, number, vec![link(64, 3, Payload::Untouched)])
    };
    let cases = vec![
        cell("hogs", 0, Beside::default()),
        cell("hogs, priority", 1, Beside { favour, ..Beside::default() }),
    ];
    let mut e = experiment("X", 5, cases);
    e.scenario.answer = Some(AnswerSpec::Preferred);
    let archive = Archive::create(&dir.path().join("a"), manifest(vec![e], 1)).unwrap();
    for c in &archive.manifest.experiments[0].cases {
        for round in 0..5 {
            let mut run = run(c, round, &[100_000; 100]);
            // Without the preference, another subscriber is the slowest.
            if c.cell == "hogs" {
                run.accounts[0]
                    .stamps
                    .iter_mut()
                    .filter(|s| s.subscriber == 0)
                    .for_each(|s| s.transport_ns = 900_000);
            } else {
                run.accounts[0]
                    .stamps
                    .iter_mut()
                    .filter(|s| s.subscriber == 2)
                    .for_each(|s| s.transport_ns = 20_000);
            }
            archive.add("X", c, &run, &Observations::default()).unwrap();
        }
    }
    let text = report(&ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown: false,
        json: false,
    })
    .unwrap();
    let other = "the slowest other (subscriber 1) 110 µs (p99 110 µs), without 110 µs (p99 110 \
         µs); the slowest without was subscriber 0";
    assert!(text.contains(other), "{text}");
}
