// SPDX-License-Identifier: Apache-2.0
//! Tables of archives with known figures, on the terminal and on the page.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::harness::{Payload, System};
use driveline_bench::observations::Observations;
use driveline_bench::stats::Random;
use driveline_lab::archive::{Archive, Case, Experiment, Role, Run};
use driveline_lab::scenario::AnswerSpec;
use driveline_lab::{ReportArgs, report};
use fixture::{case, chain_case, experiment, floors, latencies, link, manifest, peer, run};
use std::path::Path;

/// Makes an archive of one experiment, and returns the outputs of terminal and page.
fn rendered(
    dir: &Path,
    rounds: u64,
    cases: Vec<Case>,
    add: impl Fn(&Archive, &Case, u64),
) -> (String, String) {
    rendered_of(dir, experiment("X", rounds, cases), add)
}

fn rendered_of(
    dir: &Path,
    experiment: Experiment,
    add: impl Fn(&Archive, &Case, u64),
) -> (String, String) {
    let rounds = experiment.rounds;
    let archive = Archive::create(&dir.join("a"), manifest(vec![experiment], 1)).unwrap();
    for c in &archive.manifest.experiments[0].cases {
        (0..rounds).for_each(|round| add(&archive, c, round));
    }
    let text = report(&ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown: false,
        json: false,
    })
    .unwrap();
    (
        text,
        std::fs::read_to_string(archive.directory().join("report.html"))
            .unwrap()
            .split_once("<body>")
            .unwrap()
            .1
            .to_owned(),
    )
}

#[test]
fn tables_are_printed_as_markdown() {
    let dir = tempfile::tempdir().unwrap();
    let mut cases = Vec::new();
    for cell in ["64 B", "64 B | few"] {
        for system in [System::Driveline, peer("fastdds/shm"), peer("zenoh/tcp")] {
            cases.push(case(system, cell, cases.len(), vec![link(64, 1, Payload::Untouched)]));
        }
    }
    cases.extend(floors(cases.len()));
    let (text, page) = rendered(dir.path(), 5, cases, |archive, c, round| {
        let ns = match (&c.system, c.role) {
            (System::Futex, _) => 12_345,
            (System::Driveline, _) => 20_000,
            _ => 1_423_400,
        };
        let mut run = run(
            c,
            round,
            &vec![ns; if c.cell == "64 B" || c.system == System::Futex { 100 } else { 2 }],
        );
        if c.system == peer("fastdds/shm") && c.cell == "64 B" && round < 2 {
            lose_one(&mut run);
        }
        if c.system == peer("zenoh/tcp") && (round == 3 || c.cell != "64 B") {
            run.invalid.push("it was cold".into());
        }
        archive.add("X", c, &run, &Observations::default()).unwrap();
    });
    let args =
        |json| ReportArgs { directory: dir.path().join("a"), out: None, markdown: true, json };
    let rendered = report(&args(false)).unwrap();
    let (before, table) = rendered.split_once("\n| ").unwrap();
    assert!(
        before.starts_with("### X · ")
            && before.contains(
                "Times without a unit are microseconds; 5 rounds; commit abc, begun \
                 2020-01-01 00:00:00 UTC"
            ),
        "{rendered}"
    );
    let (table, after) = table.split_once("\n\n").unwrap();
    let expected = "\
transport | system | n | p50 | p95 | p99 | p50 ÷ Driveline | p99 ÷ Driveline | CPU per message | \
         lost | runs that count |
|---|---|---|---|---|---|---|---|---|---|---|
| floor, floor | futex | 500 | 12.3 | 12.3 | 12.3 | | | 5.00 | 0 | 5 of 5 |
| floor, floor, again (A/A) | futex | 500 | 12.3 | 12.3 | 12.3 | 1.00 (1.00–1.00) ÷ floor | 1.00 \
         (1.00–1.00) ÷ floor | 5.00 | 0 | 5 of 5 |
| 64 B | Driveline | 500 | 20.0 | 20.0 | 20.0 | 1 | 1 | 5.00 | 0 | 5 of 5 |
| 64 B | fastdds/shm | 498 | 1423 | 1423 | 1423 | 71.2 (71.2–71.2) | 71.2 (71.2–71.2) | 5.00 | 2 | \
         5 of 5 |
| 64 B | zenoh/tcp | 400 | 1423 | 1423 | 1423 | 71.2 (71.2–71.2) of 4 rounds | 71.2 (71.2–71.2) of \
         4 rounds | 5.00 | 0 | 4 of 5 |
| 64 B \\| few | Driveline | 10 | 20.0 | – | – | 1 | 1 | 5.00 | 0 | 5 of 5 |
| 64 B \\| few | fastdds/shm | 10 | 1423 | – | – | 71.2 (71.2–71.2) | – | 5.00 | 0 | 5 of 5 |
| 64 B \\| few | zenoh/tcp | no valid run | | | | | | – | 0 | 0 of 5 |";
    assert_eq!(table, expected);
    // The Markdown keeps important notes, and the terminal has the same figures.
    let here =
        format!("`driveline bench run --resume {}` continues", dir.path().join("a").display());
    assert!(text.contains("PARTIAL") && text.contains(&here), "{text}");
    assert!(after.contains("PARTIAL") && after.contains("6 of 40 runs do not count"), "{rendered}");
    assert!(text.contains("71.2 [71.2, 71.2] of 4 rounds"), "{text}");
    assert!(report(&args(true)).unwrap_err().to_string().contains("choose one"));
    // On the page, a cell's name is not repeated in brackets.
    assert!(page.contains("<span>64 B (50 Hz, 1→1, readers block, best effort, depth 1)</span>"));
}

