// SPDX-License-Identifier: Apache-2.0
//! Services between Driveline and nodes on rmw_zenoh: `docs/protocols/ros2-services.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod rig;

use driveline::service::{RawClient, RawRequest, RawService};
use driveline::types::Schema;
use driveline::{CallError, ClientOptions, Context, ContextOptions, Node as Here, Reach, ServiceOptions};
use driveline_rosidl::{Catalog, parse_srv};
use rig::rmw::{Node, Router};
use rig::rmw_services::attachment;
use rig::samples::{BIG, SERVICES};
use rig::{PATIENCE, Rig, eventually};
use serde_json::{Value, json};
use std::time::Duration;

const ADD: &str = "test_srvs::srv::dds_::AddTwoInts_";
const BLOB: &str = "test_srvs::srv::dds_::Blob_";
const SERVICE: &str = "math/add";

/// A gateway for nodes on rmw_zenoh, with one service.
fn rig(router: &Router, rule: Value) -> Rig {
    with(router, json!([rule]), "jazzy")
}

fn with(router: &Router, services: Value, release: &str) -> Rig {
    let zenoh = json!({ "connect": [router.endpoint()] });
    Rig::with(json!({ "domain_id": 0, "dds": false, "zenoh": zenoh, "release": release, "services": services }), &[])
}

/// Of `/math/add`, whose type is `ty`, served on this side.
fn rule(ty: &str, server: &str, more: Value) -> Value {
    let mut rule = json!({ "service": "/math/add", "type": format!("test_srvs/srv/{ty}"), "server": server });
    rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    rule
}

fn catalog() -> Catalog {
    let mut catalog = Catalog::new();
    for (name, text) in SERVICES {
        let name = format!("test_srvs/srv/{name}").parse().unwrap();
        catalog.add_service(parse_srv(&name, "test", text).unwrap()).unwrap();
    }
    catalog
}

fn hash(ty: &str) -> String {
    catalog().type_hash(&format!("test_srvs/srv/{ty}").parse().unwrap()).unwrap().to_string()
}

/// Of requests and responses.
fn schemas(ty: &str) -> (Schema, Schema) {
    let schema = |half: &str| catalog().schema(&format!("test_srvs/srv/{ty}_{half}").parse().unwrap()).unwrap();
    (schema("Request"), schema("Response"))
}

fn here(rig: &Rig, name: &str) -> Here {
    let domain_dir = Some(rig.dir.path().join("domain"));
    Context::new(ContextOptions { name: name.into(), domain_dir }).unwrap().node(name).unwrap()
}

fn server_here(node: &Here, ty: &str) -> RawService {
    let (request, response) = schemas(ty);
    let options = ServiceOptions { reach: Reach::Host, max_response: BIG + 64, max_held: 4, ..ServiceOptions::default() };
    node.raw_service(SERVICE, request, response, options).unwrap()
}

fn client_here(node: &Here, ty: &str) -> RawClient {
    let (request, response) = schemas(ty);
    let options = ClientOptions { reach: Reach::Host, max_request: 64 << 10, ..ClientOptions::default() };
    node.raw_client(SERVICE, request, response, options).unwrap()
}

#[track_caller]
fn take(service: &mut RawService) -> RawRequest {
    let mut taken = None;
    eventually("a request came", || {
        taken = service.take().unwrap();
        taken.is_some()
    });
    taken.unwrap()
}

/// `int64`s in CDR: their alignment is that of their place.
fn ints(ints: &[i64]) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0, 0];
    ints.iter().for_each(|i| bytes.extend(i.to_le_bytes()));
    bytes
}

/// `uint8[]` in CDR. A multiple of 4, so that nothing is filled up.
fn blob(len: usize, fill: u8) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0, 0];
    bytes.extend((len as u32).to_le_bytes());
    bytes.resize(bytes.len() + len, fill);
    bytes
}

/// Offered to ROS 2.
fn offered(rig: &Rig) {
    eventually("offered", || rig.service(SERVICE).callable);
}

