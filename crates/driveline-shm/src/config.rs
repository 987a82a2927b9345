// SPDX-License-Identifier: Apache-2.0
//! Configuration of participants and endpoints.

use crate::limits::{DEFAULT_LOANS, DEFAULT_MAX_HELD, DEFAULT_PINS};
use crate::sys::peer::User;
use driveline_types::{Durability, NodeName, Qos, Reliability, Schema, TopicName};
use std::path::PathBuf;

/// Configuration of a process in a domain.
#[derive(Clone, Debug, Default)]
pub struct ParticipantConfig {
    /// Directory that the members of the domain share.
    /// [`domain::directory`](crate::domain::directory) returns the directory of a named domain.
    /// `None`: the directory that it returns without a name. A missing directory is created with
    /// mode 0700.
    pub domain_dir: Option<PathBuf>,
    /// Process name that tools show; cut to 200 bytes.
    pub name: String,
}

/// Users that may subscribe to a publisher, or whose publishers a subscription accepts, by the user
/// id that the kernel reports for the peer.
///
/// A user namespace that does not map all users (as in most containers) shows the unmapped ones as
/// one user, 65534. This number has no rights, even if it is this process's own or is listed here;
/// only `Anyone` includes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// The effective user of this process only.
    #[default]
    OwnUser,
    /// The user of this process and these.
    Users(Vec<u32>),
    /// Every process that can reach the domain directory.
    Anyone,
}

impl Access {
    /// Returns true if a user has the right. This process's own user always has the right, provided
    /// that this user namespace maps it.
    pub(crate) fn permits(&self, user: User) -> bool {
        let own = user.is_surely(User::own());
        match self {
            Self::OwnUser => own,
            Self::Users(users) => own || users.iter().any(|uid| user.is_surely(User::Known(*uid))),
            Self::Anyone => true,
        }
    }
}

/// Configuration of a publisher. These numbers determine the size of its segment, which is reserved
/// at creation.
#[derive(Clone, Debug)]
pub struct PublisherConfig {
    /// Topic.
    pub topic: TopicName,
    /// Node that publishes.
    pub node: NodeName,
    /// Type of the payload.
    pub schema: Schema,
    /// Offered quality of service.
    pub qos: Qos,
    /// Largest payload, in bytes.
    pub max_payload: usize,
    /// Loans that may exist at once; at least 1.
    pub loans: u32,
    /// Samples that all subscriptions except observers may hold at once, together. Each costs one
    /// slot of `max_payload` bytes.
    pub pins: u32,
    /// Users that may subscribe.
    pub access: Access,
}

impl PublisherConfig {
    /// A publisher with default QoS and the default numbers of loans and pins, for its own user.
    #[must_use]
    pub fn new(topic: TopicName, node: NodeName, schema: Schema, max_payload: usize) -> Self {
        Self {
            topic,
            node,
            schema,
            qos: Qos::default(),
            max_payload,
            loans: DEFAULT_LOANS,
            pins: DEFAULT_PINS,
            access: Access::OwnUser,
        }
    }
}

/// Payload types that a subscription accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaRequest {
    /// Exactly this one; others are refused with the first difference.
    Exact(Schema),
    /// Any type, for tools and recorders that treat payloads as bytes.
    Any,
}

impl From<Schema> for SchemaRequest {
    fn from(schema: Schema) -> Self {
        Self::Exact(schema)
    }
}

/// Matching with publishers of the same participant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnProcess {
    /// Matches them.
    #[default]
    Include,
    /// Does not match them: the caller serves them inside the process.
    Exclude,
}

/// Configuration of a subscription.
#[derive(Clone, Debug)]
pub struct SubscriptionConfig {
    /// Topic.
    pub topic: TopicName,
    /// Node that reads.
    pub node: NodeName,
    /// Accepted type.
    pub schema: SchemaRequest,
    /// Requested quality of service.
    pub qos: Qos,
    /// Samples that may be held at once, of all publishers together, a copy in progress included;
    /// at least 1.
    pub max_held: u32,
    /// Applies `max_held` to each publisher separately, not to all publishers together.
    pub held_of_each: bool,
    /// Takes its pins from the reserve for tools, and never makes a publisher wait.
    pub observer: bool,
    /// Matching with publishers of the same participant.
    pub own_process: OwnProcess,
    /// Users whose publishers are accepted. Matters in a directory of several users: to that of a
    /// single user, only this user and root have access.
    pub access: Access,
    /// Skips publishers that offer anything but exactly this, without a report on either side. For
    /// code that reads the publishers of a topic in several subscriptions, one for each kind.
    /// `None`: accepts every offer that satisfies `qos`.
    pub offering: Option<(Reliability, Durability)>,
}

impl SubscriptionConfig {
    /// A subscription with default QoS that may hold the default number of samples.
    #[must_use]
    pub fn new(topic: TopicName, node: NodeName, schema: impl Into<SchemaRequest>) -> Self {
        Self {
            topic,
            node,
            schema: schema.into(),
            qos: Qos::default(),
            max_held: DEFAULT_MAX_HELD,
            held_of_each: false,
            observer: false,
            own_process: OwnProcess::Include,
            access: Access::OwnUser,
            offering: None,
        }
    }
}