#[test]
fn an_answer_of_few_rounds_says_where_no_difference_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let mut cases = Vec::new();
    for cell in ["near", "far"] {
        for system in [System::Driveline, peer("fastdds/shm")] {
            cases.push(case(system, cell, cases.len(), vec![link(64, 1, Payload::Untouched)]));
        }
    }
    let (text, _) = rendered(dir.path(), 4, cases, |archive, c, round| {
        let of = [19_000, 20_500, 21_000, 22_000];
        let ns = if c.system == System::Driveline { 20_000 } else { of[round as usize] };
        archive.add("X", c, &run(c, round, &[ns; 100]), &Observations::default()).unwrap();
    });
    let answer = "\
In both cells it is unclear whether Driveline has the least median latency.
Closest to it comes fastdds/shm (near): 1.02 times its median (95 % 0.95 to 1.10), which shows no \
         difference.
With fewer than 5 rounds intervals are not to be trusted: measure more rounds before you rely on \
         them.

";
    assert!(text.contains(answer), "{text}");
}

/// Returns the answer for the given times of other systems in each round. Driveline takes 20 µs in
/// every round.
fn answered(others: &[(&str, &str, [u64; 5])]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut cases: Vec<Case> = Vec::new();
    for (cell, system, _) in others {
        if cases.iter().all(|c| c.cell != *cell) {
            cases.push(case(
                System::Driveline,
                cell,
                cases.len(),
                vec![link(64, 1, Payload::Untouched)],
            ));
        }
        if !system.is_empty() {
            cases.push(case(
                peer(system),
                cell,
                cases.len(),
                vec![link(64, 1, Payload::Untouched)],
            ));
        }
    }
    let (text, _) = rendered(dir.path(), 5, cases, |archive, c, round| {
        let of = others
            .iter()
            .find(|(cell, system, _)| *cell == c.cell && *system == c.system.to_string());
        let ns = of.map_or(20_000, |(_, _, ns)| ns[round as usize]);
        archive.add("X", c, &run(c, round, &[ns; 100]), &Observations::default()).unwrap();
    });
    let (answer, _) = text.split_once("\n\n").unwrap();
    answer.lines().skip(2).map(str::trim).collect::<Vec<_>>().join(" ")
}

