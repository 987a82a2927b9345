// SPDX-License-Identifier: Apache-2.0
//! Forged archives, and archives damaged in transfer, are refused with the place and the remedy, or
//! they are reported. None causes a panic.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::Sample;
use driveline_bench::observations::{Observations, Point, Quantity};
use driveline_lab::archive::Archive;
use driveline_lab::{CompareArgs, ReportArgs, compare, report};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn reported(directory: &Path) -> Result<String, String> {
    let text = report(&ReportArgs {
        directory: directory.into(),
        out: None,
        markdown: false,
        json: false,
    })
    .map_err(|e| format!("{e:#}"))?;
    report(&ReportArgs { directory: directory.into(), out: None, markdown: true, json: false })
        .unwrap();
    Ok(text)
}

fn account(archive: &Path, case: usize, round: u64) -> PathBuf {
    archive.join(format!("runs/X/{case:03}/{round}.json"))
}

/// Changes values of a file, by path: `/accounts/0/sent`.
fn change(path: &Path, changes: &[(&str, Value)]) {
    let mut value: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    for (place, to) in changes {
        match value.pointer_mut(place) {
            Some(there) => *there = to.clone(),
            None => {
                let (parent, key) = place.rsplit_once('/').unwrap();
                value.pointer_mut(parent).unwrap_or_else(|| panic!("{place}"))[key] = to.clone();
            }
        }
    }
    std::fs::write(path, serde_json::to_vec(&value).unwrap()).unwrap();
}

fn archive(dir: &Path) -> Archive {
    fixture::pair_of(&dir.join("a"), (2, 3), 2.0, 0.05, 1)
}

#[test]
fn numbers_that_no_run_has_are_refused_with_file_case_round_and_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(dir.path());
    let path = account(archive.directory(), 2, 1);
    let good = std::fs::read(&path).unwrap();
    reported(archive.directory()).unwrap();
    let most = json!(u64::MAX);
    for (changes, says) in [
        (vec![("/accounts/0/sent", most.clone())], "samples sent are more than"),
        (vec![("/accounts/0/scheduled", most.clone())], "samples scheduled are more than"),
        (
            vec![("/accounts/0/received", json!([most]))],
            "3 samples were sent, 18446744073709551615 received and 0 missed",
        ),
        (
            vec![
                ("/accounts/0/received", json!([1u64 << 63])),
                ("/accounts/0/missed", json!([(1u64 << 63) + 3])),
            ],
            "subscriber 0: 3 samples",
        ),
        (vec![("/accounts/0/missed", json!([1]))], "3 received and 1 missed"),
        (vec![("/accounts/0/missed", json!([]))], "1 subscribers received and 0 missed something"),
        (
            vec![("/accounts/0/received", json!([3, 3])), ("/accounts/0/missed", json!([0, 0]))],
            "the link has 1",
        ),
        (
            vec![("/accounts/0/publisher_cpu_ns_per_sample", json!(-1.0))],
            "`publisher_cpu_ns_per_sample` cannot be -1",
        ),
        (
            vec![("/accounts/0/wake_calls_per_publish", json!(1e300))],
            "`wake_calls_per_publish` cannot be 1",
        ),
        (vec![("/accounts", json!([]))], "it has accounts of 0 links, and the case has 1"),
        (vec![("/seconds", json!(-0.5))], "-0.5 s is not a possible duration of a run"),
        (vec![("/disturbance/stolen", json!(1e308))], "not a valid share of the machine (stolen)"),
        (vec![("/round", json!(0))], "it is the account of round 0"),
        (vec![("/seconds", json!("long"))], "invalid type"),
    ] {
        change(&path, &changes);
        let text = reported(archive.directory()).unwrap_err();
        let place = format!("{} is damaged: ", path.display());
        assert!(text.starts_with(&place) && text.contains(says), "{changes:?}: {text}");
        assert!(
            text.contains("(X · cell 1 · driveline in round 2)")
                && text.ends_with("move it away, and that run is left out"),
            "{text}"
        );
        std::fs::write(&path, &good).unwrap();
    }
    // The remedy that the error names works.
    std::fs::remove_file(&path).unwrap();
    assert!(reported(archive.directory()).unwrap().contains("PARTIAL"));
}

#[test]
fn sums_of_reported_values_cannot_overflow() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(dir.path());
    let most = json!(u64::MAX);
    for case in 0..8 {
        for round in 0..2 {
            let rendered = [
                ("/accounts/0/verified", most.clone()),
                // Only invalid runs get torn payloads: a valid run cannot have any.
                ("/accounts/0/torn", if case % 2 == 0 { json!(0) } else { most.clone() }),
                ("/accounts/0/invalid", if case % 2 == 0 { json!([]) } else { json!(["torn"]) }),
                ("/accounts/0/not_sent", json!({"full": most, "slow": most})),
                ("/counters", json!({"completed": most, "sent": most})),
                ("/place", most.clone()),
                ("/seconds", json!(31_000_000)),
                ("/disturbance/stolen_ticks", most.clone()),
            ];
            change(&account(archive.directory(), case, round), &rendered);
        }
    }
    assert!(reported(archive.directory()).unwrap().contains("18446744073709551615"));
    // The account of an invalid run is not checked.
    let wild = [
        ("/invalid", json!(["no"])),
        ("/accounts/0/sent", most.clone()),
        ("/accounts/0/received", json!([most, most])),
    ];
    change(&account(archive.directory(), 0, 0), &wild);
    reported(archive.directory()).unwrap();
}

