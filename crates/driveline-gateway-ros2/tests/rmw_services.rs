// SPDX-License-Identifier: Apache-2.0
//! Services between Driveline and nodes on rmw_zenoh: `docs/protocols/ros2-services.md`. Faults in
//! a call are in `rmw_service_ends.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline::CallError;
use driveline::service::RawRequest;
use rig::calls::{
    ADD, ADD_DDS, BLOB, BLOB_DDS, SERVICE, blob, client_of, hash, here, ints, matched, offered,
    one, rule, server_here, take, with,
};
use rig::rmw::{Node, Router};
use rig::samples::BIG;
use rig::{PATIENCE, eventually};
use serde_json::json;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

#[test]
fn a_ros_client_calls_a_driveline_server() {
    let router = Router::new();
    let rig = one(&router, rule(ADD, "driveline", json!({})));
    let (node, hash) = (Node::new(&router, 0, "asker"), hash(ADD));
    let mut client = node.client("/math/add", (ADD_DDS, &hash));
    let token =
        format!("/SS/%driveline_gateway/%math/adder/%math%add/{ADD_DDS}/{hash}/::,10:,:,:,,");
    let in_graph = |part: &str| node.graph().iter().any(|t| t.ends_with(part));
    assert_eq!(rig.service(SERVICE).problems, ["no server on this host offers it at host reach"]);
    assert!(!in_graph(&token), "no server");
    let mut server = server_here(&here(&rig, "math/adder"), ADD);
    offered(&rig);
    eventually("in the graph", || {
        in_graph(&token) && in_graph("/NN/%driveline_gateway/%math/adder")
    });
    for n in 1..=3 {
        let call = client.call(&ints(&[n, 40]));
        let request = take(&mut server);
        assert_eq!(request.sample.payload().unwrap(), ints(&[n, 40]));
        request.responder.send_bytes(&ints(&[n + 40])).unwrap();
        assert_eq!((call.number, call.outcome()), (n, Ok(ints(&[n + 40]))));
    }
    let call = client.call(&ints(&[1, 2]));
    take(&mut server).responder.refuse("the numbers are too small");
    let reported = call.outcome().unwrap_err();
    assert!(reported.contains("the numbers are too small"), "{reported}");
    eventually("counted", || rig.service(SERVICE).answered == 3);
    let report = rig.service(SERVICE);
    assert_eq!(
        (report.calls, report.under_way, report.ended),
        (4, 0, [("refused".to_owned(), 1)].into())
    );
    assert_eq!(
        (report.clients, report.servers.len(), report.servers[0].node.as_str()),
        (vec!["/asker".to_owned()], 1, "math/adder")
    );
    drop(server);
    eventually("gone from the graph", || !in_graph(&token) && !rig.service(SERVICE).callable);
    eventually("no server is asked any more", || !client.has_server());
    // Another server, with another node name.
    let mut server = server_here(&here(&rig, "other"), ADD);
    eventually("offered again", || in_graph(&token.replace("%math/adder", "%/other")));
    let call = client.call(&ints(&[5, 6]));
    take(&mut server).responder.send_bytes(&ints(&[11])).unwrap();
    assert_eq!(call.outcome(), Ok(ints(&[11])));
}

#[test]
fn a_driveline_client_calls_a_ros_server() {
    let router = Router::new();
    let rig = one(&router, rule(ADD, "ros", json!({})));
    let (node, hash) = (Node::new(&router, 0, "adder"), hash(ADD));
    let mut client = client_of(&here(&rig, "asker"), SERVICE, ADD);
    assert!(
        matches!(client.call_bytes(&ints(&[1, 2]), PATIENCE), Err(CallError::NoServer { .. })),
        "no server"
    );
    let server = node.server("/math/add", (ADD_DDS, &hash));
    assert!(client.wait_for_server(PATIENCE));
    let of_client =
        format!("/SC/%driveline_gateway/%/driveline/%math%add/{ADD_DDS}/{hash}/::,10:,:,:,,");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..=3 {
                let request = server.take();
                assert_eq!((request.number, &request.payload), (n, &ints(&[n, 40])));
                let mut token = None;
                eventually("its client is in the graph", || {
                    token = node.graph().into_iter().find(|t| t.ends_with(&of_client));
                    token.is_some()
                });
                let token = token.unwrap();
                assert_eq!(
                    request.gid,
                    twox_hash::XxHash3_128::oneshot(token.as_bytes()).to_le_bytes(),
                    "the gid is that of its token"
                );
                request.reply(&ints(&[n + 40]));
            }
        });
        for n in 1..=3 {
            let sum = client.call_bytes(&ints(&[n, 40]), PATIENCE).unwrap();
            assert_eq!(sum.payload().unwrap(), ints(&[n + 40]));
        }
    });
    // A response is delivered before it is counted.
    eventually("counted", || rig.service(SERVICE).answered == 3);
    let report = rig.service(SERVICE);
    assert_eq!((report.calls, report.under_way, report.ended.len()), (3, 0, 0));
    assert_eq!(
        (report.servers[0].node.as_str(), report.servers[0].problem.clone()),
        ("/adder", None)
    );
    drop(server);
    eventually("not here any more", || {
        matches!(
            client.call_bytes(&ints(&[1, 2]), PATIENCE),
            Err(CallError::NoServer { .. } | CallError::ServerGone { was_taken: false, .. })
        )
    });
}