#[test]
fn an_answer_names_a_winner_only_where_one_is_shown() {
    let (slower, unclear, ahead) =
        ([30_000; 5], [13_000, 16_000, 20_500, 22_000, 24_000], [15_000; 5]);
    // The estimate of an unclear ratio may be above 1 or below 1.
    let above = [14_000, 16_000, 20_600, 25_000, 27_000];
    assert_eq!(
        answered(&[("cell", "fastdds/shm", above)]),
        "It is unclear whether Driveline has the least median latency. \
         Closest to it comes fastdds/shm: 1.03 times its median (95 % 0.70 to 1.35), which shows \
         no difference."
    );
    let below = [13_000, 16_000, 19_600, 22_000, 24_000];
    assert_eq!(
        answered(&[("cell", "fastdds/shm", below)]),
        "It is unclear whether Driveline has the least median latency. \
         The least of the others is fastdds/shm's: 0.98 times Driveline's (95 % 0.65 to 1.20), \
         which shows no difference."
    );
    // The answer names a system that is clearly ahead, and not a system whose lead is uncertain.
    let far = [9_000, 10_000, 12_000, 30_000, 31_000];
    assert_eq!(
        answered(&[("cell", "fastdds/shm", far), ("cell", "zenoh/shm", ahead)]),
        "Driveline does not have the least median latency. \
         Furthest ahead of it is zenoh/shm: 0.75 times its median (95 % 0.75 to 0.75). \
         In the tail (p99, or p95 where n is too small for it) ahead of Driveline: zenoh/shm \
         (cell)."
    );
    // One system with an unclear result makes the answer unclear, and the answer names it.
    let just = [20_400; 5];
    let wide = [13_000, 16_000, 22_000, 27_000, 29_000];
    let answer = answered(&[("cell", "fastdds/shm", just), ("cell", "zenoh/shm", wide)]);
    assert!(
        answer.starts_with("It is unclear whether Driveline has the least median latency."),
        "{answer}"
    );
    assert!(
        answer.contains(
            "Closest to it comes zenoh/shm: 1.10 times its median (95 % 0.65 to 1.45), \
             which shows no difference."
        ),
        "{answer}"
    );
    // Answers for several cells.
    let of = |cells: &[(&str, [u64; 5])]| {
        let all: Vec<_> = cells.iter().map(|(cell, ns)| (*cell, "fastdds/shm", *ns)).collect();
        answered(&all).split_inclusive('.').next().unwrap().to_owned()
    };
    let (a, b, c) = ("imu", "radar", "lidar");
    assert_eq!(
        of(&[(a, slower), (b, slower), (c, unclear)]),
        "Driveline has the least median latency in 2 of 3 cells; in 1 it is unclear."
    );
    assert_eq!(
        of(&[(a, ahead), (b, unclear)]),
        "Driveline has the least median latency in none of 2 cells; in 1 it is unclear."
    );
    assert_eq!(
        of(&[(a, unclear), (b, unclear)]),
        "In both cells it is unclear whether Driveline has the least median latency."
    );
    assert_eq!(
        of(&[(a, unclear), (b, unclear), (c, unclear)]),
        "In none of 3 cells is it clear whether Driveline has the least median latency."
    );
    // Only two of four cells have other systems, as in W1.
    let compared = |ns| {
        answered(&[
            ("imu", "", slower),
            ("radar", "", slower),
            ("lidar", "fastdds/shm", ns),
            ("camera", "fastdds/shm", ns),
        ])
    };
    assert!(compared(slower).starts_with(
        "Driveline has the least median latency in 2 of the 2 cells in which it is compared."
    ));
    assert!(compared(unclear).starts_with(
        "In none of the 2 cells in which it is compared is it clear whether Driveline has the least"
    ));
}

/// Renders Driveline and a peer next to floors. The second measurement of the floor takes
/// `again_ns`.
fn beside_floors(dir: &Path, again_ns: u64) -> (String, String) {
    let mut cases: Vec<Case> = Vec::new();
    for system in [System::Driveline, peer("fastdds/shm")] {
        cases.push(case(system, "cell", cases.len(), vec![link(64, 1, Payload::Untouched)]));
    }
    cases.extend(floors(cases.len()));
    rendered(dir, 5, cases, |archive, c, round| {
        let ns = match (&c.system, c.role) {
            (System::Futex, Role::Control) => again_ns,
            (System::Futex, _) => 10_000,
            (System::Driveline, _) => 20_000,
            _ => 60_000,
        };
        archive.add("X", c, &run(c, round, &[ns; 100]), &Observations::default()).unwrap();
    })
}

