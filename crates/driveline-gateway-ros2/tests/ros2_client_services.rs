// SPDX-License-Identifier: Apache-2.0
//! Services of nodes on the crate ros2-client: over its implementation of rmw_zenoh, and over DDS,
//! where the gateway must not use them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline::CallError;
use driveline_rosidl::cdr::Decoder;
use rig::calls::{
    ADD, TYPES, add, asked, call, cdr, client, domain, ended, report, respond, rig_of, serve,
    sum_of, two,
};
use rig::rmw::Router;
use rig::samples::BIG;
use rig::{PATIENCE, Peer, Rig, Vendor, eventually, sum};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Line printed for a call that ended without a response.
const UNANSWERED: &str = "no answer";

/// Starts a gateway for Jazzy over Zenoh only: ros2-client has no Zenoh for Humble.
fn zenoh(router: &Router, services: Value) -> Rig {
    Rig::with(
        json!({
            "domain_id": 0, "dds": false, "zenoh": { "connect": [router.endpoint()] },
            "services": services,
        }),
        &[],
    )
}

/// Waits until servers are known. From then on calls reach them, as samples do after
/// [`Rig::is_read_by`].
fn callable(rig: &Rig) {
    eventually("callable", || rig.report().services.iter().all(|service| service.callable));
}

/// Returns the printed responses, without those of calls that found no server yet.
fn answers(peer: &mut Peer) -> Vec<String> {
    peer.read().iter().filter(|l| l.starts_with("answer ")).cloned().collect()
}

#[test]
fn a_client_there_calls_a_server_here_by_zenoh() {
    let router = Router::new();
    let rig =
        zenoh(&router, json!([{ "service": "/math/add", "type": ADD, "server": "driveline" }]));
    let _server = serve(&rig, "math/add", ADD, "front/adder", add);
    let mut one = rig.over_zenoh(&router, "one", "call /math/add add 2 3 20 -");
    let mut other = rig.over_zenoh(&router, "other", "call /math/add add 1000 0 20 -");
    eventually("all answered", || one.has_printed("done") && other.has_printed("done"));
    for (peer, first) in [(&mut one, 5), (&mut other, 1000)] {
        let expected: Vec<_> =
            (0..20).map(|n| format!("answer {}: {}", n + 1, first + n)).collect();
        assert_eq!(answers(peer), expected, "each once, and none of the other's");
    }
    eventually("counted", || report(&rig).answered >= 40);
    let service = report(&rig);
    assert!(service.callable && service.ended.is_empty(), "{service:?}");
    let mut clients = service.clients;
    clients.sort();
    assert_eq!(clients, ["/one", "/other"]);
}

#[test]
fn a_server_there_is_called_from_here_by_zenoh() {
    let router = Router::new();
    let rig = zenoh(&router, json!([{ "service": "/math/add", "type": ADD, "server": "ros" }]));
    let mut peer = rig.over_zenoh(&router, "adder", "serve /math/add add 0 -");
    callable(&rig);
    let mut client = client(&domain(&rig), "math/add", ADD);
    for n in 0..20 {
        assert_eq!(sum_of(&call(&mut client, &two(20, n)).unwrap()), 20 + n);
    }
    eventually("asked in order", || peer.has_printed("asked 20: 20 19"));
    eventually("counted", || report(&rig).answered == 20);
    let report = report(&rig);
    assert_eq!(
        (report.servers[0].node.as_str(), report.servers[0].profile.as_str()),
        ("/adder", "rmw_zenoh")
    );
    assert!(report.callable && report.ended.is_empty() && report.strays.is_empty(), "{report:?}");
}

