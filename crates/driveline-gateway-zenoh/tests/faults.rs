// SPDX-License-Identifier: Apache-2.0
//! Links that are cut or fall silent, gateways that die again and again or stand still, endpoints that come and go.
//!
//! What takes minutes is ignored by default: `make test-gateways ONLY=hosts-long`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod rig;

use driveline::{Publisher, Subscription};
use rig::net::Net;
use rig::readings::{Heard, Reading, TOPIC, deep, pair, say, small};
use rig::{Host, Rig, carried, eventually, publisher_options, subscription_options};
use serde_json::json;
use std::time::{Duration, Instant};

/// A publisher that publishes without a pause, and what is heard of it on the other host.
struct Talk {
    publisher: Publisher<Reading>,
    subscription: Subscription<Reading>,
    heard: Heard,
    number: u64,
}

impl Talk {
    fn new((publisher, subscription): (Publisher<Reading>, Subscription<Reading>)) -> Self {
        Self { publisher, subscription, heard: Heard::default(), number: 0 }
    }

    fn say(&mut self) {
        self.number += 1;
        let began = Instant::now();
        say(&mut self.publisher, self.number);
        assert!(began.elapsed() < rig::NOT_KEPT_WAITING, "the publisher was kept waiting");
        std::thread::sleep(Duration::from_millis(5));
        self.heard.read(&mut self.subscription);
    }

    fn go_on_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.say();
        }
    }

    /// Goes on until so many more have arrived. Gives the time that the first of them took.
    #[track_caller]
    fn until_heard(&mut self, more: usize) -> Duration {
        let (began, before) = (Instant::now(), self.heard.numbers.len());
        let mut first = None;
        eventually("received again", || {
            self.say();
            if self.heard.numbers.len() > before {
                first.get_or_insert_with(|| began.elapsed());
            }
            self.heard.numbers.len() >= before + more
        });
        first.unwrap_or_default()
    }

    /// Each sample since the first that was heard has arrived or is counted.
    #[track_caller]
    fn all_accounted_for(&mut self) {
        self.heard.until(&mut self.subscription, self.number);
        let first = self.heard.numbers[0];
        assert_eq!(self.heard.numbers.len() as u64 + self.heard.missed + first - 1, self.number, "each was received or counted");
    }
}

/// Cuts the link in some way for some time, and sees what is lost and what comes back.
fn outage(cut_ms: u64, what: &str, cut: impl Fn(&Rig, bool) -> bool) {
    let rig = Rig::new(&small(), &deep());
    let mut talk = Talk::new(pair(&rig, &deep()));
    talk.until_heard(20);
    if !cut(&rig, true) {
        rig::skipped("a link that is cut", "the loopback device cannot be");
        return;
    }
    talk.go_on_for(Duration::from_millis(cut_ms));
    cut(&rig, false);
    let took = talk.until_heard(20);
    println!("{what} for {cut_ms} ms: received again after {} ms, {} missed", took.as_millis(), talk.heard.missed);
    talk.all_accounted_for();
}

#[test]
fn a_cable_that_is_pulled_and_plugged_in_costs_what_is_counted() {
    // Shorter than anybody notices, and longer than a lease.
    for ms in [300, 3_000] {
        outage(ms, "cable pulled", |rig, cut| rig.cable.set_up(!cut));
    }
}

#[test]
fn a_link_that_falls_silent_costs_what_is_counted() {
    for ms in [300, 3_000] {
        outage(ms, "silent", |rig, cut| rig.cable.drop_silently(cut));
    }
}

#[test]
#[ignore = "takes minutes: make test-gateways ONLY=hosts-long"]
fn long_outages_cost_what_is_counted() {
    // Up to the minute for which what a host has published is kept for its return.
    for ms in [15_000, 50_000] {
        outage(ms, "cable pulled", |rig, cut| rig.cable.set_up(!cut));
        outage(ms, "silent", |rig, cut| rig.cable.drop_silently(cut));
    }
}

#[test]
#[ignore = "takes minutes: make test-gateways ONLY=hosts-long"]
fn after_an_outage_of_more_than_a_minute_all_begins_anew() {
    let rig = Rig::new(&small(), &deep());
    let mut talk = Talk::new(pair(&rig, &deep()));
    talk.until_heard(20);
    if !rig.cable.drop_silently(true) {
        rig::skipped("a link that is cut", "the loopback device cannot be");
        return;
    }
    talk.go_on_for(Duration::from_secs(70));
    eventually("forgotten", || talk.subscription.raw().matched() == 0);
    rig.cable.drop_silently(false);
    talk.heard.from = talk.heard.numbers.last().copied();
    let took = talk.until_heard(20);
    println!("silent for 70 s: received again after {} ms", took.as_millis());
}

/// Kills one side's gateway and starts it again, so many times in turn.
fn restarts(times: usize) {
    let mut rig = Rig::new(&small(), &deep());
    let mut talk = Talk::new(pair(&rig, &deep()));
    for n in 0..2 * times {
        talk.until_heard(3);
        let side = n % 2;
        if side == 0 {
            rig.a.kill_gateway()
        } else {
            rig.b.kill_gateway()
        }
        talk.heard.read(&mut talk.subscription);
        rig.start(side);
        if side == 1 {
            // With a new gateway there the subscription has a new publisher, whose losses count from its first sample on.
            talk.heard.from = talk.heard.numbers.last().copied();
            let subscription = &mut talk.subscription;
            eventually("the old publisher is gone", || subscription.raw().matched() == 0);
        }
    }
    talk.until_heard(20);
    let sender = rig.a.report().expect("a report");
    assert_eq!(sender.edges.iter().filter(|e| !e.parked).count(), 1, "dead routes: {sender:?}");
    let receiver = rig.b.report().expect("a report");
    assert_eq!(receiver.inlets.len(), 1, "dead inlets: {receiver:?}");
}

