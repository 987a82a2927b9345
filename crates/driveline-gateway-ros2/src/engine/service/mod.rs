// SPDX-License-Identifier: Apache-2.0
//! Services, independent of the profile: `docs/protocols/ros2-services.md`.
//!
//! A profile has two *ends* for a service. One offers it to ROS 2 ([`Offered`]: receives requests,
//! sends replies). The other calls a server there ([`Asking`]: sends requests, receives responses).
//! An end knows the names, keys and numbers of its profile, but not the calls: this module tracks
//! the calls in flight, their clients and time-outs. An end exists until it is withdrawn or
//! dropped. Messages that reach its [`Answers`] after that are harmless; a [`Reply`] outlives its
//! end.
//!
//! Nothing here and in an end may wait for a client or a server. Sending may wait for a link,
//! within the limits of its profile.

mod calls_to_ros;
mod clients;
mod counts;
mod driveline_server;
mod payload;
mod problem;
mod retry;
mod ros_server;
mod services;

pub(in crate::engine) use crate::rmw_cyclonedds::Role;
pub(in crate::engine) use payload::Ended;
pub(in crate::engine) use services::{Services, written};

use super::endpoint::{Handle, Profile};
use crate::discovery_info::Gid;
use crate::names::RosNode;
use crate::qos::EndpointQos;
use bytes::Bytes;
use driveline_rosidl::{TypeHash, TypeName};
use driveline_types::{Reliability, Schema, ServiceName};
use std::sync::Weak;
use std::time::Duration;

/// Default QoS of ROS 2 services.
pub(in crate::engine) fn qos() -> EndpointQos {
    EndpointQos { reliability: Reliability::Reliable, ..EndpointQos::default() }
}

/// Interface of a service, for which the ends are made.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Interface {
    pub(in crate::engine) service: ServiceName,
    /// `package/srv/Name`.
    pub(in crate::engine) ros: TypeName,
    /// Hash of the service type. The types of request and response have other hashes.
    pub(in crate::engine) hash: Option<TypeHash>,
    pub(in crate::engine) request: Schema,
    pub(in crate::engine) response: Schema,
    /// Maximum payloads, with their encapsulation, as Driveline has them.
    pub(in crate::engine) max_request: usize,
    pub(in crate::engine) max_response: usize,
    /// Maximum number of calls in flight.
    pub(in crate::engine) pending: u32,
}

/// Server or client of another node in ROS 2.
#[derive(Clone, Debug)]
pub(in crate::engine) struct ServiceEndpoint {
    pub(in crate::engine) profile: Profile,
    /// Id of its end within its profile.
    pub(in crate::engine) handle: Handle,
    /// Over DDS, id of the reader of requests (server) or of the writer of requests (client). Over
    /// Zenoh, id computed from its token.
    pub(in crate::engine) gid: Gid,
    pub(in crate::engine) role: Role,
    pub(in crate::engine) service: ServiceName,
    /// Name of the service's type in DDS, without `Request_`, such as
    /// `nav_msgs::srv::dds_::GetMap_`.
    pub(in crate::engine) type_name: String,
    /// Over Zenoh, the hash in its keys.
    pub(in crate::engine) hash: String,
    /// True if it belongs to a gateway.
    pub(in crate::engine) gateway: bool,
    /// Its node, if announced.
    pub(in crate::engine) node: Option<RosNode>,
    /// Reason, with remedy, why it cannot be used from here, whatever its type.
    pub(in crate::engine) unable: Option<String>,
}

/// Change of servers and clients reported by discovery.
#[derive(Clone, Debug)]
pub(in crate::engine) enum ServiceChange {
    Here(Box<ServiceEndpoint>),
    /// The endpoint with this handle is gone.
    Gone(Handle),
}

/// An arrived payload in two parts, of which one may be empty: CDR with its encapsulation, without
/// data of the profile.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Cdr<'a>(pub(in crate::engine) [&'a [u8]; 2]);

impl Cdr<'_> {
    pub(in crate::engine) fn len(&self) -> usize {
        self.0.iter().map(|part| part.len()).sum()
    }

    /// Copies the payload to `to`, which has the same length.
    pub(in crate::engine) fn copy_to(&self, to: &mut [u8]) {
        let [head, body] = self.0;
        if let Some((first, second)) =
            to.split_at_mut_checked(head.len()).filter(|(_, second)| second.len() == body.len())
        {
            first.copy_from_slice(head);
            second.copy_from_slice(body);
        }
    }
}

/// A payload to send: CDR, little or big endian, in three parts whose lengths add up to a multiple
/// of 4. The first part has the encapsulation, and maybe more.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Parts<'a> {
    pub(in crate::engine) cdr: [&'a [u8]; 3],
    /// Buffer of the second part, if it may be held.
    pub(in crate::engine) slot: Option<&'a Bytes>,
}

/// Client and number of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct RequestId {
    pub(in crate::engine) client: Gid,
    pub(in crate::engine) sequence: i64,
}

/// End that offers a service to ROS 2, made with a receiver of its [`Requests`]. It is visible to
/// others until it is withdrawn or dropped. A drop may wait for threads inside it.
pub(in crate::engine) trait Offered: Send {
    /// Hides the end: no more messages arrive. Does not wait for a call or another end; over Zenoh
    /// it may wait for a link, as sending does. Only a drop may follow.
    fn withdraw(&self) {}

