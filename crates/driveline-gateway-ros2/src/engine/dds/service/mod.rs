// SPDX-License-Identifier: Apache-2.0
//! Ends (servers and clients) of services over DDS, as rmw_cyclonedds has them: section "Over DDS"
//! of `docs/protocols/ros2-services.md`.
//!
//! An end has a reader, a writer, and a thread that takes samples and checks matches. Responses are
//! written by the thread that sends them. Requests may have to wait, so a second thread of the end
//! writes them.

mod ask;
mod offer;

pub(in crate::engine) use ask::ask;
pub(in crate::engine) use offer::offer;

use crate::dds::{
    self, EndpointConfig, Entity, Found, History, Participant, Reader, Waiting, Writer,
};
use crate::discovery_info::is_gateway;
use crate::engine::endpoint::Profile;
use crate::engine::service::{Interface, OwnEnds, Role, ServiceChange, ServiceEndpoint, qos};
use crate::engine::{PANICKED, lock};
use crate::names::RosNode;
use crate::qos::mismatches;
use crate::rmw_cyclonedds::{CallId, HeadError, ServiceTopic, Vendor, dds_topic, service_of_dds};
use driveline_gateway::ros2::Release;
use driveline_rosidl::cdr::HEADER_LEN;
use driveline_rosidl::{Catalog, TypeHash};
use driveline_types::Schema;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum time that a sender waits until the other end is matched, and until there is space.
const WITHIN: Duration = Duration::from_secs(2);
/// Maximum pause between checks without an event.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Number of samples taken between two checks of matches and waiting responses, because remote
/// writers may write without a pause.
const TURN: usize = 64;
/// Maximum size in bytes of the samples of an end that wait for its thread, or for acknowledgement.
/// It is exceeded if fewer than [`KEPT_AT_LEAST`] samples would fit.
const KEPT_BYTES: usize = 64 << 20;
/// Minimum number of samples that may wait, whatever their size.
const KEPT_AT_LEAST: usize = 16;
/// Maximum number of samples that may wait for the thread of an end.
const KEPT: usize = 1024;
/// Maximum number of samples that may wait for acknowledgement. [`KEPT_BYTES`] can lower it, but
/// not below the number of calls that may be in flight.
const UNACKNOWLEDGED: usize = 64;

fn text(e: impl ToString) -> String {
    e.to_string()
}

/// Returns the reason why this gateway cannot use the server or client that has this endpoint.
/// `writes`: the endpoint is a writer.
fn unable(endpoint: &dds::Endpoint, writes: bool) -> Option<String> {
    let vendor = Vendor::of(&endpoint.gid);
    if vendor != Vendor::CYCLONE {
        return Some(format!(
            "it is on {vendor}, and over DDS only services of CycloneDDS pass: start its node with \
             RMW_IMPLEMENTATION=rmw_cyclonedds_cpp, or with rmw_zenoh_cpp and add `zenoh: {{}}` \
             here"
        ));
    }
    let ours = qos();
    let found =
        if writes { mismatches(&endpoint.qos, &ours) } else { mismatches(&ours, &endpoint.qos) };
    let found: Vec<_> = found
        .iter()
        .map(|m| {
            format!(
                "{}: the writer offers {}, the reader requests {}",
                m.policy, m.offered, m.requested
            )
        })
        .collect();
    (!found.is_empty())
        .then(|| format!("{}; make it with the QoS that ROS 2 has for services", found.join("; ")))
}

impl ServiceChange {
    /// Reads a discovered endpoint; `None` if it does not stand for a server or a client. `writes`:
    /// it is a writer.
    pub(super) fn of_dds(found: &Found, writes: bool) -> Option<Self> {
        let e = match found {
            Found::Gone(handle) => return Some(Self::Gone((*handle).into())),
            Found::Here(endpoint) => endpoint,
        };
        let (service, ServiceTopic::Request) = service_of_dds(&e.topic)? else { return None };
        let endpoint = ServiceEndpoint {
            profile: Profile::Dds,
            handle: e.handle.into(),
            gid: e.gid,
            role: if writes { Role::Client } else { Role::Server },
            service,
            // A type without `Request_` keeps its name, which then matches no type of ours.
            type_name: e.type_name.strip_suffix("Request_").unwrap_or(&e.type_name).to_owned(),
            hash: String::new(),
            gateway: is_gateway(&e.user_data),
            node: None,
            unable: unable(e, writes),
        };
        Some(Self::Here(Box::new(endpoint)))
    }
}

/// Both endpoints of an end of the gateway, and the state that its thread and senders share.
struct Wire {
    reader: Reader,
    writer: Writer,
    waiting: Waiting,
    stop: AtomicBool,
    /// Reason why the receiving thread has ended by itself.
    ended: OnceLock<String>,
    /// Number of checks of matches that the thread has made.
    checks: Mutex<u64>,
    checks_changed: Condvar,
    own: OwnEnds,
    /// Dropped after the endpoints.
    _topics: [Entity; 2],
}

