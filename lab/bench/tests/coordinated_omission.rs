// SPDX-License-Identifier: Apache-2.0
//! A receiver that stops for a while must be visible in the figures, in open and closed loops.
//!
//! A closed loop sends nothing while the answer is missing. So a stall of 300 ms is one slow
//! sample, and the hundreds of samples that would have been late are never sent (coordinated
//! omission). An open loop continues at its rate, so all of them are late, or counted as missed.
//! The test stops the receiving process to make stalls. It checks only bounds that follow from the
//! stall itself; a busy machine adds delay.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod engine;
mod processes;

use driveline_bench::harness::{Job, Pace, Reliability};
use driveline_bench::peers::Selection;
use driveline_bench::stats::{Percentiles, Runs};
use driveline_bench::{Account, Kind, Metric, PEER_COMMAND, Program, Runner, Sample, Trial};
use engine::{PROGRAM, job};
use processes::{STALL, Stall, children, stall};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const RATE_HZ: f64 = 100.0;
const PERIOD_NS: u64 = 10_000_000;
/// Four seconds of an open loop.
const MESSAGES: u64 = 400;
/// Number of round trips, so many that a stall begins before the last one, on any machine.
const ROUND_TRIPS: u64 = 200_000;

/// Receivers are found among this program's children, so only one measurement runs at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Measures while the receiving end is stopped repeatedly.
fn measure(pace: Pace, depth: u32) -> (Account, Vec<Stall>) {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let program = Program { path: PROGRAM.into(), args: vec![PEER_COMMAND.into()] };
    let (peers, interrupted, over) =
        (Selection::default(), AtomicBool::new(false), AtomicBool::new(false));
    let dir = tempfile::tempdir().unwrap();
    // A reliable ping-pong waits ten seconds for an answer, so that it does not give up on a
    // stopped machine.
    let (messages, reliability) = match pace {
        Pace::PingPong => (ROUND_TRIPS, Reliability::Reliable),
        Pace::RateHz(_) => (MESSAGES, Reliability::BestEffort),
    };
    let job =
        Job { topic: "stalled".into(), pace, warm_up: 10, messages, depth, reliability, ..job() };
    std::thread::scope(|s| {
        let measured = s.spawn(|| {
            let runner = Runner {
                program: &program,
                peers: &peers,
                interrupted: &interrupted,
                gateway: None,
            };
            let account = runner
                .run(&Trial::new(Kind::Link, job), dir.path())
                .map(|mut run| run.accounts.remove(0));
            over.store(true, Relaxed);
            account
        });
        let mut stalls = Vec::new();
        while !over.load(Relaxed) {
            // If both ends exist, the first one is the receiver.
            if let [receiver, _] = children(std::process::id()).as_slice() {
                stalls.extend(stall(*receiver, || over.load(Relaxed)));
            }
            // time: a pause between two stalls
            std::thread::sleep(Duration::from_millis(100));
        }
        (measured.join().unwrap().unwrap(), stalls)
    })
}

/// Returns the time at which the sender began with a sample. A ping-pong with an unfilled payload
/// takes only one stamp, before it requests memory.
fn asked_at(s: &Sample) -> u64 {
    if s.sent.before_publish > 0 { s.sent.before_publish } else { s.sent.before_fill }
}

/// Returns the stalls between the first and the last counted sample; there are several in four
/// seconds.
fn inside(account: &Account, stalls: &[Stall]) -> Vec<Stall> {
    let (first, last) = (
        account.stamps.iter().map(asked_at).min().unwrap(),
        account.stamps.iter().map(asked_at).max().unwrap(),
    );
    let inside: Vec<Stall> =
        stalls.iter().copied().filter(|s| s.from > first && s.to < last).collect();
    assert!(!inside.is_empty(), "no stall of {stalls:?} lies between {first} and {last}");
    inside
}

fn due_within(account: &Account, stall: Stall) -> Vec<Sample> {
    let due = |s: &&Sample| s.sent.scheduled > stall.from && s.sent.scheduled < stall.to;
    account.stamps.iter().filter(due).copied().collect()
}

/// Number of samples that are due in a stall, minus one at each edge.
const DUE_IN_A_STALL: usize = (STALL.as_nanos() as u64 / PERIOD_NS) as usize - 2;

