// SPDX-License-Identifier: Apache-2.0
//! Hostile ends, which write arbitrary samples into the topics of a service. They use the transport
//! directly, so no code checks their samples.

use crate::support::{Outcomes, PATIENCE, Rig, Tile, TileRequest, at, caller, rig, until};
use driveline::service::ServiceStats;
use driveline::types::service::{Answer, Outcome, ServiceName, ShortId};
use driveline::types::{Durability, Qos, Reliability, SampleHeader};
use driveline::{Payload, Reach};
use driveline_shm::{
    Participant, ParticipantConfig, Publisher, PublisherConfig, Subscription, SubscriptionConfig,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::{Cell, RefCell};

fn participant(r: &Rig) -> Participant {
    Participant::open(ParticipantConfig { domain_dir: Some(r.domain()), name: "hostile".into() })
        .unwrap()
}

fn name() -> ServiceName {
    "map/tile".parse().unwrap()
}

fn publish(publisher: &mut Publisher, word: Option<u64>, bytes: &[u8]) {
    let mut loan = publisher.loan(bytes.len()).unwrap();
    loan.payload_mut().copy_from_slice(bytes);
    publisher
        .publish(loan, &mut SampleHeader { service: word, ..SampleHeader::stamped_now() })
        .unwrap();
}

fn runner() -> TestRunner {
    TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() })
}

/// Publisher of a client's requests.
fn hostile_client(r: &Rig, depth: u32) -> Publisher {
    let mut config = PublisherConfig::new(
        name().requests().unwrap(),
        "hostile".parse().unwrap(),
        TileRequest::payload_schema(),
        256,
    );
    config.qos = Qos { depth, reliability: Reliability::Reliable, ..Qos::default() };
    participant(r).create_publisher(config).unwrap()
}

/// A client that sends arbitrary requests: the server continues to serve other clients.
#[test]
fn any_request_leaves_the_server_in_service() {
    let r = rig(Reach::Host);
    let (mut service, mut honest) = r.pair();
    let mut hostile = hostile_client(&r, 4);
    until("matched", || hostile.matched() == 1 && service.raw().clients() == 2);
    // The server accepts a request by its service word, which is the id of the server's
    // subscription. This id is no secret.
    let server = hostile.subscriptions()[0].subscription;
    let word =
        prop_oneof![Just(Some(ShortId::from(server).0)), any::<u64>().prop_map(Some), Just(None)];
    let bytes = |len| proptest::collection::vec(any::<u8>(), len);
    // Payloads with the length of a request, and payloads of any length.
    let request = (word, prop_oneof![bytes(8..9), bytes(0..256)]);
    let ends = RefCell::new((&mut hostile, &mut service));
    runner()
        .run(&request, |(word, bytes)| {
            let (hostile, service) = &mut *ends.borrow_mut();
            publish(hostile, word, &bytes);
            while let Some((request, responder)) = service.take().unwrap() {
                prop_assert_eq!(
                    (request.header().payload_len, word),
                    (8, Some(ShortId::from(server).0))
                );
                let _ = responder.send(Tile { x: 0, y: 0 });
            }
            Ok(())
        })
        .unwrap();
    let stats = service.stats();
    assert!(stats.misaddressed > 0 && stats.refused > 0, "{stats:?}");
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| honest.call(at(4, 1), PATIENCE).map(|t| t.view().unwrap().x));
        until("answered", || {
            if let Some((_, responder)) = service.take().unwrap() {
                responder.send(Tile { x: 4, y: 1 }).unwrap();
            }
            calling.is_finished()
        });
        assert_eq!(calling.join().unwrap().unwrap(), 4);
    });
}

/// The client announces a depth larger than any response publisher can have, and never reads a
/// response.
#[test]
fn a_client_that_lives_and_cannot_be_answered_is_not_counted_as_gone() {
    let r = rig(Reach::Host);
    let mut service = r.service();
    let mut hostile = hostile_client(&r, Qos::MAX_DEPTH);
    until("matched", || hostile.matched() == 1 && service.raw().clients() == 1);
    let server = ShortId::from(hostile.subscriptions()[0].subscription);
    publish(&mut hostile, Some(server.0), &[0; 8]);
    until("counted", || {
        assert!(service.take().unwrap().is_none());
        service.stats().requests == 1
    });
    assert_eq!(
        service.stats(),
        ServiceStats { requests: 1, no_room: 1, ..ServiceStats::default() }
    );
}

struct HostileServer {
    requests: Subscription,
    responses: Publisher,
}

fn hostile_server(r: &Rig) -> (HostileServer, driveline::Executor, crate::support::TileCaller) {
    let participant = participant(r);
    let mut config = SubscriptionConfig::new(
        name().requests().unwrap(),
        "hostile".parse().unwrap(),
        TileRequest::payload_schema(),
    );
    config.qos = Qos { depth: 8, reliability: Reliability::Reliable, ..Qos::default() };
    let requests = participant.create_subscription(config).unwrap();
    let mut client = r.client_with(4);
    assert!(client.wait_for_server(PATIENCE));
    until("matched", || requests.matched() == 1);
    let client_id = ShortId::from(requests.publishers()[0].publisher);
    let topic = name().responses(client_id).unwrap();
    let mut config =
        PublisherConfig::new(topic, "hostile".parse().unwrap(), Tile::payload_schema(), 4096);
    config.qos = Qos { depth: 16, durability: Durability::TransientLocal, ..Qos::default() };
    let responses = participant.create_publisher(config).unwrap();
    until("matched", || responses.matched() == 1);
    let (executor, caller) = caller(client);
    (HostileServer { requests, responses }, executor, caller)
}