impl Wire {
    fn open(
        dds: &Participant,
        release: Release,
        of: &Interface,
        node: &RosNode,
        role: Role,
    ) -> Result<Self, String> {
        let topic = |which: ServiceTopic, suffix: &str| {
            let name =
                dds_topic(&of.service, which).ok_or("ROS 2 does not permit its name: rename it")?;
            dds.topic(&name, &format!("{}{suffix}", of.ros.dds())).map_err(text)
        };
        let (requests, responses) =
            (topic(ServiceTopic::Request, "Request_")?, topic(ServiceTopic::Reply, "Response_")?);
        let id = driveline_types::EndpointId::random().map_err(text)?.0.to_le_bytes();
        let data = |schema: &Schema| role.user_data(&id, hash_of(schema), release);
        let (of_requests, of_responses) = (data(&of.request), data(&of.response));
        let (requests, responses) =
            ((requests, of_requests, of.max_request), (responses, of_responses, of.max_response));
        let (reads, writes) =
            if role == Role::Server { (requests, responses) } else { (responses, requests) };
        // At most 1024.
        let limit =
            |longest: usize, most| (KEPT_BYTES / longest.max(1)).clamp(KEPT_AT_LEAST, most) as u32;
        let config = |history, user_data| EndpointConfig {
            qos: qos(),
            history,
            max_blocking: WITHIN,
            lifespan: None,
            user_data,
        };
        let reader = dds
            .reader(
                &reads.0,
                &config(History::KeepAll { limit: limit(reads.2, KEPT), late: 1 }, &reads.1),
            )
            .map_err(text)?;
        let unacknowledged = limit(writes.2, UNACKNOWLEDGED).max(of.pending);
        let history = match role {
            // A client that does not read loses its own responses, and does not delay those of
            // others.
            Role::Server => History::KeepLast(unacknowledged),
            Role::Client => History::KeepAll { limit: unacknowledged, late: 1 },
        };
        let writer = dds.writer(&writes.0, &config(history, &writes.1)).map_err(text)?;
        let waiting = dds.waiting().map_err(text)?;
        waiting.add(&reader.entity).map_err(text)?;
        reader.watch(&waiting).map_err(text)?;
        writer.watch(&waiting).map_err(text)?;
        let gids = |entity: &Entity| entity.gid().map(|gid| vec![gid]).map_err(text);
        let own = OwnEnds {
            node: node.clone(),
            readers: gids(&reader.entity)?,
            writers: gids(&writer.entity)?,
        };
        let (stop, ended, checks, checks_changed) =
            (AtomicBool::new(false), OnceLock::new(), Mutex::new(0), Condvar::new());
        Ok(Self {
            reader,
            writer,
            waiting,
            stop,
            ended,
            checks,
            checks_changed,
            own,
            _topics: [reads.0, writes.0],
        })
    }

    /// Receives until it is stopped or cannot continue. Calls `matched` at each change of matches
    /// and between turns, `take` for each sample, and `trouble` if reading fails.
    fn run(
        &self,
        mut matched: impl FnMut(),
        mut take: impl FnMut(&dds::Taken),
        mut trouble: impl FnMut(&str),
    ) {
        while !self.stopped() {
            self.reader.clear_changes();
            self.writer.clear_changes();
            *lock(&self.checks) += 1;
            self.checks_changed.notify_all();
            matched();
            let taken = turn(
                || if self.stopped() { Ok(None) } else { self.reader.take() },
                |sample| take(&sample),
            );
            match taken {
                Ok(true) => continue,
                Ok(false) => {}
                // The end was withdrawn meanwhile.
                Err(_) if self.stopped() => return,
                Err(e) => trouble(&e.to_string()),
            }
            if let Err(e) = self.waiting.wait(CHECK_EVERY) {
                let _ = self.ended.set(e.to_string());
                return;
            }
        }
    }

    /// Returns the reason why the end does not work any more although it was not stopped.
    /// `threads`: all its threads.
    fn broken(&self, threads: &[JoinHandle<()>]) -> Option<String> {
        if self.stopped() || !threads.iter().any(JoinHandle::is_finished) {
            return None;
        }
        Some(self.ended.get().cloned().unwrap_or_else(|| PANICKED.to_owned()))
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Waits until the required match exists.
    fn wait_until(
        &self,
        end: Instant,
        ready: impl Fn() -> Result<bool, String>,
    ) -> Result<(), String> {
        let mut seen = *lock(&self.checks);
        while !ready()? {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stopped() {
                return Err("it exists, but DDS has not connected with both of its ends".into());
            }
            let checks =
                self.checks_changed
                    .wait_timeout_while(lock(&self.checks), left, |checks| *checks == seen);
            seen = *checks.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Stops its threads; does not wait for them.
    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.waiting.wake();
        *lock(&self.checks) += 1;
        self.checks_changed.notify_all();
    }

    /// Waits for the threads, after [`stop`](Self::stop).
    fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
        // The receiving thread itself may drop the last reference to the end. It cannot join
        // itself.
        for thread in threads.into_iter().filter(|t| t.thread().id() != std::thread::current().id())
        {
            let _ = thread.join();
        }
    }

    /// Writes a request or a response with its head.
    fn write(&self, id: CallId, [first, body, tail]: [&[u8]; 3]) -> Result<(), String> {
        let (encapsulation, rest) = first
            .split_first_chunk::<HEADER_LEN>()
            .ok_or(HeadError::Short { len: first.len() })
            .map_err(text)?;
        let head = id.head(*encapsulation).map_err(text)?;
        self.writer.write(&[&head, rest, body, tail]).map(drop).map_err(text)
    }
}

/// Takes available samples, at most [`TURN`]. Returns true if there may be more.
fn turn<T>(
    mut next: impl FnMut() -> dds::Result<Option<T>>,
    mut take: impl FnMut(T),
) -> dds::Result<bool> {
    for _ in 0..TURN {
        match next()? {
            Some(sample) => take(sample),
            None => return Ok(false),
        }
    }
    Ok(true)
}

/// Returns the hash of a type, by its definition.
fn hash_of(schema: &Schema) -> Option<TypeHash> {
    let (name, catalog) = Catalog::from_schema(schema).ok()?;
    catalog.type_hash(&name).ok()
}

#[cfg(test)]
mod tests;
