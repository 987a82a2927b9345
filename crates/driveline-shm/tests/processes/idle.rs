// SPDX-License-Identifier: Apache-2.0
//! A domain in which nothing happens uses no processor time.

use crate::support::{Domain, Peer};
use rustix::process::Signal;
use std::time::Duration;

const WATCHED: Duration = Duration::from_millis(1500);
/// The safety net looks at the directory once a second.
const MOST_SLEEPS: u64 = 12;
/// 10 ms each: as good as nothing, and more than what reading the figures costs.
const MOST_TICKS: u64 = 3;

#[track_caller]
fn is_idle(peers: &[&Peer]) {
    // Let what the set-up has stirred up settle: retries and second looks.
    std::thread::sleep(Duration::from_millis(1200));
    let before: Vec<_> = peers.iter().map(|p| (p.ticks(), p.sleeps())).collect();
    std::thread::sleep(WATCHED);
    for (p, (ticks, sleeps)) in peers.iter().zip(before) {
        let (ticks, sleeps) = (p.ticks() - ticks, p.sleeps() - sleeps);
        assert!(ticks <= MOST_TICKS && sleeps <= MOST_SLEEPS, "{}: {ticks} ticks, {sleeps} sleeps in {WATCHED:?}", p.name);
    }
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
    // Still awake at once when something comes.
    w.ask("say p7 1 100");
    r.until_at_least("progress s7", 1);
    t.until_at_least("progress s7", 1);
}

/// Refused for good, refused for now, not answered, dead: none of it is asked about in a loop.
#[test]
fn matches_that_do_not_come_about_cost_nothing() {
    let d = Domain::new();
    let (mut w, mut stopped, mut r) = (d.peer("writer"), d.peer("stopped writer"), d.peer("refused"));
    w.ask("publisher p pins=1");
    stopped.ask("publisher p");
    stopped.signal(Signal::STOP);
    stopped.stopped();
    r.ask("subscription greedy held=9");
    r.ask("subscription strict reliable");
    r.until("events greedy", |t| t.contains("needs 9 pins"));
    r.until("events strict", |t| t.contains("RELIABILITY"));
    let mut dead = d.peer("dead");
    dead.ask("publisher p topic=other");
    dead.kill();
    std::thread::sleep(Duration::from_secs(2));
    is_idle(&[&w, &r]);
    stopped.signal(Signal::CONT);
}

/// Connections that cannot be accepted stay in the queue; that they are there must not keep the control thread busy.
#[test]
fn a_process_without_descriptors_left_does_not_spin_and_recovers() {
    for spare in 0..4 {
        let d = Domain::new();
        let (mut w, mut r) = (d.peer("writer"), d.peer("readers"));
        w.ask("publisher p pins=64");
        w.ask(&format!("limit spare-descriptors {spare}"));
        // Few, for each asks again once a second.
        for i in 0..3 {
            r.ask(&format!("subscription s{i} held=1"));
        }
        is_idle(&[&w, &r]);
        assert!(w.number("matched p") < 3);
        w.ask("limit descriptors 1000");
        w.ask("await p 3");
    }
}
