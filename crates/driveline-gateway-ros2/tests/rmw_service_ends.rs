// SPDX-License-Identifier: Apache-2.0
//! Faults in calls between Driveline and nodes on rmw_zenoh: deaths, time-outs, and unreadable
//! messages. See sections 7 and 9 of `docs/protocols/ros2-services.md`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline::CallError;
use driveline::service::RawClient;
use rig::calls::{
    ADD, ADD_DDS, BLOB, BLOB_DDS, SERVICE, blob, client_of, hash, here, ints, matched, offered,
    one, rule, server_here, take, with,
};
use rig::rmw::{Node, Router};
use rig::rmw_services::attachment;
use rig::{PATIENCE, eventually};
use serde_json::json;
use std::time::Duration;

#[test]
fn a_slow_server_costs_its_call_the_time_out_and_nothing_else() {
    let router = Router::new();
    let services = json!([
        rule(ADD, "driveline", json!({ "timeout_ms": 300 })),
        { "service": "/there", "type": ADD, "server": "ros", "timeout_ms": 300 },
    ]);
    let rig = with(&router, services, "jazzy");
    let (node, hash) = (Node::new(&router, 0, "node"), hash(ADD));
    let mut server = server_here(&here(&rig, "server"), ADD);
    offered(&rig);
    let mut client = node.client("/math/add", (ADD_DDS, &hash));
    let (mut held, mut late) = (None, 0);
    // The time-out is short: it may end before the request is taken, also in calls that should be
    // answered.
    eventually("taken in time", || {
        let call = client.call(&ints(&[1, 2]));
        held = Some(take(&mut server));
        let reported = call.outcome().unwrap_err();
        late += 1;
        assert!(reported.contains("no response after"), "{reported}");
        let was_taken = reported.contains("taken, and may have been executed");
        assert!(was_taken || reported.contains("not taken"), "{reported}");
        was_taken
    });
    held.unwrap().responder.send_bytes(&ints(&[3])).unwrap();
    eventually("answered", || {
        let call = client.call(&ints(&[1, 3]));
        take(&mut server).responder.send_bytes(&ints(&[4])).unwrap();
        let outcome = call.outcome();
        late += u64::from(outcome.is_err());
        assert!(
            outcome.as_ref().map_or_else(|e| e.contains("no response after"), |r| *r == ints(&[4])),
            "a late response to another call is not taken for it: {outcome:?}"
        );
        outcome.is_ok()
    });
    assert_eq!(rig.ended(SERVICE, "timed_out"), late);
    let there = node.server("/there", (ADD_DDS, &hash));
    let mut client = matched(&here(&rig, "client"), "there", ADD);
    let Err(CallError::Refused { text, .. }) = client.call_bytes(&ints(&[1, 2]), PATIENCE) else {
        panic!("it has not answered")
    };
    assert!(text.contains("no response of the server in ROS 2 within 300 ms"), "{text}");
    let late = there.take();
    late.reply(&ints(&[3]));
    eventually("counted", || {
        rig.strays("there", "late") == 1 && rig.ended("there", "timed_out") == 1
    });
    eventually("answered", || {
        std::thread::scope(|scope| {
            scope.spawn(|| there.take().reply(&ints(&[4])));
            match client.call_bytes(&ints(&[1, 3]), PATIENCE) {
                Err(CallError::Refused { text, .. }) if text.contains("within 300 ms") => false,
                outcome => outcome.unwrap().payload().unwrap() == ints(&[4]),
            }
        })
    });
}