#[test]
fn a_ros_client_calls_a_driveline_server() {
    let router = Router::new();
    let rig = rig(&router, rule("AddTwoInts", "driveline", json!({})));
    let (node, hash) = (Node::new(&router, 0, "asker"), hash("AddTwoInts"));
    let mut client = node.client("/math/add", (ADD, &hash));
    let token = format!("/SS/%driveline_gateway/%math/adder/%math%add/{ADD}/{hash}/::,10:,:,:,,");
    let in_graph = |part: &str| node.graph().iter().any(|t| t.ends_with(part));
    assert_eq!(rig.service(SERVICE).problems, ["nobody on this host offers it at host reach"]);
    assert!(!in_graph(&token), "nobody serves");
    let mut server = server_here(&here(&rig, "math/adder"), "AddTwoInts");
    offered(&rig);
    eventually("in the graph", || in_graph(&token) && in_graph("/NN/%driveline_gateway/%math/adder"));
    for n in 1..=3 {
        let call = client.call(&ints(&[n, 40]));
        let request = take(&mut server);
        assert_eq!(request.sample.payload().unwrap(), ints(&[n, 40]));
        request.responder.send_bytes(&ints(&[n + 40])).unwrap();
        assert_eq!((call.number, call.outcome()), (n, Ok(ints(&[n + 40]))));
    }
    let call = client.call(&ints(&[1, 2]));
    take(&mut server).responder.refuse("the numbers are too small");
    let told = call.outcome().unwrap_err();
    assert!(told.contains("the numbers are too small"), "{told}");
    eventually("counted", || rig.service(SERVICE).answered == 3);
    let report = rig.service(SERVICE);
    assert_eq!((report.calls, report.under_way, report.ended), (4, 0, [("refused".to_owned(), 1)].into()));
    assert_eq!((report.clients, report.servers.len(), report.servers[0].node.as_str()), (vec!["/asker".to_owned()], 1, "math/adder"));
    drop(server);
    eventually("gone from the graph", || !in_graph(&token) && !rig.service(SERVICE).callable);
    assert!(client.call(&ints(&[1, 2])).replies().is_empty());
    // Another one, of another name.
    let mut server = server_here(&here(&rig, "other"), "AddTwoInts");
    eventually("offered again", || in_graph(&token.replace("%math/adder", "%/other")));
    let call = client.call(&ints(&[5, 6]));
    take(&mut server).responder.send_bytes(&ints(&[11])).unwrap();
    assert_eq!(call.outcome(), Ok(ints(&[11])));
}

#[test]
fn a_driveline_client_calls_a_ros_server() {
    let router = Router::new();
    let rig = rig(&router, rule("AddTwoInts", "ros", json!({})));
    let (node, hash) = (Node::new(&router, 0, "adder"), hash("AddTwoInts"));
    let mut client = client_here(&here(&rig, "asker"), "AddTwoInts");
    assert!(matches!(client.call_bytes(&ints(&[1, 2]), PATIENCE), Err(CallError::NoServer { .. })), "nobody serves");
    let server = node.server("/math/add", (ADD, &hash));
    assert!(client.wait_for_server(PATIENCE));
    let of_client = format!("/SC/%driveline_gateway/%/driveline/%math%add/{ADD}/{hash}/::,10:,:,:,,");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..=3 {
                let request = server.take();
                assert_eq!((request.number, &request.payload), (n, &ints(&[n, 40])));
                let token = node.graph().into_iter().find(|t| t.ends_with(&of_client)).expect("its client is in the graph");
                assert_eq!(request.gid, twox_hash::XxHash3_128::oneshot(token.as_bytes()).to_le_bytes(), "the gid is that of its token");
                request.reply(&ints(&[n + 40]));
            }
        });
        for n in 1..=3 {
            let sum = client.call_bytes(&ints(&[n, 40]), PATIENCE).unwrap();
            assert_eq!(sum.payload().unwrap(), ints(&[n + 40]));
        }
    });
    // A response is handed over before it is counted.
    eventually("counted", || rig.service(SERVICE).answered == 3);
    let report = rig.service(SERVICE);
    assert_eq!((report.calls, report.under_way, report.ended.len()), (3, 0, 0));
    assert_eq!((report.servers[0].node.as_str(), report.servers[0].problem.clone()), ("/adder", None));
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
        rule("Blob", "driveline", json!({ "max_response": "5 MiB", "pending": 1 })),
        { "service": "/there", "type": "test_srvs/srv/Blob", "server": "ros", "max_response": "5 MiB" },
    ]);
    let rig = with(&router, services, "jazzy");
    let (node, hash) = (Node::new(&router, 0, "node"), hash("Blob"));
    let mut server = server_here(&here(&rig, "server"), "Blob");
    offered(&rig);
    let mut client = node.client("/math/add", (BLOB, &hash));
    for n in 0..4 {
        let call = client.call(&blob(4, n));
        take(&mut server).responder.send_bytes(&blob(BIG, n)).unwrap();
        assert!(call.outcome().unwrap() == blob(BIG, n), "response {n} is whole");
    }
    let there = node.server("/there", (BLOB, &hash));
    let (request, response) = schemas("Blob");
    let options = ClientOptions { reach: Reach::Host, ..ClientOptions::default() };
    let mut client = here(&rig, "client").raw_client("there", request, response, options).unwrap();
    assert!(client.wait_for_server(PATIENCE));
    std::thread::scope(|scope| {
        scope.spawn(|| (0..4).for_each(|n| there.take().reply(&blob(BIG, n))));
        for n in 0..4 {
            let got = client.call_bytes(&blob(4, n), PATIENCE).unwrap();
            assert!(got.payload().unwrap() == blob(BIG, n), "response {n} is whole");
        }
    });
}

