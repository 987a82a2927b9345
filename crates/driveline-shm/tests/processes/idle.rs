// SPDX-License-Identifier: Apache-2.0
//! A domain in which nothing happens uses no processor time.

use crate::support::{Domain, PATIENCE, Peer};
use rustix::process::Signal;
use std::time::{Duration, Instant};

const WATCHED: Duration = Duration::from_millis(1500);
/// Maximum number of sleeps in a second. About ten are normal: the periodic check of the directory,
/// and the retries of three unmatched subscriptions. A busy loop causes hundreds.
const MOST_SLEEPS: f64 = 40.0;
/// Maximum number of clock ticks (10 ms of processor time) in a second: almost none. A busy loop
/// uses at least a tenth of a processor.
const MOST_TICKS: f64 = 5.0;

/// Waits for a window in which the peers are idle. Retries after the set-up end some time; a busy
/// loop does not.
///
/// Counts are compared per second of elapsed time, because a busy machine makes a window longer.
#[track_caller]
pub(crate) fn is_idle(peers: &[&Peer]) {
    let end = Instant::now() + PATIENCE;
    let mut busy = String::new();
    while Instant::now() < end {
        let begun = Instant::now();
        let before: Vec<_> = peers.iter().map(|p| (p.ticks(), p.sleeps())).collect();
        // time: a window in which wake-ups are counted; a slow machine only counts fewer
        std::thread::sleep(WATCHED);
        let used = peers
            .iter()
            .zip(before)
            .map(|(p, (ticks, sleeps))| (&p.name, p.ticks() - ticks, p.sleeps() - sleeps));
        let used: Vec<_> = used.collect();
        let seconds = begun.elapsed().as_secs_f64();
        let idle = |ticks: u64, sleeps: u64| {
            ticks as f64 <= MOST_TICKS * seconds && sleeps as f64 <= MOST_SLEEPS * seconds
        };
        if used.iter().all(|(_, ticks, sleeps)| idle(*ticks, *sleeps)) {
            return;
        }
        busy = format!("ticks and sleeps in {seconds:.1} s: {used:?}");
    }
    panic!("not idle in any window within {PATIENCE:?}; in the last one, {busy}");
}

#[test]
fn blocked_readers_and_idle_writers_use_no_processor_time() {
    let d = Domain::new();
    let (mut w, mut r, mut t) = (d.peer("writer"), d.peer("reader"), d.peer("reader by threads"));
    for i in 0..20 {
        w.ask(&format!("publisher p{i} topic=t{i}"));
        r.ask(&format!("subscription s{i} topic=t{i}"));
        r.ask(&format!("follow s{i}"));
        t.ask(&format!("subscription s{i} topic=t{i}"));
        t.ask(&format!("follow s{i} backend=threads"));
    }
    for i in 0..20 {
        w.ask(&format!("await p{i} 2"));
    }
    is_idle(&[&w, &r, &t]);
    // All of them wake up when a sample arrives.
    w.ask("say p7 1 100");
    r.until_at_least("progress s7", 1);
    t.until_at_least("progress s7", 1);
}

/// Publishers that refuse permanently, refuse temporarily, do not answer, or are dead: none of them
/// is dialled in a busy loop.
#[test]
fn matches_that_do_not_come_about_cost_nothing() {
    let d = Domain::new();
    let (mut w, mut stopped, mut r) =
        (d.peer("writer"), d.peer("stopped writer"), d.peer("refused"));
    w.ask("publisher p pins=1");
    stopped.ask("publisher p");
    stopped.signal(Signal::STOP);
    stopped.stopped();
    r.ask("subscription greedy held=9");
    r.ask("subscription strict reliable");
    r.until("events greedy", |t| t.contains("needs 9 pins"));
    let mut told = String::new();
    r.until("events strict", |t| {
        told += t;
        ["RELIABILITY", "has not answered"].iter().all(|what| told.contains(what))
    });
    let mut dead = d.peer("dead");
    dead.ask("publisher p topic=other");
    dead.kill();
    is_idle(&[&w, &r]);
    stopped.signal(Signal::CONT);
}

/// Connections that cannot be accepted stay in the queue. They must not keep the control thread
/// busy.
#[test]
fn a_process_without_descriptors_left_does_not_spin_and_recovers() {
    for spare in 0..4 {
        let d = Domain::new();
        let (mut w, mut r) = (d.peer("writer"), d.peer("readers"));
        w.ask("publisher p pins=64");
        w.ask(&format!("limit spare-descriptors {spare}"));
        // Only a few subscriptions, because each retries once a second.
        for i in 0..3 {
            r.ask(&format!("subscription s{i} held=1"));
        }
        is_idle(&[&w, &r]);
        assert!(w.number("matched p") < 3);
        w.ask("limit descriptors 1000");
        w.ask("await p 3");
    }
}
