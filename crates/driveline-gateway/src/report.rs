// SPDX-License-Identifier: Apache-2.0
//! Report of a gateway, for tools. Unknown keys are ignored. Keys that older gateways do not write
//! have their default values.

use driveline_types::Qos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// State of a gateway: carried topics, and topics that are not carried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Kind of gateway, such as `zenoh`.
    pub gateway: String,
    /// Version of Driveline.
    pub version: String,
    /// Commit that the gateway was built from. `version` and `commit` are empty in reports of older
    /// gateways.
    pub commit: String,
    /// Process id of the gateway, in its own PID namespace.
    pub pid: u32,
    /// Domain that it serves.
    pub domain: String,
    /// This host: its name, and the number of the gateway's start. For a gateway to ROS 2, a random
    /// number of this start.
    pub host: String,
    /// `CLOCK_MONOTONIC` of its host at the time of this report, in nanoseconds.
    pub at_ns: u64,
    /// True if the gateway did not answer in time: this is then its last report, created at
    /// `at_ns`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// Time since its start, in milliseconds.
    pub up_ms: u64,
    /// Network configuration and state.
    pub network: NetworkReport,
    /// Other hosts.
    pub hosts: Vec<HostReport>,
    /// All configured topics.
    pub topics: Vec<TopicReport>,
    /// Routes to other hosts.
    pub edges: Vec<RouteReport>,
    /// Publishers of other hosts.
    pub inlets: Vec<RemotePublisherReport>,
    /// Topics that are offered or wanted but not carried.
    pub refused: Vec<Refusal>,
    /// Arrived samples that no remote publisher took: it did not exist yet or any more, no sample
    /// was requested, or the sample was for an earlier start of this gateway.
    pub unknown: u64,
    /// Samples that could not be understood.
    pub damaged: u64,
    /// Traffic with ROS 2; only for gateways to ROS 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ros2: Option<Ros2Report>,
}

/// Traffic between a domain and ROS 2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ros2Report {
    /// `ROS_DOMAIN_ID`.
    pub domain_id: u32,
    /// True if nodes on DDS take part.
    pub dds: bool,
    /// True if nodes on rmw_zenoh take part; details are in [`Report::network`].
    pub zenoh: bool,
    /// Network interface for DDS; `None`: only this host.
    pub interface: Option<String>,
    /// Number of known nodes with endpoints in the ROS graph, not counting the gateway's own nodes.
    pub nodes: usize,
    /// Number of unreadable announcements of rmw_zenoh, whose endpoints are not seen.
    pub malformed_tokens: u64,
    /// Message types in the packages under `types` that cannot be received from ROS 2, each with
    /// reason and remedy.
    pub left_out: Vec<String>,
    /// Other gateways in the same DDS domain and the same Zenoh network, by their Zenoh sessions.
    /// If several gateways pass samples between DDS and Zenoh, each sample arrives several times.
    pub beside: Vec<String>,
    /// Topics towards ROS 2.
    pub to_ros: Vec<Ros2TopicReport>,
    /// Topics from ROS 2.
    pub from_ros: Vec<Ros2TopicReport>,
    /// Services named by rules.
    pub services: Vec<Ros2ServiceReport>,
}

/// Service named by a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ros2ServiceReport {
    /// Name in Driveline.
    pub service: String,
    /// Type in ROS 2, such as `nav_msgs/srv/GetMap`.
    pub ros_type: String,
    /// True if its server is in ROS 2 and its clients are here; false for the other direction.
    pub from_ros: bool,
    /// True if calls go to a server at present.
    pub callable: bool,
    /// True if the service is skipped, for the reasons in `problems`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
    /// Reasons why it cannot be called or does not serve a client, and remarks, with remedies.
    pub problems: Vec<String>,
    /// Servers. A Driveline server is listed with its node, once for each profile that offers it.
    /// In ROS 2, all servers of this name are listed.
    pub servers: Vec<Ros2Server>,
    /// ROS 2 nodes with a client; `?` if unnamed.
    pub clients: Vec<String>,
    /// Profile whose nodes can call a server of the other profile: `DDS` or `rmw_zenoh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub across: Option<String>,
    /// Number of received requests.
    pub calls: u64,
    /// Calls in flight.
    pub under_way: usize,
    /// Number of delivered responses.
    pub answered: u64,
    /// Calls that ended without a delivered response, by reason. Each call is counted under
    /// `answered`, `under_way` or here, except while it changes its state.
    pub ended: BTreeMap<String, u64>,
    /// Messages that ended no call, such as late responses, by reason.
    pub strays: BTreeMap<String, u64>,
}

