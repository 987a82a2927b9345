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

/// Publishers come, say something that is heard on the other host, and go. What stays in the gateways does not grow with them: the
/// second half is measured, when queues, tables and the allocator have their size.
fn churn(rounds: u64) {
    let rig = Rig::new(&small(), &deep());
    let mut subscription = rig.b.node.subscription::<Reading>(TOPIC, subscription_options(&deep())).unwrap();
    let mut number = 0;
    let mut come_and_go = |times: u64| {
        for _ in 0..times {
            let first = number + 1;
            let mut publisher = rig.a.node.publisher::<Reading>(TOPIC, publisher_options(&deep(), 64)).unwrap();
            eventually("heard", || {
                number += 1;
                say(&mut publisher, number);
                std::thread::sleep(Duration::from_millis(1));
                std::iter::from_fn(|| subscription.take().unwrap()).any(|s| s.view().unwrap().number >= first)
            });
        }
    };
    let settled = || {
        eventually("all gone", || {
            let reports = [rig.a.report(), rig.b.report()].map(Option::unwrap_or_default);
            reports
                .iter()
                .all(|r| r.at_ns > 0 && r.inlets.is_empty() && r.refused.is_empty() && r.topics.iter().all(|t| t.publishers.is_empty()))
        });
        [rig.a.private_memory(), rig.b.private_memory()]
    };
    come_and_go(rounds / 2);
    let before = settled();
    come_and_go(rounds - rounds / 2);
    let after = settled();
    let half = rounds - rounds / 2;
    for (side, (before, after)) in ["sending", "receiving"].into_iter().zip(before.into_iter().zip(after)) {
        let grown = after.saturating_sub(before);
        println!("{side}: {half} publishers more came and went; private memory {before}, then {after} bytes: {} for each", grown / half);
        // Single pages of the allocator, and nothing for a publisher.
        assert!(grown < MAY_GROW.max(half * MAY_GROW_EACH), "the {side} gateway has grown by {grown} bytes");
    }
    // And the next one works.
    come_and_go(1);
}

/// What an allocator may take more of in any case.
const MAY_GROW: u64 = 512 << 10;
/// And for each publisher, which is nothing that is kept of it: its id alone has 16.
const MAY_GROW_EACH: u64 = 50;

#[test]
fn publishers_that_come_and_go_leave_nothing_behind() {
    churn(400);
}

#[test]
#[ignore = "takes minutes: make test-gateways ONLY=hosts-long"]
fn ten_thousand_publishers_that_come_and_go_leave_nothing_behind() {
    churn(10_000);
}

/// Each start of a gateway makes new keys, of which the other one keeps something (docs/protocols/network.md, section 7).
#[test]
#[ignore = "takes minutes: make test-gateways ONLY=hosts-long"]
fn a_gateway_that_starts_again_and_again_costs_the_other_one_little() {
    let mut rig = Rig::new(&small(), &deep());
    let mut talk = Talk::new(pair(&rig, &deep()));
    let mut memory = Vec::new();
    for _ in 0..6 {
        for _ in 0..20 {
            rig.a.kill_gateway();
            rig.start(0);
            talk.until_heard(3);
        }
        // What is kept for its return goes after a minute.
        eventually("those before it forgotten", || {
            talk.say();
            rig.b.report().is_some_and(|r| r.hosts.len() == 1)
        });
        memory.push(rig.b.private_memory());
    }
    // Tables and the allocator have their size after the first half.
    let grown = memory[5].saturating_sub(memory[2]);
    println!("every 20 starts of the other gateway: {memory:?} bytes; the last 60 took {} each", grown / 60);
    assert!(grown < 60 * 50_000, "{grown} bytes");
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
