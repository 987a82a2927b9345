// SPDX-License-Identifier: Apache-2.0
//! Parts of the published Markdown other than the table of figures: Driveline and its floor,
//! answers of every system, subscribers, invalid runs, parts left out.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::harness::{Payload, System};
use driveline_bench::observations::{Observations, Point, Quantity};
use driveline_bench::{Beside, Comparison, LeftOut, Metric};
use driveline_graph::ByteSize;
use driveline_lab::archive::{Archive, Case, Experiment, Link, Role, Run};
use driveline_lab::scenario::AnswerSpec;
use driveline_lab::{ReportArgs, report};
use fixture::{case, experiment, floors, link, manifest, peer, run};
use std::time::Duration;

/// Returns the Markdown of an experiment, and the terminal's text.
fn rendered(e: Experiment, make: impl Fn(&Case, u64) -> (Run, Observations)) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    let rounds = e.rounds;
    let archive = Archive::create(&dir.path().join("a"), manifest(vec![e], 1)).unwrap();
    for c in &archive.manifest.experiments[0].cases {
        for round in 0..rounds {
            let (run, observations) = make(c, round);
            archive.add("X", c, &run, &observations).unwrap();
        }
    }
    let args = |markdown| ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown,
        json: false,
    };
    (report(&args(true)).unwrap(), report(&args(false)).unwrap())
}

fn plain(ns: u64) -> impl Fn(&Case, u64) -> (Run, Observations) {
    move |c, round| (run(c, round, &[ns; 100]), Observations::default())
}

/// Returns the cells of the row that begins with `first` and `system`.
fn row<'a>(text: &'a str, first: &str, system: &str) -> Vec<&'a str> {
    let cells =
        |line: &'a str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    let mut rows = text.lines().filter(|l| l.starts_with('|')).map(cells);
    rows.find(|c| c[0] == first && c[1] == system)
        .unwrap_or_else(|| panic!("no row '{first}', {system} in:\n{text}"))
}

#[test]
fn driveline_stands_next_to_its_floor() {
    let one = |system| case(system, "cell", 2, vec![link(64, 1, Payload::Untouched)]);
    let cases = |with_peer: bool| {
        let mut own = one(System::Driveline);
        own.comparisons =
            vec![Comparison { metric: own.figure, to: "floor".into(), of: own.figure }];
        let mut cases: Vec<Case> = floors(0).into_iter().chain([own]).collect();
        cases.extend(
            with_peer.then(|| Case { directory: "003".into(), ..one(peer("fastdds/shm")) }),
        );
        cases
    };
    let latencies = |c: &Case, round: u64| {
        let ns = if c.role != Role::Measured {
            10_000
        } else {
            10_500 + 500 * round * u64::from(c.system == System::Driveline)
        };
        (run(c, round, &[ns; 100]), Observations::default())
    };
    let (text, _) = rendered(experiment("X", 5, cases(true)), latencies);
    assert!(text.contains("| p50 ÷ Driveline | p99 ÷ Driveline |"), "{text}");
    assert_eq!(
        row(&text, "cell", "Driveline")[5..7],
        ["1.15 (1.05–1.25) ÷ floor", "1.25 (1.10–1.25) ÷ floor"],
        "{text}"
    );
    // With too few samples of the floor for a ratio of p99, Driveline's p99 is the reference of the
    // others, printed as 1.
    let (text, _) = rendered(experiment("X", 5, cases(true)), |c, round| {
        let n = if c.role == Role::Measured { 100 } else { 40 };
        (run(c, round, &vec![10_000; n]), Observations::default())
    });
    assert_eq!(row(&text, "cell", "Driveline")[6..8], ["1.00 (1.00–1.00) ÷ floor", "1"], "{text}");
    // Without another system, the floor is the divisor.
    let (text, terminal) = rendered(experiment("X", 5, cases(false)), latencies);
    assert!(text.contains("| p50 ÷ floor | p99 ÷ floor |"), "{text}");
    let said = "By medians, Driveline takes 1.15 (95 % 1.05 to 1.25) times as long as its floor, a \
         bare word.";
    assert!(
        terminal.contains(said)
            && terminal.contains("p50 ÷ floor")
            && terminal.contains("1.15 [1.05, 1.25]"),
        "{terminal}"
    );
    assert_eq!(
        row(&text, "cell", "Driveline")[5..7],
        ["1.15 (1.05–1.25)", "1.25 (1.10–1.25)"],
        "{text}"
    );
}

