// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::scenario::{Extent, Scenario};
use driveline_bench::cable::CableSpec;
use driveline_bench::harness::{
    Pace, Payload, Reach, ReceivedRow, Reliability, SentRow, System, Take, Wait,
};
use driveline_bench::machine::{Disturbance, Machine};
use driveline_bench::observations::{Point, Quantity};
use driveline_bench::{Account, Beside, Metric, Placement, Sample};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn link(pace: Pace, payload: Payload, subscribers: usize) -> Link {
    Link {
        topic: "link".into(),
        size: 64,
        subscribers,
        pace,
        reach: Reach::Host,
        wait: Wait::Block,
        take: Take::Borrow,
        payload,
        reliability: Reliability::BestEffort,
        depth: 1,
        processing_us: 0,
        priority: 0,
        publisher_cpu: Some(0),
        subscriber_cpus: vec![1],
        messages: 10,
        warm_up: 1,
    }
}

fn case(links: Vec<Link>) -> Case {
    Case {
        id: "a case".into(),
        directory: "000-a-case".into(),
        role: Role::Measured,
        system: System::Driveline,
        system_title: "Driveline".into(),
        cell: "a".into(),
        scenario_case: "a".into(),
        figure: Metric::Transport,
        figure_is_named: false,
        links,
        measure: None,
        beside: Beside::default(),
        workload: None,
        chain: None,
        comparisons: Vec::new(),
    }
}

fn run(accounts: Vec<Account>) -> Run {
    Run {
        round: 0,
        place: 0,
        started_ns: 1,
        seconds: 0.5,
        disturbance: Disturbance::default(),
        failure: None,
        invalid: Vec::new(),
        accounts,
        counters: BTreeMap::new(),
        unset: Vec::new(),
    }
}

/// An archive without experiments.
fn archive(dir: &Path) -> Archive {
    let manifest = Manifest {
        format: FORMAT,
        version: "0".into(),
        commit: "c".into(),
        optimised: true,
        gateway: None,
        command: vec![],
        started_at: "2020-01-01T00:00:00Z".into(),
        finished_at: None,
        extent: Extent::Quick,
        seed: 1,
        validity_rule: String::new(),
        machine: Machine::examine(&[0]),
        placement: Placement::automatic(vec![0, 1]),
        peers: vec![],
        experiments: vec![],
    };
    Archive::create(&dir.join("a"), manifest).unwrap()
}