#[test]
fn two_clients_at_once_get_what_each_has_asked_for() {
    let router = Router::new();
    let services = json!([
        rule("AddTwoInts", "driveline", json!({})),
        { "service": "/there", "type": "test_srvs/srv/AddTwoInts", "server": "ros" },
    ]);
    let rig = with(&router, services, "jazzy");
    let hash = hash("AddTwoInts");
    let (one, two) = (Node::new(&router, 0, "one"), Node::new(&router, 0, "two"));
    let mut server = server_here(&here(&rig, "server"), "AddTwoInts");
    offered(&rig);
    let (mut first, mut second) = (one.client("/math/add", (ADD, &hash)), two.client("/math/add", (ADD, &hash)));
    // The same number of both.
    let calls = [first.call(&ints(&[1, 0])), second.call(&ints(&[2, 0]))];
    let mut requests = [take(&mut server), take(&mut server)];
    // The one that came last is answered first.
    requests.reverse();
    for RawRequest { sample, responder } in requests {
        responder.send_bytes(&ints(&[i64::from(sample.payload().unwrap()[4]) * 10])).unwrap();
    }
    assert_eq!((calls[0].outcome(), calls[1].outcome()), (Ok(ints(&[10])), Ok(ints(&[20]))));
    let there = one.server("/there", (ADD, &hash));
    let answer = || {
        let requests = [there.take(), there.take()];
        requests.iter().rev().for_each(|r| r.reply(&ints(&[i64::from(r.payload[4]) * 10])));
    };
    let ask = |n: i64| {
        let (request, response) = schemas("AddTwoInts");
        let options = ClientOptions { reach: Reach::Host, ..ClientOptions::default() };
        let mut client = here(&rig, &format!("client{n}")).raw_client("there", request, response, options).unwrap();
        assert!(client.wait_for_server(PATIENCE));
        client.call_bytes(&ints(&[n, 0]), PATIENCE).unwrap().payload().unwrap().to_vec()
    };
    std::thread::scope(|scope| {
        scope.spawn(answer);
        let asked = [scope.spawn(|| ask(3)), scope.spawn(|| ask(4))];
        assert_eq!(asked.map(|a| a.join().unwrap()), [ints(&[30]), ints(&[40])]);
    });
}