#[test]
fn a_server_that_dies_in_a_call_ends_it_at_once() {
    let router = Router::new();
    let services = json!([
        rule(ADD, "driveline", json!({ "timeout_ms": 600_000 })),
        { "service": "/there", "type": ADD, "server": "ros", "timeout_ms": 600_000 },
    ]);
    let rig = with(&router, services, "jazzy");
    let (node, hash) = (Node::new(&router, 0, "node"), hash(ADD));
    let mut server = server_here(&here(&rig, "server"), ADD);
    offered(&rig);
    let mut client = node.client("/math/add", (ADD_DDS, &hash));
    let call = client.call(&ints(&[1, 2]));
    // The gateway counts a call as in flight before it sends the request, so wait for the request
    // first.
    assert!(server.wait(Some(PATIENCE)).unwrap(), "its request came");
    eventually("in flight", || rig.service(SERVICE).under_way == 1);
    drop(server);
    let reported = call.outcome().unwrap_err();
    assert!(reported.contains("went away"), "{reported}");
    eventually("counted", || rig.ended(SERVICE, "server_gone") == 1);
    let mut client = client_of(&here(&rig, "client"), "there", ADD);
    // The server's token goes, its query ends, or its session ends, in any order.
    for dies in ["lets go", "ends", "goes from the graph"] {
        let other = Node::new(&router, 0, "other");
        let there = other.server("/there", (ADD_DDS, &hash));
        assert!(client.wait_for_server(PATIENCE));
        let mut reported = String::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let request = there.take();
                match dies {
                    "lets go" => drop(request),
                    "ends" => {
                        drop((there, other));
                        std::mem::forget(request);
                    }
                    _ => {
                        drop(there);
                        std::mem::forget((other, request));
                    }
                }
            });
            let outcome = client.call_bytes(&ints(&[1, 2]), PATIENCE);
            let Err(CallError::Refused { text, .. }) = outcome else {
                panic!("{dies}: it has not answered: {:?}", outcome.err())
            };
            reported = text;
        });
        assert!(
            reported.contains("went away without a response")
                && reported.contains("may have executed"),
            "{dies}: {reported}"
        );
        // The gateway may notice earlier than the client that the server is gone. The client would
        // then call the service that was offered here for that server.
        eventually("no server", || {
            rig.service("there").servers.is_empty() && !client.wait_for_server(Duration::ZERO)
        });
    }
    assert_eq!(rig.ended("there", "server_gone"), 3);
}

#[test]
fn a_client_that_dies_in_a_call_leaves_nothing() {
    let router = Router::new();
    let services = json!([
        rule(ADD, "driveline", json!({ "pending": 1 })),
        { "service": "/there", "type": ADD, "server": "ros", "pending": 1 },
    ]);
    let rig = with(&router, services, "jazzy");
    let (node, hash) = (Node::new(&router, 0, "node"), hash(ADD));
    let mut server = server_here(&here(&rig, "server"), ADD);
    offered(&rig);
    let mut client = node.client("/math/add", (ADD_DDS, &hash));
    eventually("seen", || rig.service(SERVICE).clients == ["/node"]);
    let _call = client.call(&ints(&[1, 2]));
    let held = take(&mut server);
    drop(client);
    eventually("gone", || rig.service(SERVICE).clients.is_empty());
    held.responder.send_bytes(&ints(&[3])).unwrap();
    eventually("counted", || {
        rig.ended(SERVICE, "client_gone") == 1 && rig.service(SERVICE).under_way == 0
    });
    let mut client = node.client("/math/add", (ADD_DDS, &hash));
    let call = client.call(&ints(&[1, 3]));
    take(&mut server).responder.send_bytes(&ints(&[4])).unwrap();
    assert_eq!(call.outcome(), Ok(ints(&[4])));
    // The other direction.
    let there = node.server("/there", (ADD_DDS, &hash));
    let new_client = |name: &str| matched(&here(&rig, name), "there", ADD);
    let mut client = new_client("first");
    assert!(matches!(
        // time: no server answers, so only the time-out ends it
        client.call_bytes(&ints(&[1, 2]), Duration::from_millis(50)),
        Err(CallError::TimedOut { .. })
    ));
    let held = there.take();
    drop(client);
    held.reply(&ints(&[3]));
    // The response counts as answered if the gateway does not know yet that the client has gone.
    let ended = || rig.ended("there", "client_gone") + rig.service("there").answered;
    eventually("over", || ended() == 1 && rig.service("there").under_way == 0);
    let mut client = new_client("second");
    std::thread::scope(|scope| {
        scope.spawn(|| there.take().reply(&ints(&[4])));
        assert_eq!(
            client.call_bytes(&ints(&[1, 3]), PATIENCE).unwrap().payload().unwrap(),
            ints(&[4])
        );
    });
}

