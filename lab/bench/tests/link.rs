// SPDX-License-Identifier: Apache-2.0
//! Links, floors and copies with few samples: the tests check what the engine does, not its speed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod engine;

use driveline_bench::harness::{Job, MEMCPY_KINDS, Pace, Payload, Reach, Take, Wait};
use driveline_bench::peers::Selection;
use driveline_bench::{Account, Kind, Metric, Trial};
use engine::{PROGRAM, check, floor, job, link, own, trial};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

fn n(account: &Account, metric: Metric) -> usize {
    account.samples.get(&metric).map_or(0, Vec::len)
}

#[test]
fn a_ping_pong_between_processes_has_the_figures_of_its_shape() {
    let base = job();
    check(&own(Kind::Floor, &floor(&base)), 20);
    for size in [64, 64 << 10] {
        for take in [Take::Borrow, Take::Copy] {
            for payload in [Payload::Untouched, Payload::Filled] {
                let account = own(Kind::Link, &Job { size, take, payload, ..base.clone() });
                check(&account, 20);
                let (filled, copied) = (payload == Payload::Filled, take == Take::Copy);
                for (metric, is_there) in [
                    (Metric::Transport, true),
                    (Metric::FillAndTransport, filled),
                    (Metric::Fill, filled),
                    (Metric::Copy, copied),
                    (Metric::Read, filled),
                    (Metric::ScheduleRelative, false),
                ] {
                    let found = n(&account, metric);
                    assert!(
                        if is_there { found >= 20 } else { found == 0 },
                        "{metric:?} of {size} {take:?} {payload:?}: {found}"
                    );
                }
            }
        }
    }
}

#[test]
fn memory_a_link_at_rest_and_start_up_have_their_own_figures() {
    for kind in MEMCPY_KINDS {
        let copies = Trial::memcpy(&Job { size: 64 << 10, ..job() }, kind);
        assert_eq!(n(&own(copies.kind, &copies.job), Metric::Copy), 20, "{kind:?}");
    }
    // time: the length of the observation; nothing judges its figures
    let account = own(Kind::AtRest(Duration::from_millis(200)), &job());
    let figures: Vec<Metric> = account.once.into_keys().collect();
    assert_eq!(
        figures,
        [Metric::IdlePublisherCpu, Metric::IdleSubscriberCpu, Metric::IdleReaderCpu]
    );
    assert!(account.idle_wakeups_per_s.is_some());
    for size in [64, 64 << 10] {
        let pace = Pace::RateHz(1000.0);
        let account = own(Kind::StartUp, &Job { size, pace, warm_up: 0, messages: 1, ..job() });
        for metric in [Metric::StartPublisher, Metric::StartSubscriber] {
            assert!(account.once[&metric] > 0, "{metric:?}");
        }
    }
}

#[test]
fn an_open_loop_to_three_processes_verifies_what_each_received() {
    let pace = Pace::RateHz(500.0);
    for subscribers in [1, 3] {
        let stream = Job { size: 1024, payload: Payload::Filled, pace, subscribers, ..job() };
        let account = own(Kind::Link, &stream);
        check(&account, 20);
        assert_eq!(account.received.len(), subscribers);
        assert!(account.start_up_ns.unwrap() > 0);
        // Every received payload was verified, including those of the first sample and of the
        // warm-up.
        let received: u64 = account.received.iter().sum();
        assert!(account.verified >= received + subscribers as u64, "{account:?}");
        for account in [&account, &own(Kind::Floor, &floor(&stream))] {
            check(account, 20);
            assert!(n(account, Metric::ScheduleRelative) > 0);
        }
    }
}

#[test]
fn links_run_inside_one_process_by_threads_and_on_one_thread() {
    let within = Job { reach: Reach::Process, ..job() };
    for wait in [Wait::Block, Wait::SpinThenBlock(20)] {
        let account = own(Kind::Link, &Job { wait, ..within.clone() });
        check(&account, 20);
        assert_eq!(n(&account, Metric::Transport), 20);
        check(&own(Kind::Floor, &floor(&Job { wait, ..within.clone() })), 20);
    }
    for reach in [Reach::Process, Reach::Host] {
        let account = own(Kind::SameThread, &Job { reach, ..job() });
        check(&account, 20);
        assert_eq!(n(&account, Metric::Transport), 20);
    }
    let stream = Job { pace: Pace::RateHz(500.0), subscribers: 2, ..within };
    check(&own(Kind::Link, &stream), 20);
    check(&own(Kind::Floor, &floor(&stream)), 20);
}

#[test]
fn a_reader_that_processes_gets_the_newest_and_the_rest_is_counted_as_missed() {
    // Samples come ten times as fast as they are processed.
    for reach in [Reach::Process, Reach::Host] {
        let slow = Job { pace: Pace::RateHz(1000.0), processing_us: 10_000, reach, ..job() };
        let account = own(Kind::Link, &slow);
        check(&account, 20);
        assert!(account.missed[0] > 0, "{account:?}");
        // The work is measured in processor time, so preemption does not matter. The time is
        // reported per sample that was sent.
        let cpu = account.subscriber_cpu_ns_per_sample.unwrap();
        assert!(cpu * account.sent as f64 / account.received[0] as f64 >= 9e6, "{account:?}");
        let last = account.stamps.last().unwrap();
        assert_eq!(last.sent.sequence, 26);
        assert!(last.received.is_some_and(|r| r.in_hand > 0), "the newest was not read: {last:?}");
    }
}

#[test]
fn an_interrupted_run_fails_and_ends_its_processes() {
    let interrupted = AtomicBool::new(false);
    std::thread::scope(|s| {
        let endless = Job { pace: Pace::RateHz(1.0), messages: 100_000, ..job() };
        let run = s.spawn(|| {
            let endless = Trial::new(Kind::Link, endless);
            trial(&endless, &Selection::default(), &interrupted)
        });
        interrupted.store(true, Relaxed);
        let failure = run.join().unwrap().unwrap_err();
        assert!(failure.contains("interrupted"), "{failure}");
    });
}

#[test]
fn a_system_that_is_not_there_is_a_failure_with_its_name() {
    let absent = Job { system: "test/sound".parse().unwrap(), ..job() };
    let failure = link(&absent, &Selection::default()).unwrap_err();
    assert!(failure.contains("test/sound"), "{failure}");
}

/// The kernel signals the death of a parent only to processes that have requested the signal
/// before.
#[test]
fn a_measured_process_whose_runner_died_before_it_could_ask_for_that_ends() {
    let (input, runner) = std::io::pipe().unwrap();
    drop(runner);
    let out = Command::new(PROGRAM).arg("bench-peer").stdin(input).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("the process that started this one has ended"), "{said}");
}

#[test]
fn the_hidden_command_explains_itself_when_called_directly() {
    let out = Command::new(PROGRAM).arg("bench-peer").stdin(Stdio::null()).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stdout).contains("only for the benchmark itself"));
}