#[test]
fn a_machine_on_which_the_same_floor_differs_from_itself_is_called_restless_first_of_all() {
    for (again_ns, times) in [(37_500, "3.75"), (5_000, "0.50")] {
        let dir = tempfile::tempdir().unwrap();
        let (text, page) = beside_floors(dir.path(), again_ns);
        let restless = format!(
            "The machine was too restless for a verdict: the same floor, measured twice, takes \
             {times} times as long the second time (A/A control, floor). Measure on a quiet \
             machine; what follows is what was seen on this one."
        );
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains(&format!("{restless} Driveline has the least median latency.")),
            "{text}"
        );
        assert!(page.contains(&format!("<div class=answer><p>{restless}</p>")), "{restless}");
    }
    let dir = tempfile::tempdir().unwrap();
    let (text, _) = beside_floors(dir.path(), 11_000);
    assert!(!text.contains("restless"), "{text}");
}

#[test]
fn a_measurement_that_ends_after_its_first_floor_says_that_only_floors_were_measured() {
    let dir = tempfile::tempdir().unwrap();
    let mut cases = vec![case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Untouched)])];
    cases.extend(floors(1));
    let (text, _) = rendered(dir.path(), 1, cases, |archive, c, round| {
        if c.role == Role::Floor {
            archive.add("X", c, &run(c, round, &[10_000; 100]), &Observations::default()).unwrap();
        }
    });
    assert!(
        text.contains("Only floors were measured: there is nothing to say of any system yet."),
        "{text}"
    );
    assert!(!text.contains("No valid run"), "{text}");
}

#[test]
fn a_sample_that_did_not_arrive_is_called_lost_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let cases = vec![case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Untouched)])];
    let (text, page) = rendered(dir.path(), 1, cases, |archive, c, round| {
        let mut run = run(c, round, &[10_000; 100]);
        lose_one(&mut run);
        archive.add("X", c, &run, &Observations::default()).unwrap();
    });
    let args =
        ReportArgs { directory: dir.path().join("a"), out: None, markdown: true, json: false };
    for rendered in [&text, &page, &report(&args).unwrap()] {
        assert!(
            rendered.contains("lost")
                && !rendered.contains("missed,")
                && !rendered.contains("| missed |")
                && !rendered.contains("  missed"),
            "{rendered}"
        );
    }
    assert!(
        text.lines().any(|l| l.ends_with("lost")) && text.contains("late, not sent: none"),
        "{text}"
    );
}

/// Returns the cells of each line.
fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|l| l.split("  ").map(str::trim).filter(|w| !w.is_empty()).collect())
}

/// Returns the cells of the line whose first cell is `first`.
fn line<'a>(text: &'a str, first: &str) -> Vec<&'a str> {
    lines(text)
        .find(|l| l.first() == Some(&first))
        .unwrap_or_else(|| panic!("no line '{first}' in:\n{text}"))
}

#[test]
fn tables_have_the_percentiles_that_mean_something() {
    let cases = || {
        vec![
            case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Untouched)]),
            case(peer("fastdds/shm"), "cell", 1, vec![link(64, 1, Payload::Untouched)]),
        ]
    };
    for (samples, ranks) in
        [([10, 10], "p50 greatest"), ([40, 40], "p50 p95"), ([40, 200], "p50 p95 p99")]
    {
        let dir = tempfile::tempdir().unwrap();
        let (text, page) = rendered(dir.path(), 2, cases(), |archive, c, round| {
            let n = samples[usize::from(c.system != System::Driveline)];
            archive
                .add(
                    "X",
                    c,
                    &run(c, round, &latencies(&mut Random::new(round), n, 20_000.0, 0.0)),
                    &Observations::default(),
                )
                .unwrap();
        });
        let head = line(&text, "n").join(" ");
        assert!(
            head.starts_with(&format!("n {ranks} p50 ÷ Driveline"))
                && head.ends_with("CPU/message"),
            "{head}"
        );
        assert_eq!(head.contains("p95 ÷ Driveline"), samples[0] == 40, "{head}");
        assert_eq!(
            page.contains("<span class=few>n too small"),
            samples[0] != samples[1],
            "{samples:?}"
        );
        // These payloads were not verified.
        assert!(text.contains("late, lost, not sent: none") && !text.contains("torn"), "{text}");
        assert!(
            page.contains("No sample of this table was late, lost or not sent.")
                && !page.contains("was torn")
        );
    }
}

