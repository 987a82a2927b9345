// SPDX-License-Identifier: Apache-2.0
//! Comparisons find real differences, and no others.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::harness::{Payload, System};
use driveline_bench::observations::Observations;
use driveline_bench::stats::Random;
use driveline_bench::{Comparison, Metric};
use driveline_lab::archive::{Archive, Case, Role, Run};
use driveline_lab::compare::{CompareArgs, Verdict, archives, compare};
use std::path::Path;

use fixture::{
    case, experiment, floors, latencies, link, manifest, pair, pair_of, peer, run, tool_run,
};

fn verdicts(
    rounds: u64,
    factors: (f64, f64),
    noise: f64,
    seeds: (u64, u64),
) -> Vec<(String, Verdict)> {
    let dir = tempfile::tempdir().unwrap();
    let a = pair(&dir.path().join("a"), rounds, factors.0, noise, seeds.0);
    let b = pair(&dir.path().join("b"), rounds, factors.1, noise, seeds.1);
    let p50 = archives(&a, &b).unwrap().rows.into_iter().filter(|r| r.rank == "p50");
    p50.map(|r| (r.system, r.verdict)).collect()
}

// Seeds are fixed. With random seeds, one of twenty families of comparisons would show a difference
// by chance.

#[test]
fn the_same_thing_measured_twice_shows_no_difference() {
    for seed in 1..4 {
        for (system, verdict) in verdicts(5, (2.0, 2.0), 0.05, (seed, seed + 7_000)) {
            assert_eq!(verdict, Verdict::NoDifferenceShown, "{system}, seed {seed}");
        }
    }
}

#[test]
fn ten_percent_more_are_found_where_they_are() {
    for seed in 1..4 {
        for (system, verdict) in verdicts(6, (2.0, 2.2), 0.01, (seed, seed + 7_000)) {
            let expected =
                if system == "driveline" { Verdict::NoDifferenceShown } else { Verdict::Slower };
            assert_eq!(verdict, expected, "{system}, seed {seed}");
        }
    }
}

#[test]
fn an_archive_compared_with_itself_shows_no_difference_and_no_warning() {
    let dir = tempfile::tempdir().unwrap();
    let mut a = pair(&dir.path().join("a"), 5, 2.0, 0.05, 1);
    a.finish("2020-01-01T00:01:00Z".into()).unwrap();
    let c = archives(&a, &a).unwrap();
    assert!(c.warnings.is_empty(), "{:?}", c.warnings);
    assert_eq!(c.rows.len(), 16);
    for r in c.rows {
        let i = r.ratio.unwrap();
        assert!(
            r.verdict == Verdict::NoDifferenceShown
                && i.low <= 1.0
                && 1.0 <= i.high
                && i.estimate == 1.0
                && r.p_corrected == Some(1.0)
        );
    }
}

#[test]
fn the_other_direction_is_faster_and_few_rounds_say_nothing() {
    let faster = verdicts(5, (2.2, 2.0), 0.005, (3, 4));
    assert!(
        faster.iter().filter(|(s, _)| s != "driveline").all(|(_, v)| *v == Verdict::Faster),
        "{faster:?}"
    );
    let few = verdicts(4, (4.0, 2.0), 0.0, (3, 4));
    assert!(few.iter().all(|(_, v)| *v == Verdict::TooFewRounds), "{few:?}");
}

#[test]
fn a_percentile_of_rounds_of_different_length_is_not_compared() {
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str, samples: usize| {
        pair_of(&dir.path().join(name), (5, samples), 2.0, 0.0, samples as u64)
    };
    for (a, b, p99) in [(100, 200, Verdict::UnequalRounds), (300, 400, Verdict::NoDifferenceShown)]
    {
        let rows = archives(&of(&format!("a{a}"), a), &of(&format!("b{b}"), b)).unwrap().rows;
        for r in rows {
            let expected = if r.rank == "p99" { p99 } else { Verdict::NoDifferenceShown };
            assert_eq!(
                r.verdict, expected,
                "{a} and {b} samples in a round: {} {}",
                r.system, r.rank
            );
        }
    }
}

/// Returns the printed comparison of two archives.
fn printed(dir: &Path) -> String {
    compare(&CompareArgs { a: dir.join("a"), b: dir.join("b"), json: false }).unwrap()
}