#[test]
fn responses_of_4_mib_pass_whole_both_ways() {
    let router = Router::new();
    let services = json!([
        rule(BLOB, "driveline", json!({ "max_response": "5 MiB", "pending": 1 })),
        { "service": "/there", "type": BLOB, "server": "ros", "max_response": "5 MiB" },
    ]);
    let rig = with(&router, services, "jazzy");
    let (node, hash) = (Node::new(&router, 0, "node"), hash(BLOB));
    let mut server = server_here(&here(&rig, "server"), BLOB);
    offered(&rig);
    let mut client = node.client("/math/add", (BLOB_DDS, &hash));
    for n in 0..4 {
        let call = client.call(&blob(4, n));
        take(&mut server).responder.send_bytes(&blob(BIG, n)).unwrap();
        assert!(call.outcome().unwrap() == blob(BIG, n), "response {n} is whole");
    }
    let there = node.server("/there", (BLOB_DDS, &hash));
    let mut client = matched(&here(&rig, "client"), "there", BLOB);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..4).for_each(|n| there.take().reply(&blob(BIG, n))));
        for n in 0..4 {
            let got = client.call_bytes(&blob(4, n), PATIENCE).unwrap();
            assert!(got.payload().unwrap() == blob(BIG, n), "response {n} is whole");
        }
    });
}

#[test]
fn two_concurrent_clients_get_their_own_responses() {
    let router = Router::new();
    let services = json!([
        rule(ADD, "driveline", json!({})),
        { "service": "/there", "type": ADD, "server": "ros" },
    ]);
    let rig = with(&router, services, "jazzy");
    let hash = hash(ADD);
    let (one, two) = (Node::new(&router, 0, "one"), Node::new(&router, 0, "two"));
    let mut server = server_here(&here(&rig, "server"), ADD);
    offered(&rig);
    let (mut first, mut second) =
        (one.client("/math/add", (ADD_DDS, &hash)), two.client("/math/add", (ADD_DDS, &hash)));
    // Both clients use the same number.
    let calls = [first.call(&ints(&[1, 0])), second.call(&ints(&[2, 0]))];
    let mut requests = [take(&mut server), take(&mut server)];
    // The last request is answered first.
    requests.reverse();
    for RawRequest { sample, responder } in requests {
        responder.send_bytes(&ints(&[i64::from(sample.payload().unwrap()[4]) * 10])).unwrap();
    }
    assert_eq!((calls[0].outcome(), calls[1].outcome()), (Ok(ints(&[10])), Ok(ints(&[20]))));
    let there = one.server("/there", (ADD_DDS, &hash));
    let answer = || {
        let requests = [there.take(), there.take()];
        requests.iter().rev().for_each(|r| r.reply(&ints(&[i64::from(r.payload[4]) * 10])));
    };
    let ask = |n: i64| {
        matched(&here(&rig, &format!("client{n}")), "there", ADD)
            .call_bytes(&ints(&[n, 0]), PATIENCE)
            .unwrap()
            .payload()
            .unwrap()
            .to_vec()
    };
    std::thread::scope(|scope| {
        scope.spawn(answer);
        let asked = [scope.spawn(|| ask(3)), scope.spawn(|| ask(4))];
        assert_eq!(asked.map(|a| a.join().unwrap()), [ints(&[30]), ints(&[40])]);
    });
}

