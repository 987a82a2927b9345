// SPDX-License-Identifier: Apache-2.0
//! Services of Driveline that ROS 2 has as well, and what goes through them in tests.

use super::rmw::Router;
use super::samples::{BIG, SERVICES};
use super::{PATIENCE, Rig, eventually};
use driveline::service::{RawClient, RawRequest, RawService};
use driveline::types::Schema;
use driveline::{ClientOptions, Context, ContextOptions, Node as Here, Reach, ServiceOptions};
use driveline_rosidl::{Catalog, parse_srv};
use serde_json::{Value, json};

pub(crate) const ADD: &str = "test_srvs::srv::dds_::AddTwoInts_";
pub(crate) const BLOB: &str = "test_srvs::srv::dds_::Blob_";
pub(crate) const SERVICE: &str = "math/add";

/// A gateway for nodes on rmw_zenoh, with one service.
pub(crate) fn one(router: &Router, rule: Value) -> Rig {
    with(router, json!([rule]), "jazzy")
}

pub(crate) fn with(router: &Router, services: Value, release: &str) -> Rig {
    let zenoh = json!({ "connect": [router.endpoint()] });
    Rig::with(json!({ "domain_id": 0, "dds": false, "zenoh": zenoh, "release": release, "services": services }), &[])
}

/// Of `/math/add`, whose type is `ty`, served on this side.
pub(crate) fn rule(ty: &str, server: &str, more: Value) -> Value {
    let mut rule = json!({ "service": "/math/add", "type": format!("test_srvs/srv/{ty}"), "server": server });
    rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    rule
}

pub(crate) fn catalog() -> Catalog {
    let mut catalog = Catalog::new();
    for (name, text) in SERVICES {
        let name = format!("test_srvs/srv/{name}").parse().unwrap();
        catalog.add_service(parse_srv(&name, "test", text).unwrap()).unwrap();
    }
    catalog
}

pub(crate) fn hash(ty: &str) -> String {
    catalog().type_hash(&format!("test_srvs/srv/{ty}").parse().unwrap()).unwrap().to_string()
}

/// Of requests and responses.
pub(crate) fn schemas(ty: &str) -> (Schema, Schema) {
    let schema = |half: &str| catalog().schema(&format!("test_srvs/srv/{ty}_{half}").parse().unwrap()).unwrap();
    (schema("Request"), schema("Response"))
}

pub(crate) fn here(rig: &Rig, name: &str) -> Here {
    let domain_dir = Some(rig.dir.path().join("domain"));
    Context::new(ContextOptions { name: name.into(), domain_dir }).unwrap().node(name).unwrap()
}

pub(crate) fn server_here(node: &Here, ty: &str) -> RawService {
    let (request, response) = schemas(ty);
    let options = ServiceOptions { reach: Reach::Host, max_response: BIG + 64, max_held: 4, ..ServiceOptions::default() };
    node.raw_service(SERVICE, request, response, options).unwrap()
}

#[track_caller]
pub(crate) fn take(service: &mut RawService) -> RawRequest {
    let mut taken = None;
    eventually("a request came", || {
        taken = service.take().unwrap();
        taken.is_some()
    });
    taken.unwrap()
}

/// `int64`s in CDR: their alignment is that of their place.
pub(crate) fn ints(ints: &[i64]) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0, 0];
    ints.iter().for_each(|i| bytes.extend(i.to_le_bytes()));
    bytes
}

/// `uint8[]` in CDR. A multiple of 4, so that nothing is filled up.
pub(crate) fn blob(len: usize, fill: u8) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0, 0];
    bytes.extend((len as u32).to_le_bytes());
    bytes.resize(bytes.len() + len, fill);
    bytes
}

/// Offered to ROS 2.
pub(crate) fn offered(rig: &Rig) {
    eventually("offered", || rig.service(SERVICE).callable);
}

pub(crate) fn client_of(rig: &Rig, name: &str, service: &str, ty: &str) -> RawClient {
    let (request, response) = schemas(ty);
    let options = ClientOptions { reach: Reach::Host, max_request: 64 << 10, ..ClientOptions::default() };
    here(rig, name).raw_client(service, request, response, options).unwrap()
}

/// Matched with its server.
pub(crate) fn matched(rig: &Rig, name: &str, service: &str, ty: &str) -> RawClient {
    let mut client = client_of(rig, name, service, ty);
    assert!(client.wait_for_server(PATIENCE));
    client
}
