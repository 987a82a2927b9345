// SPDX-License-Identifier: Apache-2.0
//! A gateway and a peer that the test controls message by message ("stranger"), for orders of
//! messages that are rare between two gateways.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline::types::{
    Durability, EndpointId, MonotonicNs, Qos, Reliability, SampleHeader, Schema,
};
use driveline_gateway::{Report, RouteFigures};
use driveline_gateway_zenoh::directory::MAX_HOSTS;
use driveline_gateway_zenoh::wire::{
    Ack, HostId, List, Offer, Outcome, Parsed, QosMark, SampleHead, Time,
};
use rig::meeting::{Meeting, TOPIC};
use rig::{carried, eventually, publisher_options, subscription_options};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use twox_hash::XxHash3_64;
use zenoh::Wait;

fn mark(reliability: Reliability, durability: Durability) -> QosMark {
    QosMark { reliability, durability }
}

/// Sends a sample. The peer answers *not yet* this number of times before it accepts the sample.
fn sent_to_a_peer_that_accepts_later(
    offered: QosMark,
    refusals: usize,
) -> (Vec<SampleHead>, RouteFigures) {
    let QosMark { reliability, durability } = offered;
    let qos = Qos { depth: 4, reliability, durability, max_blocking_ms: 10_000, ..Qos::default() };
    let meeting = Meeting::new(true, &qos);
    let heads = Arc::new(Mutex::new(Vec::<SampleHead>::new()));
    let (session, keys, of_callback) =
        (meeting.session.clone(), meeting.keys.clone(), heads.clone());
    let samples = meeting.session.declare_subscriber(meeting.keys.addressed("s", &meeting.me));
    let samples = samples.callback(move |sample| {
        let received = MonotonicNs::now();
        let Some(Parsed::Sample { to, from, offered, topic }) =
            keys.parse(sample.key_expr().as_str())
        else {
            return;
        };
        let head = SampleHead::decode(&sample.attachment().unwrap().to_bytes()).unwrap();
        let mut heads = of_callback.lock().unwrap();
        let outcome = if heads.len() < refusals { Outcome::NotYet } else { Outcome::Published };
        let ack = Ack {
            outcome,
            accepts: 0,
            number: head.number,
            sent: head.sent,
            received,
            answered: MonotonicNs::now(),
        };
        heads.push(head);
        let key = keys.key(&Parsed::Ack { to: from, from: to, offered, topic });
        session.put(key, ack.encode().to_vec()).wait().unwrap();
    });
    let _samples = samples.wait().unwrap();
    let mut publisher =
        meeting.host.node.bytes_publisher(TOPIC, "raw", publisher_options(&qos, 64)).unwrap();
    eventually("watched", || publisher.matched() >= 1);
    let _host = meeting.token(&Parsed::Host(meeting.me.clone()));
    let (host, of) = (meeting.me.clone(), meeting.gateway.clone());
    let _want = meeting.token(&Parsed::Want {
        host,
        of,
        offered,
        qos: offered,
        topic: TOPIC.parse().unwrap(),
    });
    eventually("wanted", || publisher.matched() == 2);
    let loan = publisher.loan(8).unwrap();
    publisher.publish(loan).unwrap();
    let mut figures = RouteFigures::default();
    eventually("settled", || {
        figures =
            meeting.host.report().and_then(|r| Some(r.edges.first()?.figures)).unwrap_or_default();
        figures.delivered + figures.refused == 1
    });
    let heads = heads.lock().unwrap().clone();
    (heads, figures)
}

#[test]
fn reliable_samples_are_repeated_for_a_host_that_does_not_know_their_publisher_yet() {
    for offered in [
        mark(Reliability::Reliable, Durability::Volatile),
        mark(Reliability::BestEffort, Durability::TransientLocal),
    ] {
        let (heads, figures) = sent_to_a_peer_that_accepts_later(offered, 3);
        assert_eq!(
            (figures.delivered, figures.refused, figures.sent_again),
            (1, 0, 3),
            "{offered}: {figures:?}"
        );
        let first = heads[0].number;
        assert_eq!(
            heads.iter().map(|h| (h.number - first, h.sent_again)).collect::<Vec<_>>(),
            [(0, false), (0, true), (0, true), (0, true)]
        );
    }
    // On a best-effort topic, the gateway does not repeat the sample: it sends a newer one next.
    let (heads, figures) =
        sent_to_a_peer_that_accepts_later(mark(Reliability::BestEffort, Durability::Volatile), 3);
    assert_eq!(
        (heads.len(), figures.delivered, figures.refused, figures.sent_again),
        (1, 0, 1, 0),
        "{figures:?}"
    );
}