#[test]
fn a_server_that_is_restarted_at_once_gets_the_calls() {
    let router = Router::new();
    let rig = one(&router, json!({ "service": "/there", "type": ADD, "server": "ros" }));
    let (node, hash) = (Node::new(&router, 0, "adder"), hash(ADD));
    let first = node.server("/there", (ADD_DDS, &hash));
    let mut client = matched(&here(&rig, "client"), "there", ADD);
    std::thread::scope(|scope| {
        scope.spawn(|| first.take().reply(&ints(&[3])));
        assert_eq!(
            client.call_bytes(&ints(&[1, 2]), PATIENCE).unwrap().payload().unwrap(),
            ints(&[3])
        );
    });
    drop(first);
    let second = node.server("/there", (ADD_DDS, &hash));
    let (answered, over) = channel::<()>();
    std::thread::scope(|scope| {
        let second = &second;
        // The gateway may have given up a call to the first server, and its request may arrive here
        // too.
        scope.spawn(move || {
            // time: a pause between polls, which the end of the test ends
            while over.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
                (0..second.waiting()).for_each(|_| second.take().reply(&ints(&[4])));
            }
        });
        let answered = answered;
        // Repeated until the second server is discovered.
        eventually("answered", || {
            client
                .call_bytes(&ints(&[1, 3]), PATIENCE)
                .is_ok_and(|r| r.payload().unwrap() == ints(&[4]))
        });
        drop(answered);
    });
}

/// Newer rmw_zenoh repeats messages that it believes lost.
#[test]
fn a_request_that_comes_twice_is_executed_once() {
    let router = Router::new();
    let rig = one(&router, rule(ADD, "driveline", json!({})));
    let (node, hash) = (Node::new(&router, 0, "node"), hash(ADD));
    let mut server = server_here(&here(&rig, "server"), ADD);
    offered(&rig);
    let mut client = node.client("/math/add", (ADD_DDS, &hash));
    let first = client.call(&ints(&[1, 2]));
    let held = take(&mut server);
    let again = client.call_again(&ints(&[1, 2]));
    eventually("the first query ends", || first.has_ended());
    eventually("counted", || rig.ended(SERVICE, "duplicate") == 1);
    assert!(first.replies().is_empty() && server.take().unwrap().is_none());
    held.responder.send_bytes(&ints(&[3])).unwrap();
    assert_eq!(again.outcome(), Ok(ints(&[3])));
}

#[test]
fn incompatible_services_are_reported_with_the_remedy_and_never_called() {
    let router = Router::new();
    let services = json!([
        rule(ADD, "driveline", json!({})),
        { "service": "/there", "type": ADD, "server": "ros" },
        { "service": "/nowhere", "type": "nav_msgs/srv/GetMap", "server": "ros" },
    ]);
    let rig = with(&router, services, "jazzy");
    let (node, good) = (Node::new(&router, 0, "adder"), hash(ADD));
    assert!(rig.service("nowhere").left_out && !rig.service("there").left_out);
    assert!(
        rig.logged("service '/nowhere' is left out")
            && rig.service("nowhere").problems[0].contains("nav_msgs"),
        "{:?}",
        rig.service("nowhere")
    );
    let problem = |service: &str, says: &str| {
        eventually(says, || rig.service(service).problems.iter().any(|p| p.contains(says)));
        eventually("logged", || rig.logged(says));
        assert!(!rig.service(service).callable);
    };
    // A server here with another type.
    let server = server_here(&here(&rig, "server"), BLOB);
    problem(
        SERVICE,
        "the schemas of example_interfaces/srv/AddTwoInts_Request and \
         example_interfaces/srv/AddTwoInts_Response",
    );
    drop(server);
    // Two servers here.
    let servers = [server_here(&here(&rig, "one"), ADD), server_here(&here(&rig, "two"), ADD)];
    problem(SERVICE, "2 nodes offer it (one, two)");
    // Servers there.
    let mut client = client_of(&here(&rig, "client"), "there", ADD);
    let mut refused = |says: &str| {
        problem("there", says);
        // The client may notice only now that the previous server has gone.
        let outcomes = std::iter::repeat_with(|| {
            assert!(client.wait_for_server(PATIENCE), "callers get the reason");
            client.call_bytes(&ints(&[1, 2]), PATIENCE)
        });
        let outcome = outcomes
            .take(3)
            .find(|outcome| {
                !matches!(outcome, Err(CallError::ServerGone { .. } | CallError::NoServer { .. }))
            })
            .unwrap();
        assert!(
            matches!(&outcome, Err(CallError::Refused { text, .. }) if text.contains(says)),
            "{says}: {:?}",
            outcome.err()
        );
    };
    let old = format!("RIHS01_{}", "0".repeat(64));
    let server = node.server("/there", (ADD_DDS, &old));
    refused(&format!("the server '/adder' by rmw_zenoh has the type hash {old}"));
    drop(server);
    let server = node.server("/there", (ADD_DDS, "TypeHashNotSupported"));
    refused("the type hash TypeHashNotSupported");
    drop(server);
    let server = node.server("/there", (BLOB_DDS, &hash(BLOB)));
    refused("correct `type`");
    assert_eq!(server.waiting(), 0);
    drop(server);
    eventually("no server", || rig.service("there").servers.is_empty());
    let first = node.server("/there", (ADD_DDS, &good));
    eventually("callable", || rig.service("there").callable);
    let other = Node::new(&router, 0, "other");
    let second = other.server("/there", (ADD_DDS, &good));
    refused("2 nodes offer it");
    assert_eq!((first.waiting(), second.waiting()), (0, 0));
    drop(second);
    eventually("callable again", || rig.service("there").callable);
    std::thread::scope(|scope| {
        scope.spawn(|| first.take().reply(&ints(&[3])));
        assert_eq!(
            client.call_bytes(&ints(&[1, 2]), PATIENCE).unwrap().payload().unwrap(),
            ints(&[3])
        );
    });
    // A name that is already used in ROS 2.
    drop(servers);
    let _double = node.server("/math/add", (ADD_DDS, &good));
    eventually("logged", || {
        rig.logged("nodes in ROS 2 offer it (/adder): write `server: ros` in its rule")
    });
    let _server = server_here(&here(&rig, "one"), ADD);
    offered(&rig);
    eventually("logged", || rig.logged("nodes in ROS 2 offer it as well (/adder)"));
}