#[test]
fn a_measurement_is_not_compared_with_itself() {
    let dir = tempfile::tempdir().unwrap();
    let a = dir.path().join("a");
    pair(&a, 2, 2.0, 0.0, 1);
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&a, &link).unwrap();
    for b in [a.clone(), a.join("../a"), link] {
        let said = format!(
            "{:#}",
            compare(&CompareArgs { a: a.clone(), b: b.clone(), json: false }).unwrap_err()
        );
        let expected = format!(
            "{} and {} are the same measurement, which does not differ from itself: name two",
            a.display(),
            b.display()
        );
        assert_eq!(said, expected);
    }
}

#[test]
fn rounds_that_are_too_short_are_called_that_and_not_unlike() {
    let dir = tempfile::tempdir().unwrap();
    // The numbers of samples differ, as in rounds of equal duration.
    for (name, samples) in [("a", 200), ("b", 260)] {
        pair_of(&dir.path().join(name), (5, samples), 2.0, 0.0, samples as u64);
    }
    let text = printed(dir.path());
    let why = "No verdict on 8 of 24 figures: rounds have fewer than the 300 samples of a \
         p99, and not equally many. Measure both longer, or with `messages:` in place of \
         `seconds:`.";
    assert!(text.contains(why), "{text}");
    assert!(text.contains("driveline p50") && !text.contains("driveline p99"), "{text}");
}

#[test]
fn the_remedy_for_inconclusive_rows_is_printed_once_in_their_place() {
    let dir = tempfile::tempdir().unwrap();
    for (name, seed) in [("a", 1), ("b", 2)] {
        pair(&dir.path().join(name), 2, 2.0, 0.0, seed);
    }
    let text = printed(dir.path());
    let rendered = "\
No verdict on 16 of 24 figures: there are fewer than 5 rounds. Measure both with --rounds 5 \
         or more.
No verdict on 8 of 24 figures: n is too small. Measure both longer.
With --json, these rows are printed, too.
";
    assert!(
        text.ends_with(rendered) && !text.contains("B ÷ A") && !text.contains("Holm"),
        "{text}"
    );
    let json =
        compare(&CompareArgs { a: dir.path().join("a"), b: dir.path().join("b"), json: true })
            .unwrap();
    assert_eq!(
        ["too_few_rounds", "too_few_samples"].map(|verdict| json.matches(verdict).count()),
        [16, 8],
        "{json}"
    );
}

#[test]
fn disturbed_and_invalid_runs_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let a = pair(&dir.path().join("a"), 1, 2.0, 0.0, 1);
    let b = pair(&dir.path().join("b"), 1, 2.0, 0.0, 1);
    let e = &b.manifest.experiments[0];
    let again = |case: usize, change: &dyn Fn(&mut Run)| {
        let mut run = run(&e.cases[case], 0, &[1000; 100]);
        change(&mut run);
        b.add("X", &e.cases[case], &run, &Observations::default()).unwrap();
    };
    again(0, &|run| run.disturbance.other_processes = 0.34);
    again(1, &|run| run.invalid.push("the hypervisor took 9 %".into()));
    again(2, &|run| run.invalid.push("something else".into()));
    let warnings = archives(&a, &b).unwrap().warnings.join("\n");
    assert!(
        warnings.contains(
            "B was disturbed: during 1 of 8 runs other processes used more than 5 % \
             of the machine (34 % in the worst)"
        ),
        "{warnings}"
    );
    let invalid = "B: 2 of 8 runs do not count and are left out: X · cell 0 · fastdds/shm in round \
         1: the hypervisor took 9 %, and 1 more";
    assert!(
        warnings.contains(invalid)
            && !warnings.contains("A was disturbed")
            && !warnings.contains("A: "),
        "{warnings}"
    );
}

#[test]
fn a_row_that_its_own_tool_contradicts_is_not_compared() {
    let dir = tempfile::tempdir().unwrap();
    let archive = |name: &str, said_ns: u64| {
        let row = case(
            "fastdds/shm".parse().unwrap(),
            "cell",
            0,
            vec![link(64, 1, driveline_bench::harness::Payload::Untouched)],
        );
        let tool = fixture::own_tool(&row, 1);
        let archive = Archive::create(
            &dir.path().join(name),
            manifest(vec![experiment("X", 5, vec![row.clone(), tool.clone()])], 1),
        )
        .unwrap();
        let mut random = driveline_bench::stats::Random::new(1);
        for round in 0..5 {
            archive
                .add(
                    "X",
                    &row,
                    &run(&row, round, &latencies(&mut random, 100, 20_000.0, 0.0)),
                    &Observations::default(),
                )
                .unwrap();
            archive.add("X", &tool, &tool_run(round, said_ns), &Observations::default()).unwrap();
        }
        archive
    };
    let (sound, contradicted) = (archive("a", 20_000), archive("b", 90_000));
    let c = archives(&sound, &contradicted).unwrap();
    assert!(c.rows.is_empty(), "{:?}", c.rows);
    let warning = "B: X · cell · fastdds/shm is not compared: own tool theirperf: 90.0 µs";
    assert!(c.warnings.iter().any(|w| w.starts_with(warning)), "{:?}", c.warnings);
    assert_eq!(archives(&sound, &sound).unwrap().rows.len(), 2);
}