#[test]
fn a_slow_server_costs_its_call_the_time_out_and_nothing_else() {
    let router = Router::new();
    let services = json!([
        rule("AddTwoInts", "driveline", json!({ "timeout_ms": 300 })),
        { "service": "/there", "type": "test_srvs/srv/AddTwoInts", "server": "ros", "timeout_ms": 300 },
    ]);
    let rig = with(&router, services, "jazzy");
    let (node, hash) = (Node::new(&router, 0, "node"), hash("AddTwoInts"));
    let mut server = server_here(&here(&rig, "server"), "AddTwoInts");
    offered(&rig);
    let mut client = node.client("/math/add", (ADD, &hash));
    let call = client.call(&ints(&[1, 2]));
    let held = take(&mut server);
    let told = call.outcome().unwrap_err();
    assert!(told.contains("no response after") && told.contains("may have been executed"), "{told}");
    held.responder.send_bytes(&ints(&[3])).unwrap();
    let call = client.call(&ints(&[1, 3]));
    take(&mut server).responder.send_bytes(&ints(&[4])).unwrap();
    assert_eq!(call.outcome(), Ok(ints(&[4])), "what came late is not taken for it");
    assert_eq!(rig.ended(SERVICE, "timed_out"), 1);
    let there = node.server("/there", (ADD, &hash));
    let (request, response) = schemas("AddTwoInts");
    let options = ClientOptions { reach: Reach::Host, ..ClientOptions::default() };
    let mut client = here(&rig, "client").raw_client("there", request, response, options).unwrap();
    assert!(client.wait_for_server(PATIENCE));
    let Err(CallError::Refused { text, .. }) = client.call_bytes(&ints(&[1, 2]), PATIENCE) else { panic!("it has not answered") };
    assert!(text.contains("no response of the server in ROS 2 within 300 ms"), "{text}");
    let late = there.take();
    late.reply(&ints(&[3]));
    eventually("counted", || rig.ended("there", "late") == 1 && rig.ended("there", "timed_out") == 1);
    std::thread::scope(|scope| {
        scope.spawn(|| there.take().reply(&ints(&[4])));
        assert_eq!(client.call_bytes(&ints(&[1, 3]), PATIENCE).unwrap().payload().unwrap(), ints(&[4]));
    });
}

#[test]
fn a_server_that_dies_in_a_call_ends_it_at_once() {
    let router = Router::new();
    let services = json!([
        rule("AddTwoInts", "driveline", json!({ "timeout_ms": 600_000 })),
        { "service": "/there", "type": "test_srvs/srv/AddTwoInts", "server": "ros", "timeout_ms": 600_000 },
    ]);
    let rig = with(&router, services, "jazzy");
    let (node, hash) = (Node::new(&router, 0, "node"), hash("AddTwoInts"));
    let server = server_here(&here(&rig, "server"), "AddTwoInts");
    offered(&rig);
    let mut client = node.client("/math/add", (ADD, &hash));
    let call = client.call(&ints(&[1, 2]));
    eventually("under way", || rig.service(SERVICE).under_way == 1);
    drop(server);
    let told = call.outcome().unwrap_err();
    assert!(told.contains("went away"), "{told}");
    eventually("counted", || rig.ended(SERVICE, "server_gone") == 1);
    let (request, response) = schemas("AddTwoInts");
    let options = ClientOptions { reach: Reach::Host, ..ClientOptions::default() };
    let mut client = here(&rig, "client").raw_client("there", request, response, options).unwrap();
    // Its token goes, its query ends, or its session does: whichever is first.
    for dies in ["lets go", "ends", "goes from the graph"] {
        let other = Node::new(&router, 0, "other");
        let there = other.server("/there", (ADD, &hash));
        assert!(client.wait_for_server(PATIENCE));
        let mut told = String::new();
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
            let Err(CallError::Refused { text, .. }) = outcome else { panic!("{dies}: it has not answered: {:?}", outcome.err()) };
            told = text;
        });
        assert!(told.contains("went away without a response") && told.contains("may have executed"), "{dies}: {told}");
        eventually("nobody serves", || rig.service("there").servers.is_empty());
    }
    assert_eq!(rig.ended("there", "server_gone"), 3);
}

