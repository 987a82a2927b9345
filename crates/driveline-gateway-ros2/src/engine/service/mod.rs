// SPDX-License-Identifier: Apache-2.0
//! Services, independent of the profile: `docs/protocols/ros2-services.md`.
//!
//! A profile has two *ends* for a service. One offers it to ROS 2 ([`Offered`]: receives requests,
//! sends replies), and one asks a server there ([`Asking`]: sends requests, receives responses). An
//! end knows names, keys and numbers of its profile, but not calls: this module tracks the calls in
//! flight, their clients and time-outs. An end exists until it is withdrawn or dropped. Messages
//! that reach its [`Answers`] after that do no harm; a [`Reply`] outlives its end.
//!
//! Nothing here and in an end may wait for a caller or a server. Sending may wait for a link,
//! within the bounds of its profile.

mod calls_to_ros;
mod clients;
mod counts;
mod driveline_server;
mod payload;
mod problem;
mod profiles;
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

/// QoS of ROS 2 services by default.
pub(in crate::engine) fn qos() -> EndpointQos {
    EndpointQos { reliability: Reliability::Reliable, ..EndpointQos::default() }
}

/// Interface that the ends of a service are made for.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Interface {
    pub(in crate::engine) service: ServiceName,
    /// `package/srv/Name`.
    pub(in crate::engine) ros: TypeName,
    /// The service's own; those of request and response are others.
    pub(in crate::engine) hash: Option<TypeHash>,
    pub(in crate::engine) request: Schema,
    pub(in crate::engine) response: Schema,
    /// Longest payloads, with their encapsulation, as Driveline has them.
    pub(in crate::engine) max_request: usize,
    pub(in crate::engine) max_response: usize,
    /// Number of calls that may be in flight.
    pub(in crate::engine) pending: u32,
}

/// A server or a client of others, in ROS 2.
#[derive(Clone, Debug)]
pub(in crate::engine) struct ServiceEndpoint {
    pub(in crate::engine) profile: Profile,
    /// Id of its end within its profile.
    pub(in crate::engine) handle: Handle,
    /// Over DDS, of the reader of requests (server) or of the writer of requests (client).
    pub(in crate::engine) gid: Gid,
    pub(in crate::engine) role: Role,
    pub(in crate::engine) service: ServiceName,
    /// The service's type as DDS calls it, without `Request_`, such as
    /// `nav_msgs::srv::dds_::GetMap_`.
    pub(in crate::engine) type_name: String,
    /// Over Zenoh, the hash that stands in keys.
    pub(in crate::engine) hash: String,
    /// It is a gateway's.
    pub(in crate::engine) gateway: bool,
    /// Its node, as far as its own announcement has it.
    pub(in crate::engine) node: Option<RosNode>,
    /// Reason why it cannot be used from here, whatever its type; for people, with the remedy.
    pub(in crate::engine) unable: Option<String>,
}

/// Result of discovery about servers and clients.
#[derive(Clone, Debug)]
pub(in crate::engine) enum ServiceChange {
    Here(Box<ServiceEndpoint>),
    /// The endpoint with this handle is gone.
    Gone(Handle),
}

/// A payload as it came, in two parts of which either may be empty: CDR with its encapsulation,
/// nothing of the profile's own in it.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Cdr<'a>(pub(in crate::engine) [&'a [u8]; 2]);

impl Cdr<'_> {
    pub(in crate::engine) fn len(&self) -> usize {
        self.0.iter().map(|part| part.len()).sum()
    }

    /// Fills `to`, which has its length.
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

/// A payload to be sent: CDR, little or big endian, in three parts whose lengths add up to a
/// multiple of 4; the first has the encapsulation, and maybe more.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Parts<'a> {
    pub(in crate::engine) cdr: [&'a [u8]; 3],
    /// Buffer of the second part, if it may be kept.
    pub(in crate::engine) slot: Option<&'a Bytes>,
}

/// Client and number of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct RequestId {
    pub(in crate::engine) client: Gid,
    pub(in crate::engine) sequence: i64,
}