prop_compose! {
    fn sample()(
        subscriber in 0usize..3,
        sequence in 1u64..1000,
        stamps in prop::array::uniform8(0u64..u64::MAX / 2),
        received: bool,
        transport_ns in 0u64..1 << 50,
        fill in 0u64..1 << 50
    ) -> Sample {
        let [scheduled, before_fill, before_publish, returned, woken, in_hand, copied, read] =
            stamps;
        Sample {
            subscriber,
            sent: SentRow { sequence, scheduled, before_fill, before_publish, returned },
            received: received.then_some(ReceivedRow { sequence, woken, in_hand, copied, read }),
            transport_ns: if received { transport_ns } else { 0 },
            fill_and_transport_ns: if received { fill } else { 0 },
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn every_stamp_survives_the_archive(
        links in prop::collection::vec(prop::collection::vec(sample(), 1..50), 1..4)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let archive = archive(dir.path());
        let account = |s: &Vec<Sample>| Account { stamps: s.clone(), ..Account::default() };
        let accounts: Vec<_> = links.iter().map(account).collect();
        let case = case(vec![]);
        archive.add("X", &case, &run(accounts), &Observations::default()).unwrap();
        let of_link = |(link, s): (usize, &Vec<Sample>)| {
            s.iter().map(|s| LinkSample { link, sample: *s }).collect::<Vec<_>>()
        };
        let expected: Vec<_> = links.iter().enumerate().flat_map(of_link).collect();
        let path = archive.path("X", &case, 0, ".stamps.arrow");
        prop_assert_eq!(samples::read(&path).unwrap(), expected);
    }
}

#[test]
fn observations_and_the_account_survive_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(dir.path());
    let mut observations = Observations::default();
    observations.put(
        "hot path",
        Quantity::Latency,
        [Point { time_ns: 1, value: 2 }, Point { time_ns: 3, value: u64::MAX }],
    );
    observations.put("hot path", Quantity::Cpu, [Point { time_ns: 1, value: 0 }]);
    observations.put("b", Quantity::Latency, [Point { time_ns: 0, value: 0 }]);
    let (case, account) =
        (case(vec![]), run(vec![Account { sent: 3, missed: vec![1], ..Account::default() }]));
    archive.add("X", &case, &account, &observations).unwrap();
    assert_eq!(archive.observations("X", &case, 0).unwrap(), observations);
    assert!(
        archive.has("X", &case, 0) && !archive.has("X", &case, 1) && !archive.has("Y", &case, 0)
    );
    let text = fs::read(archive.path("X", &case, 0, ".json")).unwrap();
    assert_eq!(serde_json::from_slice::<Run>(&text).unwrap(), account);
}

#[test]
fn directories_that_are_no_archives_are_distinguished() {
    let dir = tempfile::tempdir().unwrap();
    let says = |d: &Path| format!("{:#}", Archive::open(d).unwrap_err());
    assert!(says(dir.path()).contains("bench run"));
    let good = archive(dir.path());
    let path = good.directory().join(MANIFEST);
    assert!(
        format!("{:#}", Archive::create(good.directory(), good.manifest.clone()).unwrap_err())
            .contains("--resume")
    );
    let mut foreign = good.manifest.clone();
    let scenario = crate::scenario::load("S1").unwrap();
    foreign.experiments =
        vec![Experiment { scenario, rounds: 5, cases: vec![case(vec![])], left_out: vec![] }];
    let refused = |change: &dyn Fn(&mut Experiment)| {
        let mut m = foreign.clone();
        change(&mut m.experiments[0]);
        fs::write(&path, serde_json::to_vec(&m).unwrap()).unwrap();
        Archive::open(good.directory()).err().map(|e| format!("{e:#}")).unwrap_or_default()
    };
    assert_eq!(refused(&|_| {}), "");
    assert!(refused(&|e| e.rounds = u64::MAX).contains("rounds"));
    for bad in ["../../elsewhere", "/etc", "", ".."] {
        assert!(
            refused(&|e| e.cases[0].directory = bad.into()).contains("no name of a directory"),
            "{bad}"
        );
        assert!(
            refused(&|e| e.scenario.id = bad.into()).contains("no name of an experiment"),
            "{bad}"
        );
    }
    fs::write(&path, "{\"format\": 99}").unwrap();
    assert!(says(good.directory()).contains("format 99"));
    fs::write(&path, "{\"format\": 1}").unwrap();
    assert!(says(good.directory()).contains("damaged"));
    fs::write(&path, "?").unwrap();
    assert!(says(good.directory()).contains("no manifest"));
}

#[test]
fn an_archive_of_format_1_is_read_and_one_of_a_format_to_come_is_refused() {
    // The archive has the form that a program with format 1 wrote.
    let archive =
        Archive::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format_1")).unwrap();
    assert_eq!((archive.manifest.format, FORMAT), (1, 2));
    let analysis = crate::analysis::analyse(&archive).unwrap();
    let [e] = analysis.experiments.as_slice() else {
        panic!("{} experiments", analysis.experiments.len())
    };
    assert!(analysis.is_valid() && analysis.complete, "{analysis:?}");
    let figures: Vec<_> = e
        .cases
        .iter()
        .map(|c| c.headline().map(|(of, f)| (of.label().to_owned(), f.percentiles.n)).unwrap())
        .collect();
    assert_eq!(
        figures,
        [
            ("transport".to_owned(), 20),
            ("transport".to_owned(), 20),
            ("fill + transport".to_owned(), 20)
        ]
    );
    // An archive with a later format is refused. Programs of the previous format refuse this format
    // with the same message.
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(archive.directory().join(MANIFEST)).unwrap();
    fs::write(dir.path().join(MANIFEST), text.replace("\"format\": 1,", "\"format\": 3,")).unwrap();
    let text = format!("{:#}", Archive::open(dir.path()).unwrap_err());
    assert!(
        text.contains("has format 3, this program reads 1 to 2: use the version that made it"),
        "{text}"
    );
}

#[test]
fn copies_have_a_sender_and_no_receiver() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(dir.path());
    let copies = Case {
        system: System::Memcpy,
        role: Role::Floor,
        ..case(vec![link(Pace::RateHz(10.0), Payload::Filled, 1)])
    };
    let row = |i| Sample {
        sent: SentRow {
            sequence: i,
            before_fill: i * 1000,
            before_publish: i * 1000 + 7,
            ..SentRow::default()
        },
        ..Sample::default()
    };
    let account =
        |n: u64| Account { sent: 3, stamps: (1..=n).map(row).collect(), ..Account::default() };
    let measured = |round, n| {
        let run = Run { round, ..run(vec![account(n)]) };
        archive.add("X", &copies, &run, &Observations::default()).unwrap();
        archive.samples("X", &copies, &run)
    };
    // A copy has a time for copying, but no transport.
    assert_eq!(
        metrics(&copies, &measured(0, 3).unwrap()),
        BTreeMap::from([(Metric::Copy, vec![7; 3])])
    );
    // For copies too, a number of stamps that differs from the account is damage.
    let text = format!("{:#}", measured(1, 2).unwrap_err());
    assert!(text.contains("3 samples sent and 0 received, and there are 2 and 0"), "{text}");
}