/// Server of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Ros2Server {
    /// Name of its node on its own side.
    pub node: String,
    /// Its profile: `DDS` or `rmw_zenoh`.
    pub profile: String,
    /// Reason why it is not called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Topic in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ros2TopicReport {
    /// Name in Driveline.
    pub topic: String,
    /// Publishers that are carried now.
    pub publishers: Vec<Ros2Publisher>,
    /// Towards ROS 2: nodes whose subscriptions match, one entry for each subscription; `?` if
    /// unnamed.
    pub readers: Vec<String>,
    /// Remarks on endpoints in ROS 2 and on publishers here whose samples pass, but perhaps not as
    /// expected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Towards ROS 2: samples written there, with or without a reader. From ROS 2: samples
    /// published here.
    pub carried: u64,
    /// From ROS 2: samples passed from one profile to the other, whatever their outcome here.
    pub across: u64,
    /// Samples written towards ROS 2 that newer ones replaced, because the writer keeps a limited
    /// number: a reliable DDS subscription had not acknowledged them in time, or a link had no
    /// space for them yet. A subscription that has not received such a sample does not receive it
    /// any more.
    pub replaced: u64,
    /// Dropped samples, by reason. A sample that only one of two ways accepted is in `carried` or
    /// `across`, and counted here as well.
    pub dropped: BTreeMap<String, u64>,
}

/// Publisher whose samples pass between Driveline and ROS 2.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Ros2Publisher {
    /// Node in Driveline; for a ROS 2 publisher, the name of its node in Driveline.
    pub node: String,
    /// Type in ROS 2, such as `sensor_msgs/msg/Image`.
    pub ros_type: String,
    /// True if samples are converted; otherwise they pass as CDR.
    pub converted: bool,
    /// QoS in ROS 2, as text.
    pub qos: String,
    /// Profile: `DDS` or `rmw_zenoh`.
    pub profile: String,
}

/// Network configuration and state of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkReport {
    /// Endpoints to listen on.
    pub listens: Vec<String>,
    /// Endpoints to connect to.
    pub connects: Vec<String>,
    /// Network interface for discovery.
    pub interface: Option<String>,
    /// Number of connected peers.
    pub peers: usize,
    /// Number of connected routers.
    pub routers: usize,
    /// True if the gateway needs a router, and has had none for several seconds.
    pub router_missing: bool,
    /// Warning about the reachability of this host, which may not be intended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caution: Option<String>,
    /// Reason why this host cannot join the network. The gateway keeps trying.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_out: Option<String>,
}

/// Another host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// Name, and number of its gateway's start.
    pub host: String,
    /// True while its gateway is present.
    pub alive: bool,
    /// Duration for which the host has been present, or gone, in milliseconds.
    #[serde(default)]
    pub for_ms: u64,
    /// Number of times that the host, or the link to it, failed and came back.
    #[serde(default)]
    pub outages: u64,
    /// Total duration of these outages, in milliseconds.
    #[serde(default)]
    pub outage_ms: u64,
    /// Its clock minus this host's, in nanoseconds, if measured.
    pub offset_ns: Option<i64>,
    /// Maximum difference from the true offset, in nanoseconds.
    pub offset_error_ns: Option<u64>,
    /// Number of clock exchanges used for it.
    pub exchanges: u64,
    /// Number of steps of one of the two clocks.
    pub clock_steps: u64,
    /// Number of impossible exchanges, such as an answer before its request, which were ignored.
    #[serde(default)]
    pub impossible_exchanges: u64,
    /// Number of acknowledgements to it that were dropped for lack of space.
    #[serde(default)]
    pub acknowledgements_dropped: u64,
    /// Reason why nothing is exchanged with it, with the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Configured topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicReport {
    /// Topic.
    pub topic: String,
    /// True if it goes to other hosts.
    pub send: bool,
    /// True if it is received from other hosts.
    pub receive: bool,
    /// Maximum length of a received sample, in bytes.
    pub max_payload: u64,
    /// Maximum rate to a host, in Hz.
    #[serde(default)]
    pub max_rate_hz: Option<f64>,
    /// Only every n-th sample of a publisher is sent.
    #[serde(default)]
    pub every: Option<u32>,
    /// Publishers on this host that are announced to others.
    #[serde(default)]
    pub publishers: Vec<PublisherReport>,
    /// Topic with a similar name that another host sends and that is not received here. Set only if
    /// no other host sends the topic of this report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similar: Option<String>,
}

/// Publisher on this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublisherReport {
    /// Node.
    pub node: String,
    /// Id.
    pub publisher: String,
    /// Name of its type.
    pub schema: String,
    /// Offered QoS.
    pub qos: Qos,
    /// Maximum length of a sample, in bytes.
    pub max_payload: u64,
}

/// Route of a topic to another host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteReport {
    /// Topic.
    pub topic: String,
    /// Receiving host.
    pub to: String,
    /// Offered QoS of its publishers: `b` or `r` for best effort or reliable, `v` or `t` for
    /// volatile or transient local.
    #[serde(default)]
    pub offered: String,
    /// Requested QoS, in the same notation.
    pub qos: String,
    /// True if the other host does not request it now.
    pub parked: bool,
    /// Counters of samples.
    pub figures: RouteFigures,
}