#[test]
fn no_host_is_waited_for_longer_than_some_seconds() {
    let (heads, figures) = sent_to_a_peer_that_accepts_later(
        mark(Reliability::Reliable, Durability::Volatile),
        usize::MAX,
    );
    assert_eq!((figures.delivered, figures.refused), (0, 1), "{figures:?}");
    // With pauses of 10 ms that double up to a second, at most 16 fit into ten seconds.
    assert!((8..30).contains(&heads.len()), "sent {} times", heads.len());
}

/// Samples that a gateway sends to a receiver that announces how many it accepts in order, and
/// acknowledges only when that many have arrived.
#[test]
fn reliable_samples_in_flight_are_limited_by_the_receiver() {
    let offered = mark(Reliability::Reliable, Durability::Volatile);
    // A release without places sends 0, and gets one sample at a time.
    for (accepts, in_flight) in [(0, 1), (3, 3)] {
        let qos = Qos {
            depth: 16,
            reliability: Reliability::Reliable,
            max_blocking_ms: 10_000,
            ..Qos::default()
        };
        let meeting = Meeting::new(true, &qos);
        let (heads, _samples) = meeting.heads();
        let mut publisher =
            meeting.host.node.bytes_publisher(TOPIC, "raw", publisher_options(&qos, 64)).unwrap();
        let _host = meeting.token(&Parsed::Host(meeting.me.clone()));
        let (host, of) = (meeting.me.clone(), meeting.gateway.clone());
        let _want = meeting.token(&Parsed::Want {
            host,
            of,
            offered,
            qos: offered,
            topic: TOPIC.parse().unwrap(),
        });
        eventually("wanted", || publisher.matched() == 2);
        for _ in 0..10 {
            let loan = publisher.loan(8).unwrap();
            publisher.publish(loan).unwrap();
        }
        let answer = |outcome, head: &SampleHead, number| {
            let now = MonotonicNs::now();
            let ack =
                Ack { outcome, accepts, number, sent: head.sent, received: now, answered: now };
            let key = Parsed::Ack {
                to: meeting.gateway.clone(),
                from: meeting.me.clone(),
                offered,
                topic: TOPIC.parse().unwrap(),
            };
            meeting.session.put(meeting.keys.key(&key), ack.encode().to_vec()).wait().unwrap();
        };
        // Returns the newest copy of a sample: the gateway may have repeated the sample after its
        // time-out.
        let last_of = |number: u64| {
            let mut found = None;
            eventually("sent", || {
                found = heads.lock().unwrap().iter().rev().find(|h| h.number == number).cloned();
                found.is_some()
            });
            found.unwrap()
        };
        eventually("the first one", || !heads.lock().unwrap().is_empty());
        let first = heads.lock().unwrap()[0].number;
        answer(Outcome::Published, &last_of(first), first);
        // As many samples as permitted are in flight. All of them are sent again if the first one
        // is missing.
        let wave: Vec<_> = (1..=in_flight).map(|n| last_of(first + n)).collect();
        assert_eq!(
            wave.iter().map(|h| u64::from(h.place)).collect::<Vec<_>>(),
            (1..=in_flight).collect::<Vec<_>>()
        );
        let before = heads.lock().unwrap().len();
        answer(Outcome::Gap, &wave[wave.len() - 1], first);
        let again = || {
            heads.lock().unwrap()[before..]
                .iter()
                .map(|h| (h.number - first, u64::from(h.place), h.sent_again))
                .collect::<Vec<_>>()
        };
        eventually("sent again", || again().len() as u64 >= in_flight);
        assert_eq!(
            again()[..in_flight as usize],
            (1..=in_flight).map(|n| (n, n, true)).collect::<Vec<_>>()
        );
        for n in 1..10 {
            let head = last_of(first + n);
            answer(Outcome::Published, &head, head.number);
        }
        eventually("all delivered", || {
            meeting
                .host
                .report()
                .is_some_and(|r| r.edges.first().is_some_and(|e| e.figures.delivered == 10))
        });
        assert!(
            heads.lock().unwrap().iter().all(|h| (1..=in_flight).contains(&h.place.into())),
            "more samples are in flight than the receiver accepts"
        );
    }
}

