// SPDX-License-Identifier: Apache-2.0
//! Services between Driveline and nodes on CycloneDDS 0.10, as rmw_cyclonedds has them, over the
//! loopback device. Each test uses its own DDS domain.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline::{CallError, ClientOptions, Reach};
use driveline_gateway::Ros2ServiceReport;
use driveline_rosidl::cdr::Decoder;
use rig::calls::{
    ADD, TRIGGER, add, asked, call, cdr, client, domain, ended, node, report, respond, rig_of,
    schemas, serve, strays, sum_of, two,
};
use rig::samples::BIG;
use rig::{PATIENCE, Peer, Rig, Vendor, eventually, sum};
use serde_json::json;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

#[test]
fn two_nodes_at_once_call_a_server_here_and_each_gets_its_own_answers() {
    let rig = rig_of(45, json!([{ "service": "/math/add", "type": ADD, "server": "driveline" }]));
    let _server = serve(&rig, "math/add", ADD, "front/adder", add);
    let (mut one, mut other) =
        (rig.peer("call math/add add 2 3"), rig.peer("call math/add add 1000 0"));
    eventually("both answered", || {
        one.has_printed("answer 20: 24") && other.has_printed("answer 20: 1019")
    });
    for (peer, first) in [(&mut one, 5), (&mut other, 1000)] {
        let answers: Vec<_> =
            peer.read().iter().filter(|l| l.starts_with("answer ")).take(20).cloned().collect();
        let expected: Vec<_> =
            (0..20).map(|n| format!("answer {}: {}", n + 1, first + n)).collect();
        assert_eq!(answers, expected, "each once, and none of the other's");
    }
    // The gateway counts an answer after it has written it.
    eventually("counted", || report(&rig).answered >= 40);
    let report = report(&rig);
    assert!(report.callable && !report.from_ros, "{report:?}");
    assert_eq!(
        (report.servers[0].node.as_str(), report.servers[0].profile.as_str()),
        ("front/adder", "DDS")
    );
    assert!(report.ended.is_empty(), "{report:?}");
}

#[test]
fn a_server_in_ros_2_is_called_from_here() {
    let rig = rig_of(46, json!([{ "service": "/math/add", "type": ADD, "server": "ros" }]));
    let mut peer = rig.peer("serve math/add add 0");
    // A second client. Its responses reach the gateway as well, with the same call numbers.
    let mut beside = rig.peer("call math/add add 1000 0");
    eventually("answered", || beside.has_printed("answer 1: 1000"));
    let mut client = client(&domain(&rig), "math/add", ADD);
    for n in 0..20 {
        assert_eq!(sum_of(&call(&mut client, &two(20, n)).unwrap()), 20 + n);
    }
    eventually("asked in order", || peer.has_printed("asked 20: 20 19"));
    let counted = |r: &Ros2ServiceReport| (r.calls, r.answered, r.under_way);
    eventually("counted", || counted(&report(&rig)) == (20, 20, 0));
    let report = report(&rig);
    assert!(
        report.callable && report.from_ros && report.ended.is_empty(),
        "answers to others are not reported: {report:?}"
    );
}

#[test]
fn responses_of_4_mib_pass_both_ways_and_requests_without_a_field_too() {
    let rules = json!([
        { "service": "/here", "type": TRIGGER, "server": "driveline", "max_response": "5 MiB" },
        { "service": "/there", "type": TRIGGER, "server": "ros", "max_response": "5 MiB" }
    ]);
    let rig = rig_of(47, rules);
    let message = vec![b'y'; BIG];
    let response = cdr(|to| {
        to.number(1_u8);
        to.string(&message).unwrap();
    });
    let _server = serve(&rig, "here", TRIGGER, "trigger", move |request| {
        assert!(request.sample.payload().unwrap().len() > 4, "an empty structure is a zero byte");
        respond(request, &response);
    });
    let mut asking = rig.peer("call here trigger 0 3");
    let expected = format!("answer 3: 1 {BIG} {}", sum(&vec![b'y'; BIG]));
    eventually("answered", || asking.has_printed(&expected) && asking.has_printed("done"));

    let _serving = rig.peer(&format!("serve there trigger {BIG}"));
    let mut client = client(&domain(&rig), "there", TRIGGER);
    for _ in 0..3 {
        let response = call(&mut client, &cdr(|to| to.number(0_u8))).unwrap();
        let mut response = Decoder::new(&response).unwrap();
        assert!(response.bool().unwrap());
        assert!(response.string().unwrap() == vec![b'x'; BIG], "whole");
    }
    eventually("counted", || {
        rig.report().services.iter().all(|s| s.answered == 3 && s.ended.is_empty())
    });
}

