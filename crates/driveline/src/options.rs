// SPDX-License-Identifier: Apache-2.0
//! Options of endpoints.

use driveline_shm::Access;
use driveline_types::Qos;
use driveline_types::limits::{DEFAULT_LOANS, DEFAULT_MAX_HELD, DEFAULT_PINS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Reach of a topic. Private by default.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Only this process; samples move as pointers.
    #[default]
    Process,
    /// Every process of this host that shares the domain directory and has rights on the topic.
    Host,
    /// As `Host`, and other hosts too, if a gateway of the domain carries the topic.
    Network,
}

/// Options of a publisher. Memory is reserved when it is created.
#[derive(Clone, Debug)]
pub struct PublisherOptions {
    /// See [`Reach`].
    pub reach: Reach,
    /// See [`Qos`].
    pub qos: Qos,
    /// Longest payload in bytes.
    pub max_payload: usize,
    /// Maximum number of loans at once.
    pub loans: u32,
    /// Maximum number of samples that all subscriptions together may hold at host reach.
    pub pins: u32,
    /// Users that may subscribe at host reach.
    pub access: Access,
}

impl Default for PublisherOptions {
    fn default() -> Self {
        Self {
            reach: Reach::Process,
            qos: Qos::default(),
            max_payload: 64 * 1024,
            loans: DEFAULT_LOANS,
            pins: DEFAULT_PINS,
            access: Access::OwnUser,
        }
    }
}

/// Options of a subscription.
#[derive(Clone, Debug)]
pub struct SubscriptionOptions {
    /// See [`Reach`].
    pub reach: Reach,
    /// See [`Qos`]. `depth` limits the number of unread samples that wait for this subscription: of
    /// all publishers that pass pointers together, and of each publisher whose samples come through
    /// shared memory separately. A reliable subscription of shared memory has the publisher's
    /// `depth` instead.
    pub qos: Qos,
    /// Maximum number of samples that the reader may hold at once, of all publishers together. If
    /// `qos.strength` is set, this maximum applies to each publisher whose samples come through
    /// shared memory separately, and to all publishers that pass pointers together.
    pub max_held: u32,
    /// Users whose publishers are accepted at host reach.
    pub access: Access,
}

impl Default for SubscriptionOptions {
    fn default() -> Self {
        Self {
            reach: Reach::Process,
            qos: Qos::default(),
            max_held: DEFAULT_MAX_HELD,
            access: Access::OwnUser,
        }
    }
}

/// Wait strategy of a blocking reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitMode {
    /// Sleep in the kernel until woken; an idle reader uses no CPU.
    #[default]
    Block,
    /// Never sleep: lowest latency, one whole CPU.
    Spin,
    /// Spin this long, then sleep.
    SpinThenBlock(Duration),
}

impl WaitMode {
    pub(crate) fn spin(self) -> Duration {
        match self {
            Self::Block => Duration::ZERO,
            Self::Spin => Duration::MAX,
            Self::SpinThenBlock(d) => d,
        }
    }
}