#[test]
fn every_system_answers() {
    let links = |n: usize| {
        (0..n)
            .map(|i| Link { topic: format!("camera{i}"), ..link(64, 1, Payload::Untouched) })
            .collect::<Vec<_>>()
    };
    let mut cases = Vec::new();
    let names: Vec<String> = (0..8).map(|i| format!("p{i}/x")).collect();
    for system in names.iter().map(|n| peer(n)).chain([System::Driveline]) {
        cases.push(case(system, "4 links", cases.len(), links(4)));
    }
    let mut e = experiment("X", 1, cases);
    e.scenario.answer = Some(AnswerSpec::CarriedLinks);
    let (text, terminal) = rendered(e, plain(20_000));
    let (_, list) = text
        .split_once("Links carried at the same time without a sample lost, late or not sent:\n\n")
        .unwrap();
    let items: Vec<&str> = list.lines().take_while(|l| l.starts_with("- ")).collect();
    assert_eq!(
        (items.len(), items[0], items[8]),
        (9, "- Driveline all 4", "- p7/x all 4"),
        "{text}"
    );
    assert!(terminal.contains("  p4/x all 4\n  and 3 more below\n"), "{terminal}");
}

#[test]
fn throughput_is_printed_with_its_conditions() {
    let sized = |system: System, size: usize, i| {
        case(system, &ByteSize(size as u64).to_string(), i, vec![link(size, 1, Payload::Untouched)])
    };
    let mut e = experiment(
        "X",
        1,
        vec![sized(System::Driveline, 1 << 10, 0), sized(System::Driveline, 1 << 20, 1)],
    );
    e.scenario.answer = Some(AnswerSpec::Throughput);
    let (text, _) = rendered(e, plain(20_000));
    assert!(
        text.contains(
            "Median and greatest throughput:\n\n- Driveline 20.0 µs at 1 KiB to 20.0 \
         µs at 1 MiB, 52.4 GB/s"
        ),
        "{text}"
    );
    assert!(text.contains("and it is no bandwidth."), "{text}");
}

/// Each subscriber takes a tenth longer than the previous one.
#[test]
fn subscribers_are_distinguished() {
    let mut cases = Vec::new();
    for n in [1, 4] {
        for system in [System::Driveline, peer("fastdds/shm"), peer("zenoh/shm")] {
            cases.push(case(
                system,
                &format!("1→{n}"),
                cases.len(),
                vec![link(64, n, Payload::Untouched)],
            ));
        }
    }
    let mut e = experiment("X", 1, cases);
    e.scenario.answer = Some(AnswerSpec::Fairness);
    let (text, terminal) = rendered(e, |c, round| {
        let mut run = run(c, round, &[20_000; 100]);
        if c.system == peer("zenoh/shm") && c.cell == "1→4" {
            // The third subscriber gets nothing.
            let a = &mut run.accounts[0];
            a.stamps
                .iter_mut()
                .filter(|s| s.subscriber == 2)
                .for_each(|s| (s.received, s.transport_ns) = (None, 0));
            (a.received[2], a.missed[2]) = (0, 100);
        }
        (run, Observations::default())
    });
    assert!(
        text.contains(
            "| transport of subscribers | system | first, p50 | last, p50 | last ÷ first \
             | most often the last | for |"
        ),
        "{text}"
    );
    let (_, table) = text.split_once("transport of subscribers").unwrap();
    assert_eq!(
        row(table, "1→4", "Driveline")[2..],
        ["20.0", "26.0", "1.30", "subscriber 3", "100 %"],
        "{text}"
    );
    assert_eq!(
        row(table, "1→4 (3 of 4 served)", "zenoh/shm")[2..],
        ["20.0", "26.0", "1.30", "–", "–"],
        "{text}"
    );
    // One subscriber needs no row.
    assert!(table.lines().all(|l| !l.starts_with("| 1→1 ")), "{text}");
    let answer = "\
Medians of the first and of the last of 4 subscribers, and the share of samples for which the \
         subscriber that is most often the last was the last:
  Driveline 20.0 µs and 26.0 µs (100 %)
  fastdds/shm 20.0 µs and 26.0 µs (100 %)
  zenoh/shm 20.0 µs and 26.0 µs, 3 of them served
";
    assert!(terminal.contains(answer), "{terminal}");
}