/// Samples that a gateway accepts from a sender that has several in flight and loses one.
#[test]
fn a_sample_is_not_taken_before_the_one_that_precedes_it() {
    let qos = Qos {
        depth: 16,
        reliability: Reliability::Reliable,
        max_blocking_ms: 10_000,
        ..Qos::default()
    };
    let offered = QosMark::of(&qos);
    let meeting = Meeting::new(false, &qos);
    let mut subscription =
        meeting.host.node.bytes_subscription(TOPIC, "raw", subscription_options(&qos)).unwrap();
    let offer = Offer {
        node: "mapper".parse().unwrap(),
        schema: Arc::new(Schema::bytes("bytes", "raw", "")),
        qos,
        max_payload: 64,
    };
    let list = List {
        topic: TOPIC.parse().unwrap(),
        change: 1,
        publishers: vec![(EndpointId(1), offer)],
        ended: Vec::new(),
    };
    let lists = meeting.session.declare_queryable(meeting.keys.key(&meeting.topic())).callback(
        move |query| {
            let _ = query.reply(query.key_expr().clone(), list.encode().unwrap()).wait();
        },
    );
    let _lists = lists.wait().unwrap();
    let clock = meeting
        .session
        .declare_queryable(meeting.keys.key(&Parsed::Clock(meeting.me.clone())))
        .callback(|query| {
            let time =
                Time { received: MonotonicNs::now(), answered: MonotonicNs::now(), changes: 1 };
            let _ = query.reply(query.key_expr().clone(), time.encode().to_vec()).wait();
        });
    let _clock = clock.wait().unwrap();
    let answers = Arc::new(Mutex::new(Vec::<Ack>::new()));
    let of_callback = answers.clone();
    let acks = meeting.session.declare_subscriber(meeting.keys.addressed("a", &meeting.me));
    let acks = acks.callback(move |ack| {
        of_callback.lock().unwrap().push(Ack::decode(&ack.payload().to_bytes()).unwrap())
    });
    let _acks = acks.wait().unwrap();
    let _tokens =
        [meeting.token(&Parsed::Host(meeting.me.clone())), meeting.token(&meeting.topic())];
    eventually("received", || subscription.matched() == 1);
    eventually("the clock is known", || {
        meeting.host.report().is_some_and(|r| r.hosts.iter().any(|h| h.offset_ns.is_some()))
    });
    // Each sample has its own send time, which shows to which sample an answer belongs.
    let mut sent = 0;
    let mut send = |number: u64, place| {
        sent += 1;
        let header = SampleHeader {
            sequence: number,
            publish_time: MonotonicNs::now(),
            ..SampleHeader::default()
        };
        let head = SampleHead {
            sent_again: false,
            place,
            number,
            publisher: 1,
            written: number,
            owed: 0,
            sent: MonotonicNs(sent),
            header,
        };
        let key = Parsed::Sample {
            to: meeting.gateway.clone(),
            from: meeting.me.clone(),
            offered,
            topic: TOPIC.parse().unwrap(),
        };
        meeting
            .session
            .put(meeting.keys.key(&key), vec![number as u8; 8])
            .attachment(head.encode())
            .wait()
            .unwrap();
        let mut answer = None;
        eventually("answered", || {
            answer = answers.lock().unwrap().iter().find(|a| a.sent.0 == sent).copied();
            answer.is_some()
        });
        let Ack { outcome, accepts, number, .. } = answer.unwrap();
        assert!(accepts > 1, "the gateway accepts several in flight");
        (outcome, number)
    };
    assert_eq!(send(10, 1), (Outcome::Published, 10));
    assert_eq!(send(13, 3), (Outcome::Gap, 10));
    assert_eq!(send(11, 1), (Outcome::Published, 11));
    assert_eq!(send(13, 3), (Outcome::Gap, 11));
    assert_eq!(send(12, 2), (Outcome::Published, 12));
    assert_eq!(send(11, 1), (Outcome::Published, 12), "once more: all up to there have ended");
    assert_eq!(send(13, 3), (Outcome::Published, 13));
    assert_eq!(send(15, 1), (Outcome::Published, 15), "the one before it was given up");
    let mut received = Vec::new();
    while let Some(sample) = subscription.take().unwrap() {
        received.push((sample.payload().unwrap()[0], sample.missed()));
    }
    assert_eq!(received, [(10, 0), (11, 0), (12, 0), (13, 0), (15, 1)]);
}