#[test]
fn a_slow_server_in_ros_2_ends_calls_by_their_time_out() {
    let rig =
        rig_of(48, json!([{ "service": "/add", "type": ADD, "server": "ros", "timeout_ms": 200 }]));
    let _peer = rig.peer("serve add add 1500");
    let mut client = client(&domain(&rig), "add", ADD);
    // The time-out may end before the request is sent.
    let mut calls = 0;
    eventually("one that came late", || {
        let refused = call(&mut client, &two(1, 2)).unwrap_err();
        assert!(matches!(refused, CallError::Refused { .. }), "{refused}");
        calls += 1;
        // time: one of several attempts; the server answers a request that reached it after 1.5 s
        let end = Instant::now() + Duration::from_secs(3);
        while strays(&rig, "late") == 0 && Instant::now() < end {
            // time: a pause between polls
            std::thread::sleep(Duration::from_millis(10));
        }
        strays(&rig, "late") > 0
    });
    let ends = || ended(&rig, "timed_out") + ended(&rig, "not_sent");
    eventually("counted", || ends() == calls && ended(&rig, "timed_out") > 0);
    assert_eq!(report(&rig).answered, 0);
}

#[test]
fn a_server_in_ros_2_that_ends_in_a_call_ends_the_call() {
    let rig = rig_of(
        49,
        json!([{ "service": "/add", "type": ADD, "server": "ros", "timeout_ms": 600_000 }]),
    );
    let _peer = rig.peer("serve add add 0");
    let mut client = client(&domain(&rig), "add", ADD);
    assert_eq!(sum_of(&call(&mut client, &two(1, 2)).unwrap()), 3);
    let refused = call(&mut client, &two(6, 7)).unwrap_err().to_string();
    assert!(refused.contains("executed"), "{refused}");
    eventually("counted", || ended(&rig, "server_gone") == 1);
    eventually("it is offered no more", || {
        !report(&rig).callable && report(&rig).servers.is_empty()
    });
    let _next = rig.peer("serve add add 0");
    eventually("the next one is called", || report(&rig).callable);
    assert!(client.wait_for_server(PATIENCE));
    eventually("answered", || call(&mut client, &two(1, 3)).is_ok_and(|r| sum_of(&r) == 4));
}

#[test]
fn a_server_in_ros_2_that_is_killed_in_a_call_ends_the_call() {
    let rig = rig_of(
        50,
        json!([{ "service": "/add", "type": ADD, "server": "ros", "timeout_ms": 600_000 }]),
    );
    let mut peer = rig.peer("serve add add 500000");
    let outcome = asked(client(&domain(&rig), "add", ADD), two(1, 2));
    eventually("it has the request", || peer.has_printed("asked 1: 1 2"));
    drop(peer);
    // Reported when its lease has ended.
    let refused = outcome.recv_timeout(PATIENCE).unwrap().unwrap_err().to_string();
    assert!(refused.contains("executed"), "{refused}");
    eventually("counted", || ended(&rig, "server_gone") == 1);
}

