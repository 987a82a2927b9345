// SPDX-License-Identifier: Apache-2.0
//! Report of a gateway, for tools. Unknown keys are ignored, and missing ones are empty.

use driveline_types::Qos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All that is carried, and what is not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Kind of gateway, such as `zenoh`.
    pub gateway: String,
    /// Version of Driveline that it is of …
    pub version: String,
    /// … and the commit that it was built from. Both are empty in reports of gateways that did not
    /// say it yet.
    pub commit: String,
    /// Its process, in its own namespace.
    pub pid: u32,
    /// Domain that it serves.
    pub domain: String,
    /// This host: its name, and the number of the gateway's start.
    pub host: String,
    /// `CLOCK_MONOTONIC` of its host at the time of this report, in nanoseconds.
    pub at_ns: u64,
    /// The gateway did not answer in time: this is what it said at `at_ns`, when it was asked
    /// before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// Time since its start, in milliseconds.
    pub up_ms: u64,
    /// Its part in the network.
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
    /// Samples without a receiver: in flight when one left, or sent without being requested.
    pub unknown: u64,
    /// Samples that could not be understood.
    pub damaged: u64,
    /// Of gateways to ROS 2, what they carry.
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
    /// The interface that is used for DDS; `None`: this host alone.
    pub interface: Option<String>,
    /// Nodes of others that are seen in the ROS graph.
    pub nodes: usize,
    /// Announcements by rmw_zenoh that could not be read, so that whatever they are of is not seen.
    pub malformed_tokens: u64,
    /// Types of messages that the packages under `types` have and that cannot come from ROS 2, each
    /// with why and what to do.
    pub left_out: Vec<String>,
    /// Other gateways that take part in the same DDS domain and in the same Zenoh network, by their
    /// sessions there: what several carry from one to the other comes several times.
    pub beside: Vec<String>,
    /// Towards ROS 2.
    pub to_ros: Vec<Ros2TopicReport>,
    /// From ROS 2.
    pub from_ros: Vec<Ros2TopicReport>,
    /// Services that rules name.
    pub services: Vec<Ros2ServiceReport>,
}

/// A service that a rule names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ros2ServiceReport {
    /// Name in Driveline.
    pub service: String,
    /// Type in ROS 2, as `nav_msgs/srv/GetMap`.
    pub ros_type: String,
    /// Its server is in ROS 2, and its clients are here; else the other way round.
    pub from_ros: bool,
    /// True if calls go to a server at present.
    pub callable: bool,
    /// Nothing is done for it, as `problems` say.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
    /// Reasons why not, and remarks, each with the remedy.
    pub problems: Vec<String>,
    /// Servers. Of one in Driveline, its node once for each profile that offers it; of those in ROS
    /// 2, all that have the name.
    pub servers: Vec<Ros2Server>,
    /// Nodes of ROS 2 that have a client; `?` if unnamed.
    pub clients: Vec<String>,
    /// Nodes of the other profile can call a server in ROS 2, by this one: `DDS` or `rmw_zenoh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub across: Option<String>,
    /// Requests that have come.
    pub calls: u64,
    /// Calls in flight.
    pub under_way: usize,
    /// Responses that were handed over.
    pub answered: u64,
    /// Calls that ended in another way, by reason. Together with the answered ones and those in
    /// flight they are all calls, while nothing moves.
    pub ended: BTreeMap<String, u64>,
    /// Messages that end no call, such as a late response, by reason.
    pub strays: BTreeMap<String, u64>,
}

/// A server of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Ros2Server {
    /// Its node, as its side calls it.
    pub node: String,
    /// By which profile: `DDS` or `rmw_zenoh`.
    pub profile: String,
    /// Reason why it is not called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A topic in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ros2TopicReport {
    /// Name in Driveline.
    pub topic: String,
    /// Publishers that are carried at present.
    pub publishers: Vec<Ros2Publisher>,
    /// Nodes of ROS 2 whose subscriptions match, one entry per subscription; `?` if unnamed.
    pub readers: Vec<String>,
    /// Remarks on ends in ROS 2 whose samples pass, but perhaps not as they expect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Samples that were written in ROS 2, with or without a reader there; from ROS 2, the samples
    /// that arrived here.
    pub carried: u64,
    /// From ROS 2: samples that passed from one profile to the other, whatever became of them here.
    pub across: u64,
    /// Samples among these that a writer towards ROS 2 replaced, as its depth says, while a
    /// reliable subscription on DDS had not acknowledged them in time, or before a link had room
    /// for them. A subscription that had not received such a sample does not get it.
    pub replaced: u64,
    /// Samples that did not, by reason.
    pub dropped: BTreeMap<String, u64>,
}

/// A publisher whose samples pass between Driveline and ROS 2.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Ros2Publisher {
    /// Node of Driveline; of publishers of ROS 2, what their node is called here.
    pub node: String,
    /// Type in ROS 2, as `sensor_msgs/msg/Image`.
    pub ros_type: String,
    /// True if samples are converted; otherwise they pass as CDR.
    pub converted: bool,
    /// Its QoS in ROS 2, as text.
    pub qos: String,
    /// By which profile: `DDS` or `rmw_zenoh`.
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
    /// The network interface on which it looks for others.
    pub interface: Option<String>,
    /// Neighbours that it is connected to as equals …
    pub peers: usize,
    /// … and as routers.
    pub routers: usize,
    /// It needs a router, and has had none for seconds.
    pub router_missing: bool,
    /// Warning about the reachability of this host, which may not be intended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caution: Option<String>,
    /// Reason why this host cannot join the network, which is retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_out: Option<String>,
}

