// SPDX-License-Identifier: Apache-2.0
//! Events of endpoints, other than samples.

use driveline_types::{EndpointId, Qos, Schema};

/// Event of a publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublisherEvent {
    /// A subscription has matched.
    Matched {
        /// The subscription.
        subscription: EndpointId,
        /// Its node.
        node: String,
        /// Its process id, as it sees it itself.
        pid: u32,
        /// Requested QoS.
        qos: Box<Qos>,
    },
    /// A matched subscription has ended.
    Unmatched {
        /// The subscription.
        subscription: EndpointId,
        /// Its node.
        node: String,
    },
    /// A subscription was refused, and gets the same text. Also reports why no subscription can
    /// match or find the publisher, such as a removed domain directory.
    Refused {
        /// Reason.
        code: RefusalCode,
        /// The reason in full.
        text: String,
    },
    /// Nothing was published for longer than the offered deadline.
    DeadlineMissed {
        /// Periods without a sample since the previous such event.
        missed: u64,
        /// The same since the publisher was created.
        total: u64,
    },
    /// The publisher itself gave no sign of life within its lease.
    LivelinessLost {
        /// Number of such events so far.
        total: u64,
    },
    /// A reliable subscription has reported an impossible reading position. The publisher does not
    /// wait for this subscription any more: the match is best effort from now on.
    Downgraded {
        /// The subscription.
        subscription: EndpointId,
        /// Its node.
        node: String,
    },
    /// A publish has waited `max_blocking_ms` for a reliable subscription without success. The
    /// publisher does not wait for this subscription again until the subscription has read
    /// everything. Samples that it does not read in time are missed.
    ReliableTimeout {
        /// The subscription.
        subscription: EndpointId,
        /// Its node.
        node: String,
        /// Publishes that have timed out since the publisher was created.
        total: u64,
    },
    /// Events that were pushed out of the queue because they were not polled.
    Dropped {
        /// Number of such events.
        count: u64,
    },
}

/// Event of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionEvent {
    /// A publisher has matched.
    Matched {
        /// The publisher.
        publisher: EndpointId,
        /// Its node.
        node: String,
        /// Its process id, as it sees it itself.
        pid: u32,
        /// Its type, for subscriptions that accept any type.
        schema: Box<Schema>,
        /// Offered QoS.
        qos: Box<Qos>,
        /// Its longest payload, in bytes.
        max_payload: u64,
        /// Sequence number of the publisher's first sample that this subscription reads.
        first: u64,
    },
    /// A matched publisher has ended. Its last samples can still be taken.
    Unmatched {
        /// The publisher.
        publisher: EndpointId,
        /// Its node.
        node: String,
        /// Number of the last sample that it has written; 0 if there is none.
        last: u64,
    },
    /// A publisher refused this subscription or does not answer, or this subscription refused the
    /// publisher. Also reports other problems, such as a removed domain directory.
    Refused {
        /// Reason.
        code: RefusalCode,
        /// The reason in full.
        text: String,
    },
    /// No publisher has published within the requested deadline.
    DeadlineMissed {
        /// Periods without a sample since the previous such event, over all publishers.
        missed: u64,
        /// The same since the subscription was created.
        total: u64,
    },
    /// A publisher gave no sign of life within its lease.
    LivelinessLost {
        /// The publisher.
        publisher: EndpointId,
    },
    /// A publisher that had lost its liveliness gives signs of life again.
    LivelinessGained {
        /// The publisher.
        publisher: EndpointId,
    },
    /// Events that were pushed out of the queue because they were not polled.
    Dropped {
        /// Number of such events.
        count: u64,
    },
}

/// Reason why two ends do not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// The types differ.
    Type,
    /// The offered QoS does not satisfy the requested one.
    Qos,
    /// The user of one end has no right on the topic.
    Access,
    /// Too few pins are free. May be temporary.
    Pins,
    /// Too many users, connections or matches. May be temporary.
    Limit,
    /// The peer speaks another version of the protocol.
    Version,
    /// The peer broke the protocol.
    Protocol,
    /// The subscription reads only publishers with another offer. Not reported.
    PassedOver,
    /// The publisher has not answered, or the subscription has sent no HELLO, for 2 s.
    Silent,
    /// A system call failed on one of the sides.
    System,
    /// A reason of a later release; the text describes it.
    #[serde(other)]
    Other,
}

impl RefusalCode {
    /// Returns true if a later attempt can succeed.
    #[must_use]
    pub fn may_pass(self) -> bool {
        matches!(self, Self::Pins | Self::Limit | Self::System | Self::Silent)
    }
}