#[test]
fn a_node_that_ends_in_a_call_leaves_the_service_to_others() {
    let rig = rig_of(
        51,
        json!([{ "service": "/add", "type": ADD, "server": "driveline", "pending": 4 }]),
    );
    let (sender, requests) = channel();
    let sender = std::sync::Mutex::new(sender);
    let _server = serve(&rig, "add", ADD, "adder", move |request| {
        sender.lock().unwrap().send(request).unwrap()
    });
    let mut ending = rig.peer("call add add 1 1");
    eventually("it waits", || ending.has_printed("available"));
    let of_ending = requests.recv_timeout(PATIENCE).unwrap();
    ending.end();
    // Waits before the next client starts: neither client has a name, and the report lists all
    // clients without a name as one.
    eventually("seen to end", || report(&rig).clients.is_empty());
    let killed = rig.peer("call add add 2 2");
    let of_killed = requests.recv_timeout(PATIENCE).unwrap();
    drop(killed);
    add(of_ending);
    add(of_killed);
    eventually("counted", || ended(&rig, "client_gone") == 1);
    let mut next = rig.peer("call add add 3 3");
    add(requests.recv_timeout(PATIENCE).unwrap());
    eventually("answered", || next.has_printed("answer 1: 6"));
}

#[test]
fn a_server_here_that_ends_in_a_call_is_gone_and_the_next_one_is_found() {
    let rig = rig_of(52, json!([{ "service": "/add", "type": ADD, "server": "driveline" }]));
    let (sender, requests) = channel();
    let sender = std::sync::Mutex::new(sender);
    let server = serve(&rig, "add", ADD, "adder", move |request| {
        sender.lock().unwrap().send(request).unwrap()
    });
    let mut peer = rig.peer("call add add 1 1");
    let request = requests.recv_timeout(PATIENCE).unwrap();
    drop((server, request, requests));
    eventually("it is offered no more", || !report(&rig).callable);
    eventually("counted", || {
        report(&rig).ended.values().sum::<u64>() == 1 && report(&rig).under_way == 0
    });
    assert!(!peer.read().iter().any(|l| l.starts_with("answer")));
    let _next = serve(&rig, "add", ADD, "adder", add);
    let mut other = rig.peer("call add add 5 5");
    eventually("answered", || other.has_printed("answer 1: 10"));
}

#[test]
fn a_service_withdrawn_during_a_call_is_not_found_and_the_call_is_answered() {
    let rig = rig_of(
        65,
        json!([{ "service": "/add", "type": ADD, "server": "driveline", "timeout_ms": 600_000 }]),
    );
    let (sender, requests) = channel();
    let sender = std::sync::Mutex::new(sender);
    let _server = serve(&rig, "add", ADD, "adder", move |request| {
        sender.lock().unwrap().send(request).unwrap()
    });
    let mut peer = rig.peer("call add add 1 1");
    let request = requests.recv_timeout(PATIENCE).unwrap();
    // With two servers here, the service is not offered.
    let second = serve(&rig, "add", ADD, "second", add);
    eventually("its client sees it go", || peer.has_printed("unavailable"));
    assert!(!report(&rig).callable);
    add(request);
    eventually("answered", || peer.has_printed("answer 1: 2"));
    eventually("counted", || (report(&rig).answered, report(&rig).under_way) == (1, 0));
    // End the first client. Otherwise its next request could arrive before the request of the next
    // client.
    peer.end();
    drop(second);
    let mut next = rig.peer("call add add 3 3");
    add(requests.recv_timeout(PATIENCE).unwrap());
    eventually("answered", || next.has_printed("answer 1: 6"));
}

