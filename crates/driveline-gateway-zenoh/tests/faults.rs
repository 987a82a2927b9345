// SPDX-License-Identifier: Apache-2.0
//! Links that are cut or fall silent, gateways that die again and again or stand still, endpoints that come and go.
//!
//! What takes minutes is ignored by default: `make test-gateways ONLY=hosts-long`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod rig;

use driveline::types::{Qos, Reliability};
use rig::net::Net;
use rig::readings::{Heard, Reading, TOPIC, deep, pair, say, small};
use rig::talk::{LOOSELY, PROMISED, Promise, Speech, Talk};
use rig::{Host, Rig, carried, eventually, publisher_options, subscription_options};
use serde_json::json;
use std::time::{Duration, Instant};

/// A way to cut the link, or to mend it. `false`: there is none that could be cut.
type Cut = fn(&Rig, bool) -> bool;
/// Everybody sees that the link is gone, or nobody is told.
const CUTS: [(&str, Cut); 2] = [("cable pulled", |rig, cut| rig.cable.set_up(!cut)), ("silent", |rig, cut| rig.cable.drop_silently(cut))];

/// 64 small samples are kept; the newest counts.
fn fast() -> Speech {
    Speech::small(&deep())
}

/// The publisher waits for whoever is slow, for a while.
fn reliable() -> Speech {
    Speech::small(&Qos { reliability: Reliability::Reliable, max_blocking_ms: 200, ..deep() })
}

/// Many packets each, so that a cut is in the middle of one; 3 MB/s.
fn large(reliability: Reliability) -> Speech {
    let qos = Qos { depth: 4, reliability, max_blocking_ms: 200, ..Qos::default() };
    Speech { qos, len: 256 << 10, pause: Duration::from_millis(80) }
}

/// Cuts the link in some way for some time, and sees what is lost, what comes back and when, and that nobody waits for it.
fn outage(speech: &Speech, cut_ms: u64, (how, cut): (&str, Cut), promise: Promise) {
    let rig = Rig::new(&speech.topics(), &speech.qos);
    let mut talk = Talk::new(&rig, speech, promise);
    talk.until_heard(20);
    if !cut(&rig, true) {
        rig::skipped("a link that is cut", "the loopback device cannot be", rig::AS_ROOT);
        return;
    }
    talk.go_on_for(Duration::from_millis(cut_ms));
    talk.heard.perhaps_from = talk.heard.numbers.last().copied().filter(|_| cut_ms >= KEPT_MS);
    cut(&rig, false);
    talk.recovers(Instant::now(), &format!("{how} for {cut_ms} ms"));
    talk.all_accounted_for();
    let report = rig.b.report().expect("a report");
    assert_eq!(report.inlets.len(), 1, "dead inlets: {report:?}");
}

/// As long as what a host has published is kept for its return, which is a little later than the cut.
const KEPT_MS: u64 = 60_000;

/// Shorter than anybody notices, and longer than a lease.
fn short_outages(cut: (&str, Cut)) {
    for ms in [300, 3_000] {
        outage(&fast(), ms, cut, LOOSELY);
    }
}

#[test]
fn a_cable_that_is_pulled_and_plugged_in_costs_what_is_counted() {
    short_outages(CUTS[0]);
}

#[test]
fn a_link_that_falls_silent_costs_what_is_counted() {
    short_outages(CUTS[1]);
}

#[test]
fn an_outage_costs_a_reliable_topic_what_its_publisher_does_not_wait_for() {
    for cut in CUTS {
        outage(&reliable(), 3_000, cut, LOOSELY);
    }
}

#[test]
fn an_outage_in_the_middle_of_large_samples_costs_what_is_counted() {
    for (reliability, cut) in [Reliability::BestEffort, Reliability::Reliable].into_iter().zip(CUTS) {
        outage(&large(reliability), 3_000, cut, LOOSELY);
    }
}