#[test]
fn that_no_payload_was_torn_is_said_of_those_that_were_verified() {
    for (payloads, line, sentence) in [
        (
            [Payload::Filled; 2],
            "late, lost, not sent, torn: none",
            "No sample of this table was late, lost, not sent or torn.",
        ),
        (
            [Payload::Untouched, Payload::Filled],
            "late, lost, not sent: none",
            "No sample of this table was late, lost or not sent. No verified payload was torn.",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let of = |(i, payload): (usize, &Payload)| {
            case(System::Driveline, &format!("cell {i}"), i, vec![link(64, 1, *payload)])
        };
        let cases = payloads.iter().enumerate().map(of).collect();
        let (text, page) = rendered(dir.path(), 2, cases, |archive, c, round| {
            archive.add("X", c, &run(c, round, &[10_000; 100]), &Observations::default()).unwrap();
        });
        assert!(text.contains(line) && page.contains(sentence), "{text}");
        let only_some = payloads[0] != payloads[1];
        assert_eq!(
            text.contains("torn: none where payloads are filled and verified"),
            only_some,
            "{text}"
        );
    }
}

#[test]
fn one_cell_of_few_samples_is_not_reported_twice() {
    let dir = tempfile::tempdir().unwrap();
    let cases = |cell: &str, from: usize| {
        [System::Driveline, peer("fastdds/shm")]
            .into_iter()
            .enumerate()
            .map(move |(i, system)| {
                case(system, cell, from + i, vec![link(34_560, 2, Payload::Untouched)])
            })
            .collect::<Vec<_>>()
    };
    let page = |name: &str, cases: Vec<Case>| {
        let mut e = experiment("X", 2, cases);
        e.scenario.published = driveline_lab::scenario::load("S1").unwrap().published;
        e.scenario.published.iter_mut().for_each(|p| p.subscribers = Some(2));
        rendered_of(&dir.path().join(name), e, |archive, c, round| {
            archive.add("X", c, &run(c, round, &[20_000; 20]), &Observations::default()).unwrap();
        })
    };
    let (text, one) = page("one", cases("scan", 0));
    // The page shows no percentile without enough samples. It has no overview of ratios, because
    // the view of ratios shows the same.
    assert!(one.contains("Published, and measured here") && one.contains("Subscribers one by one"));
    assert!(
        !one.contains("<span class=few>n too small")
            && !one.contains("Ratios at a glance")
            && one.contains("\"Ratios\"")
    );
    // A low number of rounds is reported with the answer.
    assert_eq!(text.matches("not to be trusted").count(), 1, "{text}");
    let (_, two) = page("two", [cases("scan", 0), cases("image", 2)].concat());
    assert!(two.contains("Ratios at a glance"));
}

#[test]
fn every_link_of_several_has_a_row() {
    let dir = tempfile::tempdir().unwrap();
    let links: Vec<_> = (0..10)
        .map(|i| driveline_lab::archive::Link {
            topic: format!("sensor{i}"),
            ..link(64, 1, Payload::Untouched)
        })
        .collect();
    let cases = vec![case(System::Driveline, "vehicle", 0, links)];
    let (text, page) = rendered(dir.path(), 1, cases, |archive, c, round| {
        let mut run = run(c, round, &[20_000; 100]);
        // One link is slower than the others, and loses one sample.
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
fn chains_report_transmission_and_drivelines_edges() {
    let dir = tempfile::tempdir().unwrap();
    let dds = || peer("cyclonedds/udp");
    let mut with = chain_case(dds(), "image is Driveline's", 2, true);
    with.comparisons = vec![driveline_bench::Comparison {
        metric: with.figure,
        to: "every edge · cyclonedds/udp".into(),
        of: with.figure,
    }];
    let cases = vec![
        chain_case(System::Driveline, "every edge", 0, false),
        chain_case(dds(), "every edge", 1, false),
        with,
    ];
    let (text, page) = rendered(dir.path(), 5, cases, |archive, c, round| {
        let slow = c.cell == "every edge" && c.system != System::Driveline;
        let (transmission, work) = (if slow { 30_000 } else { 10_000 }, 20_000);
        let mut o = Observations::default();
        let points = |ns: u64| {
            (0..100)
                .map(move |i| driveline_bench::observations::Point { time_ns: i * 1000, value: ns })
        };
        use driveline_bench::observations::Quantity::{Communication, Computation, Latency};
        for (subject, quantity, ns) in [
            ("video", Computation, work),
            ("detector", Communication, transmission),
            ("detector", Computation, work),
            ("end to end", Latency, transmission + work),
        ] {
            o.put(subject, quantity, points(ns));
        }
        archive.add("X", c, &run(c, round, &[]), &o).unwrap();
    });
    // In a cell of chains with Driveline on some edges, Driveline on all edges is not expected.
    assert!(
        text.contains("Driveline has the least median latency.") && !text.contains("has no figure"),
        "{text}"
    );
    assert!(text.contains("transmission ÷ processing, means  detector"), "{text}");
    assert!(lines(&text).any(|l| l == ["cyclonedds/udp", "150 %"]), "{text}");
    assert!(lines(&text).any(|l| l == ["Driveline", "50.0 %"]), "{text}");
    let edges = line(&text, "image is Driveline's · cyclonedds/udp");
    assert_eq!(
        edges[1..],
        ["50.0 µs", "30.0 µs", "0.60 [0.60, 0.60]", "0.60 [0.60, 0.60]"],
        "{text}"
    );
    assert!(page.contains("With Driveline on some edges, and without") && page.contains("150 %"));
    // The stages are in the order of the chain, not alphabetical.
    let row = |subject: &str, what: &str| {
        page.find(&format!("{subject}<small>{what}</small>")).unwrap_or_else(|| panic!("{subject}"))
    };
    let rows = [
        row("video", "computation"),
        row("detector", "communication"),
        row("end to end", "latency"),
    ];
    assert!(rows.is_sorted(), "{rows:?}");
}

#[test]
fn a_link_in_the_place_of_a_report_is_replaced_and_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let c = case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Untouched)]);
    let archive =
        Archive::create(&dir.path().join("a"), manifest(vec![experiment("X", 1, vec![c])], 1))
            .unwrap();
    let mine = dir.path().join("mine");
    std::fs::write(&mine, "dear").unwrap();
    let names = ["report.html", "results.csv", "summary.json"];
    for name in names.into_iter().chain(["report.part"]) {
        std::os::unix::fs::symlink(&mine, archive.directory().join(name)).unwrap();
    }
    report(&ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown: false,
        json: false,
    })
    .unwrap();
    // The outputs replaced the links in the archive. They were not written to the file behind the
    // links.
    assert!(
        std::fs::read_to_string(&mine).unwrap() == "dear",
        "the file behind the link was written to"
    );
    assert!(
        names.iter().all(|n| archive.directory().join(n).symlink_metadata().unwrap().is_file())
    );
    // A link at a path that the caller names is followed.
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&mine, &link).unwrap();
    report(&ReportArgs {
        directory: archive.directory().into(),
        out: Some(link.clone()),
        markdown: false,
        json: false,
    })
    .unwrap();
    assert!(link.is_symlink() && std::fs::read_to_string(&mine).unwrap().contains("</html>"));
}