#[test]
fn two_do_not_measure_into_one_archive() {
    let dir = tempfile::tempdir().unwrap();
    let first = archive(dir.path());
    let again = || Archive::open(first.directory()).unwrap().claimed();
    assert!(format!("{:#}", again().unwrap_err()).contains("another process measures into"));
    let path = first.directory().to_owned();
    drop(first);
    // A process that a parallel test has just forked inherits the lock, and holds it until exec
    // closes the file.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let second = loop {
        match Archive::open(&path).unwrap().claimed() {
            Err(_) if std::time::Instant::now() < end => std::thread::yield_now(),
            claimed => break claimed.unwrap(),
        }
    };
    assert!(Archive::open(&path).unwrap().claimed().is_err());
    drop(second);
}

#[test]
fn runs_that_are_not_what_their_place_says_are_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = archive(dir.path());
    let account = |n: u64| {
        let sent = |i| SentRow {
            sequence: i,
            scheduled: i,
            before_fill: i,
            before_publish: i,
            returned: i,
        };
        let row = |i| Sample {
            sent: sent(i),
            received: (i > 1).then(ReceivedRow::default),
            ..Sample::default()
        };
        Account {
            sent: n,
            received: vec![n - 1],
            missed: vec![1],
            stamps: (1..=n).map(row).collect(),
            ..Account::default()
        }
    };
    let a = case(vec![link(Pace::RateHz(10.0), Payload::Untouched, 1)]);
    for (round, n) in [(0, 3), (1, 4)] {
        archive
            .add("X", &a, &Run { round, ..run(vec![account(n)]) }, &Observations::default())
            .unwrap();
    }
    let scenario = crate::scenario::load("S1").unwrap();
    let experiment = Experiment {
        scenario: Scenario { id: "X".into(), ..scenario },
        rounds: 2,
        cases: vec![a.clone()],
        left_out: vec![],
    };
    let runs = archive.runs(&experiment, &a).unwrap();
    assert_eq!(archive.samples("X", &a, &runs[0]).unwrap().len(), 3);
    let at = |round, what| archive.path("X", &a, round, what);
    let says = || format!("{:#}", archive.samples("X", &a, &runs[1]).unwrap_err());
    // Stamps of another run are refused.
    fs::copy(at(0, ".stamps.arrow"), at(1, ".stamps.arrow")).unwrap();
    assert!(
        says().contains("1.stamps.arrow is damaged")
            && says().contains("4 samples sent and 3 received, and there are 3 and 2"),
        "{}",
        says()
    );
    // The number of stamps is right, but they are from another time.
    let later = Run { started_ns: 1_000_000_000, ..run(vec![account(3)]) };
    archive.add("X", &a, &later, &Observations::default()).unwrap();
    let text = format!(
        "{:#}",
        archive.samples("X", &a, &archive.runs(&experiment, &a).unwrap()[0]).unwrap_err()
    );
    assert!(
        text.contains(
            "a stamp of 1 ns, and its run went from 1000000000 to 1501000000 ns: it \
         is of another run"
        ),
        "{text}"
    );
    archive.add("X", &a, &run(vec![account(3)]), &Observations::default()).unwrap();
    fs::remove_file(at(1, ".stamps.arrow")).unwrap();
    assert!(says().contains("there are 0 and 0"), "{}", says());
    // An account of another run is refused.
    fs::copy(at(0, ".json"), at(1, ".json")).unwrap();
    let text = format!("{:#}", archive.runs(&experiment, &a).unwrap_err());
    assert!(text.contains("1.json is damaged: it is the account of round 0"), "{text}");
    // A run that is marked as valid is refused if it has torn payloads.
    archive
        .add(
            "X",
            &a,
            &Run { round: 1, ..run(vec![Account { torn: 1, ..account(4) }]) },
            &Observations::default(),
        )
        .unwrap();
    let text = format!("{:#}", archive.runs(&experiment, &a).unwrap_err());
    assert!(
        text.contains("1 payloads were torn, and no reason says that the run does not count"),
        "{text}"
    );

    // Names that lead to another directory, or to the same one.
    let good = experiment.clone();
    let twice = Experiment {
        cases: vec![a.clone(), Case { directory: "1".into(), ..a.clone() }],
        ..good.clone()
    };
    let out = Experiment {
        cases: vec![Case { directory: "../../elsewhere".into(), ..a.clone() }],
        ..good.clone()
    };
    let endless = Experiment { rounds: u64::MAX, ..good.clone() };
    let with = |change: &dyn Fn(&mut Link)| {
        let mut e = good.clone();
        change(&mut e.cases[0].links[0]);
        e
    };
    let beside = |change: &dyn Fn(&mut Beside)| {
        let mut e = good.clone();
        change(&mut e.cases[0].beside);
        e
    };
    for (experiments, says) in [
        (vec![out], "no name of a directory"),
        (vec![twice], "occurs twice"),
        (vec![good.clone(), good.clone()], "occurs twice"),
        (vec![endless], "at most 1000 are possible"),
        (vec![with(&|l| l.pace = Pace::RateHz(0.0))], "0 Hz is no rate"),
        (vec![with(&|l| l.pace = Pace::RateHz(-1.0))], "-1 Hz is no rate"),
        (vec![with(&|l| l.subscribers = 0)], "0 is no number of subscribers"),
        (vec![with(&|l| l.messages = u64::MAX)], "messages are more than"),
        (vec![with(&|l| l.processing_us = u64::MAX)], "µs of work are more than"),
        (vec![with(&|l| l.depth = u32::MAX)], "samples of history are more than"),
        (vec![with(&|l| l.priority = 100)], "100 as priority are more than 99"),
        (vec![beside(&|b| b.hogs = 65)], "65 hogs are more than"),
        (vec![beside(&|b| b.quota_percent = Some(u32::MAX))], "% of one CPU are more than"),
        (vec![beside(&|b| b.watch_every = Some(std::time::Duration::MAX))], "out of range"),
        (
            vec![beside(&|b| {
                b.cable = Some(CableSpec { delay_ms: 1e300, ..CableSpec::default() })
            })],
            "no delay of a cable",
        ),
        (
            vec![beside(&|b| {
                b.cable = Some(CableSpec { loss_percent: -1.0, ..CableSpec::default() })
            })],
            "-1 % is no share of packets",
        ),
    ] {
        archive.manifest.experiments = experiments;
        archive.write_manifest().unwrap();
        let text = format!("{:#}", Archive::open(archive.directory()).unwrap_err());
        assert!(text.contains("manifest.json is damaged") && text.contains(says), "{text}");
    }
    archive.manifest.experiments = vec![good.clone()];
    archive.manifest.experiments[0].scenario.title = "\u{1b}[2Jgone".into();
    archive.write_manifest().unwrap();
    let text = format!("{:#}", Archive::open(archive.directory()).unwrap_err());
    assert!(text.contains("control characters") && !text.contains('\u{1b}'), "{text}");
    archive.manifest.experiments = vec![good];
    archive.write_manifest().unwrap();
    assert!(Archive::open(archive.directory()).is_ok());
}

