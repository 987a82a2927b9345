// SPDX-License-Identifier: Apache-2.0
//! Behaviour of a gateway if Zenoh takes a broken connection for intact, or if a peer reads
//! nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline::WaitMode;
use driveline::types::{
    Durability, EndpointId, MonotonicNs, Qos, Reliability, SampleHeader, Schema,
};
use driveline_gateway::{RemotePublisherReport, RemotePublisherState, Report};
use driveline_gateway_zenoh::wire::{Ack, Offer, Outcome, Parsed, QosMark, SampleHead};
use rig::meeting::{Meeting, TOPIC};
use rig::{carried, eventually, publisher_options, subscription_options};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zenoh::Wait;
use zenoh::sample::SampleKind;

#[test]
fn the_gateway_restarts_for_a_present_host_that_answers_nothing() {
    let meeting = Meeting::new(false, &Qos::default());
    let there = Arc::new(Mutex::new(BTreeSet::new()));
    let (of_callback, parse) = (there.clone(), meeting.keys.clone());
    let tokens =
        meeting.session.liveliness().declare_subscriber(meeting.keys.tokens("host")).history(true);
    let tokens = tokens.callback(move |token| {
        if let Some(Parsed::Host(host)) = parse
            .parse(token.key_expr().as_str())
            .filter(|what| matches!(what, Parsed::Host(h) if h.name() == "car"))
        {
            let mut there = of_callback.lock().unwrap();
            let _ = if token.kind() == SampleKind::Put {
                there.insert(host)
            } else {
                there.remove(&host)
            };
        }
    });
    let _tokens = tokens.wait().unwrap();
    let of = |there: &BTreeSet<_>| there.iter().cloned().collect::<Vec<_>>();
    eventually("known", || of(&there.lock().unwrap()) == [meeting.gateway.clone()]);

    let mut stranger = meeting.offer(Vec::new());
    eventually("answered", || {
        meeting.host.report().is_some_and(|r| r.hosts.iter().any(|h| h.alive && h.exchanges > 0))
    });
    stranger.fall_silent();
    eventually(
        "restarted",
        || matches!(of(&there.lock().unwrap()).as_slice(), [other] if *other != meeting.gateway),
    );
    let anew = of(&there.lock().unwrap());

    // The new gateway asks the same host. If the host answers now, the host itself was not the
    // reason for its silence.
    drop(stranger);
    let _again = meeting.offer(Vec::new());
    // A gateway that restarts announces itself before it reports, and until then its report is the
    // last one from before.
    eventually("answered", || {
        meeting.host.report().is_some_and(|r| {
            r.host == anew[0].to_string() && r.hosts.iter().any(|h| h.alive && h.exchanges > 0)
        })
    });
    let report = meeting.host.report().unwrap();
    assert_eq!((report.host, of(&there.lock().unwrap())), (anew[0].to_string(), anew));
}

#[test]
fn a_restarted_gateway_publishes_nothing_that_still_waited_for_a_reader() {
    let qos = Qos {
        reliability: Reliability::Reliable,
        depth: 2,
        max_blocking_ms: 60_000,
        ..Qos::default()
    };
    let meeting = Meeting::of(&carried(TOPIC, true, true, 64, &qos));
    let (id, offered) = (EndpointId(0x77), QosMark::of(&qos));
    let offer = Offer {
        node: "theirs".parse().unwrap(),
        schema: Arc::new(Schema::bytes("bytes", "raw", "")),
        qos,
        max_payload: 64,
    };
    let mut stranger = meeting.offer(vec![(id, offer)]);
    let reads_nothing = Qos { reliability: Reliability::Reliable, depth: 1, ..Qos::default() };
    let mut subscription = meeting
        .host
        .node
        .bytes_subscription(TOPIC, "raw", subscription_options(&reads_nothing))
        .unwrap();
    let of_inlet = |what: fn(&RemotePublisherReport) -> bool| {
        meeting.host.report().is_some_and(|r| r.inlets.iter().any(what))
    };
    eventually("wanted", || of_inlet(|inlet| inlet.state == RemotePublisherState::Wanted));
    let (to, from, topic) = (meeting.gateway.clone(), meeting.me.clone(), TOPIC.parse().unwrap());
    let key = meeting.keys.key(&Parsed::Sample { to, from, offered, topic });
    for number in 1..=20 {
        let header = SampleHeader {
            sequence: number,
            publish_time: MonotonicNs::now(),
            ..SampleHeader::default()
        };
        let head = SampleHead {
            sent_again: false,
            place: 0,
            number,
            publisher: id.0,
            written: number,
            owed: 0,
            sent: MonotonicNs::now(),
            header,
        };
        meeting.session.put(&key, vec![0; 8]).attachment(head.encode()).wait().unwrap();
    }
    // More samples arrive than fit. The first sample that does not fit waits for the reader.
    eventually("published", || {
        // time: one of several waits, which `eventually` ends
        subscription.wait(Some(Duration::from_millis(20)), WaitMode::Block).unwrap()
    });
    stranger.fall_silent();
    eventually("restarted", || {
        meeting.host.report().is_some_and(|r| !r.stale && r.host != meeting.gateway.to_string())
    });
    // The gateway has checked everything when it has answered twice.
    for _ in 0..2 {
        let report = meeting.host.report().unwrap();
        assert_eq!(
            report.topics[0].publishers.iter().map(|p| &p.node).collect::<Vec<_>>(),
            Vec::<&String>::new(),
            "the other host's publisher is not offered as this host's own"
        );
    }
    // A publisher that starts later is offered.
    let _own = meeting
        .host
        .node
        .bytes_publisher(TOPIC, "raw", publisher_options(&reads_nothing, 64))
        .unwrap();
    eventually("offered", || {
        meeting.host.report().is_some_and(|r| !r.topics[0].publishers.is_empty())
    });
    let report = meeting.host.report().unwrap();
    assert_eq!(
        report.topics[0].publishers.iter().map(|p| p.node.as_str()).collect::<Vec<_>>(),
        ["car"],
        "the other host's publisher is not offered as this host's own"
    );
}