/// Earlier samples may be lost, and the receiver may refuse the first one that arrives.
#[test]
fn a_sample_that_is_refused_does_not_end_those_before_it_that_never_came() {
    let qos = Qos { depth: 16, reliability: Reliability::Reliable, ..Qos::default() };
    let offered = QosMark::of(&qos);
    let meeting = Meeting::new(false, &qos);
    let subscription =
        meeting.host.node.bytes_subscription(TOPIC, "raw", subscription_options(&qos)).unwrap();
    let offer = Offer {
        node: "mapper".parse().unwrap(),
        schema: Arc::new(Schema::bytes("bytes", "raw", "")),
        qos,
        max_payload: 64,
    };
    let too_long = Offer { max_payload: 65, ..offer.clone() };
    let _lists = meeting.offer(vec![(EndpointId(1), offer), (EndpointId(2), too_long)]);
    let answers = Arc::new(Mutex::new(Vec::<Ack>::new()));
    let of_callback = answers.clone();
    let acks = meeting.session.declare_subscriber(meeting.keys.addressed("a", &meeting.me));
    let acks = acks.callback(move |ack| {
        of_callback.lock().unwrap().push(Ack::decode(&ack.payload().to_bytes()).unwrap())
    });
    let _acks = acks.wait().unwrap();
    eventually("received", || subscription.matched() == 1);
    eventually("the other one refused, and the clock known", || {
        let ready =
            |r: Report| !r.refused.is_empty() && r.hosts.iter().any(|h| h.offset_ns.is_some());
        meeting.host.report().is_some_and(ready)
    });
    let mut sent = 0;
    let mut send = |number: u64, place, publisher| {
        sent += 1;
        let header = SampleHeader {
            sequence: number,
            publish_time: MonotonicNs::now(),
            ..SampleHeader::default()
        };
        let head = SampleHead {
            sent_again: false,
            place,
            number,
            publisher,
            written: number,
            owed: 0,
            sent: MonotonicNs(sent),
            header,
        };
        let key = Parsed::Sample {
            to: meeting.gateway.clone(),
            from: meeting.me.clone(),
            offered,
            topic: TOPIC.parse().unwrap(),
        };
        meeting
            .session
            .put(meeting.keys.key(&key), vec![0; 8])
            .attachment(head.encode())
            .wait()
            .unwrap();
        let mut answer = None;
        eventually("answered", || {
            answer = answers.lock().unwrap().iter().find(|a| a.sent.0 == sent).copied();
            answer.is_some()
        });
        answer.map(|Ack { outcome, number, .. }| (outcome, number)).unwrap()
    };
    assert_eq!(send(11, 2, 2), (Outcome::NotYet, 11), "`Unknown` would acknowledge 10, too");
    assert_eq!(send(10, 1, 1), (Outcome::Published, 10));
    assert_eq!(send(11, 2, 2), (Outcome::Unknown, 11), "in its turn");
    assert_eq!(send(12, 1, 2), (Outcome::Unknown, 12));
}

/// The remote publisher has slots of the offered size, whatever the topic permits here.
#[test]
fn a_sample_that_is_longer_than_was_offered_is_refused_and_counted_and_the_next_one_is_taken() {
    const OFFERED: usize = 16;
    for reliability in [Reliability::BestEffort, Reliability::Reliable] {
        let qos = Qos { depth: 16, reliability, ..Qos::default() };
        let offered = QosMark::of(&qos);
        let meeting = Meeting::new(false, &qos);
        let mut subscription =
            meeting.host.node.bytes_subscription(TOPIC, "raw", subscription_options(&qos)).unwrap();
        let schema = Arc::new(Schema::bytes("bytes", "raw", ""));
        let offer =
            Offer { node: "mapper".parse().unwrap(), schema, qos, max_payload: OFFERED as u64 };
        let _lists = meeting.offer(vec![(EndpointId(1), offer)]);
        let answers = Arc::new(Mutex::new(Vec::<Ack>::new()));
        let of_callback = answers.clone();
        let acks = meeting.session.declare_subscriber(meeting.keys.addressed("a", &meeting.me));
        let acks = acks.callback(move |ack| {
            of_callback.lock().unwrap().push(Ack::decode(&ack.payload().to_bytes()).unwrap())
        });
        let _acks = acks.wait().unwrap();
        eventually("received", || subscription.matched() == 1);
        let is_known = |r: Report| r.hosts.iter().any(|h| h.offset_ns.is_some());
        eventually("the clock is known", || meeting.host.report().is_some_and(is_known));
        let key = Parsed::Sample {
            to: meeting.gateway.clone(),
            from: meeting.me.clone(),
            offered,
            topic: TOPIC.parse().unwrap(),
        };
        let key = meeting.keys.key(&key);
        let outcomes =
            [(1, OFFERED), (2, OFFERED + 1), (3, 64 << 10), (4, OFFERED)].map(|(number, len)| {
                let header = SampleHeader {
                    sequence: number,
                    publish_time: MonotonicNs::now(),
                    ..SampleHeader::default()
                };
                let head = SampleHead {
                    sent_again: false,
                    place: 0,
                    number,
                    publisher: 1,
                    written: number,
                    owed: 0,
                    sent: MonotonicNs::now(),
                    header,
                };
                meeting
                    .session
                    .put(&key, vec![number as u8; len])
                    .attachment(head.encode())
                    .wait()
                    .unwrap();
                let mut outcome = None;
                eventually("answered", || {
                    outcome = answers
                        .lock()
                        .unwrap()
                        .iter()
                        .find(|a| a.number == number)
                        .map(|a| a.outcome);
                    outcome.is_some()
                });
                outcome.unwrap()
            });
        assert_eq!(
            outcomes,
            [Outcome::Published, Outcome::Damaged, Outcome::Damaged, Outcome::Published]
        );
        let mut received = Vec::new();
        while let Some(sample) = subscription.take().unwrap() {
            received.push((
                sample.header().sequence,
                sample.payload().unwrap().len(),
                sample.missed(),
            ));
        }
        assert_eq!(received, [(1, OFFERED, 0), (4, OFFERED, 2)]);
        let figures = meeting.host.report().unwrap().inlets[0].figures;
        assert_eq!((figures.published, figures.damaged, figures.lost), (2, 2, 2), "{figures:?}");
    }
}