#[test]
fn nothing_that_only_one_side_can_compare_is_left_out_without_a_word() {
    let dir = tempfile::tempdir().unwrap();
    // Makes an archive of four cells with two systems each. Systems named in `without` are missing,
    // and systems named in `invalid` have no valid run.
    let archive = |name: &str, without: &str, invalid: &str, figure: Metric| {
        let mut cases = Vec::new();
        for cell in ["one", "two", "three", "four"] {
            for system in [System::Driveline, peer("fastdds/shm")] {
                let mut c = case(
                    system,
                    cell,
                    cases.len(),
                    vec![link(64, if cell == "four" { 2 } else { 1 }, Payload::Untouched)],
                );
                if c.id == "four · driveline" {
                    (c.figure, c.figure_is_named) = (figure, true);
                }
                if c.id != without {
                    cases.push(c);
                }
            }
        }
        cases.extend(floors(8));
        let archive =
            Archive::create(&dir.path().join(name), manifest(vec![experiment("X", 5, cases)], 1))
                .unwrap();
        for c in &archive.manifest.experiments[0].cases {
            for round in 0..5 {
                let mut run = run(c, round, &[20_000; 100]);
                run.invalid.extend(
                    (c.id == invalid || c.id == "three · driveline")
                        .then(|| "it failed".to_owned()),
                );
                archive.add("X", c, &run, &Observations::default()).unwrap();
            }
        }
        archive
    };
    let a = archive("a", "one · driveline", "one · fastdds/shm", Metric::Transport);
    let b = archive("b", "two · driveline", "two · fastdds/shm", Metric::LastSubscriber);
    let c = archives(&a, &b).unwrap();
    let rendered: Vec<&str> = c
        .warnings
        .iter()
        .filter_map(|w| w.strip_prefix("latencies are not compared of what "))
        .collect();
    let expected = [
        "is only in A (1 case): X · two · driveline",
        "is only in B (1 case): X · one · driveline",
        "has no valid samples in A (1 case): X · one · fastdds/shm",
        "has no valid samples in B (1 case): X · two · fastdds/shm",
        "has no valid samples in either (1 case): X · three · driveline",
        "has another figure in A than in B (1 case): X · four · driveline (transport and last \
         subscriber)",
    ];
    assert_eq!(rendered, expected, "{:?}", c.warnings);
    // The remaining cases have rows: the peer in the last two cells, and the floor.
    let rows: std::collections::BTreeSet<_> =
        c.rows.iter().map(|r| format!("{} · {}", r.cell, r.system)).collect();
    assert_eq!(
        rows.into_iter().collect::<Vec<_>>(),
        ["floor · futex", "four · fastdds/shm", "three · fastdds/shm"]
    );
}

#[test]
fn other_differences_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let a = pair(&dir.path().join("a"), 1, 2.0, 0.0, 1);
    let mut b = pair(&dir.path().join("b"), 1, 2.0, 0.0, 1);
    b.manifest.machine.kernel = "another".into();
    b.manifest.machine.cpu = "another".into();
    b.manifest.optimised = false;
    b.manifest.experiments[0].scenario.question = "Something else?".into();
    b.manifest.experiments[0].cases[0].links[0].payload = driveline_bench::harness::Payload::Filled;
    b.manifest.experiments[0].cases[1].links[0].size = 7;
    let warnings = archives(&a, &b).unwrap().warnings.join("\n");
    for what in [
        "processor differs",
        "kernel differs",
        "B is of a debug build",
        "not complete",
        "scenario X",
        "payload handling",
        "size, rate",
    ] {
        assert!(warnings.contains(what), "{what} is missing in:\n{warnings}");
    }
}

