// SPDX-License-Identifier: Apache-2.0
//! Several links in one run, with load, limits and preference.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod engine;
mod processes;
#[path = "../../../tools/skipped.rs"]
mod skipped;

use driveline_bench::harness::{Job, Pace, Payload};
use driveline_bench::machine::usable_cpus;
use driveline_bench::observations::Quantity;
use driveline_bench::peers::Selection;
use driveline_bench::{Beside, Favour, PEER_COMMAND, Program, Quota, Runner};
use engine::{PROGRAM, job};
use skipped::skipped;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Processes are found among this program's children, so only one run at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A stream of filled payloads between processes: 40 samples at 200 Hz, after 5.
fn stream(topic: &str, size: usize, subscribers: usize) -> Job {
    Job {
        topic: topic.into(),
        size,
        payload: Payload::Filled,
        pace: Pace::RateHz(200.0),
        messages: 40,
        subscribers,
        ..job()
    }
}

fn run(jobs: &[Job], beside: &Beside) -> anyhow::Result<driveline_bench::Ensemble> {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    measure(jobs, beside)
}

fn measure(jobs: &[Job], beside: &Beside) -> anyhow::Result<driveline_bench::Ensemble> {
    let program = Program { path: PROGRAM.into(), args: vec![PEER_COMMAND.into()] };
    let (peers, interrupted) = (Selection::default(), AtomicBool::new(false));
    let runner =
        Runner { program: &program, peers: &peers, interrupted: &interrupted, gateway: None };
    let dir = tempfile::tempdir()?;
    runner.run_links(jobs, beside, dir.path())
}

#[test]
fn every_link_of_a_run_has_an_account_that_closes() {
    let jobs = [stream("lidar", 100_000, 2), stream("camera", 1 << 20, 1)];
    let beside =
        Beside { hogs: 1, watch_every: Some(Duration::from_millis(20)), ..Beside::default() };
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
    let cpu = |subject: &str| {
        ensemble
            .observations
            .series
            .iter()
            .find(|s| s.quantity == Quantity::Cpu && s.subject == subject)
    };
    assert!(cpu("camera · publisher").is_some() && cpu("lidar · subscriber 1").is_some());
    assert!(cpu("hog 0").unwrap().points.iter().map(|p| p.value).sum::<u64>() > 0);
}

#[test]
fn a_quota_holds_or_is_refused_with_the_reason() {
    // The quota is a tenth of a CPU; the reader alone would use a whole CPU.
    let (percent, every) = (10, Duration::from_millis(50));
    let busy = Job { processing_us: 20_000, messages: 200, ..stream("link", 1000, 1) };
    let beside =
        Beside { quota_percent: Some(percent), watch_every: Some(every), ..Beside::default() };
    let made = Quota::new(percent).map(drop);
    let outcome = run(&[busy], &beside);
    if let Err(e) = made {
        assert!(format!("{e:#}").contains("control group"), "{e:#}");
        assert!(outcome.is_err());
        return skipped("that a quota holds", &format!("{e:#}"), "run it as root");
    }
    let ensemble = outcome.unwrap();
    assert_eq!(ensemble.accounts[0].invalid, Vec::<String>::new());
    // The kernel throttled them repeatedly.
    let counted = |what: &str| {
        *ensemble.observations.counters.get(what).unwrap_or_else(|| panic!("no '{what}'"))
    };
    let (periods, throttled) =
        (counted("quota: periods of 100 ms"), counted("quota: periods throttled"));
    assert!(
        0 < throttled && throttled <= periods && counted("quota: throttled ns") > 0,
        "{throttled} of {periods}"
    );
    // Their own processor time shows that they got no more than the quota.
    let series = || ensemble.observations.series.iter().filter(|s| s.quantity == Quantity::Cpu);
    assert_eq!(series().count(), 2, "both ends are watched");
    let points = || series().flat_map(|s| &s.points);
    let used: u64 = points().map(|p| p.value).sum();
    let (first, last) =
        (points().map(|p| p.time_ns).min().unwrap(), points().map(|p| p.time_ns).max().unwrap());
    // The quota of the first and of the last period may be used completely, and the kernel assigns
    // time to each CPU in slices of 5 ms.
    let allowed = (last - first + every.as_nanos() as u64 + 200_000_000) * u64::from(percent) / 100;
    assert!(
        used > 0 && used < allowed * 3 / 2 + 20_000_000,
        "{used} ns used where {allowed} were allowed"
    );
}

/// Class, priority and CPUs of a process's first thread.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    is_fifo: bool,
    priority: u8,
    cpus: String,
}

impl Place {
    fn of(pid: i32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let cpus =
            status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"))?.trim().to_owned();
        let stat = processes::stat(pid)?;
        // The policy is field 41 of `/proc/PID/stat`, the real-time priority is field 40.
        Some(Self { is_fifo: stat.get(38)? == "1", priority: stat.get(37)?.parse().ok()?, cpus })
    }
}

#[test]
fn only_the_favoured_subscriber_has_its_priority_and_its_cpu() {
    let cpus = usable_cpus().unwrap();
    let [here, there, ..] = cpus[..] else {
        return skipped("all of it", "there is but one CPU", "run it where there are two");
    };
    // Without the favour, each of the two subscribers would have the other one's CPU.
    let job = Job {
        publisher_cpu: Some(there),
        subscriber_cpus: vec![there, here],
        messages: 200,
        ..stream("link", 1000, 2)
    };
    let favour = Some(Favour { subscriber: 1, priority: 40, exclusive_cpu: Some(there) });
    let over = AtomicBool::new(false);
    let mut seen: [Option<Place>; 3] = Default::default();
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let ensemble = std::thread::scope(|s| {
        let measured = s.spawn(|| {
            let ensemble = measure(&[job], &Beside { favour, ..Beside::default() });
            over.store(true, Relaxed);
            ensemble
        });
        while !over.load(Relaxed) {
            // Each process sets its own priority and CPUs before it is ready, and the publisher
            // starts last. So only the last observed state counts.
            if let started @ [_, _, _] = processes::children(std::process::id()).as_slice() {
                for (pid, seen) in started.iter().zip(&mut seen) {
                    *seen = Place::of(*pid).or(seen.take());
                }
            }
            // time: a pause between polls
            std::thread::sleep(Duration::from_millis(5));
        }
        measured.join().unwrap().unwrap()
    });
    assert_eq!(ensemble.accounts[0].invalid, Vec::<String>::new());
    let [other, favoured, publisher] = seen.map(|place| place.expect("all three were seen"));
    assert_eq!(favoured.cpus, there.to_string());
    let unset = &ensemble.accounts[0].unset;
    let refused = unset.iter().filter(|u| u.contains("Fifo priority 40")).count();
    // The favoured subscriber has the priority, or reports once that it was refused. No other end
    // requests a priority.
    let granted = (favoured.is_fifo, favoured.priority) == (true, 40);
    assert_eq!(refused, usize::from(!granted), "{favoured:?}: {unset:?}");
    for place in [other, publisher] {
        assert_eq!(place, Place { is_fifo: false, priority: 0, cpus: here.to_string() });
    }
    if !granted {
        skipped(
            "that the priority is real",
            &format!("it was refused: {unset:?}"),
            "run it as root",
        );
    }
}