#[test]
fn unreadable_messages_are_refused_and_counted_and_calls_continue() {
    let router = Router::new();
    let services = json!([
        rule(ADD, "driveline", json!({})),
        { "service": "/there", "type": ADD, "server": "ros" },
    ]);
    let rig = with(&router, services, "jazzy");
    let (node, hash) = (Node::new(&router, 0, "node"), hash(ADD));
    let mut server = server_here(&here(&rig, "server"), ADD);
    offered(&rig);
    let mut client = node.client("/math/add", (ADD_DDS, &hash));
    for (n, wrong) in [None, Some(vec![7; 77]), Some(attachment(0, client.gid)), Some(vec![0; 33])]
        .into_iter()
        .enumerate()
    {
        let reported = client.call_as(wrong, &ints(&[1, 2])).outcome().unwrap_err();
        assert!(reported.contains("attachment"), "{reported}");
        assert_eq!(rig.ended(SERVICE, "attachment"), n as u64 + 1);
    }
    for (n, wrong) in [&[][..], &[0, 1, 0], &[0, 9, 0, 0, 1, 2, 3, 4]].into_iter().enumerate() {
        let reported = client.call(wrong).outcome().unwrap_err();
        assert!(reported.contains("does not begin as CDR does"), "{reported}");
        let report = rig.service(SERVICE);
        assert_eq!(report.ended.values().sum::<u64>(), 4 + n as u64 + 1, "{report:?}");
    }
    assert!(server.take().unwrap().is_none(), "nothing of it came here");
    // The gateway does not check the bytes after the encapsulation; the server does.
    let truncated = &ints(&[1, 2])[..9];
    let call = client.call(truncated);
    let request = take(&mut server);
    assert_eq!(request.sample.payload().unwrap(), truncated);
    request.responder.send_bytes(&[0, 1, 0, 0, 9]).unwrap();
    assert_eq!(call.outcome(), Ok(vec![0, 1, 0, 3, 9, 0, 0, 0]), "padded, as its options state");
    // Responses.
    let there = node.server("/there", (ADD_DDS, &hash));
    let mut client = matched(&here(&rig, "client"), "there", ADD);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let request = there.take();
            request.reply_as(request.number + 7, request.gid, &ints(&[1]));
            request.reply_as(request.number, [9; 16], &ints(&[2]));
            request.reply_without_attachment(&ints(&[3]));
            request.reply(&ints(&[4])[..7]);
            request.reply(&ints(&[5]));
            there.take().reply(&[1, 1, 1]);
        });
        assert_eq!(
            client.call_bytes(&ints(&[1, 3]), PATIENCE).unwrap().payload().unwrap(),
            &ints(&[4])[..7],
            "as it came"
        );
        let outcome = client.call_bytes(&ints(&[1, 3]), PATIENCE);
        assert!(
            matches!(&outcome, Err(CallError::Refused { text, .. })
                if text.contains("does not begin as CDR does")),
            "{:?}",
            outcome.err()
        );
    });
    eventually("counted", || rig.strays("there", "stray") == 3 && rig.strays("there", "late") == 1);
}

#[test]
fn too_long_and_too_many_messages_are_refused_and_counted() {
    let router = Router::new();
    let small = json!({ "max_request": 20, "max_response": 12, "pending": 1 });
    let mut services = json!([
        rule(BLOB, "driveline", small.clone()),
        { "service": "/there", "type": BLOB, "server": "ros" },
    ]);
    services[1].as_object_mut().unwrap().extend(small.as_object().unwrap().clone());
    let rig = with(&router, services, "jazzy");
    let (node, hash) = (Node::new(&router, 0, "node"), hash(BLOB));
    let mut server = server_here(&here(&rig, "server"), BLOB);
    offered(&rig);
    let mut client = node.client("/math/add", (BLOB_DDS, &hash));
    let reported = client.call(&blob(13, 1)).outcome().unwrap_err();
    assert!(
        reported.contains("a request of 21 bytes is longer than `max_request`, which is 20"),
        "{reported}"
    );
    let call = client.call(&blob(12, 1));
    let held = take(&mut server);
    let reported = client.call(&blob(4, 1)).outcome().unwrap_err();
    assert!(reported.contains("`pending` of the rule: 1)"), "{reported}");
    held.responder.send_bytes(&blob(8, 1)).unwrap();
    let reported = call.outcome().unwrap_err();
    assert!(
        reported.contains("a response of 16 bytes is longer than `max_response`, which is 12"),
        "{reported}"
    );
    let call = client.call(&blob(12, 1));
    take(&mut server).responder.send_bytes(&blob(4, 1)).unwrap();
    assert_eq!(call.outcome(), Ok(blob(4, 1)));
    eventually("counted", || {
        rig.ended(SERVICE, "too_long") == 2
            && rig.ended(SERVICE, "busy") == 1
            && rig.service(SERVICE).answered == 1
    });
    // The other direction.
    let there = node.server("/there", (BLOB_DDS, &hash));
    let new_client = |name: &str| matched(&here(&rig, name), "there", BLOB);
    let (mut client, mut other) = (new_client("client"), new_client("other"));
    let refused = |client: &mut RawClient, request: &[u8], says: &str| {
        let outcome = client.call_bytes(request, PATIENCE);
        assert!(
            matches!(&outcome, Err(CallError::Refused { text, .. }) if text.contains(says)),
            "{:?}",
            outcome.err()
        );
    };
    refused(&mut client, &blob(13, 1), "a request of 21 bytes is longer than `max_request`");
    assert_eq!(there.waiting(), 0, "nothing of it went there");
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            refused(
                &mut client,
                &blob(4, 1),
                "a response of 16 bytes is longer than `max_response`",
            )
        });
        let held = there.take();
        refused(&mut other, &blob(4, 1), "`pending` of the rule: 1)");
        held.reply(&blob(8, 1));
        asks.join().unwrap();
        scope.spawn(|| there.take().reply(&blob(4, 2)));
        assert_eq!(other.call_bytes(&blob(4, 1), PATIENCE).unwrap().payload().unwrap(), blob(4, 2));
    });
}