#[test]
fn responses_of_4_mib_pass_both_ways_by_zenoh() {
    let router = Router::new();
    let rules = json!([
        { "service": "/here", "type": TYPES, "server": "driveline", "max_response": "5 MiB" },
        { "service": "/there", "type": TYPES, "server": "ros", "max_response": "5 MiB" }
    ]);
    let rig = zenoh(&router, rules);
    let response = cdr(|to| {
        to.number(BIG as u32);
        to.numbers(&vec![b'y'; BIG]);
    });
    let _server = serve(&rig, "here", TYPES, "types", move |request| respond(request, &response));
    let mut asking = rig.over_zenoh(&router, "asking", "call /here types 0 0 3 -");
    eventually("answered", || asking.has_printed("done"));
    let expected = format!("{BIG} {}", sum(&vec![b'y'; BIG]));
    assert_eq!(
        answers(&mut asking),
        (1..=3).map(|n| format!("answer {n}: {expected}")).collect::<Vec<_>>()
    );

    let mut serving = rig.over_zenoh(&router, "serving", &format!("serve /there types {BIG} -"));
    callable(&rig);
    let mut client = client(&domain(&rig), "there", TYPES);
    let request = cdr(|to| {
        to.number(3_u32);
        ["a", "longer", ""].iter().for_each(|name| to.string(name.as_bytes()).unwrap());
    });
    for _ in 0..3 {
        let response = call(&mut client, &request).unwrap();
        let mut response = Decoder::new(&response).unwrap();
        assert_eq!(response.number::<u32>().unwrap() as usize, BIG);
        assert!((0..BIG).all(|_| response.number::<u8>().unwrap() == 3), "whole");
        response.finish().unwrap();
    }
    eventually("asked", || serving.has_printed("asked 3: a longer "));
}

/// The gateway's refusal ends the call at the client.
#[test]
fn a_refusal_by_zenoh_ends_the_call_there() {
    let router = Router::new();
    let rig = zenoh(&router, json!([{ "service": "/add", "type": ADD, "server": "driveline" }]));
    let refused = AtomicBool::new(false);
    let _server = serve(&rig, "add", ADD, "adder", move |request| {
        let is_second = request.sample.payload().unwrap()[12] == 4;
        if is_second && !refused.swap(true, Ordering::Relaxed) {
            request.responder.refuse("not at once")
        } else {
            add(request)
        }
    });
    let mut peer = rig.over_zenoh(&router, "asker", "call /add add 2 3 2 -");
    eventually("answered", || peer.has_printed("done"));
    let from = peer.printed.iter().position(|l| l == "answer 1: 5").unwrap();
    assert_eq!(peer.printed[from..], ["answer 1: 5", UNANSWERED, "answer 2: 6", "done"]);
    eventually("counted", || ended(&rig, "refused") == 1 && report(&rig).answered >= 2);
}

#[test]
fn a_server_there_that_is_killed_in_a_call_ends_it() {
    let router = Router::new();
    let rig = zenoh(
        &router,
        json!([{ "service": "/add", "type": ADD, "server": "ros", "timeout_ms": 600_000 }]),
    );
    let mut peer = rig.over_zenoh(&router, "adder", "serve /add add 500000 -");
    callable(&rig);
    let outcome = asked(client(&domain(&rig), "add", ADD), two(1, 2));
    eventually("it has the request", || peer.has_printed("asked 1: 1 2"));
    drop(peer);
    let refused = outcome.recv_timeout(PATIENCE).unwrap().unwrap_err();
    assert!(
        matches!(&refused, CallError::Refused { text, .. } if text.contains("executed")),
        "{refused}"
    );
    eventually("counted", || ended(&rig, "server_gone") == 1);
    eventually("it is offered no more", || report(&rig).servers.is_empty());
}

#[test]
fn a_server_there_that_stands_still_ends_calls_by_their_time_out() {
    let router = Router::new();
    let rig = zenoh(
        &router,
        json!([{ "service": "/add", "type": ADD, "server": "ros", "timeout_ms": 500 }]),
    );
    let peer = rig.over_zenoh(&router, "adder", "serve /add add 0 -");
    let mut client = client(&domain(&rig), "add", ADD);
    eventually("answered", || call(&mut client, &two(1, 3)).is_ok_and(|r| sum_of(&r) == 4));
    peer.stand_still();
    let before = ended(&rig, "timed_out");
    let refused = call(&mut client, &two(1, 4)).unwrap_err();
    assert!(
        matches!(&refused, CallError::Refused { text, .. } if text.contains("executed")),
        "{refused}"
    );
    eventually("counted", || ended(&rig, "timed_out") == before + 1);
}

