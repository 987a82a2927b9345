// SPDX-License-Identifier: Apache-2.0
//! Servers and clients here, of services that pass to ROS 2 and from it.

use super::{DEFINITIONS, PATIENCE, Rig};
use driveline::service::{RawClient, RawRequest};
use driveline::{
    CallError, ClientOptions, Context, ContextOptions, Executor, ExecutorOptions, GroupKind, Node, Reach, ServiceCallback, ServiceOptions,
};
use driveline_rosidl::Catalog;
use driveline_rosidl::cdr::{ByteOrder, Decoder, Encoder};
use driveline_runtime::gateway::Ros2ServiceReport;
use driveline_types::Schema;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

pub(crate) const ADD: &str = "example_interfaces/srv/AddTwoInts";
pub(crate) const TRIGGER: &str = "std_srvs/srv/Trigger";
const LONGEST: usize = (4 << 20) + 1024;

pub(crate) fn rig_of(domain_id: u32, services: Value) -> Rig {
    Rig::with(json!({ "domain_id": domain_id, "services": services }), &[])
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

/// Of a service's type.
pub(crate) fn hash(ros_type: &str) -> String {
    catalog().type_hash(&ros_type.parse().unwrap()).unwrap().to_string()
}

/// Of request and response.
pub(crate) fn schemas(ros_type: &str) -> (Schema, Schema) {
    let catalog = catalog();
    let of = |suffix: &str| catalog.schema(&format!("{ros_type}{suffix}").parse().unwrap()).unwrap();
    (of("_Request"), of("_Response"))
}

pub(crate) fn cdr(fill: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    let mut to = Encoder::new(ByteOrder::Little);
    fill(&mut to);
    to.finish()
}

pub(crate) fn two(a: i64, b: i64) -> Vec<u8> {
    cdr(|to| {
        to.number(a);
        to.number(b);
    })
}

pub(crate) fn node(domain_dir: &Path, name: &str) -> Node {
    let options = ContextOptions { name: name.into(), domain_dir: Some(domain_dir.to_owned()) };
    Context::new(options).unwrap().node(name).unwrap()
}

pub(crate) fn domain(rig: &Rig) -> PathBuf {
    rig.dir.path().join("domain")
}

/// A server here, which answers as it is told for as long as the value lives.
pub(crate) fn serve(rig: &Rig, service: &str, ros_type: &str, name: &str, answer: impl Fn(RawRequest) + Send + Sync + 'static) -> Executor {
    let (request, response) = schemas(ros_type);
    let options = ServiceOptions { reach: Reach::Host, max_response: LONGEST, ..ServiceOptions::default() };
    let service = node(&domain(rig), name).raw_service(service, request, response, options).unwrap();
    let executor = Executor::new(ExecutorOptions::default()).unwrap();
    let callback = ServiceCallback { name: "answer".into(), group: executor.group(GroupKind::MutuallyExclusive) };
    executor.add_raw_service(service, callback, answer).unwrap();
    executor.start().unwrap();
    executor
}

pub(crate) fn respond(request: RawRequest, response: &[u8]) {
    let mut loan = request.responder.loan(response.len()).unwrap();
    loan.payload_mut().copy_from_slice(response);
    // A client that has gone is no matter of these tests' servers.
    let _ = request.responder.send(loan);
}

pub(crate) fn add(request: RawRequest) {
    let mut numbers = Decoder::new(request.sample.payload().unwrap()).unwrap();
    let (a, b): (i64, i64) = (numbers.number().unwrap(), numbers.number().unwrap());
    numbers.finish().unwrap();
    respond(request, &cdr(|to| to.number(a + b)));
}

pub(crate) fn client(domain_dir: &Path, service: &str, ros_type: &str) -> RawClient {
    let (request, response) = schemas(ros_type);
    let options = ClientOptions { reach: Reach::Host, max_request: 1024, ..ClientOptions::default() };
    let mut client = node(domain_dir, "asker").raw_client(service, request, response, options).unwrap();
    assert!(client.wait_for_server(PATIENCE), "nobody offers it here");
    client
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

/// Asks on a thread of its own.
pub(crate) fn asked(mut client: RawClient, request: Vec<u8>) -> Receiver<Result<Vec<u8>, CallError>> {
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

/// What came and ended no call.
pub(crate) fn strays(rig: &Rig, reason: &str) -> u64 {
    report(rig).strays.get(reason).copied().unwrap_or(0)
}