#[test]
fn a_gateway_that_is_killed_in_a_call_is_found_by_both_sides_and_the_next_one_serves() {
    let router = Router::new();
    let mut rig = one(&router, rule(ADD, "driveline", json!({})));
    rig.stop();
    let process = rig.process();
    let (node, hash) = (Node::new(&router, 0, "asker"), hash(ADD));
    let mut server = server_here(&here(&rig, "server"), ADD);
    let offered = || node.graph().iter().any(|t| t.contains("/SS/"));
    eventually("offered", offered);
    let mut client = node.client("/math/add", (ADD_DDS, &hash));
    let call = client.call(&ints(&[1, 2]));
    let held = take(&mut server);
    drop(process);
    eventually("its query ends", || call.has_ended());
    assert!(call.replies().is_empty());
    eventually("it is not offered any more", || !offered());
    eventually("the server knows", || {
        held.responder.client_is_gone() || server.take().unwrap().is_some()
    });
    assert!(held.responder.send_bytes(&ints(&[3])).is_err());
    rig.start();
    eventually("offered again", offered);
    let call = client.call(&ints(&[1, 2]));
    take(&mut server).responder.send_bytes(&ints(&[3])).unwrap();
    assert_eq!(call.outcome(), Ok(ints(&[3])));
}

/// The session of the gateway ends with the gateway. Otherwise other nodes would see it while its
/// process lives.
#[test]
fn a_gateway_that_ends_in_calls_is_gone_from_the_graph() {
    let router = Router::new();
    let services = json!([
        rule(ADD, "driveline", json!({ "timeout_ms": 600_000 })),
        { "service": "/there", "type": ADD, "server": "ros", "timeout_ms": 600_000 },
    ]);
    let mut rig = with(&router, services, "jazzy");
    let (node, hash) = (Node::new(&router, 0, "node"), hash(ADD));
    let there = node.server("/there", (ADD_DDS, &hash));
    let mut server = server_here(&here(&rig, "server"), ADD);
    offered(&rig);
    let call = node.client("/math/add", (ADD_DDS, &hash)).call(&ints(&[1, 2]));
    let _held = take(&mut server);
    let mut client = matched(&here(&rig, "client"), "there", ADD);
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| client.call_bytes(&ints(&[1, 2]), PATIENCE).err());
        let _held = there.take();
        rig.stop();
        let error = asks.join().unwrap();
        assert!(
            matches!(
                error,
                Some(CallError::ServerGone { was_taken: true, .. } | CallError::Refused { .. })
            ),
            "{error:?}"
        );
    });
    eventually("its query ends", || call.has_ended());
    let gone = || !node.graph().iter().any(|t| t.contains("driveline_gateway"));
    eventually("gone", gone);
    // It stays gone.
    assert!((0..20).all(|_| gone()), "{:?}", node.graph());
}