#[test]
fn nodes_of_humble_have_no_hashes() {
    let router = Router::new();
    let services = json!([
        rule(ADD, "driveline", json!({})),
        { "service": "/there", "type": ADD, "server": "ros" },
    ]);
    let rig = with(&router, services, "humble");
    let (node, of) = (Node::new(&router, 0, "node"), (ADD_DDS, "TypeHashNotSupported"));
    let mut server = server_here(&here(&rig, "server"), ADD);
    offered(&rig);
    let call = node.client("/math/add", of).call(&ints(&[1, 2]));
    take(&mut server).responder.send_bytes(&ints(&[3])).unwrap();
    assert_eq!(call.outcome(), Ok(ints(&[3])));
    let there = node.server("/there", of);
    let mut client = matched(&here(&rig, "client"), "there", ADD);
    std::thread::scope(|scope| {
        scope.spawn(|| there.take().reply(&ints(&[3])));
        assert_eq!(
            client.call_bytes(&ints(&[1, 2]), PATIENCE).unwrap().payload().unwrap(),
            ints(&[3])
        );
    });
}

/// A service that one Driveline domain offers to ROS 2 is not called from another one, so no call
/// loops.
#[test]
fn a_second_gateway_does_not_call_what_the_first_one_offers() {
    let router = Router::new();
    let first = one(&router, rule(ADD, "driveline", json!({})));
    let second = one(&router, rule(ADD, "ros", json!({})));
    let (node, hash) = (Node::new(&router, 0, "asker"), hash(ADD));
    let mut server = server_here(&here(&first, "server"), ADD);
    offered(&first);
    eventually("seen", || {
        second.service(SERVICE).problems.iter().any(|p| p.contains("another gateway of Driveline"))
    });
    let mut elsewhere = client_of(&here(&second, "client"), SERVICE, ADD);
    assert!(elsewhere.wait_for_server(PATIENCE));
    let outcome = elsewhere.call_bytes(&ints(&[1, 2]), PATIENCE);
    assert!(
        matches!(&outcome, Err(CallError::Refused { text, .. }) if text.contains("go in circles")),
        "{:?}",
        outcome.err()
    );
    assert!(server.take().unwrap().is_none());
    // A ROS 2 node can call it.
    let call = node.client("/math/add", (ADD_DDS, &hash)).call(&ints(&[1, 2]));
    take(&mut server).responder.send_bytes(&ints(&[3])).unwrap();
    assert_eq!(call.outcome(), Ok(ints(&[3])));
    // If a node offers the service too, both servers would execute the requests of the second
    // gateway.
    let there = node.server("/math/add", (ADD_DDS, &hash));
    eventually("logged", || second.logged("both would execute each request"));
    assert!(!second.service(SERVICE).callable && there.waiting() == 0);
}