/// Returns the number of threads of a process with this name.
fn threads(pid: u32, name: &str) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    tasks
        .filter(|task| {
            std::fs::read_to_string(task.path().join("comm"))
                .is_ok_and(|comm| comm.trim_end() == name)
        })
        .count()
}

/// A thread that hands a sample to a peer that reads nothing stays blocked for a while, with a pin
/// of the publisher: requests for the topic with another QoS must not block more.
#[test]
fn a_host_that_reads_nothing_holds_no_more_threads_and_pins_however_often_it_asks_for_another_qos()
{
    /// More than the kernel buffers for a peer that does not read.
    const LEN: usize = 8 << 20;
    let qos =
        Qos { depth: 1, reliability: Reliability::Reliable, max_blocking_ms: 0, ..Qos::default() };
    let sure = QosMark::of(&qos);
    let mut topic = carried(TOPIC, true, false, LEN as u64, &qos);
    topic["hosts"] = 1.into();
    let meeting = Meeting::of(&topic);
    // The stranger acknowledges each sample, and reads no further until the test allows it.
    let arrived = Arc::new(AtomicU32::new(0));
    let of_callback = arrived.clone();
    let (go_on, may_go_on) = std::sync::mpsc::sync_channel::<()>(0);
    let (session, keys, may_go_on) =
        (meeting.session.clone(), meeting.keys.clone(), Mutex::new(may_go_on));
    let samples = meeting
        .session
        .declare_subscriber(meeting.keys.addressed("s", &meeting.me))
        .callback(move |sample| {
            let received = MonotonicNs::now();
            let Some(Parsed::Sample { to, from, offered, topic }) =
                keys.parse(sample.key_expr().as_str())
            else {
                return;
            };
            let head = SampleHead::decode(&sample.attachment().unwrap().to_bytes()).unwrap();
            let ack = Ack {
                outcome: Outcome::Published,
                accepts: 0,
                number: head.number,
                sent: head.sent,
                received,
                answered: received,
            };
            session
                .put(
                    keys.key(&Parsed::Ack { to: from, from: to, offered, topic }),
                    ack.encode().to_vec(),
                )
                .wait()
                .unwrap();
            of_callback.fetch_add(1, SeqCst);
            let _ = may_go_on.lock().unwrap().recv();
        });
    let _samples = samples.wait().unwrap();
    let mut publisher =
        meeting.host.node.bytes_publisher(TOPIC, "raw", publisher_options(&qos, LEN)).unwrap();
    let mut publish = || {
        let loan = publisher.loan(LEN).unwrap();
        publisher.publish(loan).unwrap();
    };
    let _host = meeting.token(&Parsed::Host(meeting.me.clone()));
    let fast = QosMark { reliability: Reliability::BestEffort, durability: Durability::Volatile };
    let mut want = meeting.want(&meeting.me, sure, sure);
    eventually("one has arrived", || {
        publish();
        arrived.load(SeqCst) == 1
    });
    let mut most = 0;
    for n in 0..8 {
        // Long enough for a thread to take a sample and to wait for space.
        for _ in 0..10 {
            publish();
            // time: paces the publisher
            std::thread::sleep(Duration::from_millis(5));
        }
        let qos = [fast, sure][n % 2];
        want = meeting.want(&meeting.me, sure, qos);
        let is_known = |r: Report| {
            r.edges.iter().any(|e| e.qos == qos.to_string())
                || r.refused.iter().any(|r| r.reason.contains("waits for space"))
        };
        eventually("known", || meeting.host.report().is_some_and(is_known));
        most = most.max(threads(meeting.host.pid(), "dl-edge"));
    }
    // One of them may just have ended.
    assert!(most <= 2, "{most} threads for the only host that the topic goes to");
    drop(go_on);
    eventually("what it asked for last", || {
        publish();
        meeting.host.report().is_some_and(|r| {
            r.refused.is_empty()
                && r.edges.iter().any(|e| e.qos == sure.to_string() && e.figures.delivered > 0)
        })
    });
    drop(want);
}