#[test]
fn a_directory_is_no_place_for_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let c = case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Untouched)]);
    let archive =
        Archive::create(&dir.path().join("a"), manifest(vec![experiment("X", 1, vec![c])], 1))
            .unwrap();
    // A table that cannot be written into the archive does not prevent the requested outputs: here
    // a directory has the name of the file.
    let table = archive.directory().join("results.csv");
    std::fs::create_dir(&table).unwrap();
    let rendered = |out: Option<&Path>, markdown| {
        report(&ReportArgs {
            directory: archive.directory().into(),
            out: out.map(Into::into),
            markdown,
            json: false,
        })
    };
    assert!(format!("{:#}", rendered(None, false).unwrap_err()).contains("results.csv"));
    assert!(rendered(None, true).unwrap().contains("driveline"));
    let elsewhere = dir.path().join("elsewhere.html");
    rendered(Some(&elsewhere), false).unwrap();
    assert!(std::fs::metadata(&elsewhere).unwrap().len() > 1000);
    let args = ReportArgs {
        directory: archive.directory().into(),
        out: Some(dir.path().into()),
        markdown: false,
        json: false,
    };
    let said = format!("{:#}", report(&args).unwrap_err());
    let here = dir.path().display();
    assert_eq!(
        said,
        format!(
            "{here} is a directory: name a file for the page with --out, for example \
             {here}/report.html"
        )
    );
    // No output is incomplete.
    assert!(!archive.directory().join("summary.json").exists());
}

