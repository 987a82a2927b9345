// SPDX-License-Identifier: Apache-2.0
//! Several links in one run, and what can happen beside them.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use driveline_bench::harness::{Job, PROTOCOL, Pace, Payload, Reach, Reliability, Role, System, Take, Wait};
use driveline_bench::observations::Quantity;
use driveline_bench::peers::Selection;
use driveline_bench::{Beside, Conductor, Favour, PEER_COMMAND, Program, Quota};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn job(topic: &str, size: usize, subscribers: usize) -> Job {
    Job {
        protocol: PROTOCOL,
        role: Role::Publisher,
        system: System::Driveline,
        reach: Reach::Host,
        domain_dir: PathBuf::new(),
        topic: topic.into(),
        size,
        wait: Wait::Block,
        take: Take::Borrow,
        payload: Payload::Filled,
        pace: Pace::RateHz(200.0),
        warm_up: 5,
        messages: 40,
        depth: 1,
        reliability: Reliability::BestEffort,
        subscribers,
        index: 0,
        publisher_cpu: None,
        subscriber_cpus: vec![],
        priority: 0,
        processing_us: 0,
        answer_timeout_ms: 10_000,
        lose_every: 0,
        raw_dir: PathBuf::new(),
    }
}

fn run(jobs: &[Job], beside: &Beside) -> anyhow::Result<driveline_bench::Ensemble> {
    let program = Program { path: env!("CARGO_BIN_EXE_driveline-bench").into(), args: vec![PEER_COMMAND.into()] };
    let (peers, interrupted) = (Selection::default(), AtomicBool::new(false));
    let conductor = Conductor { program: &program, peers: &peers, interrupted: &interrupted, idle: Duration::ZERO, gateway: None };
    let dir = tempfile::tempdir()?;
    conductor.run_links(jobs, beside, dir.path())
}

#[test]
fn every_link_of_a_run_has_an_account_that_closes() {
    let jobs = [job("lidar", 100_000, 2), job("camera", 1 << 20, 1)];
    let beside = Beside { hogs: 1, watch_every: Some(Duration::from_millis(20)), ..Beside::default() };
    let ensemble = run(&jobs, &beside).unwrap();
    assert_eq!(ensemble.accounts.len(), 2);
    for (account, subscribers) in ensemble.accounts.iter().zip([2, 1]) {
        assert_eq!(account.invalid, Vec::<String>::new());
        assert_eq!((account.sent, account.received.len()), (40, subscribers));
        assert_eq!(account.stamps.len(), 40 * subscribers);
        for (received, missed) in account.received.iter().zip(&account.missed) {
            assert_eq!(received + missed, account.sent);
        }
    }
    let cpu = |subject: &str| ensemble.observations.series.iter().find(|s| s.quantity == Quantity::Cpu && s.subject == subject);
    assert!(cpu("camera · publisher").is_some() && cpu("lidar · subscriber 1").is_some());
    assert!(cpu("hog 0").unwrap().points.iter().map(|p| p.value).sum::<u64>() > 0);
}

#[test]
fn a_quota_holds_or_is_refused_with_the_reason() {
    let beside = Beside { quota_percent: Some(50), ..Beside::default() };
    match (Quota::new(50), run(&[job("link", 1000, 1)], &beside)) {
        (Ok(_), outcome) => assert_eq!(outcome.unwrap().accounts[0].invalid, Vec::<String>::new()),
        (Err(e), outcome) => {
            assert!(format!("{e:#}").contains("control group"), "{e:#}");
            assert!(outcome.is_err());
        }
    }
}

#[test]
fn a_favoured_subscriber_is_measured_like_the_others() {
    let favour = Some(Favour { subscriber: 1, priority: 0, exclusive_cpu: None });
    let ensemble = run(&[job("link", 1000, 2)], &Beside { favour, ..Beside::default() }).unwrap();
    assert_eq!(ensemble.accounts[0].invalid, Vec::<String>::new());
}