/// Opening a pipe without a writer would wait forever.
#[test]
fn what_is_no_plain_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(dir.path());
    let a = case(vec![link(Pace::RateHz(10.0), Payload::Untouched, 1)]);
    let pipe = |path: &Path| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(path);
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let says =
        |e: anyhow::Error| assert!(format!("{e:#}").contains("it is no plain file"), "{e:#}");
    for what in [".json", ".stamps.arrow", ".observations.arrow"] {
        pipe(&archive.path("X", &a, 0, what));
    }
    let scenario = crate::scenario::load("S1").unwrap();
    let experiment = Experiment {
        scenario: Scenario { id: "X".into(), ..scenario },
        rounds: 1,
        cases: vec![a.clone()],
        left_out: vec![],
    };
    says(archive.runs(&experiment, &a).unwrap_err());
    says(archive.samples("X", &a, &run(vec![])).unwrap_err());
    says(archive.observations("X", &a, 0).unwrap_err());
    pipe(&archive.directory().join(MANIFEST));
    says(Archive::open(archive.directory()).unwrap_err());
}

#[test]
fn figures_follow_from_stamps() {
    let sent = |sequence| SentRow {
        sequence,
        scheduled: 100,
        before_fill: 110,
        before_publish: 130,
        returned: 140,
    };
    let got = |sequence, in_hand| {
        Some(ReceivedRow { sequence, woken: in_hand - 5, in_hand, copied: 0, read: in_hand + 7 })
    };
    let at = |subscriber, sequence, in_hand: u64| LinkSample {
        link: 0,
        sample: Sample {
            subscriber,
            sent: sent(sequence),
            received: got(sequence, in_hand),
            transport_ns: in_hand - 130,
            fill_and_transport_ns: in_hand - 110,
        },
    };
    let lost = LinkSample {
        link: 0,
        sample: Sample { subscriber: 1, sent: sent(2), ..Sample::default() },
    };
    let samples = [at(0, 1, 200), at(0, 2, 210), at(1, 1, 230), lost];
    let figures = metrics(&case(vec![link(Pace::RateHz(10.0), Payload::Filled, 2)]), &samples);
    assert_eq!(figures[&Metric::Transport], [70, 80, 100]);
    // The second sample was missed by one, so it has no last subscriber.
    assert_eq!(figures[&Metric::LastSubscriber], [100]);
    assert_eq!(figures[&Metric::FillAndTransport], [90, 100, 120]);
    assert_eq!(figures[&Metric::ScheduleRelative], [100, 110, 130]);
    assert_eq!(figures[&Metric::Fill], [20, 20]);
    assert_eq!(figures[&Metric::PublishCall], [10, 10]);
    assert_eq!(figures[&Metric::Read], [7, 7, 7]);
    assert_eq!(figures[&Metric::WakeToHand], [5, 5, 5]);
    let closed =
        metrics(&case(vec![link(Pace::PingPong, Payload::Untouched, 1)]), &[at(0, 1, 200)]);
    assert_eq!(closed[&Metric::Transport], [70]);
    assert!(
        !closed.contains_key(&Metric::ScheduleRelative)
            && !closed.contains_key(&Metric::FillAndTransport)
    );
}

