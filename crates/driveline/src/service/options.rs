// SPDX-License-Identifier: Apache-2.0
//! Options of clients and services, their bounds, and their counters.

use super::requester::MAX_REQUESTS_HELD;
use crate::error::EndpointError;
use crate::executor::CallbackGroup;
use crate::options::Reach;
use driveline_shm::Access;
use driveline_types::limits::MAX_PAYLOAD;
use driveline_types::{PayloadKind, Schema};
use std::ops::RangeInclusive;
use thiserror::Error;

/// Maximum number of calls in flight of one client.
pub(super) const MAX_PENDING: u32 = 64;
/// Maximum number of clients of one server.
pub(super) const MAX_CLIENTS: u32 = 256;

/// Options of a client. Memory for requests is reserved when it is created.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// `Process` or `Host`, as the server has it.
    pub reach: Reach,
    /// Longest request in bytes.
    pub max_request: usize,
    /// Maximum number of calls in flight, and of responses held: 1 to 64. At host reach the server
    /// reserves memory for `max(pending, 2) + 2 · pending + 4` responses of its `max_response`: for
    /// example eight if `pending` is 1. If it grants access to users, `3 · pending` instead of
    /// `2 · pending`; to anyone, `5 · pending`.
    pub pending: u32,
    /// Users whose servers are accepted, and who may read requests, at host reach.
    pub access: Access,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { reach: Reach::Process, max_request: 4096, pending: 1, access: Access::OwnUser }
    }
}

/// Options of a service. Memory for a client's responses is reserved when its first request is
/// taken.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// `Process` or `Host`.
    pub reach: Reach,
    /// Longest response in bytes.
    pub max_response: usize,
    /// Maximum number of clients served at a time: 1 to 256. Others are refused with a text.
    pub max_clients: u32,
    /// Maximum number of calls in flight of one client: 1 to 64. A client that wants more is
    /// refused with a text.
    pub max_pending: u32,
    /// Maximum number of requests held at once: 1 to 8, of each client at host reach, of all
    /// clients together inside the process. More than one is needed where callbacks run at the same
    /// time, or keep requests.
    pub max_held: u32,
    /// Users who may call, at host reach.
    pub access: Access,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            reach: Reach::Process,
            max_response: 64 * 1024,
            max_clients: 8,
            max_pending: 8,
            max_held: 2,
            access: Access::OwnUser,
        }
    }
}

/// Name and group of the callback that answers requests, or takes the outcomes of calls.
pub struct ServiceCallback {
    /// Name, for records, logs and tools.
    pub name: String,
    /// Group.
    pub group: CallbackGroup,
}

/// Creating a service failed.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// This process offers it already.
    #[error(
        "service '{service}': this process offers it already, and a service has one server in a \
         process"
    )]
    Offered {
        /// The service.
        service: String,
    },
    /// Its subscription could not be created.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// Counters of a client since its creation. Every request is counted in `requests` and in one of
/// the next five counters, or is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// Requests sent.
    pub requests: u64,
    /// Responses that arrived in time, including ones of a wrong type.
    pub answered: u64,
    /// Refusals that arrived in time.
    pub refused: u64,
    /// Calls that timed out.
    pub timed_out: u64,
    /// Calls whose server ended, or whose responses could not arrive.
    pub server_gone: u64,
    /// Calls given up because their response could not be taken, or with their executor.
    pub abandoned: u64,
    /// Responses that arrived too late and were dropped.
    pub late: u64,
    /// Samples on the response topic that are not answers; dropped.
    pub stray: u64,
}

/// Counters of a service since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceStats {
    /// Requests taken, including the refused ones and those of departed clients, but not the
    /// misaddressed ones.
    pub requests: u64,
    /// Responses published.
    pub answered: u64,
    /// Requests refused by the callback or dropped unanswered, and those whose callback panicked or
    /// whose response had no memory or could not be published.
    pub refused: u64,
    /// Requests refused for lack of room: too many clients, more calls in flight than agreed, or no
    /// memory. Without memory even for a refusal, or beyond 513 clients, the client gets no answer.
    pub no_room: u64,
    /// Requests dropped because their client had gone.
    pub client_gone: u64,
    /// Answers without a receiver, because the client had gone.
    pub undelivered: u64,
    /// Requests dropped because they were meant for another server of that name.
    pub misaddressed: u64,
    /// Clients served now.
    pub clients: u64,
}

/// Returns the pins that a publisher needs so that one peer can hold `held` samples. If other users
/// may subscribe, the transport grants one of them only a half or a quarter of the pins.
pub(super) fn pins_for(held: u32, access: &Access) -> u32 {
    match access {
        Access::OwnUser => held,
        Access::Users(_) => held * 2,
        Access::Anyone => held * 4,
    }
}

pub(super) fn check_client(
    service: &str,
    schemas: [&Schema; 2],
    o: &ClientOptions,
) -> Result<(), EndpointError> {
    reach(service, schemas, o.reach)?;
    within(service, "pending", o.pending, 1..=MAX_PENDING)?;
    length(service, "max_request", o.max_request)
}

pub(super) fn check_service(
    service: &str,
    schemas: [&Schema; 2],
    o: &ServiceOptions,
) -> Result<(), EndpointError> {
    reach(service, schemas, o.reach)?;
    within(service, "max_clients", o.max_clients, 1..=MAX_CLIENTS)?;
    within(service, "max_pending", o.max_pending, 1..=MAX_PENDING)?;
    within(service, "max_held", o.max_held, 1..=MAX_REQUESTS_HELD)?;
    length(service, "max_response", o.max_response)
}

fn reach(service: &str, schemas: [&Schema; 2], reach: Reach) -> Result<(), EndpointError> {
    if reach != Reach::Process && schemas.iter().any(|s| s.kind == PayloadKind::Object) {
        return Err(EndpointError::ObjectBeyondProcess { topic: service.to_owned() });
    }
    if reach != Reach::Network {
        return Ok(());
    }
    Err(option(
        service,
        "reach",
        "network".into(),
        "services reach the processes of this host: give 'process' or 'host'".into(),
    ))
}

fn within(
    service: &str,
    name: &'static str,
    value: u32,
    range: RangeInclusive<u32>,
) -> Result<(), EndpointError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(option(
        service,
        name,
        value.to_string(),
        format!("it must be between {} and {}", range.start(), range.end()),
    ))
}

fn length(service: &str, name: &'static str, value: usize) -> Result<(), EndpointError> {
    if value <= MAX_PAYLOAD {
        return Ok(());
    }
    Err(option(
        service,
        name,
        value.to_string(),
        format!("at most {MAX_PAYLOAD} bytes are possible"),
    ))
}

fn option(service: &str, option: &'static str, value: String, reason: String) -> EndpointError {
    EndpointError::ServiceOption { service: service.to_owned(), option, value, reason }
}
