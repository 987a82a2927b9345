// SPDX-License-Identifier: Apache-2.0
//! Servers and clients here, for services that pass to ROS 2 and from ROS 2.

use super::rmw::Router;
use super::samples::BIG;
use super::{DEFINITIONS, PATIENCE, Rig, eventually};
use driveline::service::{RawClient, RawRequest, RawService};
use driveline::{
    CallError, ClientOptions, Context, ContextOptions, Executor, ExecutorOptions, GroupKind, Node,
    Reach, ServiceCallback, ServiceOptions,
};
use driveline_gateway::Ros2ServiceReport;
use driveline_rosidl::Catalog;
use driveline_rosidl::cdr::{ByteOrder, Decoder, Encoder};
use driveline_types::Schema;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

pub(crate) const ADD: &str = "example_interfaces/srv/AddTwoInts";
pub(crate) const TRIGGER: &str = "std_srvs/srv/Trigger";
pub(crate) const BLOB: &str = "test_srvs/srv/Blob";
/// The same types as in DDS and in keys of rmw_zenoh.
pub(crate) const ADD_DDS: &str = "example_interfaces::srv::dds_::AddTwoInts_";
pub(crate) const BLOB_DDS: &str = "test_srvs::srv::dds_::Blob_";
/// Name of most services in these tests, of any type.
pub(crate) const SERVICE: &str = "math/add";
pub(crate) const TYPES: &str = "rcl_interfaces/srv/GetParameterTypes";
const LONGEST: usize = BIG + 1024;

/// Starts a gateway for nodes on DDS.
pub(crate) fn rig_of(domain_id: u32, services: Value) -> Rig {
    Rig::with(json!({ "domain_id": domain_id, "services": services }), &[])
}

/// Starts a gateway for nodes on rmw_zenoh.
pub(crate) fn with(router: &Router, services: Value, release: &str) -> Rig {
    let zenoh = json!({ "connect": [router.endpoint()] });
    Rig::with(
        json!({
            "domain_id": 0, "dds": false, "zenoh": zenoh, "release": release, "services": services,
        }),
        &[],
    )
}

/// Starts a gateway for nodes on rmw_zenoh, with one service.
pub(crate) fn one(router: &Router, rule: Value) -> Rig {
    with(router, json!([rule]), "jazzy")
}

/// Returns a rule for [`SERVICE`].
pub(crate) fn rule(ros_type: &str, server: &str, more: Value) -> Value {
    let mut rule = json!({ "service": format!("/{SERVICE}"), "type": ros_type, "server": server });
    rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    rule
}

fn catalog() -> Catalog {
    let mut catalog = Catalog::new();
    let dir = tempfile::tempdir().unwrap();
    for (package, file, definition) in DEFINITIONS {
        let path = dir.path().join(package).join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, definition).unwrap();
        catalog.add_package(&dir.path().join(package)).unwrap();
    }
    catalog
}

/// Returns the hash of a service type.
pub(crate) fn hash(ros_type: &str) -> String {
    catalog().type_hash(&ros_type.parse().unwrap()).unwrap().to_string()
}

/// Returns the schemas of request and response.
pub(crate) fn schemas(ros_type: &str) -> (Schema, Schema) {
    let catalog = catalog();
    let of =
        |suffix: &str| catalog.schema(&format!("{ros_type}{suffix}").parse().unwrap()).unwrap();
    (of("_Request"), of("_Response"))
}

pub(crate) fn cdr(fill: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    let mut to = Encoder::new(ByteOrder::Little);
    fill(&mut to);
    to.finish()
}

pub(crate) fn two(a: i64, b: i64) -> Vec<u8> {
    ints(&[a, b])
}

/// Encodes `int64`s; each is aligned by its position.
pub(crate) fn ints(ints: &[i64]) -> Vec<u8> {
    cdr(|to| ints.iter().for_each(|n| to.number(*n)))
}

/// Encodes `uint8[]`; `len` is a multiple of 4, so there is no padding.
pub(crate) fn blob(len: usize, fill: u8) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0, 0];
    bytes.extend((len as u32).to_le_bytes());
    bytes.resize(bytes.len() + len, fill);
    bytes
}

pub(crate) fn node(domain_dir: &Path, name: &str) -> Node {
    let options = ContextOptions { name: name.into(), domain_dir: Some(domain_dir.to_owned()) };
    Context::new(options).unwrap().node(name).unwrap()
}

pub(crate) fn domain(rig: &Rig) -> PathBuf {
    rig.dir.path().join("domain")
}