#[test]
fn payloads_that_were_torn_are_counted_although_their_run_does_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let cases = vec![
        case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Filled)]),
        case(peer("as_published/sim_code"), "cell", 1, vec![link(64, 1, Payload::Filled)]),
    ];
    let (text, page) = rendered(dir.path(), 2, cases, |archive, c, round| {
        let mut run = run(c, round, &[20_000; 100]);
        if c.system != System::Driveline {
            run.accounts[0].torn = 3;
            run.accounts[0]
                .invalid
                .push("payload mismatch at subscriber 0: the checksum does not fit".into());
        }
        archive.add("X", c, &run, &Observations::default()).unwrap();
    });
    assert!(
        text.contains("no valid run: 6 payloads torn")
            && page.contains("no valid run: 6 payloads torn"),
        "{text}"
    );
    assert!(!text.contains("not sent, torn: none"), "{text}");
    assert!(text.contains("Torn payloads: 6 by as_published/sim_code (cell)."), "{text}");
}

/// Returns an experiment whose question is about something other than latencies.
fn asking(about: AnswerSpec, rounds: u64, cases: Vec<Case>) -> Experiment {
    let mut e = experiment("X", rounds, cases);
    e.scenario.answer = Some(about);
    e
}

/// Removes a sample of the first subscriber of the first link.
fn lose_one(run: &mut Run) {
    let Some(a) = run.accounts.first_mut() else { return };
    let lost = a.stamps.pop().unwrap();
    a.stamps.push(driveline_bench::Sample { received: None, transport_ns: 0, ..lost });
    (a.received[0], a.missed[0]) = (a.received[0] - 1, 1);
}

#[test]
fn the_number_of_carried_links_is_reported_where_it_is_the_question() {
    let dir = tempfile::tempdir().unwrap();
    let links = |n: usize| {
        (0..n).map(|i| driveline_lab::archive::Link {
            topic: format!("camera{i}"),
            ..link(64, 1, Payload::Untouched)
        })
    };
    let mut cases = Vec::new();
    for n in [1, 4] {
        for system in [peer("zenoh/tcp"), peer("fastdds/shm"), System::Driveline] {
            cases.push(case(system, &format!("{n} links"), cases.len(), links(n).collect()));
        }
    }
    let (text, page) =
        rendered_of(dir.path(), asking(AnswerSpec::CarriedLinks, 1, cases), |archive, c, round| {
            // One system is always late, by more than a period of 20 ms. Another one loses one of
            // four hundred samples.
            let ns = if c.system == peer("zenoh/tcp") { 25_000_000 } else { 20_000 };
            let mut run = run(c, round, &[ns; 100]);
            if c.system == peer("fastdds/shm") && c.links.len() == 4 {
                lose_one(&mut run);
            }
            archive.add("X", c, &run, &Observations::default()).unwrap();
        });
    let answer = "\
Links carried at the same time without a sample lost, late or not sent:
  Driveline all 4
  fastdds/shm 1 (at 4: 0.25 % not in time)
  zenoh/tcp none (at 1: 100 % not in time)
In both cells it is unclear whether Driveline has the least median latency";
    assert!(text.contains(answer), "{text}");
    assert!(page.contains(
        "not sent:</p><p class=part>Driveline all 4</p><p class=part>fastdds/shm \
         1 (at 4: 0.25 % not in time)</p>"
    ));
    let head = line(&text, "n").join(" ");
    assert!(head.ends_with("CPU/message late lost"), "{head}");
    assert_eq!(
        line(&text, "zenoh/tcp").iter().rev().take(2).rev().copied().collect::<Vec<_>>(),
        ["100", "0"],
        "{text}"
    );
}