#[test]
fn subscribers_without_samples_are_reported_where_few_receive_any() {
    // Each entry: system, number of subscribers, number of subscribers that get samples.
    let served = [
        (System::Driveline, 8, 8),
        (peer("fastdds/shm"), 8, 1),
        (peer("zenoh/shm"), 8, 0),
        (peer("zenoh/tcp"), 1, 0),
    ];
    let cases = served.iter().enumerate().map(|(i, (system, n, _))| {
        case(system.clone(), &format!("1→{n}"), i, vec![link(64, *n, Payload::Untouched)])
    });
    let mut e = experiment("X", 1, cases.collect());
    e.scenario.answer = Some(AnswerSpec::Fairness);
    let (text, terminal) = rendered(e, |c, round| {
        let mut run = run(c, round, &[20_000; 100]);
        let (_, n, served) = served.iter().find(|(system, ..)| *system == c.system).unwrap();
        let a = &mut run.accounts[0];
        a.stamps
            .iter_mut()
            .filter(|s| s.subscriber >= *served)
            .for_each(|s| (s.received, s.transport_ns) = (None, 0));
        (*served..*n).for_each(|i| (a.received[i], a.missed[i]) = (0, 100));
        (run, Observations::default())
    });
    let (_, table) = text.split_once("transport of subscribers").unwrap();
    assert_eq!(
        row(table, "1→8", "Driveline")[2..],
        ["20.0", "34.0", "1.70", "subscriber 7", "100 %"],
        "{text}"
    );
    assert_eq!(
        row(table, "1→8 (1 of 8 served)", "fastdds/shm")[2..],
        ["20.0", "20.0", "–", "–", "–"],
        "{text}"
    );
    assert_eq!(
        row(table, "1→8 (0 of 8 served)", "zenoh/shm")[2..],
        ["–", "–", "–", "–", "–"],
        "{text}"
    );
    assert!(table.lines().all(|l| !l.starts_with("| 1→1 ")), "{text}");
    let answer = "  Driveline 20.0 µs and 34.0 µs (100 %)\n  fastdds/shm 20.0 µs, 1 of them \
         served\n  zenoh/shm serves none of them\n";
    assert!(terminal.contains(answer), "{terminal}");
}

#[test]
fn reasons_of_invalid_runs_and_skipped_cells_are_printed() {
    let cases = vec![
        case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Untouched)]),
        case(peer("fastdds/shm"), "cell", 1, vec![link(64, 1, Payload::Untouched)]),
    ];
    let mut e = experiment("X", 5, cases);
    let somewhere = |what: &str| LeftOut {
        cells: vec!["cell".into()],
        ..LeftOut::new(what, "is not reliable")
    };
    e.left_out.extend([somewhere("ros1/tcp"), somewhere("ros1/udp")]);
    let (text, _) = rendered(e, |c, round| {
        let mut run = run(c, round, &[20_000; 100]);
        if c.system != System::Driveline && round < 3 {
            run.invalid.push(if round == 1 {
                "it was <warm>".into()
            } else {
                "it was cold".to_owned()
            });
        }
        (run, Observations::default())
    });
    let reasons = "Runs that do not count:\n\n- cell · fastdds/shm, rounds 1, 3: it was cold\n- \
         cell · fastdds/shm, round 2: it was \\<warm>\n\n";
    assert!(
        text.contains(reasons)
            && text.contains("3 of 10 runs do not count; their reasons are listed."),
        "{text}"
    );
    let left = "Left out:\n\n- ecal: not installed: apt install \\<ecal>\n- ros1/tcp, ros1/udp: is \
         not reliable (in cell)\n\n";
    assert!(text.contains(left), "{text}");
    // An empty list is not printed.
    let mut e = experiment(
        "X",
        1,
        vec![case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Untouched)])],
    );
    e.left_out.clear();
    let (text, _) = rendered(e, plain(20_000));
    assert!(!text.contains("Left out") && !text.contains("Runs that do not count"), "{text}");
}

