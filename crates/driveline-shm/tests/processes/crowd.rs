// SPDX-License-Identifier: Apache-2.0
//! Many readers of one topic, many topics for one waiter.

use crate::support::peer::schema;
use crate::support::{Domain, PATIENCE, Peer, eventually};
use driveline_shm::*;
use driveline_types::MonotonicNs;
use std::time::Duration;

const READERS: usize = 64;

fn reader(d: &Domain, i: usize) -> Peer {
    let mut r = d.peer(&format!("reader {i}"));
    r.ask("subscription s held=1");
    r.ask(if i.is_multiple_of(2) {
        "follow s want=latest"
    } else {
        "follow s want=latest backend=threads"
    });
    r
}

fn all_reach(readers: &mut [Peer], last: u64) {
    for r in readers {
        r.until("progress s", |t| t.split(' ').nth(2) == Some(&last.to_string()));
    }
}

#[test]
fn sixty_four_processes_read_one_topic() {
    let d = Domain::new();
    let mut w = d.peer("writer");
    w.ask(&format!("publisher p pins={READERS} loans=1"));
    let mut readers: Vec<Peer> = (0..READERS).map(|i| reader(&d, i)).collect();
    w.ask(&format!("await p {READERS}"));
    let mut surplus = d.peer("surplus");
    surplus.ask("subscription s held=1");
    surplus.until("events s", |t| {
        t.contains("needs 1 pins and 0 of 64 are left: raise the topic's pins to at least 65")
    });
    surplus.quit();
    for _ in 0..10 {
        let last = w.number("say p 3 1000");
        all_reach(&mut readers, last);
    }
    let last = w.number("say p 2000 1000");
    all_reach(&mut readers, last);
    let stats: PublisherStats = serde_json::from_str(&w.ask("stats p")).unwrap();
    assert!(stats.wake_calls <= last, "one wake-up call wakes all: {stats:?}");
    // Half of them die, others take their places.
    for r in readers.drain(..READERS / 2) {
        r.kill();
    }
    w.ask(&format!("await p {}", READERS / 2));
    readers.extend((0..READERS / 2).map(|i| reader(&d, i)));
    w.ask(&format!("await p {READERS}"));
    let last = w.number("say p 100 1000");
    all_reach(&mut readers, last);
    for mut r in readers {
        let n = r.numbers("halt s");
        assert!(n[0] + n[1] <= last && n[0] > 0);
    }
}

#[test]
fn one_waiter_serves_more_topics_than_one_call_can_wait_for() {
    const TOPICS: usize = 135;
    for backend in [WaitBackend::FutexWaitv, WaitBackend::Threads] {
        let mut set = WaitSet::new(backend).expect(
            "a kernel that tests are run on has futex_waitv (Linux \
                 5.16, and no sandbox that forbids it)",
        );
        let d = Domain::new();
        let mut w = d.peer("writer");
        for i in 0..TOPICS {
            w.ask(&format!("publisher p{i} topic=t{i}"));
        }
        let own = Participant::open(ParticipantConfig {
            domain_dir: Some(d.path().into()),
            name: "reader".into(),
        })
        .unwrap();
        let mut subs: Vec<Subscription> = (0..TOPICS)
            .map(|i| {
                let topic = format!("t{i}").parse().unwrap();
                own.create_subscription(SubscriptionConfig::new(
                    topic,
                    "listener".parse().unwrap(),
                    schema(),
                ))
                .unwrap()
            })
            .collect();
        for s in &subs {
            set.attach(s).unwrap();
        }
        eventually("all topics match", || subs.iter().all(|s| s.matched() == 1));
        let deadline = || Some(MonotonicNs::now() + PATIENCE);
        let mut wait_for = |set: &mut WaitSet, i: usize, sequence: u64| {
            let mut woken = false;
            while !woken {
                assert_ne!(
                    set.wait(deadline(), Duration::ZERO),
                    Wake::TimedOut,
                    "the wake-up of topic {i} was lost"
                );
                while let Some(s) = subs[i].take_next().unwrap() {
                    woken |= s.header().sequence == sequence;
                }
            }
        };
        for i in 0..TOPICS {
            w.send(&format!("say p{i} 1 100"));
            wait_for(&mut set, i, 1);
            w.answer("say").unwrap();
        }
        // One of the publishers ends and another starts while the waiter sleeps.
        w.send("drop p77");
        w.answer("drop").unwrap();
        w.ask("publisher p77 topic=t77");
        w.ask("await p77 1");
        w.send("say p77 1 100");
        wait_for(&mut set, 77, 1);
        w.answer("say").unwrap();
        w.kill();
    }
}

/// The list of matches changes as fast as possible while it is scanned as fast as possible.
#[test]
fn subscriptions_that_come_and_go_all_the_time_disturb_no_scan() {
    let d = Domain::new();
    let mut w = d.peer("writer");
    w.ask("publisher p pins=16 loans=1");
    let mut bystander = reader(&d, 0);
    w.ask("await p 1");
    w.ask("flood p 2000 0");
    let mut restless: Vec<Peer> = (0..3).map(|i| d.peer(&format!("restless {i}"))).collect();
    // 150 subscriptions each, in 15 commands, because the wait for an answer has a time-out.
    for _ in 0..15 {
        for r in &mut restless {
            r.send("churn 10");
        }
        for r in &mut restless {
            r.answer("churn").unwrap();
        }
    }
    let last = w.number("halt p");
    w.ask("await p 1");
    all_reach(std::slice::from_mut(&mut bystander), last);
    let n = bystander.numbers("halt s");
    assert_eq!(n[0] + n[1], last);
    let stats: PublisherStats = serde_json::from_str(&w.ask("stats p")).unwrap();
    assert_eq!(
        (stats.matched, stats.refused_pins),
        (1, 0),
        "each gave its pins back before the next came: {stats:?}"
    );
    eventually("nothing is left of them", || w.mappings() == 3);
}
