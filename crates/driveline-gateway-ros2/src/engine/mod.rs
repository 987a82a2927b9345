// SPDX-License-Identifier: Apache-2.0
//! The gateway itself: `docs/protocols/ros2-dds.md`, `docs/protocols/ros2-zenoh.md` and
//! `docs/protocols/ros2-services.md`.
//!
//! One thread, the *control thread*, receives the discovery of both profiles and decides what is
//! carried. Samples do not pass through it. Each topic has a thread for each direction, and from
//! ROS 2 one for each profile. In a gateway with both profiles, each writer over rmw_zenoh has a
//! thread. Each service has a thread (its executor). Over DDS, each server or client that the
//! gateway has for a service has a thread, and a client has a second one for requests. With
//! rmw_zenoh, requests and responses arrive on Zenoh's threads. While a dropped part of a service
//! ends, it has a thread of its own. Further threads send reports, find the topics of patterns
//! (`local_topics`), and receive a simulation's clock for each profile (`sim_time`). CycloneDDS and
//! Zenoh have their own threads in addition.
//!
//! DDS and rmw_zenoh implement the traits of `transport`, `feed`, `ros_writer` and
//! `service`. Only `transports` chooses between them.

mod asking;
mod backlog;
mod control_thread;
mod counters;
mod dds;
mod draining;
mod endpoint;
mod error;
#[cfg(test)]
mod fake_transport;
mod feed;
mod gateway;
mod gateway_state;
mod incoming;
mod interfaces;
mod local_topics;
mod outgoing;
mod receiver;
mod remote_publisher;
mod report;
#[cfg(test)]
mod rig;
mod ros_writer;
mod sequence_memory;
mod service;
mod sim_time;
mod sources;
mod transport;
mod transports;
mod unknown;
mod waiting;
mod zenoh;

pub use error::GatewayError;
pub use gateway::Gateway;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Name of this kind of gateway in a domain.
const KIND: &str = "ros2";
/// Reason that is reported for a thread that ended without giving one.
const PANICKED: &str = "its thread has panicked; the gateway's output has the message";

/// Remedy for a gateway at its limits.
const FEWER: &str = "carry fewer topics (narrower patterns in `topics` under `ros2:` of the graph \
     file), or move some to a graph with another `domain`, \
                     which has a gateway of its own";

/// Locks. Returns the content as it is if another thread panicked while it held the lock.
fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}