#[test]
fn context_switches_are_printed_per_message() {
    let watched = |system, i| {
        let c = case(system, "cell", i, vec![link(64, 1, Payload::Untouched)]);
        Case {
            beside: Beside { watch_every: Some(Duration::from_millis(100)), ..Beside::default() },
            ..c
        }
    };
    let e =
        experiment("X", 1, vec![watched(System::Driveline, 0), watched(peer("fastdds/shm"), 1)]);
    let (text, terminal) = rendered(e, |c, round| {
        let mut o = Observations::default();
        // At 50 Hz, five messages are sent in each tenth of a second.
        for (subject, switches) in
            [("publisher", 5), ("subscriber 0", if c.system == System::Driveline { 5 } else { 15 })]
        {
            o.put(
                subject,
                Quantity::Switches,
                (0..20).map(|i| Point { time_ns: i * 100_000_000, value: switches }),
            );
        }
        (run(c, round, &[20_000; 100]), o)
    });
    let column = text
        .lines()
        .find(|l| l.starts_with("| transport"))
        .unwrap()
        .split('|')
        .position(|c| c.trim() == "context switches per message")
        .unwrap();
    let of = |system| row(&text, "cell", system)[column - 1].to_owned();
    assert_eq!([of("Driveline"), of("fastdds/shm")], ["2.00", "4.00"], "{text}");
    assert!(terminal.contains("switches/message"), "{terminal}");
}

/// Two systems send 1 MB at 50 Hz; one of them loses every second sample.
#[test]
fn the_goodput_of_streams_is_printed_with_the_notes() {
    let stream = |system, i| Case {
        figure: Metric::BetweenArrivals,
        ..case(system, "cell", i, vec![link(1_000_000, 1, Payload::Untouched)])
    };
    let mut e =
        experiment("X", 1, vec![stream(System::Driveline, 0), stream(peer("fastdds/shm"), 1)]);
    e.scenario.notes = vec!["Gateways are <not> in it.".into()];
    let (text, terminal) = rendered(e, |c, round| {
        let mut run = run(c, round, &[20_000; 200]);
        if c.system != System::Driveline {
            let a = &mut run.accounts[0];
            a.stamps
                .iter_mut()
                .skip(1)
                .step_by(2)
                .for_each(|s| (s.received, s.transport_ns) = (None, 0));
            (a.received[0], a.missed[0]) = (100, 100);
        }
        (run, Observations::default())
    });
    let head: Vec<&str> = text
        .lines()
        .find(|l| l.contains("| system | n |"))
        .unwrap()
        .trim_matches('|')
        .split('|')
        .map(str::trim)
        .collect();
    let column = head.iter().position(|c| *c == "goodput").unwrap();
    let of = |system| row(&text, "cell", system)[column].to_owned();
    assert_eq!([of("Driveline"), of("fastdds/shm")], ["50.0 MB/s", "25.0 MB/s"], "{text}");
    assert_eq!(row(&text, "cell", "fastdds/shm")[column + 1], "0.50 of 1 round", "{text}");
    assert!(terminal.contains("goodput") && terminal.contains("25.0 MB/s"), "{terminal}");
    assert!(text.contains("Notes:\n\n- Gateways are \\<not> in it.\n"), "{text}");
    // Latencies have no goodput.
    let (text, terminal) = rendered(
        experiment(
            "X",
            1,
            vec![case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Untouched)])],
        ),
        plain(20_000),
    );
    assert!(!text.contains("goodput") && !terminal.contains("goodput"), "{text}");
}