    /// Reason why no more messages arrive although it was not withdrawn.
    fn broken(&self) -> Option<String> {
        None
    }

    /// Over DDS, its endpoints for the ROS graph.
    fn own(&self) -> OwnEnds {
        OwnEnds::default()
    }
}

/// End that calls one server in ROS 2, made with a receiver of its [`Answers`]. A drop may wait for
/// threads inside it.
pub(in crate::engine) trait Asking: Send + Sync {
    /// As [`Offered::withdraw`].
    fn withdraw(&self) {}

    /// As [`Offered::broken`].
    fn broken(&self) -> Option<String> {
        None
    }

    /// Sends or queues a request. `call` is its number: greater than 0, and never used again for
    /// this service, also by another end. The outcome goes to the [`Answers`], possibly before this
    /// returns. A missing response need not be reported, because the caller has a time-out.
    /// `timeout`: time after which the response is not needed.
    ///
    /// # Errors
    /// Reason why it cannot be sent. Then nothing is reported.
    fn ask(&self, call: i64, request: Parts<'_>, timeout: Duration) -> Result<(), String>;

    /// Over DDS, its endpoints for the ROS graph.
    fn own(&self) -> OwnEnds {
        OwnEnds::default()
    }
}

/// Ids of endpoints of the gateway, for `ros_discovery_info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct OwnEnds {
    /// Node in the ROS graph.
    pub(in crate::engine) node: RosNode,
    pub(in crate::engine) readers: Vec<Gid>,
    pub(in crate::engine) writers: Vec<Gid>,
}

/// Receives requests of ROS 2 clients. Called on the end's thread, over Zenoh on a thread of Zenoh.
/// Waits for nothing but a link: a request or a refusal may be sent at once.
pub(in crate::engine) trait Requests: Send + Sync {
    /// Handles a request. `reply` is used once, now or later, from any thread. If it is dropped,
    /// the client gets no response.
    fn request(&self, from: RequestId, request: Cdr<'_>, reply: Box<dyn Reply>);

    /// Handles a request that could not be read and has ended. `reason`: name for counters; `text`:
    /// description for the log.
    fn dropped(&self, reason: &'static str, text: &str);

    /// Handles a message that is not a call. `reason` and `text`: see [`dropped`](Self::dropped).
    fn stray(&self, reason: &'static str, text: &str);

    /// Notes that a response is about to be [`Handed::Kept`].
    fn keep(&self);

    /// Notes the outcome of a kept response. An error is a name for counters and a description.
    fn settled(&self, outcome: Result<(), (&'static str, &str)>);
}

/// Weak references for ends: neither an end nor a call in flight keeps the gateway alive.
impl<T: Requests> Requests for Weak<T> {
    fn request(&self, from: RequestId, request: Cdr<'_>, reply: Box<dyn Reply>) {
        if let Some(this) = self.upgrade() {
            this.request(from, request, reply);
        }
    }

    fn dropped(&self, reason: &'static str, text: &str) {
        if let Some(this) = self.upgrade() {
            this.dropped(reason, text);
        }
    }

    fn stray(&self, reason: &'static str, text: &str) {
        if let Some(this) = self.upgrade() {
            this.stray(reason, text);
        }
    }

    fn keep(&self) {
        if let Some(this) = self.upgrade() {
            this.keep();
        }
    }

    fn settled(&self, outcome: Result<(), (&'static str, &str)>) {
        if let Some(this) = self.upgrade() {
            this.settled(outcome);
        }
    }
}

/// Outcome of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Handed {
    Over,
    /// Its client cannot read yet. The end reports the outcome to its [`Requests`] later.
    Kept,
}

/// Answers one request.
pub(in crate::engine) trait Reply: Send {
    /// # Errors
    /// Reason why it could not be sent: a name for counters and a description.
    fn answer(self: Box<Self>, response: Parts<'_>) -> Result<Handed, Ended>;

    /// Ends the request without a response. Sends the reason to the client, if the profile can.
    fn refuse(self: Box<Self>, text: &str);
}

/// Receives responses of a ROS 2 server. Called on a thread of the end, over Zenoh on a thread of
/// Zenoh. Waits for nothing but a link: a response is passed on at once.
pub(in crate::engine) trait Answers: Send + Sync {
    /// Handles a response to a call. Unknown numbers are counted.
    fn answered(&self, call: i64, response: Cdr<'_>);

    /// Notes that a call will have no response, with the reason.
    fn failed(&self, call: i64, text: &str);

    /// Notes that the queued request of a call was not sent, with the reason.
    fn not_sent(&self, call: i64, text: &str);

    /// Handles a message that could not be read, or that answers no call. `reason` and `text`: see
    /// [`Requests::dropped`].
    fn stray(&self, reason: &'static str, text: &str);
}

/// Weak references for ends, as with [`Requests`].
impl<T: Answers> Answers for Weak<T> {
    fn answered(&self, call: i64, response: Cdr<'_>) {
        if let Some(this) = self.upgrade() {
            this.answered(call, response);
        }
    }

    fn failed(&self, call: i64, text: &str) {
        if let Some(this) = self.upgrade() {
            this.failed(call, text);
        }
    }

    fn not_sent(&self, call: i64, text: &str) {
        if let Some(this) = self.upgrade() {
            this.not_sent(call, text);
        }
    }

    fn stray(&self, reason: &'static str, text: &str) {
        if let Some(this) = self.upgrade() {
            this.stray(reason, text);
        }
    }
}