pub(crate) fn here(rig: &Rig, name: &str) -> Node {
    node(&domain(rig), name)
}

/// Creates a server here of [`SERVICE`], whose requests the test answers itself.
pub(crate) fn server_here(node: &Node, ros_type: &str) -> RawService {
    let (request, response) = schemas(ros_type);
    let options = ServiceOptions {
        reach: Reach::Host,
        max_response: LONGEST,
        max_held: 4,
        ..ServiceOptions::default()
    };
    node.raw_service(SERVICE, request, response, options).unwrap()
}

/// Waits for the next request.
#[track_caller]
pub(crate) fn take(service: &mut RawService) -> RawRequest {
    let mut taken = None;
    eventually("a request came", || {
        taken = service.take().unwrap();
        taken.is_some()
    });
    taken.unwrap()
}

/// Waits until [`SERVICE`] is offered to ROS 2.
pub(crate) fn offered(rig: &Rig) {
    eventually("offered", || rig.service(SERVICE).callable);
}

/// Starts a server here that answers by `answer` until the result is dropped.
pub(crate) fn serve(
    rig: &Rig,
    service: &str,
    ros_type: &str,
    name: &str,
    answer: impl Fn(RawRequest) + Send + Sync + 'static,
) -> Executor {
    let (request, response) = schemas(ros_type);
    let options =
        ServiceOptions { reach: Reach::Host, max_response: LONGEST, ..ServiceOptions::default() };
    let service =
        node(&domain(rig), name).raw_service(service, request, response, options).unwrap();
    let executor = Executor::new(ExecutorOptions::default()).unwrap();
    let callback = ServiceCallback {
        name: "answer".into(),
        group: executor.group(GroupKind::MutuallyExclusive),
    };
    executor.add_raw_service(service, callback, answer).unwrap();
    executor.start().unwrap();
    executor
}

pub(crate) fn respond(request: RawRequest, response: &[u8]) {
    let mut loan = request.responder.loan(response.len()).unwrap();
    loan.payload_mut().copy_from_slice(response);
    // Servers of these tests ignore that a client has gone.
    let _ = request.responder.send(loan);
}

pub(crate) fn add(request: RawRequest) {
    let mut numbers = Decoder::new(request.sample.payload().unwrap()).unwrap();
    let (a, b): (i64, i64) = (numbers.number().unwrap(), numbers.number().unwrap());
    numbers.finish().unwrap();
    respond(request, &cdr(|to| to.number(a + b)));
}

/// Creates a client here, which may have no server yet.
pub(crate) fn client_of(node: &Node, service: &str, ros_type: &str) -> RawClient {
    let (request, response) = schemas(ros_type);
    let options =
        ClientOptions { reach: Reach::Host, max_request: 64 << 10, ..ClientOptions::default() };
    node.raw_client(service, request, response, options).unwrap()
}

/// Creates a client here that is matched with its server.
#[track_caller]
pub(crate) fn matched(node: &Node, service: &str, ros_type: &str) -> RawClient {
    let mut client = client_of(node, service, ros_type);
    assert!(client.wait_for_server(PATIENCE), "it is not offered here");
    client
}

pub(crate) fn client(domain_dir: &Path, service: &str, ros_type: &str) -> RawClient {
    matched(&node(domain_dir, "asker"), service, ros_type)
}

pub(crate) fn call(client: &mut RawClient, request: &[u8]) -> Result<Vec<u8>, CallError> {
    let mut loan = client.loan(request.len())?;
    loan.payload_mut().copy_from_slice(request);
    client.call(loan, PATIENCE).map(|response| response.payload().unwrap().to_vec())
}

pub(crate) fn sum_of(response: &[u8]) -> i64 {
    let mut numbers = Decoder::new(response).unwrap();
    let sum = numbers.number().unwrap();
    numbers.finish().unwrap();
    sum
}

/// Calls on its own thread.
pub(crate) fn asked(
    mut client: RawClient,
    request: Vec<u8>,
) -> Receiver<Result<Vec<u8>, CallError>> {
    let (sender, outcome) = channel();
    std::thread::spawn(move || sender.send(call(&mut client, &request)));
    outcome
}

pub(crate) fn report(rig: &Rig) -> Ros2ServiceReport {
    rig.report().services.remove(0)
}

pub(crate) fn ended(rig: &Rig, reason: &str) -> u64 {
    report(rig).ended.get(reason).copied().unwrap_or(0)
}

/// Returns the number of messages that ended no call.
pub(crate) fn strays(rig: &Rig, reason: &str) -> u64 {
    report(rig).strays.get(reason).copied().unwrap_or(0)
}