/// The gateway's own publisher would compute a checksum for an unverified payload. So a payload
/// must be verified first.
#[test]
fn a_sample_without_the_checksum_that_was_offered_is_refused_and_counted() {
    let qos = Qos { depth: 16, checksum: true, ..Qos::default() };
    let offered = QosMark::of(&qos);
    let meeting = Meeting::new(false, &qos);
    let mut subscription =
        meeting.host.node.bytes_subscription(TOPIC, "raw", subscription_options(&qos)).unwrap();
    let offer = Offer {
        node: "mapper".parse().unwrap(),
        schema: Arc::new(Schema::bytes("bytes", "raw", "")),
        qos,
        max_payload: 16,
    };
    let _lists = meeting.offer(vec![(EndpointId(1), offer)]);
    eventually("received", || subscription.matched() == 1);
    eventually("the clock is known", || {
        meeting.host.report().is_some_and(|r| r.hosts.iter().any(|h| h.offset_ns.is_some()))
    });
    let key = Parsed::Sample {
        to: meeting.gateway.clone(),
        from: meeting.me.clone(),
        offered,
        topic: TOPIC.parse().unwrap(),
    };
    let key = meeting.keys.key(&key);
    let payload = vec![7; 16];
    let right = XxHash3_64::oneshot(&payload);
    for (number, checksum) in [(1, Some(right)), (2, None), (3, Some(right ^ 1)), (4, Some(right))]
    {
        let header = SampleHeader {
            sequence: number,
            publish_time: MonotonicNs::now(),
            checksum,
            ..SampleHeader::default()
        };
        let head = SampleHead {
            sent_again: false,
            place: 0,
            number,
            publisher: 1,
            written: number,
            owed: 0,
            sent: MonotonicNs::now(),
            header,
        };
        meeting.session.put(&key, payload.clone()).attachment(head.encode()).wait().unwrap();
    }
    let mut received = Vec::new();
    eventually("the last sample arrives", || {
        received.extend(
            std::iter::from_fn(|| subscription.take().unwrap()).map(|s| s.header().sequence),
        );
        received.last() == Some(&4)
    });
    assert_eq!(received, [1, 4]);
    // The gateway counts a sample after it has published it.
    let counted =
        |r: Report| (r.inlets[0].figures.published, r.inlets[0].figures.damaged) == (2, 2);
    eventually("counted", || meeting.host.report().is_some_and(counted));
}