#[test]
fn a_client_that_dies_in_a_call_leaves_nothing() {
    let router = Router::new();
    let services = json!([
        rule("AddTwoInts", "driveline", json!({ "pending": 1 })),
        { "service": "/there", "type": "test_srvs/srv/AddTwoInts", "server": "ros", "pending": 1 },
    ]);
    let rig = with(&router, services, "jazzy");
    let (node, hash) = (Node::new(&router, 0, "node"), hash("AddTwoInts"));
    let mut server = server_here(&here(&rig, "server"), "AddTwoInts");
    offered(&rig);
    let mut client = node.client("/math/add", (ADD, &hash));
    eventually("seen", || rig.service(SERVICE).clients == ["/node"]);
    let _call = client.call(&ints(&[1, 2]));
    let held = take(&mut server);
    drop(client);
    eventually("gone", || rig.service(SERVICE).clients.is_empty());
    held.responder.send_bytes(&ints(&[3])).unwrap();
    eventually("counted", || rig.ended(SERVICE, "client_gone") == 1 && rig.service(SERVICE).under_way == 0);
    let mut client = node.client("/math/add", (ADD, &hash));
    let call = client.call(&ints(&[1, 3]));
    take(&mut server).responder.send_bytes(&ints(&[4])).unwrap();
    assert_eq!(call.outcome(), Ok(ints(&[4])));
    // The other way round.
    let there = node.server("/there", (ADD, &hash));
    let new_client = |name: &str| {
        let (request, response) = schemas("AddTwoInts");
        let options = ClientOptions { reach: Reach::Host, ..ClientOptions::default() };
        let mut client = here(&rig, name).raw_client("there", request, response, options).unwrap();
        assert!(client.wait_for_server(PATIENCE));
        client
    };
    let mut client = new_client("first");
    assert!(matches!(client.call_bytes(&ints(&[1, 2]), Duration::from_millis(50)), Err(CallError::TimedOut { .. })));
    let held = there.take();
    drop(client);
    held.reply(&ints(&[3]));
    // Handed over, if the end of the client is not known here yet.
    let ended = || rig.ended("there", "client_gone") + rig.service("there").answered;
    eventually("over", || ended() == 1 && rig.service("there").under_way == 0);
    let mut client = new_client("second");
    std::thread::scope(|scope| {
        scope.spawn(|| there.take().reply(&ints(&[4])));
        assert_eq!(client.call_bytes(&ints(&[1, 3]), PATIENCE).unwrap().payload().unwrap(), ints(&[4]));
    });
}

#[test]
fn what_cannot_be_read_is_refused_and_counted_and_calls_go_on() {
    let router = Router::new();
    let services = json!([
        rule("AddTwoInts", "driveline", json!({})),
        { "service": "/there", "type": "test_srvs/srv/AddTwoInts", "server": "ros" },
    ]);
    let rig = with(&router, services, "jazzy");
    let (node, hash) = (Node::new(&router, 0, "node"), hash("AddTwoInts"));
    let mut server = server_here(&here(&rig, "server"), "AddTwoInts");
    offered(&rig);
    let mut client = node.client("/math/add", (ADD, &hash));
    for (n, wrong) in [None, Some(vec![7; 77]), Some(attachment(0, client.gid)), Some(vec![0; 33])].into_iter().enumerate() {
        let told = client.call_as(wrong, &ints(&[1, 2])).outcome().unwrap_err();
        assert!(told.contains("attachment"), "{told}");
        assert_eq!(rig.ended(SERVICE, "attachment"), n as u64 + 1);
    }
    for (n, wrong) in [&[][..], &[0, 1, 0], &[0, 9, 0, 0, 1, 2, 3, 4]].into_iter().enumerate() {
        let told = client.call(wrong).outcome().unwrap_err();
        assert!(told.contains("does not begin as CDR does"), "{told}");
        let report = rig.service(SERVICE);
        assert_eq!(report.ended.values().sum::<u64>(), 4 + n as u64 + 1, "{report:?}");
    }
    assert!(server.take().unwrap().is_none(), "nothing of it came here");
    // What stands behind the encapsulation is for the server.
    let truncated = &ints(&[1, 2])[..9];
    let call = client.call(truncated);
    let request = take(&mut server);
    assert_eq!(request.sample.payload().unwrap(), truncated);
    request.responder.send_bytes(&[0, 1, 0, 0, 9]).unwrap();
    assert_eq!(call.outcome(), Ok(vec![0, 1, 0, 3, 9, 0, 0, 0]), "filled up, as its options say");
    // Responses.
    let there = node.server("/there", (ADD, &hash));
    let (request, response) = schemas("AddTwoInts");
    let options = ClientOptions { reach: Reach::Host, ..ClientOptions::default() };
    let mut client = here(&rig, "client").raw_client("there", request, response, options).unwrap();
    assert!(client.wait_for_server(PATIENCE));
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
        assert_eq!(client.call_bytes(&ints(&[1, 3]), PATIENCE).unwrap().payload().unwrap(), &ints(&[4])[..7], "as it came");
        let outcome = client.call_bytes(&ints(&[1, 3]), PATIENCE);
        assert!(
            matches!(&outcome, Err(CallError::Refused { text, .. }) if text.contains("does not begin as CDR does")),
            "{:?}",
            outcome.err()
        );
    });
    eventually("counted", || rig.ended("there", "stray") == 3 && rig.ended("there", "late") == 1);
}