#[test]
fn how_many_subscribers_are_served_stands_above_them() {
    let dir = tempfile::tempdir().unwrap();
    let systems = [(System::Driveline, 4), (peer("fastdds/shm"), 1), (peer("zenoh/shm"), 0)];
    let cases = systems
        .iter()
        .enumerate()
        .map(|(i, (s, _))| case(s.clone(), "cell", i, vec![link(64, 4, Payload::Untouched)]));
    let (_, page) = rendered(dir.path(), 1, cases.collect(), |archive, c, round| {
        let mut run = run(c, round, &[20_000; 100]);
        let (_, served) = systems.iter().find(|(s, _)| *s == c.system).unwrap();
        let a = &mut run.accounts[0];
        a.stamps
            .iter_mut()
            .filter(|s| s.subscriber >= *served)
            .for_each(|s| (s.received, s.transport_ns) = (None, 0));
        (*served..4).for_each(|i| (a.received[i], a.missed[i]) = (0, 100));
        archive.add("X", c, &run, &Observations::default()).unwrap();
    });
    let (_, table) = page.split_once("Subscribers one by one").unwrap();
    let (table, _) = table.split_once("</details>").unwrap();
    for (title, rows) in [
        ("cell · Driveline", 4),
        ("cell · fastdds/shm (1 of 4 served)", 1),
        ("cell · zenoh/shm (0 of 4 served)", 0),
    ] {
        let (_, group) = table
            .split_once(&format!("<span>{title}</span>"))
            .unwrap_or_else(|| panic!("no '{title}' in {table}"));
        assert_eq!(
            group.split("class=group").next().unwrap().matches("<th scope=row>").count(),
            rows,
            "{title}: {group}"
        );
    }
}

#[test]
fn effects_of_settings_are_reported_where_they_are_the_question() {
    let dir = tempfile::tempdir().unwrap();
    let mut cases = Vec::new();
    for cell in ["imu", "image"] {
        for system in ["fastdds/udp", "fastdds/udp_500"] {
            let mut c =
                case(peer(system), cell, cases.len(), vec![link(64, 1, Payload::Untouched)]);
            let to = (system == "fastdds/udp_500").then(|| format!("{cell} · fastdds/udp"));
            c.comparisons = to
                .into_iter()
                .map(|to| driveline_bench::Comparison { metric: c.figure, to, of: c.figure })
                .collect();
            cases.push(c);
        }
    }
    let (text, _) =
        rendered_of(dir.path(), asking(AnswerSpec::Settings, 5, cases), |archive, c, round| {
            let ns = if c.cell == "image" && c.system == peer("fastdds/udp_500") {
                60_000
            } else {
                20_000
            };
            archive.add("X", c, &run(c, round, &[ns; 100]), &Observations::default()).unwrap();
        });
    // Each statement is on one line, for `grep`, because the output is not a terminal.
    let answer = "\
What settings change, by medians:
  fastdds/udp_500 takes 1.00 to 3.00 times what fastdds/udp takes (furthest in image: 95 % 3.00 to \
         3.00), a difference is shown in 1 of 2 cells
";
    assert!(text.contains(answer), "{text}");
}

#[test]
fn growth_of_throughput_is_reported_where_it_is_the_question() {
    let dir = tempfile::tempdir().unwrap();
    let mut cases = Vec::new();
    for (cell, size) in [("1 KiB", 1 << 10), ("1 MiB", 1 << 20)] {
        for system in [peer("fastdds/udp"), System::Driveline] {
            cases.push(case(system, cell, cases.len(), vec![link(size, 1, Payload::Untouched)]));
        }
    }
    let (text, _) =
        rendered_of(dir.path(), asking(AnswerSpec::Throughput, 5, cases), |archive, c, round| {
            let ns = if c.system == System::Driveline { 20_000 } else { c.links[0].size as u64 };
            archive.add("X", c, &run(c, round, &[ns; 100]), &Observations::default()).unwrap();
        });
    let answer = "\
Median and greatest throughput:
  Driveline 20.0 µs at 1 KiB to 20.0 µs at 1 MiB, 52.4 GB/s (at 1 MiB)
  fastdds/udp 1.02 µs at 1 KiB to 1.05 ms at 1 MiB, 1.00 GB/s (at 1 MiB)
";
    assert!(text.contains(answer) && text.contains("it is no bandwidth"), "{text}");
}

#[test]
fn whiskers_end_at_a_percentile_only_where_n_is_large_enough_for_it() {
    for (rounds, fence) in [(2, "[0.001,0.0011]"), (4, "[0.00002,0.000022]")] {
        let dir = tempfile::tempdir().unwrap();
        let cases =
            vec![case(System::Driveline, "to two", 0, vec![link(64, 2, Payload::Untouched)])];
        let (_, page) = rendered(dir.path(), rounds, cases, |archive, c, round| {
            let mut values = [20_000; 100];
            values[50] = if round == 0 { 1_000_000 } else { 20_000 };
            archive.add("X", c, &run(c, round, &values), &Observations::default()).unwrap();
        });
        assert!(page.contains(&format!("\"upperfence\":{fence}")), "{rounds} rounds of 100");
    }
}
