// SPDX-License-Identifier: Apache-2.0
//! Counters and listings for tools.
//!
//! Tools and participants may be of different releases: unknown keys are ignored, missing ones have
//! their defaults.

use driveline_types::{EndpointId, NodeName, Qos, Schema, Uncounted};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Counters of a publisher.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PublisherStats {
    /// Samples published.
    pub published: u64,
    /// Part of `published`: samples that were not written into shared memory, because no other
    /// process wanted them.
    pub passed_by: u64,
    /// Payload bytes written into shared memory.
    pub published_bytes: u64,
    /// System calls made to wake subscriptions.
    pub wake_calls: u64,
    /// Publishes that waited `max_blocking_ms` for a reliable subscription without success.
    pub reliable_timeouts: u64,
    /// Publishes that had to wait for a reliable subscription.
    pub reliable_waits: u64,
    /// Time that publishes have waited for reliable subscriptions, in nanoseconds; includes a wait
    /// in progress.
    pub blocked_ns: u64,
    /// Impossible reading positions that reliable subscriptions reported.
    pub cursor_lies: u64,
    /// Subscriptions refused for their type.
    pub refused_type: u64,
    /// Subscriptions refused for their QoS.
    pub refused_qos: u64,
    /// Subscriptions refused for their user.
    pub refused_access: u64,
    /// Subscriptions refused for lack of pins.
    pub refused_pins: u64,
    /// Connections refused for another reason, except the code `passed_over`.
    pub refused_other: u64,
    /// Times that the offered deadline was missed.
    pub deadlines_missed: u64,
    /// Longest time between two samples, in nanoseconds.
    pub max_interval_ns: u64,
    /// Subscriptions matched now.
    pub matched: u64,
}

/// Counters of a subscription, over all its publishers, past ones included.
///
/// At any time, published after the match = received + missed + expired + corrupt + refused + lost
/// on the way + not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TransportStats {
    /// Samples taken or copied.
    pub received: u64,
    /// Samples that newer ones replaced before they were read, whether a read has noticed it or
    /// not. Also unread samples of an ended publisher that were dropped, because too many were
    /// kept.
    pub missed: u64,
    /// Part of `missed`: samples that could still be read when a newer one was taken instead.
    pub passed_over: u64,
    /// Samples that can be read now.
    pub not_read: u64,
    /// Samples of other hosts that did not reach this one, as their gateway reports.
    pub lost_on_the_way: u64,
    /// Times that a take got no sample from a publisher because the publisher overtook every
    /// attempt. The take then tries the other publishers.
    pub overruns: u64,
    /// Samples dropped for their age (lifespan).
    pub expired: u64,
    /// Samples dropped because their header made no sense.
    pub corrupt_header: u64,
    /// Samples dropped because their checksum was wrong.
    pub corrupt_checksum: u64,
    /// Samples dropped because their slot number was impossible, or because no slot had them.
    pub corrupt_index: u64,
    /// Samples that broke what their publisher had promised at the match: no checksum, or longer
    /// than its `max_payload`.
    pub refused: u64,
    /// Publishers of other hosts, or of ROS 2, that may have published more samples after the
    /// newest one that arrived.
    pub uncounted: u64,
    /// Reason for one of them.
    pub uncounted_reason: Option<Uncounted>,
    /// Times that the requested deadline was missed.
    pub deadlines_missed: u64,
    /// Publishers matched now.
    pub matched: u64,
}

/// One participant of a domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParticipantInfo {
    /// Its identity.
    #[serde(with = "hex_id")]
    pub id: EndpointId,
    /// Name that it claims.
    pub name: String,
    /// True for a process of the asking user or of root, as reported by the kernel; the name is
    /// only a claim. Not sent.
    #[serde(skip)]
    pub of_this_user: bool,
    /// Process id in its own namespace.
    pub pid_in_its_namespace: u32,
    /// Free text (JSON by convention) that the application attached.
    pub description: String,
    /// Its publishers.
    pub publishers: Vec<PublisherInfo>,
    /// Its subscriptions.
    pub subscriptions: Vec<SubscriptionInfo>,
    /// Parts missing here, because the listing would be too long or the user has no right on some
    /// topics; empty if complete.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub incomplete: String,
}