/// Returns the verdict on Driveline, which takes a third less time in B. There are two floors, one
/// of which is Driveline's own.
fn beside_floors(own: (&[f64; 6], &[f64; 6]), other: (&[f64; 6], &[f64; 6])) -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let measured = |name: &str, own: &[f64; 6], other: &[f64; 6], factor: f64, seed: u64| {
        let mut driveline =
            case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Untouched)]);
        driveline.comparisons = vec![Comparison {
            metric: Metric::Transport,
            to: "floor".into(),
            of: Metric::Transport,
        }];
        let floor = floors(1)[0].clone();
        let spinning = Case {
            id: "spinning floor".into(),
            cell: "spinning".into(),
            directory: "002".into(),
            system: System::Spin,
            ..floor.clone()
        };
        let cases = vec![driveline, floor, spinning];
        let archive = Archive::create(
            &dir.path().join(name),
            manifest(vec![experiment("X", 6, cases)], seed),
        )
        .unwrap();
        let mut random = Random::new(seed);
        let [driveline, floor, spinning] = archive.manifest.experiments[0].cases.as_slice() else {
            panic!()
        };
        for (c, factors) in [(driveline, &[factor; 6]), (floor, own), (spinning, other)] {
            for (round, factor) in factors.iter().enumerate() {
                let median = 20_000.0 * factor;
                let values = if c.role == Role::Floor {
                    vec![median as u64; 100]
                } else {
                    latencies(&mut random, 100, median, 0.05)
                };
                let run = run(c, round as u64, &values);
                archive.add("X", c, &run, &Observations::default()).unwrap();
            }
        }
        archive
    };
    let (a, b) = (measured("a", own.0, other.0, 1.0, 1), measured("b", own.1, other.1, 0.67, 2));
    let rows = archives(&a, &b).unwrap().rows;
    rows.iter().find(|r| r.rank == "p50" && r.role == Role::Measured).unwrap().verdict
}

#[test]
fn only_a_rows_own_floor_excuses_it_and_only_if_it_changed() {
    let (same, faster) = ([1.0; 6], [0.67; 6]);
    assert_eq!(beside_floors((&same, &faster), (&same, &same)), Verdict::MachineChanged);
    // A change of another floor has no effect on the row.
    assert_eq!(beside_floors((&same, &same), (&same, &faster)), Verdict::Faster);
    // The row's own floor changed about as much, but the floor's rounds vary so much that the
    // change is not significant.
    let (restless, by_chance) =
        ([1.0, 0.2, 1.0, 1.0, 5.0, 1.0], [0.67, 3.0, 0.67, 0.67, 0.67, 0.1]);
    assert_eq!(beside_floors((&restless, &by_chance), (&same, &same)), Verdict::Faster);
}

#[test]
fn what_changed_as_much_as_the_floor_is_the_machine() {
    let dir = tempfile::tempdir().unwrap();
    // Driveline and the floor take `factor` times as long, the peer as long as before.
    let measured = |name: &str, factor: f64, seed: u64| {
        let mut cases = vec![
            case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Untouched)]),
            case(peer("fastdds/shm"), "cell", 1, vec![link(64, 1, Payload::Untouched)]),
        ];
        for c in &mut cases {
            c.comparisons.push(Comparison { metric: c.figure, to: "floor".into(), of: c.figure });
        }
        cases.push(floors(2)[0].clone());
        let archive = Archive::create(
            &dir.path().join(name),
            manifest(vec![experiment("X", 6, cases)], seed),
        )
        .unwrap();
        let mut random = Random::new(seed);
        for c in &archive.manifest.experiments[0].cases {
            let median = if c.system == peer("fastdds/shm") { 40_000.0 } else { 20_000.0 * factor };
            for round in 0..6 {
                let run = run(c, round, &latencies(&mut random, 100, median, 0.01));
                archive.add("X", c, &run, &Observations::default()).unwrap();
            }
        }
        archive
    };
    let rows = archives(&measured("a", 1.0, 1), &measured("b", 0.7, 2)).unwrap().rows;
    let of = |role: Role, system: &System| {
        rows.iter()
            .find(|r| r.rank == "p50" && r.role == role && r.system == system.to_string())
            .unwrap()
    };
    assert_eq!(of(Role::Measured, &System::Driveline).verdict, Verdict::MachineChanged);
    assert_eq!(of(Role::Measured, &peer("fastdds/shm")).verdict, Verdict::NoDifferenceShown);
    assert!(rows.iter().any(|r| r.role == Role::Floor && r.verdict == Verdict::Faster), "{rows:?}");
}

