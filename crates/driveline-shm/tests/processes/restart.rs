// SPDX-License-Identifier: Apache-2.0
//! Endpoints that are restarted: the other endpoint stays, matches each new one, and leaks nothing.

use crate::support::{Domain, eventually};
use std::time::Duration;

const ROUNDS: usize = 20;

/// Kills the peer in odd rounds; in even rounds it ends in order.
fn end(p: crate::support::Peer, round: usize) {
    if round % 2 == 1 { p.kill() } else { p.quit() }
}

#[test]
fn a_publisher_that_is_restarted_is_taken_up_by_the_same_reader() {
    let d = Domain::new();
    let mut r = d.peer("reader");
    r.ask("subscription s held=3");
    r.ask("follow s");
    let mut latencies = Vec::new();
    let mut usual = (0, 0);
    for round in 1..=ROUNDS {
        let mut w = d.peer("writer");
        let begun = w.number("now");
        w.ask("publisher p");
        w.ask("await p 1");
        w.ask("say p 5 1000");
        let n: Vec<u64> = r
            .until("progress s", |t| {
                let n: Vec<u64> = t.split(' ').map(|n| n.parse().unwrap()).collect();
                n[3] == round as u64 && n[2] == 5
            })
            .split(' ')
            .map(|n| n.parse().unwrap())
            .collect();
        latencies.push(Duration::from_nanos(n[5] - begun));
        end(w, round);
        r.until("matched s", |t| t == "0");
        if round == 3 {
            eventually("the memory of the dead is let go", || r.mappings() == 0);
            usual = (r.descriptors(), r.mappings());
        }
    }
    eventually("no more descriptors and mappings than in the third round", || {
        r.descriptors() <= usual.0 && r.mappings() <= usual.1
    });
    latencies.sort();
    println!(
        "restart to first sample: median {:?}, longest {:?}",
        latencies[ROUNDS / 2],
        latencies[ROUNDS - 1]
    );
    let n = r.numbers("halt s");
    assert_eq!(
        n[0] + n[1],
        5 * ROUNDS as u64,
        "each sample of each publisher is received or counted"
    );
}

#[test]
fn a_reader_that_is_restarted_gets_its_pins_back_from_the_same_writer() {
    let d = Domain::new();
    let mut w = d.peer("writer");
    w.ask("publisher p pins=3 loans=1");
    let mut usual = (0, 0);
    for round in 1..=ROUNDS {
        let mut r = d.peer("reader");
        r.ask("subscription s held=3");
        // Takes all pins of the publisher, so they must have been released each time.
        r.ask("await s 1");
        w.ask("await p 1");
        for _ in 0..3 {
            w.ask("say p 1 1000");
            r.ask("take s hold");
        }
        w.ask("say p 50 1000");
        assert_eq!(r.ask("held"), "3");
        end(r, round);
        w.ask("await p 0");
        if round == 3 {
            usual = (w.descriptors(), w.mappings());
        }
    }
    eventually("no more descriptors and mappings than in the third round", || {
        w.descriptors() <= usual.0 && w.mappings() <= usual.1
    });
    assert_eq!(d.names().len(), 3, "{:?}", d.names());
}

#[test]
fn endpoints_that_come_and_go_within_living_processes_leave_nothing() {
    let d = Domain::new();
    let (mut w, mut r) = (d.peer("writer"), d.peer("reader"));
    let mut usual = [0; 4];
    for round in 1..=ROUNDS {
        r.ask("subscription s");
        w.ask("publisher p");
        w.ask("await p 1");
        r.ask("await s 1");
        w.ask("say p 2 1000");
        if round % 2 == 0 {
            r.ask("take s");
        }
        // In both orders.
        if round % 3 == 0 {
            r.ask("drop s");
            w.ask("drop p");
        } else {
            w.ask("drop p");
            r.ask("drop s");
        }
        let now = |w: &crate::support::Peer, r: &crate::support::Peer| {
            [w.descriptors(), w.mappings(), r.descriptors(), r.mappings()]
        };
        if round == 2 {
            eventually("memory is let go", || w.mappings() + r.mappings() == 0);
            usual = now(&w, &r);
        }
        if round == ROUNDS {
            eventually("no more than after the second round", || {
                now(&w, &r).iter().zip(usual).all(|(now, usual)| *now <= usual)
            });
        }
    }
    assert_eq!(d.names().len(), 4, "{:?}", d.names());
    w.quit();
    r.quit();
    assert_eq!(d.names(), [""; 0]);
}

/// All samples of an ended publisher can be read, even if its successor has already matched.
#[test]
fn what_a_dead_publisher_said_last_is_not_lost() {
    let d = Domain::new();
    let mut r = d.peer("reader");
    r.ask("subscription s depth=4 held=5");
    for round in 0..3 {
        let mut w = d.peer("writer");
        w.ask("publisher p depth=4 pins=5");
        w.ask("await p 1");
        r.ask("await s 1");
        w.ask("say p 4 2000");
        w.kill();
        r.until("matched s", |t| t == "0");
        // The oldest of all: the first publisher's.
        assert_eq!(r.ask("take s hold"), format!("{} 0", round + 1));
    }
    for n in [4, 1, 2, 3, 4, 1, 2, 3, 4] {
        assert_eq!(r.ask("take s"), format!("{n} 0"));
    }
    assert_eq!(r.ask("take s"), "none");
    assert_eq!(r.ask("held"), "3");
    assert!(r.mappings() > 0, "the memory of the samples held stays");
    r.ask("release");
    r.ask("take s");
    eventually("the memory of the dead is let go", || r.mappings() == 0);
}