/// One publisher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublisherInfo {
    /// Its identity.
    #[serde(with = "hex_id")]
    pub id: EndpointId,
    /// Topic.
    pub topic: String,
    /// Node.
    pub node: String,
    /// Type.
    pub schema: Schema,
    /// Offered QoS.
    pub qos: Qos,
    /// Largest payload, in bytes.
    pub max_payload: u64,
    /// Pin capacity, without the observers' reserve.
    pub pins: u32,
    /// Pins promised to the matched subscriptions, observers excluded.
    pub pins_granted: u32,
    /// Number of slots.
    pub slots: u32,
    /// Bytes of shared memory.
    pub segment_len: u64,
    /// Sequence number of the newest sample; 0 if there is none.
    pub sequence: u64,
    /// Last publish or assertion of liveliness, on `CLOCK_MONOTONIC`; 0 if never.
    pub heartbeat_ns: u64,
    /// Counters.
    pub stats: PublisherStats,
    /// Matched subscriptions.
    pub matches: Vec<MatchInfo>,
}

/// A publisher's view of one matched subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatchInfo {
    /// The subscription.
    #[serde(with = "hex_id")]
    pub subscription: EndpointId,
    /// Its node.
    pub node: String,
    /// Process id in its own namespace.
    pub pid: u32,
    /// User id. 65534 also stands for users that the publisher's user namespace does not map.
    pub uid: u32,
    /// Pins granted.
    pub pins: u32,
    /// True if it takes pins from the observers' reserve.
    pub observer: bool,
    /// Numbers of the samples that it holds now, among those written into shared memory.
    pub held: Vec<u64>,
    /// True while it sleeps, or is about to.
    pub sleeping: bool,
    /// Samples that the subscription missed, by its own count. `None` if the tool got no listing
    /// that contains this subscription.
    pub missed: Option<u64>,
    /// [Overruns](TransportStats::overruns) of the subscription; `None` in the same case.
    pub overruns: Option<u64>,
}

/// One subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubscriptionInfo {
    /// Its identity.
    #[serde(with = "hex_id")]
    pub id: EndpointId,
    /// Topic.
    pub topic: String,
    /// Node.
    pub node: String,
    /// Accepted type; `None` accepts any.
    pub schema: Option<Schema>,
    /// Requested QoS.
    pub qos: Qos,
    /// Samples that it may hold, of all publishers together; of each publisher in a hot standby and
    /// in services.
    pub max_held: u32,
    /// True for a tool.
    pub observer: bool,
    /// Counters.
    pub stats: TransportStats,
    /// Matched publishers.
    pub matches: Vec<EdgeInfo>,
    /// Publishers of the topic that do not match, with the reason.
    pub refusals: Vec<String>,
}

/// A subscription's view of one matched publisher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EdgeInfo {
    /// The publisher.
    #[serde(with = "hex_id")]
    pub publisher: EndpointId,
    /// Its node.
    pub node: String,
    /// Process id in its own namespace.
    pub pid: u32,
    /// Samples taken.
    pub received: u64,
    /// Samples missed.
    pub missed: u64,
    /// As [`TransportStats::overruns`], for this publisher.
    pub overruns: u64,
}

/// 128-bit ids as text, because JSON readers of other languages lack such numbers.
pub(crate) mod hex_id {
    use driveline_types::EndpointId;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(id: &EndpointId, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(id)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<EndpointId, D::Error> {
        let text = String::deserialize(d)?;
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(D::Error::custom("an id has 32 hexadecimal digits"));
        }
        u128::from_str_radix(&text, 16).map(EndpointId).map_err(D::Error::custom)
    }
}

/// A publisher that a subscription is matched with.
#[derive(Clone, Debug, PartialEq)]
pub struct MatchedPublisher {
    /// Its id.
    pub publisher: EndpointId,
    /// Its node.
    pub node: NodeName,
    /// Its type, if the subscription accepts any. `None`: the requested one.
    pub schema: Option<Arc<Schema>>,
    /// Offered QoS.
    pub qos: Qos,
    /// Its longest payload, in bytes.
    pub max_payload: u64,
}