/// The sender's numbers determine the losses; their sum must not overflow.
#[test]
fn any_number_of_samples_may_be_lost_according_to_a_stranger() {
    let qos = Qos { depth: 16, reliability: Reliability::Reliable, ..Qos::default() };
    let offered = QosMark::of(&qos);
    let meeting = Meeting::new(false, &qos);
    let mut subscription =
        meeting.host.node.bytes_subscription(TOPIC, "raw", subscription_options(&qos)).unwrap();
    let offer = Offer {
        node: "mapper".parse().unwrap(),
        schema: Arc::new(Schema::bytes("bytes", "raw", "")),
        qos,
        max_payload: 64,
    };
    let _lists = meeting.offer((1..=2).map(|id| (EndpointId(id), offer.clone())).collect());
    eventually("received", || subscription.matched() == 2);
    eventually("the clock is known", || {
        meeting.host.report().is_some_and(|r| r.hosts.iter().any(|h| h.offset_ns.is_some()))
    });
    let mut number = 0;
    for written in [1, u64::MAX] {
        for publisher in [1, 2] {
            number += 1;
            let head = SampleHead { place: 1, number, publisher, written, ..SampleHead::default() };
            let key = Parsed::Sample {
                to: meeting.gateway.clone(),
                from: meeting.me.clone(),
                offered,
                topic: TOPIC.parse().unwrap(),
            };
            meeting
                .session
                .put(meeting.keys.key(&key), vec![0; 8])
                .attachment(head.encode())
                .wait()
                .unwrap();
        }
    }
    let mut missed = Vec::new();
    eventually("all received", || {
        missed.extend(subscription.take().unwrap().map(|sample| sample.missed()));
        missed.len() == 4
    });
    assert_eq!(missed, [0, 0, u64::MAX - 2, u64::MAX - 2]);
    assert_eq!((subscription.stats().missed, subscription.stats().lost_on_the_way), (0, u64::MAX));
}

/// A connection that breaks and is restored at once has still lost the data in flight.
#[test]
fn a_topic_requested_again_at_once_is_sent_again_at_once() {
    let qos = Qos { depth: 16, reliability: Reliability::Reliable, ..Qos::default() };
    let offered = QosMark::of(&qos);
    let meeting = Meeting::new(true, &qos);
    let (heads, _samples) = meeting.heads();
    let mut publisher =
        meeting.host.node.bytes_publisher(TOPIC, "raw", publisher_options(&qos, 64)).unwrap();
    let _host = meeting.token(&Parsed::Host(meeting.me.clone()));
    let mut want = meeting.want(&meeting.me, offered, offered);
    eventually("wanted", || publisher.matched() == 2);
    let loan = publisher.loan(8).unwrap();
    publisher.publish(loan).unwrap();
    let mut took = Vec::new();
    for _ in 0..20 {
        eventually("sent", || !heads.lock().unwrap().is_empty());
        want.undeclare().wait().unwrap();
        heads.lock().unwrap().clear();
        want = meeting.want(&meeting.me, offered, offered);
        let before = Instant::now();
        eventually("sent again", || !heads.lock().unwrap().is_empty());
        took.push(before.elapsed());
    }
    // If the gateway sent again only after the time-out, this would take 2 s. The repetition after
    // the time-out may by chance have come just before.
    took.sort();
    assert!(took[17] < Duration::from_secs(1), "{took:?}");
}

#[test]
fn a_late_acknowledgement_means_nothing_to_the_edge_that_follows_under_the_same_key() {
    let qos =
        Qos { depth: 4, reliability: Reliability::Reliable, max_blocking_ms: 0, ..Qos::default() };
    let (fast, sure) = (
        mark(Reliability::BestEffort, Durability::Volatile),
        mark(Reliability::Reliable, Durability::Volatile),
    );
    let meeting = Meeting::new(true, &qos);
    let (heads, _samples) = meeting.heads();
    let mut publisher =
        meeting.host.node.bytes_publisher(TOPIC, "raw", publisher_options(&qos, 64)).unwrap();
    let _host = meeting.token(&Parsed::Host(meeting.me.clone()));
    let want = |qos| {
        let (host, of) = (meeting.me.clone(), meeting.gateway.clone());
        meeting.token(&Parsed::Want { host, of, offered: sure, qos, topic: TOPIC.parse().unwrap() })
    };
    let mut came = |what: &str, of: &dyn Fn(&[SampleHead]) -> Option<SampleHead>| {
        let mut found = None;
        eventually(what, || {
            // While a sample is not acknowledged, the publisher may have to wait, and there is no
            // loan. A further sample is not needed then.
            if let Ok(loan) = publisher.loan(8) {
                let _ = publisher.publish(loan);
            }
            found = of(&heads.lock().unwrap());
            found.is_some()
        });
        found.unwrap()
    };
    let before = want(fast);
    let old = came("the first edge sends", &|heads| heads.first().cloned());
    let _after = want(sure);
    drop(before);
    let edge = || meeting.host.report().and_then(|r| r.edges.into_iter().next());
    eventually("another edge", || edge().is_some_and(|e| e.qos == "rv" && !e.parked));
    let seen = heads.lock().unwrap().len();
    // Only reliable samples are sent again. A sample of the first route may still have arrived
    // after `seen`.
    let new = came("the second edge sends again", &|heads| {
        heads[seen..].iter().find(|head| head.sent_again).cloned()
    });
    let acknowledge = |number, outcome| {
        let now = MonotonicNs::now();
        let ack = Ack { outcome, accepts: 0, number, sent: now, received: now, answered: now };
        let key = Parsed::Ack {
            to: meeting.gateway.clone(),
            from: meeting.me.clone(),
            offered: sure,
            topic: TOPIC.parse().unwrap(),
        };
        meeting.session.put(meeting.keys.key(&key), ack.encode().to_vec()).wait().unwrap();
    };
    acknowledge(old.number, Outcome::Published);
    acknowledge(new.number, Outcome::Expired);
    eventually("the second one counted", || edge().is_some_and(|e| e.figures.refused == 1));
    assert_eq!(edge().unwrap().figures.delivered, 0, "{old:?} {new:?}");
}