/// Another host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// Name and number of its gateway's start.
    pub host: String,
    /// True while its gateway is present.
    pub alive: bool,
    /// Time that it has been present, or gone, in milliseconds.
    #[serde(default)]
    pub for_ms: u64,
    /// Number of its absences, for itself or its link …
    #[serde(default)]
    pub outages: u64,
    /// … and their total duration, in milliseconds.
    #[serde(default)]
    pub outage_ms: u64,
    /// Its clock less this host's, in nanoseconds, if that was measured.
    pub offset_ns: Option<i64>,
    /// The truth is no further from it than this.
    pub offset_error_ns: Option<u64>,
    /// Exchanges that this rests on.
    pub exchanges: u64,
    /// Number of steps of one of the two clocks.
    pub clock_steps: u64,
    /// Exchanges that could not be, such as an answer before its question, and were passed over.
    #[serde(default)]
    pub impossible_exchanges: u64,
    /// Acknowledgements to it for which there was no room.
    #[serde(default)]
    pub acknowledgements_dropped: u64,
    /// Reason why nothing is exchanged with it, with the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A configured topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicReport {
    /// Topic.
    pub topic: String,
    /// To other hosts.
    pub send: bool,
    /// From other hosts.
    pub receive: bool,
    /// Longest sample that is received, in bytes.
    pub max_payload: u64,
    /// Most samples each second to a host.
    #[serde(default)]
    pub max_rate_hz: Option<f64>,
    /// Only every so many-th sample of a publisher is sent.
    #[serde(default)]
    pub every: Option<u32>,
    /// Publishers on this host that are announced to others.
    #[serde(default)]
    pub publishers: Vec<PublisherReport>,
    /// A similarly named topic that another host sends and that is not received here, if no other
    /// host sends this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similar: Option<String>,
}

/// A publisher on this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublisherReport {
    /// Its node.
    pub node: String,
    /// Its id.
    pub publisher: String,
    /// Name of its type.
    pub schema: String,
    /// Offered QoS.
    pub qos: Qos,
    /// Longest sample, in bytes.
    pub max_payload: u64,
}

/// A topic on its way to another host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteReport {
    /// Topic.
    pub topic: String,
    /// To which host.
    pub to: String,
    /// Of publishers that offer this: `b` or `r` for best effort or reliable, `v` or `t` for
    /// volatile or transient local …
    #[serde(default)]
    pub offered: String,
    /// … and what is asked of them.
    pub qos: String,
    /// The other host does not want it at present.
    pub parked: bool,
    /// Counters of samples.
    pub figures: RouteFigures,
}

/// A publisher of another host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemotePublisherReport {
    /// Topic.
    pub topic: String,
    /// From which host.
    pub from: String,
    /// Node that publishes there.
    pub node: String,
    /// Its id.
    pub publisher: String,
    /// Name of its type.
    #[serde(default)]
    pub schema: String,
    /// Offered QoS.
    #[serde(default)]
    pub qos: Qos,
    /// Its longest sample, in bytes.
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
    /// It is.
    Wanted,
    /// Not requested: no subscription on this host.
    NobodySubscribes,
    /// Not yet: the other host's clock was not measured.
    ClockUnknown,
    /// No: its host, or the way to it, is gone; what it had published can still be read for some
    /// time.
    HostGone,
    /// No: the publisher is gone.
    PublisherGone,
}

/// A topic that is offered or wanted but not carried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// Topic.
    pub topic: String,
    /// The other host; of ROS 2, the node, or nothing.
    pub host: String,
    /// `true`: it would go there; `false`: it would come from there.
    pub outgoing: bool,
    /// `true`: it is a subscription that gets nothing; `false`: a publisher that is not carried, or
    /// a host that gets nothing.
    #[serde(default)]
    pub subscription: bool,
    /// Reason.
    pub reason: String,
    /// Time until the next attempt, in milliseconds from the report. `None`: at the next change.
    pub again_ms: Option<u64>,
}

/// Counters of a route: a topic on its way to one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteFigures {
    /// Handed to Zenoh, repetitions not counted.
    pub sent: u64,
    /// Payload bytes of these.
    pub sent_bytes: u64,
    /// Handed to Zenoh again, because no acknowledgement came.
    pub sent_again: u64,
    /// On their way now.
    pub in_flight: u64,
    /// Published on the other host.
    pub delivered: u64,
    /// Dropped: a newer one was taken instead.
    pub superseded: u64,
    /// Left out: only every so many-th sample is sent.
    pub decimated: u64,
    /// Dropped: older than their lifespan before they could be sent.
    pub expired: u64,
    /// Dropped: no acknowledgement came in time.
    pub unacknowledged: u64,
    /// Dropped by the other host, which counts them by its own reasons.
    pub refused: u64,
    /// Dropped: Zenoh did not take them.
    pub not_sent: u64,
    /// Not sent on: they had come over the network.
    pub remote: u64,
    /// Acknowledgements of what was never sent, which were passed over: no drops.
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
    /// Published on this host.
    pub published: u64,
    /// Payload bytes of these.
    pub published_bytes: u64,
    /// Did not get here, or not into the segment, for whatever reason.
    pub lost: u64,
    /// Dropped: came more than once, or after a later one.
    pub duplicate: u64,
    /// Dropped: older than their lifespan on arrival.
    pub expired: u64,
    /// Dropped: they do not fit, or not their checksum.
    pub damaged: u64,
    /// Dropped: local subscriptions hold all slots.
    pub no_room: u64,
    /// Transit time of the newest, in nanoseconds: negative if the clocks are estimated wrong by
    /// more.
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