/// Returns the reported distributions of the account's figure.
fn reported(account: &Account, metric: Metric) -> Option<Percentiles> {
    account.samples.get(&metric).map(|samples| Runs::new(vec![samples.clone()]).percentiles())
}

#[test]
fn in_an_open_loop_all_that_is_due_during_a_stall_is_late() {
    // Room for all samples, so that none is missed because the machine itself stands still for
    // longer than a stall.
    let (account, stalls) = measure(Pace::RateHz(RATE_HZ), 512);
    assert!(account.invalid.is_empty(), "{:?}", account.invalid);
    for stall in inside(&account, &stalls) {
        let due = due_within(&account, stall);
        assert!(due.len() >= DUE_IN_A_STALL, "{} due in {stall:?}", due.len());
        for s in &due {
            let received =
                s.received.unwrap_or_else(|| panic!("{s:?} was missed though there is room"));
            // It could not be in hand before the receiver went on.
            assert!(received.in_hand >= stall.to, "{s:?} in {stall:?}");
            assert!(received.in_hand - s.sent.scheduled >= stall.to - s.sent.scheduled);
        }
        let worst =
            due.iter().map(|s| s.received.unwrap().in_hand - s.sent.scheduled).max().unwrap();
        assert!(worst >= STALL.as_nanos() as u64 - 2 * PERIOD_NS, "{worst}");
        // The reported figure includes each of these samples, with at least the delay of the stall.
        let relative = account.samples.get(&Metric::ScheduleRelative).unwrap();
        for s in &due {
            let late = due.iter().filter(|other| other.sent.scheduled <= s.sent.scheduled).count();
            let delayed = relative.iter().filter(|ns| **ns >= stall.to - s.sent.scheduled).count();
            assert!(
                delayed >= late,
                "{delayed} of {late} are reported as {} ns late",
                stall.to - s.sent.scheduled
            );
        }
        assert!(reported(&account, Metric::ScheduleRelative).unwrap().max >= Some(worst));
    }
    assert_eq!((account.received[0], account.missed[0]), (account.sent, 0));
    assert_eq!(reported(&account, Metric::ScheduleRelative).unwrap().n, account.sent);
}

#[test]
fn what_an_open_loop_replaces_during_a_stall_is_counted_as_missed() {
    let (account, stalls) = measure(Pace::RateHz(RATE_HZ), 1);
    assert!(account.invalid.is_empty(), "{:?}", account.invalid);
    let mut missed = 0;
    for stall in inside(&account, &stalls) {
        // Samples that the sender published while the receiver was stopped; the sender may be late
        // itself.
        let published =
            |s: &Sample| s.sent.before_publish > stall.from && s.sent.returned < stall.to;
        let due: Vec<Sample> = account.stamps.iter().copied().filter(published).collect();
        let got: Vec<&Sample> = due.iter().filter(|s| s.received.is_some()).collect();
        // Of all due samples only the newest remains, and it may have been replaced as well.
        assert!(got.len() <= 1, "{got:?} in {stall:?}");
        assert!(got.iter().all(|s| s.received.unwrap().in_hand >= stall.to));
        missed += due.len() - got.len();
    }
    assert!(missed >= DUE_IN_A_STALL - 1, "{missed}");
    assert!(account.missed[0] >= missed as u64, "{:?}", account.missed);
    assert_eq!(account.received[0] + account.missed[0], account.sent);
}

#[test]
fn a_closed_loop_hides_a_stall_which_is_why_it_is_labelled() {
    // The rounds take seconds, so there are stalls among them. A sender that waits for its answer
    // asks at most once during a stall.
    let (account, stalls) = measure(Pace::PingPong, 1);
    assert!(account.invalid.is_empty(), "{:?}", account.invalid);
    for stall in inside(&account, &stalls) {
        let asked = account
            .stamps
            .iter()
            .filter(|s| asked_at(s) > stall.from && asked_at(s) < stall.to)
            .count();
        assert!(asked <= 1, "{asked} were asked during {stall:?}");
    }
    // Nothing is missed, and no count shows how many samples were never sent.
    assert_eq!((account.sent, account.missed[0]), (account.scheduled, 0));
    // So no figure refers to a schedule.
    assert_eq!(reported(&account, Metric::ScheduleRelative), None);
}