/// Many are in flight at a time, so a break loses some of them and leaves others behind them.
#[test]
fn a_reliable_stream_over_a_bad_cable_is_complete_although_connections_break() {
    const LAST: u64 = 20_000;
    // The publisher waits as long as a test may take.
    let qos = Qos { reliability: Reliability::Reliable, max_blocking_ms: 120_000, ..deep() };
    let rig = Rig::new(&small(), &qos);
    let (mut publisher, mut subscription) = pair(&rig, &qos);
    rig.cable.lose(2);
    let speaks = std::thread::spawn(move || {
        (1..=LAST).for_each(|number| say(&mut publisher, number));
        publisher
    });
    let (mut heard, mut breaks) = (Heard::default(), 0);
    for part in 1..=4 {
        eventually(&format!("heard to {part} fifths"), || {
            heard.read(&mut subscription);
            heard.numbers.last() >= Some(&(part * LAST / 5))
        });
        breaks += u32::from(rig.cable.reset_connections());
    }
    if breaks == 0 {
        rig::skipped("connections that break", "`ss -K` ends none here", "run it as root, with a kernel that has CONFIG_INET_DIAG_DESTROY");
    }
    heard.until(&mut subscription, LAST);
    assert_eq!(heard.missed, 0);
    assert!(heard.numbers.iter().copied().eq(1..=LAST));
    let _publisher = speaks.join().unwrap();
    let mut figures = None;
    eventually("all acknowledged", || {
        figures = rig.a.report().and_then(|r| Some(r.edges.first()?.figures));
        figures.is_some_and(|f| f.delivered == LAST)
    });
    let figures = figures.unwrap();
    println!("{breaks} connections broken: {figures:?}");
    assert_eq!((figures.sent, figures.refused, figures.unacknowledged, figures.superseded), (LAST, 0, 0, 0), "{figures:?}");
}

#[test]
#[ignore = "takes minutes: make test-gateways ONLY=hosts-long"]
fn outages_are_over_in_time() {
    // Also as long as a lease, where both ends of a connection may differ on whether it is still there.
    for ms in [300, 1_000, 1_500, 2_000, 2_500, 3_000, 15_000] {
        for cut in CUTS {
            outage(&fast(), ms, cut, PROMISED);
        }
    }
    for speech in [reliable(), large(Reliability::BestEffort), large(Reliability::Reliable)] {
        for cut in CUTS {
            outage(&speech, 3_000, cut, PROMISED);
        }
    }
}

#[test]
#[ignore = "takes minutes: make test-gateways ONLY=hosts-long"]
fn outages_of_a_minute_are_over_in_time_whether_or_not_what_was_there_is_kept() {
    for ms in [50_000, KEPT_MS] {
        for cut in CUTS {
            outage(&fast(), ms, cut, PROMISED);
        }
    }
}

#[test]
#[ignore = "takes minutes: make test-gateways ONLY=hosts-long"]
fn after_an_outage_of_more_than_a_minute_all_begins_anew() {
    let rig = Rig::new(&small(), &deep());
    let mut talk = Talk::new(&rig, &fast(), PROMISED);
    talk.until_heard(20);
    if !rig.cable.drop_silently(true) {
        rig::skipped("a link that is cut", "the loopback device cannot be", rig::AS_ROOT);
        return;
    }
    talk.go_on_for(Duration::from_secs(70));
    eventually("forgotten", || talk.subscription.matched() == 0);
    talk.heard.from = talk.heard.numbers.last().copied();
    rig.cable.drop_silently(false);
    talk.recovers(Instant::now(), "silent for 70 s");
    talk.all_accounted_for();
}

/// Kills one side's gateway and starts it again, so many times in turn.
fn restarts(times: usize, promise: Promise) {
    let mut rig = Rig::new(&small(), &deep());
    let mut talk = Talk::new(&rig, &fast(), promise);
    talk.until_heard(20);
    for n in 0..2 * times {
        talk.restart(&mut rig, n % 2);
    }
    let sender = rig.a.report().expect("a report");
    assert_eq!(sender.edges.iter().filter(|e| !e.parked).count(), 1, "dead routes: {sender:?}");
    let receiver = rig.b.report().expect("a report");
    assert_eq!(receiver.inlets.len(), 1, "dead inlets: {receiver:?}");
    talk.all_accounted_for();
}

#[test]
fn restarted_gateways_leave_no_dead_routes() {
    restarts(3, LOOSELY);
}

#[test]
#[ignore = "takes minutes: make test-gateways ONLY=hosts-long"]
fn gateways_restarted_twenty_times_leave_no_dead_routes() {
    restarts(20, PROMISED);
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
    let mut talk = Talk::new(&rig, &fast(), PROMISED);
    let mut memory = Vec::new();
    for _ in 0..6 {
        for _ in 0..20 {
            talk.restart(&mut rig, 0);
        }
        // What is kept for its return goes after a minute.
        eventually("those before it forgotten", || {
            talk.read();
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