#[test]
fn half_a_file_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    // A new file that cannot replace the old one is removed: in this test a directory has the name;
    // in practice the disk may be full.
    fs::create_dir(dir.path().join("report.json")).unwrap();
    assert!(write_whole(&dir.path().join("report.json"), b"{}").is_err());
    assert!(!dir.path().join("report.part").exists());
    // A process was killed while it wrote the manifest: there is no measurement.
    let manifest = archive(dir.path()).manifest;
    let fresh = dir.path().join("fresh");
    fs::create_dir(&fresh).unwrap();
    fs::write(fresh.join("manifest.part"), "{\"for").unwrap();
    Archive::create(&fresh, manifest.clone()).unwrap();
    assert!(fresh.join(MANIFEST).is_file() && !fresh.join("manifest.part").exists());
    // Other files belong to the user.
    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("thesis.part"), "").unwrap();
    assert!(
        format!("{:#}", Archive::create(&other, manifest).unwrap_err()).contains("is not empty")
    );
}

#[test]
fn stamps_with_any_byte_damaged_are_refused_or_read_and_never_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(dir.path());
    let case = case(vec![]);
    archive
        .add(
            "X",
            &case,
            &run(vec![Account { stamps: vec![Sample::default(); 2], ..Account::default() }]),
            &Observations::default(),
        )
        .unwrap();
    let path = archive.path("X", &case, 0, ".stamps.arrow");
    let whole = fs::read(&path).unwrap();
    let mut outside = 0;
    for at in (0..whole.len()).step_by(5) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x11;
        fs::write(&path, damaged).unwrap();
        outside += usize::from(
            samples::read(&path).is_err_and(|e| e.to_string().contains("beyond its end")),
        );
    }
    assert!(
        outside > 0,
        "no damage makes the reader of Arrow files panic, so this does not test `quietly`"
    );
}