#[test]
fn servers_that_are_restarted_at_once_under_their_name_get_the_calls() {
    let rules = json!([
        { "service": "/here", "type": ADD, "server": "driveline" },
        { "service": "/there", "type": ADD, "server": "ros" },
    ]);
    let rig = rig_of(66, rules);
    let first = serve(&rig, "here", ADD, "adder", add);
    let mut peer = rig.peer("call here add 2 3");
    eventually("answered", || peer.has_printed("answer 1: 5"));
    drop(first);
    let answer = cdr(|to| to.number(1000_i64));
    let _second = serve(&rig, "here", ADD, "adder", move |request| respond(request, &answer));
    // The gateway may still withdraw the service that it offered for the first server. A request at
    // that moment gets no answer.
    let mut next = rig.peer("call here again 2 3");
    eventually("answered by the new one", || {
        next.read().iter().any(|line| line.starts_with("answer") && line.ends_with(": 1000"))
    });

    let first = rig.peer("serve there add 0");
    let mut client = client(&domain(&rig), "there", ADD);
    assert_eq!(sum_of(&call(&mut client, &two(1, 2)).unwrap()), 3);
    first.end();
    let mut second = rig.peer("serve there add 0");
    // Repeated until the new server is discovered.
    eventually("answered", || call(&mut client, &two(7, 7)).is_ok());
    // Another thread reads the node's output.
    eventually("asked", || second.read().iter().any(|line| line.ends_with(": 7 7")));
}

#[test]
fn a_client_among_hundreds_gets_its_answers() {
    let rig = rig_of(67, json!([{ "service": "/add", "type": ADD, "server": "driveline" }]));
    let _server = serve(&rig, "add", ADD, "adder", add);
    let mut peer = rig.peer("call add crowd 2 3");
    eventually("answered", || peer.has_printed("answer 3: 7"));
    assert!(report(&rig).ended.is_empty(), "{:?}", report(&rig));
}

#[test]
fn requests_without_a_head_are_counted_and_do_no_harm() {
    let rig = rig_of(53, json!([{ "service": "/add", "type": ADD, "server": "driveline" }]));
    let _server = serve(&rig, "add", ADD, "adder", add);
    let _broken = rig.peer("call add short 0 3");
    eventually("counted", || ended(&rig, "header") == 3);
    assert!(rig.logged("a head of 16"), "with the reason");
    let mut good = rig.peer("call add add 2 3");
    eventually("answered", || good.has_printed("answer 3: 7"));
    assert_eq!(ended(&rig, "header"), 3);
}

#[test]
fn a_response_without_a_head_is_counted_and_answers_nothing() {
    let rig = rig_of(
        61,
        json!([{ "service": "/add", "type": ADD, "server": "ros", "timeout_ms": 2000 }]),
    );
    let _peer = rig.peer("serve add short 0");
    let refused = call(&mut client(&domain(&rig), "add", ADD), &two(1, 2)).unwrap_err();
    assert!(matches!(refused, CallError::Refused { .. }), "{refused}");
    eventually("counted", || (strays(&rig, "header"), ended(&rig, "timed_out")) == (1, 1));
}

#[test]
fn a_server_gets_no_request_before_it_can_answer() {
    let rig = rig_of(62, json!([{ "service": "/add", "type": ADD, "server": "ros" }]));
    let mut peer = rig.peer("serve add late 700");
    // The gateway has found only one of the server's two endpoints.
    assert_eq!(sum_of(&call(&mut client(&domain(&rig), "add", ADD), &two(1, 2)).unwrap()), 3);
    eventually("none came before", || peer.has_printed("0 too early"));
}

#[test]
fn too_long_a_request_is_refused_and_counted() {
    let rig = rig_of(
        54,
        json!([{ "service": "/add", "type": ADD, "server": "driveline", "max_request": 16 }]),
    );
    let _server = serve(&rig, "add", ADD, "adder", |_| panic!("it reaches the server"));
    let _peer = rig.peer("call add add 2 3");
    eventually("counted", || ended(&rig, "too_long") == 1);
}