/// Makes rounds of 100 samples with the given processor time and losses of Driveline, and the given
/// processor time of its floor.
fn costing(directory: &Path, rounds: u64, cpu_ns: f64, floor_cpu_ns: f64, lost: u64) -> Archive {
    let mut driveline = case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Untouched)]);
    driveline.comparisons =
        vec![Comparison { metric: Metric::Transport, to: "floor".into(), of: Metric::Transport }];
    let cases = vec![driveline, floors(1)[0].clone()];
    let archive =
        Archive::create(directory, manifest(vec![experiment("X", rounds, cases)], 1)).unwrap();
    for c in &archive.manifest.experiments[0].cases {
        for round in 0..rounds {
            let mut run = run(c, round, &[20_000; 100]);
            let a = &mut run.accounts[0];
            // Rounds differ by some percent, equally in all measurements.
            let base = if c.role == Role::Floor { floor_cpu_ns } else { cpu_ns };
            a.publisher_cpu_ns_per_sample = Some(base * (1.0 + 0.01 * round as f64) - 1_000.0);
            for s in a.stamps.iter_mut().take(if c.role == Role::Floor {
                0
            } else {
                (lost + lost * round / 10) as usize
            }) {
                (s.received, s.transport_ns) = (None, 0);
                (a.received[0], a.missed[0]) = (a.received[0] - 1, a.missed[0] + 1);
            }
            archive.add("X", c, &run, &Observations::default()).unwrap();
        }
    }
    archive
}

#[test]
fn processor_time_and_losses_are_compared_as_latencies_are() {
    use driveline_lab::compare::{CostVerdict, What};
    let verdicts = |rounds: u64, (cpu, floor): (f64, f64), lost: (u64, u64)| {
        let dir = tempfile::tempdir().unwrap();
        let a = costing(&dir.path().join("a"), rounds, 5_000.0, 5_000.0, lost.0);
        let b = costing(&dir.path().join("b"), rounds, cpu, floor, lost.1);
        let costs = archives(&a, &b).unwrap().costs;
        let of = |what| {
            costs.iter().find(|c| c.role == Role::Measured && c.what == what).map(|c| c.verdict)
        };
        (of(What::CpuPerMessage).unwrap(), of(What::ShareLost), printed(dir.path()))
    };
    let (same, none, text) = verdicts(5, (5_000.0, 5_000.0), (0, 0));
    // If all samples arrived, there are no losses to compare.
    assert_eq!((same, none), (CostVerdict::NoDifferenceShown, None), "{text}");
    let (more, lost, text) = verdicts(5, (7_500.0, 5_000.0), (0, 10));
    assert_eq!((more, lost), (CostVerdict::More, Some(CostVerdict::More)), "{text}");
    let line = |what: &str| {
        let line = text
            .lines()
            .find(|l| l.trim_start().starts_with(what))
            .unwrap_or_else(|| panic!("no {what} in {text}"));
        line.split("  ")
            .map(str::trim)
            .filter(|c| !c.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let cpu = line("driveline CPU/message");
    assert_eq!(
        (cpu[1].as_str(), cpu[2].as_str(), cpu[5].as_str()),
        ("5.10 µs", "7.65 µs", "MORE"),
        "{text}"
    );
    assert!(cpu[3].starts_with("1.50 [1.4"), "{cpu:?}");
    // The five rounds lost 10, 11, 12, 13 and 14 samples of 100.
    let lost = line("driveline lost");
    assert_eq!(
        (lost[1].as_str(), lost[2].as_str(), lost[5].as_str()),
        ("0.00 %", "12.0 %", "MORE"),
        "{text}"
    );
    assert!(lost[3].starts_with("+12.0 [+1") && lost[3].ends_with("points"), "{lost:?}");
    assert!(text.contains("Processor time per message: 0 less, 1 more, 0 without"), "{text}");
    let (less, lost, _) = verdicts(5, (2_500.0, 5_000.0), (10, 0));
    assert_eq!((less, lost), (CostVerdict::Less, Some(CostVerdict::Less)));
    // If the floor changed too, the change comes from the machine. Too few rounds give no verdict.
    assert_eq!(verdicts(5, (7_500.0, 7_500.0), (0, 0)).0, CostVerdict::MachineChanged);
    let (few, lost, _) = verdicts(4, (7_500.0, 5_000.0), (0, 10));
    assert_eq!((few, lost), (CostVerdict::TooFewRounds, Some(CostVerdict::TooFewRounds)));
}