/// Starts clients until all requests of one are answered: a response sent before its reader has
/// matched is lost in DDS.
fn answered(ask: impl Fn() -> Peer, last: &str) {
    let (mut asking, mut began) = (ask(), Instant::now());
    eventually("answered", || {
        if began.elapsed() > Duration::from_secs(10) {
            (asking, began) = (ask(), Instant::now());
        }
        asking.has_printed(last)
    });
}

/// One end is on ros2-client; the other one is our node, written from the sources of
/// rmw_cyclonedds.
fn speaks_as_cyclone(vendor: Vendor, domain_id: u32) {
    let rig = rig_of(domain_id, json!([]));
    let mut serving = rig.peer("serve math/one add 0");
    answered(|| rig.node(vendor, "call /math/one add 20 3 20 cyclone"), "answer 20: 42");
    let mut theirs = rig.node(vendor, "serve /math/two add 0 cyclone");
    answered(|| rig.peer("call math/two add 20 3"), "answer 20: 42");
    // ros2-client writes the upper half of the number first, which has no effect: see section 13 of
    // docs/protocols/ros2-services.md.
    eventually("asked", || theirs.has_printed(&format!("asked {}: 20 22", 20_u64 << 32)));
    let mut last = None;
    eventually("asked by theirs", || {
        last = serving
            .read()
            .iter()
            .find_map(|l| l.strip_prefix("asked ")?.strip_suffix(": 20 22")?.parse::<u64>().ok());
        last.is_some()
    });
    let last = last.unwrap();
    // ros2-client counts from 2, and repeats lost requests.
    assert!(last & u64::from(u32::MAX) == 0 && last >> 32 >= 21, "{last}");
}

#[test]
fn ros2_client_has_the_convention_of_cyclone() {
    speaks_as_cyclone(Vendor::Ros2Client, 2);
}

#[test]
fn ros2_client_of_humble_has_the_convention_of_cyclone() {
    speaks_as_cyclone(Vendor::Ros2ClientHumble, 3);
}

/// The announcements of a server on RustDDS do not show how it maps services to topics.
#[test]
fn a_server_on_rust_dds_is_refused_with_the_reason_and_gets_no_request() {
    for (mapping, domain_id) in [("cyclone", 4), ("enhanced", 5)] {
        let rig = rig_of(domain_id, json!([{ "service": "/add", "type": ADD, "server": "ros" }]));
        let other = rig.node(Vendor::Ros2Client, &format!("serve /add add 0 {mapping}"));
        let refused =
            call(&mut client(&domain(&rig), "add", ADD), &two(1, 2)).unwrap_err().to_string();
        assert!(
            refused.contains("RustDDS") && refused.contains("only services of CycloneDDS pass"),
            "{mapping}: {refused}"
        );
        let printed = other.end();
        assert!(!printed.iter().any(|l| l.starts_with("asked")), "{mapping}: {printed:?}");
    }
}

#[test]
fn a_client_on_rust_dds_is_refused_with_the_reason_and_not_read() {
    for (mapping, domain_id) in [("cyclone", 6), ("enhanced", 9)] {
        let rig =
            rig_of(domain_id, json!([{ "service": "/add", "type": ADD, "server": "driveline" }]));
        let _server = serve(&rig, "add", ADD, "adder", |_| panic!("it reaches the server"));
        let other = rig.node(Vendor::Ros2Client, &format!("call /add add 2 3 1 {mapping}"));
        eventually("counted", || ended(&rig, "other_vendor") >= 1);
        // The gateway logs a reason after it has counted it.
        eventually("logged", || rig.logged("it is on RustDDS"));
        let printed = other.end();
        assert!(!printed.iter().any(|l| l.starts_with("answer")), "{mapping}: {printed:?}");
    }
}