#[test]
fn a_client_with_a_late_reader_gets_its_response_and_one_without_is_counted() {
    let rig = rig_of(55, json!([{ "service": "/add", "type": ADD, "server": "driveline" }]));
    let _server = serve(&rig, "add", ADD, "adder", add);
    let mut late = rig.peer("call add late 4 300");
    eventually("answered", || late.has_printed("answer 1: 8"));
    let _never = rig.peer("call add late 4 3600000");
    eventually("given up", || ended(&rig, "client_gone") == 1);
    let report = report(&rig);
    assert_eq!(
        (report.calls, report.answered, report.under_way),
        (report.answered + 1, report.answered, 0),
        "{report:?}"
    );
}

#[test]
fn nodes_of_servers_and_clients_are_seen_in_the_graph_of_ros_2() {
    for (domain_id, release, vendor) in
        [(56, "jazzy", Vendor::Cyclone), (57, "humble", Vendor::Humble)]
    {
        let services = json!([
            { "service": "/add", "type": ADD, "server": "driveline" },
            { "service": "/other", "type": ADD, "server": "ros" },
        ]);
        let rig = Rig::with(
            json!({ "domain_id": domain_id, "release": release, "services": services }),
            &[],
        );
        let server = serve(&rig, "add", ADD, "front/adder", add);
        let _other = rig.peer("serve other add 0");
        let mut peer = rig.node(vendor, "graph");
        eventually("both seen", || {
            peer.has_printed("/front adder 1 1")
                && peer.read().iter().any(|l| l.ends_with(" 1 1") && !l.starts_with("/front"))
        });
        let mut asking = rig.peer("call add add 2 3");
        eventually("answered", || asking.has_printed("answer 1: 5"));
        assert_eq!(sum_of(&call(&mut client(&domain(&rig), "other", ADD), &two(4, 5)).unwrap()), 9);
        drop(server);
        eventually("gone", || peer.read().last().is_some_and(|l| !l.starts_with("/front")));
    }
}

#[test]
fn a_node_that_announces_its_name_late_gets_it() {
    let rig = rig_of(70, json!([{ "service": "/math/add", "type": ADD, "server": "ros" }]));
    // The node announces its name after its first response.
    let _peer = rig.named(Vendor::Cyclone, "/math adder", "serve math/add add 0");
    let mut client = client(&domain(&rig), "math/add", ADD);
    assert_eq!(sum_of(&call(&mut client, &two(2, 3)).unwrap()), 5);
    eventually("named", || report(&rig).servers[0].node == "/math/adder");
}

#[test]
fn two_servers_in_ros_2_are_reported_and_neither_is_called() {
    let rig = rig_of(58, json!([{ "service": "/add", "type": ADD, "server": "ros" }]));
    let one = rig.peer("serve add add 0");
    let mut client = client(&domain(&rig), "add", ADD);
    assert_eq!(sum_of(&call(&mut client, &two(1, 2)).unwrap()), 3);
    let mut other = rig.peer("serve add add 0");
    eventually("both seen", || report(&rig).servers.len() == 2);
    let refused = call(&mut client, &two(1, 2)).unwrap_err().to_string();
    assert!(refused.contains("2 nodes offer it"), "{refused}");
    one.end();
    eventually("one is left", || report(&rig).servers.len() == 1 && report(&rig).callable);
    assert_eq!(sum_of(&call(&mut client, &two(3, 4)).unwrap()), 7);
    eventually("asked", || {
        other.has_printed("asked 1: 3 4")
            || other.has_printed("asked 2: 3 4")
            || other.has_printed("asked 3: 3 4")
    });
    assert_eq!(
        other.read().iter().filter(|l| l.starts_with("asked")).count(),
        1,
        "only what came when it was alone"
    );
}