/// A publisher of another type on a response topic does not count as the server.
#[test]
fn a_publisher_of_another_type_ends_no_call() {
    let r = rig(Reach::Host);
    let _server = r.map_server();
    let mut client = r.client();
    assert!(client.wait_for_server(PATIENCE));
    assert_eq!(client.call(at(1, 1), PATIENCE).unwrap().view().unwrap().x, 1);
    let participant = participant(&r);
    let config = SubscriptionConfig::new(
        name().requests().unwrap(),
        "hostile".parse().unwrap(),
        TileRequest::payload_schema(),
    );
    let listener = participant.create_subscription(config).unwrap();
    until("matched", || listener.matched() == 1);
    let id = ShortId::from(listener.publishers()[0].publisher);
    drop(listener);
    until("alone", || client.wait_for_server(PATIENCE));
    let topic = name().responses(id).unwrap();
    let config = PublisherConfig::new(
        topic,
        "hostile".parse().unwrap(),
        TileRequest::payload_schema(),
        4096,
    );
    let misfit = participant.create_publisher(config).unwrap();
    until("refused", || misfit.stats().refused_type > 0);
    for n in 2..5 {
        assert_eq!(client.call(at(n, 1), PATIENCE).unwrap().view().unwrap().x, n);
    }
}

/// A server that sends arbitrary responses: each call ends once, and only by a response that
/// contains its number.
#[test]
fn any_response_ends_at_most_the_call_that_it_names() {
    let r = rig(Reach::Host);
    let (server, executor, caller) = hostile_server(&r);
    let server = RefCell::new(server);
    // Either a number up to 5 before the newest request, with any outcome, or an arbitrary word.
    let near =
        (0..6u64, prop_oneof![Just(0u8), any::<u8>()]).prop_map(|(back, code)| Ok((back, code)));
    let word = prop_oneof![near, any::<Option<u64>>().prop_map(Err)];
    let responses =
        proptest::collection::vec((word, proptest::collection::vec(any::<u8>(), 0..256)), 1..4);
    let newest = Cell::new(0);
    let outcomes = Outcomes::default();
    // A publisher may be matched before the client has opened the publisher's segment. Until then,
    // responses arrive late.
    caller.call_then(at(1, 1), PATIENCE, outcomes.take()).unwrap();
    until("asked", || {
        server
            .borrow_mut()
            .requests
            .take_next()
            .unwrap()
            .map(|r| newest.set(r.header().sequence))
            .is_some()
    });
    publish(&mut server.borrow_mut().responses, Some(newest.get()), &[0; 8]);
    until("heard", || {
        executor.run_ready();
        !outcomes.seen().is_empty()
    });
    runner()
        .run(&responses, |responses| {
            let mut server = server.borrow_mut();
            let before = outcomes.seen().len();
            let mut calls = 0;
            while calls < 4 && caller.call_then(at(1, 1), PATIENCE, outcomes.take()).is_ok() {
                calls += 1;
            }
            while let Some(request) = server.requests.take_next().unwrap() {
                newest.set(request.header().sequence);
            }
            let mut named = std::collections::BTreeSet::new();
            for (word, bytes) in &responses {
                let near = |&(back, code): &(u64, u8)| {
                    Some(newest.get().saturating_sub(back) | u64::from(code) << 48)
                };
                let word = word.as_ref().map_or_else(|any| *any, near);
                publish(&mut server.responses, word, bytes);
                named.extend(word.map(|w| Answer::decode(w).request));
                executor.run_ready();
            }
            prop_assert!(outcomes.seen().len() - before <= named.len());
            Ok(())
        })
        .unwrap();
    let stats = caller.raw().stats();
    assert_eq!(stats.answered + stats.refused, outcomes.seen().len() as u64);
    assert!(stats.late > 0 && stats.stray > 0, "{stats:?}");
    assert!(stats.answered > 0 && stats.refused > 0, "{stats:?}");
}

#[test]
fn an_outcome_of_a_later_release_is_a_refusal_with_its_text() {
    let r = rig(Reach::Host);
    let (mut server, executor, caller) = hostile_server(&r);
    let outcomes = Outcomes::default();
    caller.call_then(at(1, 1), PATIENCE, outcomes.take()).unwrap();
    let number = server.requests.take_next().unwrap().unwrap().header().sequence;
    publish(
        &mut server.responses,
        Some(Answer { request: number, outcome: Outcome::Other(200) }.encode()),
        b"come back on Monday",
    );
    until("heard", || executor.run_ready() == 1);
    let seen = outcomes.seen();
    assert!(
        matches!(&seen[..], [Err(text)] if text.contains("the server refused: come back on \
             Monday")),
        "{seen:?}"
    );
}