#[test]
fn a_sample_of_an_unknown_publisher_has_the_list_asked_for_again() {
    let qos = Qos { depth: 4, durability: Durability::TransientLocal, ..Qos::default() };
    let offered = QosMark::of(&qos);
    let meeting = Meeting::new(false, &qos);
    let schema = Arc::new(Schema::bytes("bytes", "raw", ""));
    let mut subscription =
        meeting.host.node.bytes_subscription(TOPIC, "raw", subscription_options(&qos)).unwrap();
    let offer = Offer { node: "mapper".parse().unwrap(), schema, qos, max_payload: 64 };
    let topic = TOPIC.parse().unwrap();
    let list = Arc::new(Mutex::new(List {
        topic,
        change: 1,
        publishers: vec![(EndpointId(1), offer.clone())],
        ended: Vec::new(),
    }));
    let asked = Arc::new(Mutex::new(0));
    let (listed, count) = (list.clone(), asked.clone());
    let lists = meeting.session.declare_queryable(meeting.keys.key(&meeting.topic())).callback(
        move |query| {
            *count.lock().unwrap() += 1;
            let bytes = listed.lock().unwrap().encode().unwrap();
            let _ = query.reply(query.key_expr().clone(), bytes).wait();
        },
    );
    let clock = meeting
        .session
        .declare_queryable(meeting.keys.key(&Parsed::Clock(meeting.me.clone())))
        .callback(|query| {
            // Reports a change of the list that the stranger never announces.
            let time =
                Time { received: MonotonicNs::now(), answered: MonotonicNs::now(), changes: 1 };
            let _ = query.reply(query.key_expr().clone(), time.encode().to_vec()).wait();
        });
    let (_lists, _clock) = (lists.wait().unwrap(), clock.wait().unwrap());
    let answers = Arc::new(Mutex::new(Vec::new()));
    let of_callback = answers.clone();
    let acks = meeting.session.declare_subscriber(meeting.keys.addressed("a", &meeting.me));
    let acks = acks.callback(move |ack| {
        of_callback.lock().unwrap().push(Ack::decode(&ack.payload().to_bytes()).unwrap())
    });
    let _acks = acks.wait().unwrap();
    let _tokens =
        [meeting.token(&Parsed::Host(meeting.me.clone())), meeting.token(&meeting.topic())];
    eventually("received", || subscription.matched() == 1);
    eventually("the clock is known", || {
        meeting.host.report().is_some_and(|r| r.hosts.iter().any(|h| h.offset_ns.is_some()))
    });
    assert_eq!(meeting.send(&answers, offered, 1, 1), Outcome::Published);
    // The list was requested more than once if this process was slow to answer.
    let before = *asked.lock().unwrap();

    // The second publisher is not in the list, and no message announces the change.
    assert_eq!(meeting.send(&answers, offered, 2, 2), Outcome::NotYet);
    eventually("asked again", || *asked.lock().unwrap() > before);
    list.lock()
        .unwrap()
        .publishers
        .push((EndpointId(2), Offer { node: "second".parse().unwrap(), ..offer.clone() }));
    let mut number = 2;
    eventually("received", || {
        number += 1;
        meeting.send(&answers, offered, number, 2) == Outcome::Published
    });
    // Samples published on this host wait for a subscription that has yet to find its publisher.
    let mut received = Vec::new();
    eventually("received here", || {
        received.extend(std::iter::from_fn(|| {
            Some(subscription.take().unwrap()?.payload().unwrap()[0])
        }));
        received.len() >= 2
    });
    assert_eq!(received, [1, 2]);

    // A third publisher is refused, so nothing waits for it.
    let too_long = Offer { max_payload: 65, ..offer };
    list.lock().unwrap().publishers.push((EndpointId(3), too_long));
    eventually("refused", || {
        number += 1;
        meeting.send(&answers, offered, number, 3) == Outcome::Unknown
    });
    let report = meeting.host.report().unwrap();
    assert!(
        report.refused.iter().any(|r| r.reason.contains("64 are permitted here")),
        "{:?}",
        report.refused
    );
}

