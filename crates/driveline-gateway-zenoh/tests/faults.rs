// SPDX-License-Identifier: Apache-2.0
//! Endpoints and gateways that come and go leave nothing behind. Connections that break leave a
//! reliable stream complete. `outages.rs` has the costs of cut links and dying hosts.
//!
//! Tests that take minutes are ignored by default: `make measure ONLY=hosts-long`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline::types::{Qos, Reliability};
use rig::readings::{Heard, Reading, TOPIC, deep, pair, say, small};
use rig::talk::{Speech, Talk};
use rig::{Rig, eventually, publisher_options, subscription_options};
use std::time::Duration;

/// Creates publishers, waits until each is heard on the other host, and drops them. The gateways'
/// memory must not grow with the number of publishers. Memory is measured repeatedly, after queues,
/// tables and the allocator have reached their sizes. Memory kept for each publisher shows in every
/// measurement; growth of the allocator shows in some.
fn churn(publishers: u64, most_bytes_each: u64) {
    const PARTS: u64 = 9;
    // Number of publishers at a time.
    const TOGETHER: u64 = 4;
    let rig = Rig::new(&small(), &deep());
    let mut subscription =
        rig.b.node.subscription::<Reading>(TOPIC, subscription_options(&deep())).unwrap();
    let mut number = 0;
    let mut come_and_go = |times: u64| {
        for _ in 0..times.div_ceil(TOGETHER) {
            let first = number;
            let new =
                |_| rig.a.node.publisher::<Reading>(TOPIC, publisher_options(&deep(), 64)).unwrap();
            let mut publishers: Vec<_> = (0..TOGETHER).map(new).collect();
            let mut heard = [false; TOGETHER as usize];
            eventually("heard", || {
                for publisher in &mut publishers {
                    say(publisher, number);
                    number += 1;
                }
                // time: paces the publisher
                std::thread::sleep(Duration::from_millis(1));
                while let Some(sample) = subscription.take().unwrap() {
                    let of = sample.view().unwrap().number;
                    heard[(of % TOGETHER) as usize] |= of >= first;
                }
                heard == [true; TOGETHER as usize]
            });
        }
    };
    let settled = || {
        eventually("all gone", || {
            let reports = [rig.a.report(), rig.b.report()].map(Option::unwrap_or_default);
            reports.iter().all(|r| {
                r.at_ns > 0
                    && r.inlets.is_empty()
                    && r.refused.is_empty()
                    && r.topics.iter().all(|t| t.publishers.is_empty())
            })
        });
        [rig.a.private_memory(), rig.b.private_memory()]
    };
    let part = publishers / (PARTS + 3);
    come_and_go(3 * part);
    let mut memory = vec![settled()];
    for _ in 0..PARTS {
        come_and_go(part);
        memory.push(settled());
    }
    for (side, name) in ["sending", "receiving"].into_iter().enumerate() {
        let mut grown: Vec<u64> =
            memory.windows(2).map(|w| w[1][side].saturating_sub(w[0][side]) / part).collect();
        println!(
            "{name}: {part} publishers more came and went {PARTS} times; private memory grew by \
             {grown:?} bytes for each"
        );
        grown.sort_unstable();
        let kept = grown[grown.len() / 4];
        assert!(kept < most_bytes_each, "the {name} gateway keeps {kept} bytes of each publisher");
    }
    // The gateways still carry a new publisher.
    come_and_go(1);
}

#[test]
fn ten_thousand_publishers_that_come_and_go_leave_nothing_behind() {
    // Any state kept for a publisher takes more than this: besides its id of 16 bytes, there would
    // be the entry's own memory. The first version of the protocol had a token for each publisher,
    // and kept 800 bytes and more.
    churn(10_000, 50);
}

/// Many samples are in flight at a time, so a break loses some and leaves later ones.
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
        rig::skipped(
            "connections that break",
            "`ss -K` ends none here",
            "run it as root, with a kernel that has CONFIG_INET_DIAG_DESTROY",
        );
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
    assert_eq!(
        (figures.sent, figures.refused, figures.unacknowledged, figures.superseded),
        (LAST, 0, 0, 0),
        "{figures:?}"
    );
}

/// Each start of a gateway makes new keys, and the other gateway keeps some state for each
/// (docs/protocols/network-faults.md).
#[test]
#[ignore = "takes minutes: make measure ONLY=hosts-long"]
fn a_gateway_that_starts_again_and_again_costs_the_other_one_little() {
    let mut rig = Rig::new(&small(), &deep());
    let mut talk = Talk::new(&rig.a, &rig.b, &Speech::small(&deep()));
    let mut memory = Vec::new();
    for _ in 0..6 {
        for _ in 0..20 {
            talk.restart(&mut rig, 0);
        }
        // State that is kept for the return of earlier starts is dropped after a minute.
        eventually("those before it forgotten", || {
            talk.read();
            rig.b.report().is_some_and(|r| r.hosts.len() == 1)
        });
        memory.push(rig.b.private_memory());
    }
    // Tables and the allocator reach their sizes in the first half.
    let grown = memory[5].saturating_sub(memory[2]);
    println!(
        "every 20 starts of the other gateway: {memory:?} bytes; the last 60 took {} each",
        grown / 60
    );
    // Up to 68 kB for each start were seen. The allocator grows in steps, which become rarer over
    // time.
    assert!(grown < 60 * 100_000, "{grown} bytes");
}