#[test]
fn a_service_of_one_domain_does_not_return_through_another_gateway() {
    let rig = rig_of(59, json!([{ "service": "/add", "type": ADD, "server": "driveline" }]));
    let _server = serve(&rig, "add", ADD, "adder", add);
    let (there, config) = (rig.dir.path().join("there"), rig.dir.path().join("there.json"));
    let mut ros2 = rig.config()["ros2"].clone();
    ros2["services"] = json!([{ "service": "/add", "type": ADD, "server": "ros" }]);
    std::fs::write(&config, json!({ "domain_dir": there, "ros2": ros2, "topics": [] }).to_string())
        .unwrap();
    let mut other = Peer::start(
        std::process::Command::new(env!("CARGO_BIN_EXE_driveline-gateway-ros2")).arg(&config),
    );
    eventually("it takes part", || !other.read().is_empty());
    // A node sees one server, and is answered.
    let mut peer = rig.peer("call add add 2 3");
    eventually("answered", || peer.has_printed("answer 5: 9"));
    let (request, response) = schemas(ADD);
    let options = ClientOptions { reach: Reach::Host, ..ClientOptions::default() };
    let mut asking = node(&there, "asker").raw_client("add", request, response, options).unwrap();
    assert!(
        asking.wait_for_server(PATIENCE),
        "the other gateway offers the service, and refuses its calls with the reason"
    );
    let refused = call(&mut asking, &two(1, 1)).unwrap_err().to_string();
    assert!(
        refused.contains("another gateway of Driveline: calls would go in circles"),
        "{refused}"
    );
    assert_eq!((strays(&rig, "gateway"), report(&rig).servers.len()), (0, 1));
}

#[test]
fn a_stopped_node_keeps_no_client_from_answers() {
    let rig = rig_of(
        60,
        json!([
            { "service": "/here", "type": TRIGGER, "server": "driveline", "max_response": "5 MiB" },
        ]),
    );
    let response = cdr(|to| {
        to.number(1_u8);
        to.string(&vec![b'y'; BIG]).unwrap();
    });
    let (sender, requests) = channel();
    let sender = std::sync::Mutex::new(sender);
    let _server = serve(&rig, "here", TRIGGER, "trigger", move |request| {
        sender.lock().unwrap().send(request).unwrap()
    });
    let mut still = rig.peer("call here trigger 0 2");
    let of_still = requests.recv_timeout(PATIENCE).unwrap();
    still.stand_still();
    respond(of_still, &response);
    // More than DDS keeps for a reader: it has to drop responses that the stopped node does not
    // read.
    let mut other = rig.peer("call here trigger 0 40");
    (0..40).for_each(|_| respond(requests.recv_timeout(PATIENCE).unwrap(), &response));
    eventually("all answered", || other.has_printed("done"));
    assert!(report(&rig).ended.is_empty(), "{:?}", report(&rig));
    assert!(!still.read().iter().any(|l| l.starts_with("answer")));
}

#[test]
fn a_gateway_that_ends_in_calls_releases_everything_and_the_next_one_continues() {
    let rules = json!([
        { "service": "/here", "type": ADD, "server": "driveline" },
        { "service": "/there", "type": ADD, "server": "ros" },
    ]);
    let mut rig = rig_of(64, rules);
    let (sender, requests) = channel();
    let sender = std::sync::Mutex::new(sender);
    let _server = serve(&rig, "here", ADD, "adder", move |request| {
        sender.lock().unwrap().send(request).unwrap()
    });
    let _asking = rig.peer("call here add 1 1");
    let mut serving = rig.peer("serve there add 2000");
    let _held = requests.recv_timeout(PATIENCE).unwrap();
    let outcome = asked(client(&domain(&rig), "there", ADD), two(1, 2));
    eventually("both are in flight", || serving.has_printed("asked 1: 1 2"));
    // A process can join a DDS domain once: the next gateway starts only if nothing of the first is
    // left.
    rig.start();
    assert!(outcome.recv_timeout(PATIENCE).unwrap().is_err(), "there is no server to answer");
    eventually("both go on", || rig.report().services.iter().all(|s| s.callable));
    let mut next = rig.peer("call here add 3 3");
    add(requests.recv_timeout(PATIENCE).unwrap());
    eventually("answered", || next.has_printed("answer 1: 6"));
    assert_eq!(sum_of(&call(&mut client(&domain(&rig), "there", ADD), &two(3, 4)).unwrap()), 7);
}
