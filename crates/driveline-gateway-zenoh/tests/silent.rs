// SPDX-License-Identifier: Apache-2.0
//! What a gateway does when a connection is broken that Zenoh takes for whole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at a surprise")]

mod rig;

use driveline::WaitMode;
use driveline::types::{EndpointId, MonotonicNs, Qos, Reliability, SampleHeader, Schema};
use driveline_gateway_zenoh::wire::{Offer, Parsed, QosMark, SampleHead};
use driveline_runtime::gateway::{InletReport, InletState};
use rig::meeting::{Meeting, TOPIC};
use rig::{carried, eventually, publisher_options, subscription_options};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zenoh::Wait;
use zenoh::sample::SampleKind;

#[test]
fn a_host_that_is_there_and_answers_nothing_any_more_has_the_gateway_start_anew() {
    let meeting = Meeting::new(false, &Qos::default());
    let there = Arc::new(Mutex::new(BTreeSet::new()));
    let (of_callback, parse) = (there.clone(), meeting.keys.clone());
    let tokens = meeting.session.liveliness().declare_subscriber(meeting.keys.tokens("host")).history(true);
    let tokens = tokens.callback(move |token| {
        if let Some(Parsed::Host(host)) =
            parse.parse(token.key_expr().as_str()).filter(|what| matches!(what, Parsed::Host(h) if h.name() == "car"))
        {
            let mut there = of_callback.lock().unwrap();
            let _ = if token.kind() == SampleKind::Put { there.insert(host) } else { there.remove(&host) };
        }
    });
    let _tokens = tokens.wait().unwrap();
    let of = |there: &BTreeSet<_>| there.iter().cloned().collect::<Vec<_>>();
    eventually("known", || of(&there.lock().unwrap()) == [meeting.gateway.clone()]);

    let mut stranger = meeting.offer(Vec::new());
    eventually("answered", || meeting.host.report().is_some_and(|r| r.hosts.iter().any(|h| h.alive && h.exchanges > 0)));
    stranger.fall_silent();
    eventually("started anew", || matches!(of(&there.lock().unwrap()).as_slice(), [other] if *other != meeting.gateway));
    let anew = of(&there.lock().unwrap());

    // It asks the same host, which was not the reason if it answers now.
    drop(stranger);
    let _again = meeting.offer(Vec::new());
    eventually("answered", || meeting.host.report().is_some_and(|r| r.hosts.iter().any(|h| h.alive && h.exchanges > 0)));
    let report = meeting.host.report().unwrap();
    assert_eq!((report.host, of(&there.lock().unwrap())), (anew[0].to_string(), anew));
}

#[test]
fn what_still_waits_for_a_reader_when_the_gateway_starts_anew_is_nobody_s_publisher() {
    let qos = Qos { reliability: Reliability::Reliable, depth: 2, max_blocking_ms: 60_000, ..Qos::default() };
    let meeting = Meeting::of(&carried(TOPIC, true, true, 64, &qos));
    let (id, offered) = (EndpointId(0x77), QosMark::of(&qos));
    let offer = Offer { node: "theirs".parse().unwrap(), schema: Arc::new(Schema::bytes("bytes", "raw", "")), qos, max_payload: 64 };
    let mut stranger = meeting.offer(vec![(id, offer)]);
    let reads_nothing = Qos { reliability: Reliability::Reliable, depth: 1, ..Qos::default() };
    let mut subscription = meeting.host.node.bytes_subscription(TOPIC, "raw", subscription_options(&reads_nothing)).unwrap();
    let of_inlet = |what: fn(&InletReport) -> bool| meeting.host.report().is_some_and(|r| r.inlets.iter().any(what));
    eventually("wanted", || of_inlet(|inlet| inlet.state == InletState::Wanted));
    let (to, from, topic) = (meeting.gateway.clone(), meeting.me.clone(), TOPIC.parse().unwrap());
    let key = meeting.keys.key(&Parsed::Sample { to, from, offered, topic });
    for number in 1..=20 {
        let header = SampleHeader { sequence: number, publish_time: MonotonicNs::now(), ..SampleHeader::default() };
        let head = SampleHead { sent_again: false, place: 0, number, publisher: id.0, written: number, sent: MonotonicNs::now(), header };
        meeting.session.put(&key, vec![0; 8]).attachment(head.encode()).wait().unwrap();
    }
    // The one after the last that has room waits.
    eventually("published", || subscription.wait(Some(Duration::from_millis(20)), WaitMode::Block).unwrap());
    stranger.fall_silent();
    eventually("started anew", || meeting.host.report().is_some_and(|r| !r.stale && r.host != meeting.gateway.to_string()));
    // It has looked at all that is there when it has answered twice.
    for _ in 0..2 {
        let report = meeting.host.report().unwrap();
        assert_eq!(
            report.topics[0].publishers.iter().map(|p| &p.node).collect::<Vec<_>>(),
            Vec::<&String>::new(),
            "it is sent as this host's own"
        );
    }
    // What begins later is.
    let _own = meeting.host.node.bytes_publisher(TOPIC, "raw", publisher_options(&reads_nothing, 64)).unwrap();
    eventually("offered", || meeting.host.report().is_some_and(|r| !r.topics[0].publishers.is_empty()));
    let report = meeting.host.report().unwrap();
    assert_eq!(report.topics[0].publishers.iter().map(|p| p.node.as_str()).collect::<Vec<_>>(), ["car"], "it is sent as this host's own");
}