#[test]
fn times_that_cannot_be_are_shown_as_they_are_and_stamps_of_another_time_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = archive(dir.path());
    archive.finish("2020-01-01T00:10:00Z".into()).unwrap();
    for case in &archive.manifest.experiments[0].cases {
        for round in 0..2 {
            let mut run = fixture::run(case, round, &[1, 2, 3]);
            for (i, sample) in run.accounts[0].stamps.iter_mut().enumerate() {
                let ns = [0, u64::MAX, 1 << 63][i];
                (sample.transport_ns, sample.fill_and_transport_ns) = (ns, ns);
                // A due time may have any value.
                (sample.sent.scheduled, sample.sent.sequence) = (ns, u64::MAX);
            }
            let mut observations = Observations::default();
            for quantity in
                [Quantity::Latency, Quantity::Cpu, Quantity::ResidentMemory, Quantity::Drops]
            {
                observations.put(
                    "it",
                    quantity,
                    [0, u64::MAX, 1 << 63, 3].map(|ns| Point { time_ns: ns, value: !ns }),
                );
            }
            archive.add("X", case, &run, &observations).unwrap();
        }
    }
    reported(archive.directory()).unwrap();
    let copy = dir.path().join("b");
    assert!(
        std::process::Command::new("cp")
            .arg("-r")
            .args([archive.directory(), &copy])
            .status()
            .unwrap()
            .success()
    );
    change(&copy.join("manifest.json"), &[("/seed", json!(2))]);
    compare(&CompareArgs { a: archive.directory().into(), b: copy, json: false }).unwrap();
    for change_one in [
        (|s: &mut Sample| s.sent.before_publish = u64::MAX) as fn(&mut Sample),
        |s| s.sent.before_fill = 1 << 63,
        |s| s.received.iter_mut().for_each(|r| r.woken = u64::MAX),
    ] {
        let case = &archive.manifest.experiments[0].cases[0];
        let mut run = fixture::run(case, 0, &[1, 2, 3]);
        change_one(&mut run.accounts[0].stamps[1]);
        archive.add("X", case, &run, &Observations::default()).unwrap();
        let refused = reported(archive.directory()).unwrap_err();
        assert!(refused.contains("it is of another run"), "{refused}");
    }
}

#[test]
fn what_ends_say_cannot_move_the_cursor_and_makes_neither_lines_nor_elements() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(dir.path());
    let case = &archive.manifest.experiments[0].cases[0];
    let mut observations = Observations::default();
    observations.put(
        "\u{1b}[2Jit",
        Quantity::Latency,
        [1, 2, 3].map(|ns| Point { time_ns: ns, value: ns }),
    );
    archive.add("X", case, &fixture::run(case, 0, &[1, 2, 3]), &observations).unwrap();
    let wild = "\u{1b}[2J\u{9b}1m\r\u{7}gone\n# heading <img src=x>";
    change(
        &account(archive.directory(), 0, 0),
        &[
            ("/accounts/0/not_sent", json!({ wild: 1 })),
            ("/counters", json!({ wild: 1 })),
            ("/unset", json!([wild])),
        ],
    );
    change(
        &account(archive.directory(), 0, 1),
        &[("/failure", json!(wild)), ("/invalid", json!([wild]))],
    );
    let markdown = report(&ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown: true,
        json: false,
    })
    .unwrap();
    let read = |name: &str| std::fs::read_to_string(archive.directory().join(name)).unwrap();
    let copy = dir.path().join("b");
    assert!(
        std::process::Command::new("cp")
            .arg("-r")
            .args([archive.directory(), &copy])
            .status()
            .unwrap()
            .success()
    );
    change(&copy.join("manifest.json"), &[("/seed", json!(2))]);
    let compared =
        compare(&CompareArgs { a: archive.directory().into(), b: copy, json: false }).unwrap();
    let rendered = reported(archive.directory()).unwrap();
    let json: Value = serde_json::from_str(&read("summary.json")).unwrap();
    for (of, text) in [
        ("terminal", rendered),
        ("comparison", compared),
        ("Markdown", markdown.clone()),
        ("CSV", read("results.csv")),
        ("summary", json.to_string().replace("\\n", "")),
    ] {
        let moves = text.chars().find(|c| c.is_control() && *c != '\n' && *c != '\t');
        assert!(moves.is_none() && !text.contains("\\u001b"), "{of}: {moves:?}: {text}");
        assert!(text.contains("gone"), "{of} does not report it: {text}");
        // In CSV, a line break is allowed, because the text is in quotes.
        if of != "CSV" {
            assert!(!text.contains("\n# heading"), "{of}: {text}");
        }
    }
    assert!(!markdown.contains(" <img"), "{markdown}");
    // The page is not checked for all control characters: its plotting library contains some.
    let page = read("report.html");
    assert!(
        page.contains("gone")
            && !["\u{1b}[2J", "\u{9b}1m", "<img src=x"].iter().any(|wild| page.contains(wild))
    );
}