/// An end that offers a service to ROS 2, made with what takes its [`Requests`]. Others see it
/// come, and go when it is withdrawn or dropped. Dropping it may wait for what is inside of it.
pub(in crate::engine) trait Offered: Send {
    /// Hides the end: no more messages arrive. Waits for no call and no other end; over Zenoh it
    /// may wait for a link, as sending does. Only a drop may follow.
    fn withdraw(&self) {}

    /// Reason why no more messages arrive although it was not withdrawn; for people.
    fn broken(&self) -> Option<String> {
        None
    }

    /// Over DDS, what the ROS graph is to know of.
    fn own(&self) -> OwnEnds {
        OwnEnds::default()
    }
}

/// An end that asks one server in ROS 2, made with what takes its [`Answers`]. Dropping it may wait
/// for what is inside of it.
pub(in crate::engine) trait Asking: Send + Sync {
    /// As [`Offered::withdraw`].
    fn withdraw(&self) {}

    /// As [`Offered::broken`].
    fn broken(&self) -> Option<String> {
        None
    }

    /// Sends a request, or queues it, with `call` as its number: greater than 0, and never used
    /// again for this service, also by another end. The outcome goes to the [`Answers`], possibly
    /// before this returns. Without a response nothing needs to be reported, because the caller
    /// keeps the time. `timeout`: time after which the response is not wanted any more.
    ///
    /// # Errors
    /// Reason why it cannot be sent; then nothing is reported.
    fn ask(&self, call: i64, request: Parts<'_>, timeout: Duration) -> Result<(), String>;

    /// Over DDS, what the ROS graph is to know of.
    fn own(&self) -> OwnEnds {
        OwnEnds::default()
    }
}

/// Ids of endpoints of the gateway, for `ros_discovery_info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct OwnEnds {
    /// In the ROS graph.
    pub(in crate::engine) node: RosNode,
    pub(in crate::engine) readers: Vec<Gid>,
    pub(in crate::engine) writers: Vec<Gid>,
}

/// Receives requests of clients in ROS 2. Runs on the end's thread; does not wait.
pub(in crate::engine) trait Requests: Send + Sync {
    /// Handles a request. `reply` is used once, at once or later, from any thread; if it is
    /// dropped, the client gets no answer.
    fn request(&self, from: RequestId, request: Cdr<'_>, reply: Box<dyn Reply>);

    /// A request that came could not be read, and has ended: a name for counters, and a text for
    /// people.
    fn dropped(&self, reason: &'static str, text: &str);

    /// Something that came is no call: a name for counters, and a text for people.
    fn stray(&self, reason: &'static str, text: &str);

    /// A response is about to be [`Handed::Kept`].
    fn keep(&self);

    /// Outcome of a kept response; an error has a name for counters, and a text for people.
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
    /// Its client cannot read yet. The end reports the outcome to its [`Requests`].
    Kept,
}

/// Answers one request.
pub(in crate::engine) trait Reply: Send {
    /// # Errors
    /// Why it could not be sent: a name for counters, and a text for people.
    fn answer(self: Box<Self>, response: Parts<'_>) -> Result<Handed, Ended>;

    /// There is no response. Sends the client the reason, if the profile has a way to.
    fn refuse(self: Box<Self>, text: &str);
}

/// Receives responses of a server in ROS 2. Runs on the end's thread; does not wait.
pub(in crate::engine) trait Answers: Send + Sync {
    /// Handles a response to a call. Unknown numbers are counted.
    fn answered(&self, call: i64, response: Cdr<'_>);

    /// A call will have no response; a text for people.
    fn failed(&self, call: i64, text: &str);

    /// The request of a call was kept to be sent, and has not gone out; a text for people.
    fn not_sent(&self, call: i64, text: &str);

    /// Something that came could not be read, or answers nothing: a name for counters, and a text
    /// for people.
    fn stray(&self, reason: &'static str, text: &str);
}

/// As with [`Requests`].
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