#[test]
fn what_is_too_long_or_too_much_is_refused_and_counted() {
    let router = Router::new();
    let small = json!({ "max_request": 20, "max_response": 12, "pending": 1 });
    let mut services =
        json!([rule("Blob", "driveline", small.clone()), { "service": "/there", "type": "test_srvs/srv/Blob", "server": "ros" }]);
    services[1].as_object_mut().unwrap().extend(small.as_object().unwrap().clone());
    let rig = with(&router, services, "jazzy");
    let (node, hash) = (Node::new(&router, 0, "node"), hash("Blob"));
    let mut server = server_here(&here(&rig, "server"), "Blob");
    offered(&rig);
    let mut client = node.client("/math/add", (BLOB, &hash));
    let told = client.call(&blob(13, 1)).outcome().unwrap_err();
    assert!(told.contains("a request of 21 bytes is longer than `max_request`, which is 20"), "{told}");
    let call = client.call(&blob(12, 1));
    let held = take(&mut server);
    let told = client.call(&blob(4, 1)).outcome().unwrap_err();
    assert!(told.contains("1 calls are under way") && told.contains("`pending`"), "{told}");
    held.responder.send_bytes(&blob(8, 1)).unwrap();
    let told = call.outcome().unwrap_err();
    assert!(told.contains("a response of 16 bytes is longer than `max_response`, which is 12"), "{told}");
    let call = client.call(&blob(12, 1));
    take(&mut server).responder.send_bytes(&blob(4, 1)).unwrap();
    assert_eq!(call.outcome(), Ok(blob(4, 1)));
    eventually("counted", || rig.ended(SERVICE, "too_long") == 2 && rig.ended(SERVICE, "busy") == 1 && rig.service(SERVICE).answered == 1);
    // The other way round.
    let there = node.server("/there", (BLOB, &hash));
    let new_client = |name: &str| {
        let (request, response) = schemas("Blob");
        let options = ClientOptions { reach: Reach::Host, ..ClientOptions::default() };
        let mut client = here(&rig, name).raw_client("there", request, response, options).unwrap();
        assert!(client.wait_for_server(PATIENCE));
        client
    };
    let (mut client, mut other) = (new_client("client"), new_client("other"));
    let refused = |client: &mut RawClient, request: &[u8], says: &str| {
        let outcome = client.call_bytes(request, PATIENCE);
        assert!(matches!(&outcome, Err(CallError::Refused { text, .. }) if text.contains(says)), "{:?}", outcome.err());
    };
    refused(&mut client, &blob(13, 1), "a request of 21 bytes is longer than `max_request`");
    assert_eq!(there.waiting(), 0, "nothing of it went there");
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| refused(&mut client, &blob(4, 1), "a response of 16 bytes is longer than `max_response`"));
        let held = there.take();
        refused(&mut other, &blob(4, 1), "1 calls are under way");
        held.reply(&blob(8, 1));
        asks.join().unwrap();
        scope.spawn(|| there.take().reply(&blob(4, 2)));
        assert_eq!(other.call_bytes(&blob(4, 1), PATIENCE).unwrap().payload().unwrap(), blob(4, 2));
    });
}