#[test]
fn a_gateway_of_another_release_is_named_with_the_remedy() {
    let meeting = Meeting::new(false, &Qos::default());
    let old = meeting
        .session
        .liveliness()
        .declare_token("driveline/1/test/host/old.00000000000000ab")
        .wait()
        .unwrap();
    let problem = |meeting: &Meeting| {
        let report = meeting.host.report()?;
        report.hosts.into_iter().find(|h| h.host == "old.00000000000000ab")?.problem
    };
    let mut text = None;
    eventually("reported", || {
        text = problem(&meeting);
        text.is_some()
    });
    assert!(
        text.as_ref().is_some_and(|t| t.contains("version 1") && t.contains("same release")),
        "{text:?}"
    );
    drop(old);
    eventually("gone", || problem(&meeting).is_none());
}

#[test]
fn a_host_without_a_place_is_heard_when_another_has_gone() {
    let qos = Qos { depth: 4, ..Qos::default() };
    let meeting = Meeting::new(false, &qos);
    let subscription =
        meeting.host.node.bytes_subscription(TOPIC, "raw", subscription_options(&qos)).unwrap();
    let token = |n| meeting.token(&Parsed::Host(HostId::new("nobody", n).unwrap()));
    // A gateway assumes a broken connection to a host that does not answer.
    let clocks =
        meeting.session.declare_queryable(meeting.keys.tokens("clock")).callback(|query| {
            let time =
                Time { received: MonotonicNs::now(), answered: MonotonicNs::now(), changes: 1 };
            let _ = query.reply(query.key_expr().clone(), time.encode().to_vec()).wait();
        });
    let _clocks = clocks.wait().unwrap();
    let mut others: Vec<_> = (1..=MAX_HOSTS as u64).map(token).collect();
    let report = || meeting.host.report().unwrap_or_default();
    eventually("all known", || report().hosts.len() == MAX_HOSTS);
    let offer = Offer {
        node: "mapper".parse().unwrap(),
        schema: Arc::new(Schema::bytes("bytes", "raw", "")),
        qos,
        max_payload: 64,
    };
    let _lists = meeting.offer(vec![(EndpointId(1), offer)]);
    let turned_away = |r: &Report| {
        let me = meeting.me.to_string();
        r.hosts
            .iter()
            .any(|h| h.host == me && h.problem.as_ref().is_some_and(|p| p.contains("64 hosts")))
    };
    eventually("turned away", || turned_away(&report()));
    assert_eq!(subscription.matched(), 0);
    drop(others.pop());
    eventually("received", || subscription.matched() == 1);
    assert!(!turned_away(&report()));
}

/// Any peer that may connect can announce hosts.
#[test]
fn absent_hosts_leave_pins_for_local_subscriptions_and_free_their_places() {
    let qos = Qos { depth: 4, ..Qos::default() };
    let offered = QosMark::of(&qos);
    let mut topic = carried(TOPIC, true, false, 64, &qos);
    topic["hosts"] = 3.into();
    let meeting = Meeting::of(&topic);
    let mut publisher =
        meeting.host.node.bytes_publisher(TOPIC, "raw", publisher_options(&qos, 64)).unwrap();
    eventually("watched", || publisher.matched() >= 1);
    let want = |name: &str| meeting.want(&HostId::new(name, 1).unwrap(), offered, offered);
    let wants: Vec<_> = (0..16).map(|n| want(&format!("nobody{n}"))).collect();
    let refused = |r: &Report| {
        r.refused
            .iter()
            .filter(|r| {
                r.outgoing && r.reason.contains("3 hosts already") && r.reason.contains("`pins:`")
            })
            .count()
    };
    eventually("three have it", || {
        meeting.host.report().is_some_and(|r| r.edges.len() == 3 && refused(&r) == 13)
    });
    let subscription =
        meeting.host.node.bytes_subscription(TOPIC, "raw", subscription_options(&qos)).unwrap();
    eventually("matched", || subscription.matched() == 1);
    drop(wants);
    let _want = want("somebody");
    eventually("wanted", || {
        meeting
            .host
            .report()
            .is_some_and(|r| r.edges.iter().any(|e| e.to.starts_with("somebody.") && !e.parked))
    });
    eventually("none refused", || meeting.host.report().is_some_and(|r| refused(&r) == 0));
}
