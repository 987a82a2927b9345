// SPDX-License-Identifier: Apache-2.0

use super::*;
use driveline_bench::Sample;
use driveline_bench::harness::{ReceivedRow, SentRow};
use driveline_bench::observations::{Point, Quantity};
use proptest::prelude::*;

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
        links,
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
    fn sample()(subscriber in 0usize..3, sequence in 1u64..1000, stamps in prop::array::uniform8(0u64..u64::MAX / 2), received: bool,
                transport_ns in 0u64..1 << 50, fill in 0u64..1 << 50) -> Sample {
        let [scheduled, before_fill, before_publish, returned, woken, in_hand, copied, read] = stamps;
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
    fn every_stamp_survives_the_archive(links in prop::collection::vec(prop::collection::vec(sample(), 1..50), 1..4)) {
        let dir = tempfile::tempdir().unwrap();
        let archive = archive(dir.path());
        let accounts: Vec<_> = links.iter().map(|stamps| Account { stamps: stamps.clone(), ..Account::default() }).collect();
        let case = case(vec![]);
        archive.add("X", &case, &run(accounts), &Observations::default()).unwrap();
        let expected: Vec<_> = links.iter().enumerate().flat_map(|(link, s)| s.iter().map(move |s| LinkSample { link, sample: *s })).collect();
        prop_assert_eq!(Archive::open(archive.directory()).unwrap().samples("X", &case, 0).unwrap(), expected);
    }
}

#[test]
fn observations_and_the_account_survive_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(dir.path());
    let mut observations = Observations::default();
    observations.put("hot path", Quantity::Latency, [Point { time_ns: 1, value: 2 }, Point { time_ns: 3, value: u64::MAX }]);
    observations.put("hot path", Quantity::Cpu, [Point { time_ns: 1, value: 0 }]);
    observations.put("b", Quantity::Latency, [Point { time_ns: 0, value: 0 }]);
    let (case, account) = (case(vec![]), run(vec![Account { sent: 3, missed: vec![1], ..Account::default() }]));
    archive.add("X", &case, &account, &observations).unwrap();
    assert_eq!(archive.observations("X", &case, 0).unwrap(), observations);
    assert!(archive.has("X", &case, 0) && !archive.has("X", &case, 1) && !archive.has("Y", &case, 0));
    let text = fs::read(archive.path("X", &case, 0, ".json")).unwrap();
    assert_eq!(serde_json::from_slice::<Run>(&text).unwrap(), account);
}

#[test]
fn what_is_no_archive_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let says = |d: &Path| format!("{:#}", Archive::open(d).unwrap_err());
    assert!(says(dir.path()).contains("bench run"));
    let good = archive(dir.path());
    let path = good.directory().join(MANIFEST);
    assert!(format!("{:#}", Archive::create(good.directory(), good.manifest.clone()).unwrap_err()).contains("--resume"));
    fs::write(&path, "{\"format\": 99}").unwrap();
    assert!(says(good.directory()).contains("format 99"));
    fs::write(&path, "{\"format\": 1}").unwrap();
    assert!(says(good.directory()).contains("damaged"));
    fs::write(&path, "?").unwrap();
    assert!(says(good.directory()).contains("no manifest"));
}

#[test]
fn figures_follow_from_stamps() {
    let sent = |sequence| SentRow { sequence, scheduled: 100, before_fill: 110, before_publish: 130, returned: 140 };
    let got = |sequence, in_hand| Some(ReceivedRow { sequence, woken: in_hand - 5, in_hand, copied: 0, read: in_hand + 7 });
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
    let lost = LinkSample { link: 0, sample: Sample { subscriber: 1, sent: sent(2), ..Sample::default() } };
    let samples = [at(0, 1, 200), at(0, 2, 210), at(1, 1, 230), lost];
    let figures = metrics(&case(vec![link(Pace::RateHz(10.0), Payload::Filled, 2)]), &samples);
    assert_eq!(figures[&Metric::Transport], [70, 80, 100]);
    // The second sample was missed by one, so nobody was the last to have it.
    assert_eq!(figures[&Metric::LastSubscriber], [100]);
    assert_eq!(figures[&Metric::FillAndTransport], [90, 100, 120]);
    assert_eq!(figures[&Metric::ScheduleRelative], [100, 110, 130]);
    assert_eq!(figures[&Metric::Fill], [20, 20]);
    assert_eq!(figures[&Metric::PublishCall], [10, 10]);
    assert_eq!(figures[&Metric::Read], [7, 7, 7]);
    assert_eq!(figures[&Metric::WakeToHand], [5, 5, 5]);
    let closed = metrics(&case(vec![link(Pace::PingPong, Payload::Untouched, 1)]), &[at(0, 1, 200)]);
    assert_eq!(closed[&Metric::Transport], [70]);
    assert!(!closed.contains_key(&Metric::ScheduleRelative) && !closed.contains_key(&Metric::FillAndTransport));
}