/// Publisher of another host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemotePublisherReport {
    /// Topic.
    pub topic: String,
    /// Host of the publisher.
    pub from: String,
    /// Node of the publisher.
    pub node: String,
    /// Id.
    pub publisher: String,
    /// Name of its type.
    #[serde(default)]
    pub schema: String,
    /// Offered QoS.
    #[serde(default)]
    pub qos: Qos,
    /// Maximum length of a sample, in bytes.
    #[serde(default)]
    pub max_payload: u64,
    /// State of the transfer.
    pub state: RemotePublisherState,
    /// Counters of samples.
    pub figures: RemotePublisherFigures,
}

/// State of the transfer from a remote publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemotePublisherState {
    /// Samples are transferred.
    Wanted,
    /// Not requested: no subscription on this host.
    NobodySubscribes,
    /// Samples are not requested yet: the other host's clock has not been measured.
    ClockUnknown,
    /// Samples are not transferred: the publisher's host, or the path to it, is gone. Samples that
    /// were published here can still be read for some time.
    HostGone,
    /// Samples are not transferred: the publisher is gone.
    PublisherGone,
}

/// Topic that is offered or requested, but not carried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// Topic.
    pub topic: String,
    /// Other host; for ROS 2, the node, or empty.
    pub host: String,
    /// True if it would go there; false if it would come from there.
    pub outgoing: bool,
    /// True for a subscription that receives nothing; false for a publisher that is not carried, or
    /// a host that receives nothing.
    #[serde(default)]
    pub subscription: bool,
    /// Reason.
    pub reason: String,
    /// Time until the next attempt, in milliseconds from the report. `None`: at the next change.
    pub again_ms: Option<u64>,
}

/// Counters of a route: a topic to one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteFigures {
    /// Samples handed to Zenoh, without repetitions.
    pub sent: u64,
    /// Payload bytes of these.
    pub sent_bytes: u64,
    /// Samples handed to Zenoh again: no acknowledgement came, or the other host could not accept
    /// them yet.
    pub sent_again: u64,
    /// Samples in flight now.
    pub in_flight: u64,
    /// Samples published on the other host, and samples with an unknown outcome. Best-effort
    /// samples among these may have been lost on the way; only the other host counts such a loss.
    pub delivered: u64,
    /// Dropped: a newer sample was taken instead.
    pub superseded: u64,
    /// Skipped: only every n-th sample is sent.
    pub decimated: u64,
    /// Dropped: older than their lifespan before they could be sent.
    pub expired: u64,
    /// Dropped: no acknowledgement came in time.
    pub unacknowledged: u64,
    /// Dropped by the other host, which counts them by its own reasons; or dropped here, because
    /// the other host had no remote publisher for them, and the route did not wait for it or waited
    /// for too long.
    pub refused: u64,
    /// Dropped: Zenoh did not accept them.
    pub not_sent: u64,
    /// Not sent on: they had come over the network.
    pub remote: u64,
    /// Ignored acknowledgements: of samples that were never sent, or too many at once. They are no
    /// drops.
    pub impossible_acknowledgements: u64,
}

impl RouteFigures {
    /// Returns drops by reason, without reasons that never applied.
    #[must_use]
    pub fn drops(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("superseded", self.superseded),
            ("decimated", self.decimated),
            ("expired", self.expired),
            ("unacknowledged", self.unacknowledged),
            ("refused there", self.refused),
            ("not sent", self.not_sent),
            ("came over the network", self.remote),
        ];
        all.into_iter().filter(|(_, n)| *n > 0).collect()
    }
}

/// Counters of a remote publisher: a publisher of another host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemotePublisherFigures {
    /// Samples published on this host.
    pub published: u64,
    /// Payload bytes of these.
    pub published_bytes: u64,
    /// Samples that did not arrive on this host, or arrived and were not written to the segment,
    /// for any reason.
    pub lost: u64,
    /// Dropped: arrived more than once, or after a later sample.
    pub duplicate: u64,
    /// Dropped: older than their lifespan on arrival.
    pub expired: u64,
    /// Dropped: wrong length or checksum.
    pub damaged: u64,
    /// Dropped: local subscriptions hold all slots.
    pub no_room: u64,
    /// Transit time of the newest sample, in nanoseconds; negative if the error of the estimated
    /// clock offset is greater.
    pub transit_ns: i64,
}

impl RemotePublisherFigures {
    /// Returns drops by reason, without reasons that never applied.
    #[must_use]
    pub fn drops(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("lost", self.lost),
            ("duplicate", self.duplicate),
            ("expired", self.expired),
            ("damaged", self.damaged),
            ("no room", self.no_room),
        ];
        all.into_iter().filter(|(_, n)| *n > 0).collect()
    }
}