/// Newer rmw_zenoh sends again what it believes lost.
#[test]
fn a_request_that_comes_twice_is_executed_once() {
    let router = Router::new();
    let rig = rig(&router, rule("AddTwoInts", "driveline", json!({})));
    let (node, hash) = (Node::new(&router, 0, "node"), hash("AddTwoInts"));
    let mut server = server_here(&here(&rig, "server"), "AddTwoInts");
    offered(&rig);
    let mut client = node.client("/math/add", (ADD, &hash));
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
fn what_does_not_fit_is_told_with_the_remedy_and_never_called() {
    let router = Router::new();
    let services = json!([
        rule("AddTwoInts", "driveline", json!({})),
        { "service": "/there", "type": "test_srvs/srv/AddTwoInts", "server": "ros" },
        { "service": "/nowhere", "type": "nav_msgs/srv/GetMap", "server": "ros" },
    ]);
    let rig = with(&router, services, "jazzy");
    let (node, good) = (Node::new(&router, 0, "adder"), hash("AddTwoInts"));
    assert!(
        rig.told("service '/nowhere' is left out") && rig.service("nowhere").problems[0].contains("nav_msgs"),
        "{:?}",
        rig.service("nowhere")
    );
    let problem = |service: &str, says: &str| {
        eventually(says, || rig.service(service).problems.iter().any(|p| p.contains(says)));
        eventually("told", || rig.told(says));
        assert!(!rig.service(service).callable);
    };
    // A server here with another type.
    let server = server_here(&here(&rig, "server"), "Blob");
    problem(SERVICE, "the schemas of test_srvs/srv/AddTwoInts_Request and test_srvs/srv/AddTwoInts_Response");
    drop(server);
    // Two servers here.
    let servers = [server_here(&here(&rig, "one"), "AddTwoInts"), server_here(&here(&rig, "two"), "AddTwoInts")];
    problem(SERVICE, "2 nodes offer it (one, two)");
    // Servers there.
    let (request, response) = schemas("AddTwoInts");
    let options = ClientOptions { reach: Reach::Host, ..ClientOptions::default() };
    let mut client = here(&rig, "client").raw_client("there", request, response, options).unwrap();
    let mut refused = |says: &str| {
        problem("there", says);
        assert!(client.wait_for_server(PATIENCE), "who calls is told why");
        let outcome = client.call_bytes(&ints(&[1, 2]), PATIENCE);
        assert!(matches!(&outcome, Err(CallError::Refused { text, .. }) if text.contains(says)), "{says}: {:?}", outcome.err());
    };
    let old = format!("RIHS01_{}", "0".repeat(64));
    let server = node.server("/there", (ADD, &old));
    refused(&format!("the server '/adder' by rmw_zenoh has the type hash {old}"));
    drop(server);
    let server = node.server("/there", (ADD, "TypeHashNotSupported"));
    refused("the type hash TypeHashNotSupported");
    drop(server);
    let server = node.server("/there", (BLOB, &hash("Blob")));
    refused("correct `type`");
    assert_eq!(server.waiting(), 0);
    drop(server);
    eventually("nobody serves", || rig.service("there").servers.is_empty());
    let first = node.server("/there", (ADD, &good));
    eventually("callable", || rig.service("there").callable);
    let other = Node::new(&router, 0, "other");
    let second = other.server("/there", (ADD, &good));
    refused("2 nodes offer it");
    assert_eq!((first.waiting(), second.waiting()), (0, 0));
    drop(second);
    eventually("callable again", || rig.service("there").callable);
    std::thread::scope(|scope| {
        scope.spawn(|| first.take().reply(&ints(&[3])));
        assert_eq!(client.call_bytes(&ints(&[1, 2]), PATIENCE).unwrap().payload().unwrap(), ints(&[3]));
    });
    // A name that is taken there.
    drop(servers);
    let _server = server_here(&here(&rig, "one"), "AddTwoInts");
    offered(&rig);
    let _double = node.server("/math/add", (ADD, &good));
    eventually("told", || rig.told("nodes in ROS 2 offer it as well (/adder)"));
}

#[test]
fn nodes_of_humble_have_no_hashes() {
    let router = Router::new();
    let services = json!([
        rule("AddTwoInts", "driveline", json!({})),
        { "service": "/there", "type": "test_srvs/srv/AddTwoInts", "server": "ros" },
    ]);
    let rig = with(&router, services, "humble");
    let (node, of) = (Node::new(&router, 0, "node"), (ADD, "TypeHashNotSupported"));
    let mut server = server_here(&here(&rig, "server"), "AddTwoInts");
    offered(&rig);
    let call = node.client("/math/add", of).call(&ints(&[1, 2]));
    take(&mut server).responder.send_bytes(&ints(&[3])).unwrap();
    assert_eq!(call.outcome(), Ok(ints(&[3])));
    let there = node.server("/there", of);
    let (request, response) = schemas("AddTwoInts");
    let options = ClientOptions { reach: Reach::Host, ..ClientOptions::default() };
    let mut client = here(&rig, "client").raw_client("there", request, response, options).unwrap();
    assert!(client.wait_for_server(PATIENCE));
    std::thread::scope(|scope| {
        scope.spawn(|| there.take().reply(&ints(&[3])));
        assert_eq!(client.call_bytes(&ints(&[1, 2]), PATIENCE).unwrap().payload().unwrap(), ints(&[3]));
    });
}

/// What one domain of Driveline offers to ROS 2 is not called from another one, and nothing goes in circles.
#[test]
fn a_second_gateway_does_not_call_what_the_first_one_offers() {
    let router = Router::new();
    let first = rig(&router, rule("AddTwoInts", "driveline", json!({})));
    let second = rig(&router, rule("AddTwoInts", "ros", json!({})));
    let (node, hash) = (Node::new(&router, 0, "asker"), hash("AddTwoInts"));
    let mut server = server_here(&here(&first, "server"), "AddTwoInts");
    offered(&first);
    eventually("seen", || second.service(SERVICE).problems.iter().any(|p| p.contains("another gateway of Driveline")));
    let mut elsewhere = client_here(&here(&second, "client"), "AddTwoInts");
    assert!(elsewhere.wait_for_server(PATIENCE));
    let outcome = elsewhere.call_bytes(&ints(&[1, 2]), PATIENCE);
    assert!(matches!(&outcome, Err(CallError::Refused { text, .. }) if text.contains("go in circles")), "{:?}", outcome.err());
    assert!(server.take().unwrap().is_none());
    // A node calls it nonetheless.
    let call = node.client("/math/add", (ADD, &hash)).call(&ints(&[1, 2]));
    take(&mut server).responder.send_bytes(&ints(&[3])).unwrap();
    assert_eq!(call.outcome(), Ok(ints(&[3])));
    // With a node that offers it as well, both would execute what the second one asks.
    let there = node.server("/math/add", (ADD, &hash));
    eventually("told", || second.told("both would execute requests"));
    assert!(!second.service(SERVICE).callable && there.waiting() == 0);
}

#[test]
fn a_gateway_that_is_killed_in_a_call_is_found_by_both_sides_and_the_next_one_serves() {
    let router = Router::new();
    let mut rig = rig(&router, rule("AddTwoInts", "driveline", json!({})));
    rig.stop();
    let process = rig.process();
    let (node, hash) = (Node::new(&router, 0, "asker"), hash("AddTwoInts"));
    let mut server = server_here(&here(&rig, "server"), "AddTwoInts");
    let offered = || node.graph().iter().any(|t| t.contains("/SS/"));
    eventually("offered", offered);
    let mut client = node.client("/math/add", (ADD, &hash));
    let call = client.call(&ints(&[1, 2]));
    let held = take(&mut server);
    drop(process);
    eventually("its query ends", || call.has_ended());
    assert!(call.replies().is_empty());
    eventually("it is not offered any more", || !offered());
    eventually("who serves knows", || held.responder.client_is_gone() || server.take().unwrap().is_some());
    assert!(held.responder.send_bytes(&ints(&[3])).is_err());
    rig.start();
    eventually("offered again", offered);
    let call = client.call(&ints(&[1, 2]));
    take(&mut server).responder.send_bytes(&ints(&[3])).unwrap();
    assert_eq!(call.outcome(), Ok(ints(&[3])));
}