#[test]
fn restarted_gateways_leave_no_dead_routes() {
    restarts(3);
}

#[test]
#[ignore = "takes minutes: make test-gateways ONLY=hosts-long"]
fn gateways_restarted_twenty_times_leave_no_dead_routes() {
    restarts(20);
}

/// Publishers come and go. What stays in the gateways does not grow with them.
fn churn(rounds: usize) {
    let rig = Rig::new(&small(), &deep());
    let mut subscription = rig.b.node.subscription::<Reading>(TOPIC, subscription_options(&deep())).unwrap();
    let come_and_go = |times: usize| {
        for _ in 0..times {
            let mut publisher = rig.a.node.publisher::<Reading>(TOPIC, publisher_options(&deep(), 64)).unwrap();
            eventually("offered", || publisher.raw().matched() >= 1);
        }
    };
    let settled = || {
        let mut last = None;
        let gone = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually("all gone", || {
                last = rig.b.report();
                last.as_ref().is_some_and(|r| r.inlets.is_empty() && r.refused.is_empty())
            });
        }));
        assert!(gone.is_ok(), "{:#?} and {:#?}", last.map(|r| (r.inlets, r.refused)), rig.a.report().map(|r| r.topics));
    };
    // The allocator's own arenas have their size after some.
    come_and_go(rounds / 4);
    settled();
    let before = [rig.a.private_memory(), rig.b.private_memory()];
    come_and_go(rounds);
    settled();
    let after = [rig.a.private_memory(), rig.b.private_memory()];
    println!("{rounds} publishers came and went; private memory of the gateways before {before:?}, after {after:?}");
    for (before, after) in before.into_iter().zip(after) {
        // What is known of one is more. About 800 bytes of each stay (docs/protocols/network.md, section 7).
        assert!(after.saturating_sub(before) < (2 << 20).max(rounds as u64 * 1_000), "grown by {} bytes", after - before);
    }
    // And the next one works.
    let mut publisher = rig.a.node.publisher::<Reading>(TOPIC, publisher_options(&deep(), 64)).unwrap();
    eventually("received", || {
        say(&mut publisher, 1);
        subscription.take().unwrap().is_some()
    });
}

#[test]
fn publishers_that_come_and_go_leave_nothing_behind() {
    churn(400);
}

#[test]
#[ignore = "takes minutes: make test-gateways ONLY=hosts-long"]
fn ten_thousand_publishers_that_come_and_go_leave_nothing_behind() {
    churn(10_000);
}

#[test]
fn a_host_that_stands_still_delays_no_other() {
    const LEN: usize = 256 << 10;
    let Some(mut net) = Net::new(3) else { return };
    let wires = [net.wire(0, 1), net.wire(0, 2)];
    let dir = tempfile::tempdir().unwrap();
    let qos = deep();
    let topics = |send: bool| [carried("camera", send, !send, LEN as u64, &qos)];
    let listens: Vec<String> = wires.iter().map(|w| w.endpoint(0)).collect();
    let mut a = Host::new(dir.path(), "a", net.on(0), &json!({ "host": "a", "listen": listens }), &topics(true));
    let mut others: Vec<Host> = [("b", 1, wires[0]), ("c", 2, wires[1])]
        .map(|(name, n, wire)| {
            Host::new(dir.path(), name, net.on(n), &json!({ "host": name, "connect": [wire.endpoint(0)] }), &topics(false))
        })
        .into();
    a.start();
    others.iter_mut().for_each(Host::start);
    let mut publisher = a.node.bytes_publisher("camera", "raw", publisher_options(&qos, LEN)).unwrap();
    let subscribe = |h: &Host| h.node.bytes_subscription("camera", "raw", subscription_options(&qos)).unwrap();
    let mut subscriptions: Vec<_> = others.iter().map(subscribe).collect();
    eventually("matched", || publisher.matched() == 3);
    let mut received = [0, 0];
    let mut turn = || {
        let loan = publisher.loan(LEN).unwrap();
        publisher.publish(loan).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        for (n, s) in received.iter_mut().zip(&mut subscriptions) {
            while s.take().unwrap().is_some() {
                *n += 1;
            }
        }
        received
    };
    eventually("received by both", || turn().iter().all(|n| *n >= 10));
    others[1].stand_still(true);
    let begun = turn()[0];
    // Long before anybody knows that it stands still, and again after that.
    let mut until_known = 0;
    eventually("known to be gone", || {
        until_known = turn()[0] - begun;
        a.report().is_some_and(|r| r.hosts.iter().any(|h| h.host.starts_with("c.") && !h.alive))
    });
    assert!(until_known >= 5, "the other host has received {until_known} samples until the one that stood still was given up");
    others[1].stand_still(false);
    let before = turn()[1];
    eventually("received by both again", || turn()[1] >= before + 10);
}
