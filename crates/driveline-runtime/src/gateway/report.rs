// SPDX-License-Identifier: Apache-2.0
//! What a gateway says about itself, to tools. Keys that one side does not know are ignored, and missing ones are empty.

use crate::endpoint;
use driveline_types::Qos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All that is carried, and what is not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// What kind of gateway, such as `zenoh`.
    pub gateway: String,
    /// Its process, in its own namespace.
    pub pid: u32,
    /// Domain that it serves.
    pub domain: String,
    /// This host: its name, and the number of the gateway's start.
    pub host: String,
    /// `CLOCK_MONOTONIC` of its host at the time of this report, in nanoseconds.
    pub at_ns: u64,
    /// The gateway did not answer in time: this is what it said at `at_ns`, when it was asked before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// How long it has run, in milliseconds.
    pub up_ms: u64,
    /// How it takes part in the network.
    pub network: NetworkReport,
    /// Other hosts.
    pub hosts: Vec<HostReport>,
    /// Everything that it was told to carry.
    pub topics: Vec<TopicReport>,
    /// What goes to other hosts.
    pub edges: Vec<EdgeReport>,
    /// What comes from them.
    pub inlets: Vec<InletReport>,
    /// What is not carried although somebody offers or wants it.
    pub refused: Vec<Refusal>,
    /// Samples that came for nobody: on their way when somebody left, or sent by somebody who should not.
    pub unknown: u64,
    /// Samples that could not be understood.
    pub damaged: u64,
    /// Of gateways to ROS 2, what they carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ros2: Option<Ros2Report>,
}

/// Lines that tell of losses; where there are more, how many.
const MOST_LOSSES: usize = 32;

impl Report {
    /// Why no other host is there, as far as that can be seen from here.
    #[must_use]
    pub fn alone(&self) -> String {
        let NetworkReport { connects, peers, routers, .. } = &self.network;
        match (connects.as_slice(), peers.saturating_add(*routers)) {
            (connects @ [_, ..], 0) => {
                let name = connects.iter().find_map(|e| endpoint::name(e));
                let known = name.map(|n| format!(", is the name known (`getent hosts {n}`)")).unwrap_or_default();
                let at = connects.join(", ");
                format!(
                    "nobody answers at {at}, or lets this host in; does a gateway run there{known}, and does a firewall let it through?"
                )
            }
            ([], 0) => match &self.network.interface {
                Some(name) => format!(
                    "nobody answers the multicast at interface {name}; does a gateway run there, and does a firewall let it through?"
                ),
                None => "nobody has connected yet".to_owned(),
            },
            (_, n) => {
                let neighbours = if n == 1 { "neighbour" } else { "neighbours" };
                format!("of {n} {neighbours} none serves domain '{}': hosts exchange topics where `domain` is the same", self.domain)
            }
        }
    }

    /// Outages of the network and what was lost between hosts since this gateway was started, a line for each host and topic, for whoever sums up a run. What
    /// was told not to be sent is no loss. Starts of another host's gateway are one host here.
    #[must_use]
    pub fn losses(&self) -> Vec<String> {
        let name = |host: &str| host.rsplit_once('.').map_or(host, |(name, _)| name).to_owned();
        let mut of_host = BTreeMap::<_, (u64, u64)>::new();
        for h in &self.hosts {
            let (outages, ms) = of_host.entry(name(&h.host)).or_default();
            (*outages, *ms) = (outages.saturating_add(h.outages), ms.saturating_add(h.outage_ms));
        }
        let outages = of_host.iter().filter(|(_, (outages, _))| *outages > 0).map(|(host, (outages, ms))| {
            let times = if *outages == 1 { "once".to_owned() } else { format!("{outages} times") };
            format!("host '{host}' was out of reach {times}, for {:.1} s in all", *ms as f64 / 1e3)
        });
        let mut of_edge = BTreeMap::<_, (u64, BTreeMap<_, u64>)>::new();
        for e in &self.edges {
            let (delivered, lost) = of_edge.entry((e.topic.as_str(), name(&e.to))).or_default();
            *delivered = delivered.saturating_add(e.figures.delivered);
            for (reason, n) in (EdgeFigures { decimated: 0, remote: 0, ..e.figures }.drops()) {
                let sum = lost.entry(reason).or_default();
                *sum = sum.saturating_add(n);
            }
        }
        let sent = of_edge.iter().filter(|(_, (_, lost))| !lost.is_empty()).map(|((topic, host), (delivered, lost))| {
            let n = lost.values().fold(0u64, |sum, n| sum.saturating_add(*n));
            let lost: Vec<_> = lost.iter().map(|(reason, n)| (*reason, *n)).collect();
            format!("'{topic}' to host '{host}': {delivered} arrived there, {n} did not ({})", reasons(&lost))
        });
        let received = self.inlets.iter().filter(|i| i.figures.lost > 0).map(|i| {
            let InletFigures { published, lost, expired, damaged, no_room, .. } = i.figures;
            let here = InletFigures { expired, damaged, no_room, ..InletFigures::default() }.drops();
            let why = if here.is_empty() { String::new() } else { format!(" (of these, dropped on arrival: {})", reasons(&here)) };
            format!("'{}' from host '{}': {published} arrived, {lost} did not{why}", i.topic, name(&i.from))
        });
        let mut lines: Vec<String> = outages.chain(sent).chain(received).collect();
        let more = lines.len().saturating_sub(MOST_LOSSES);
        if more > 0 {
            lines.truncate(MOST_LOSSES);
            lines.push(format!("and {more} more"));
        }
        if !lines.is_empty() {
            lines.insert(0, format!("since this gateway was started, {} s ago:", self.up_ms / 1000));
        }
        lines
    }
}

fn reasons(drops: &[(&str, u64)]) -> String {
    drops.iter().map(|(reason, n)| format!("{reason} {n}")).collect::<Vec<_>>().join(", ")
}

/// What a gateway carries between a domain and ROS 2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ros2Report {
    /// `ROS_DOMAIN_ID`.
    pub domain_id: u32,
    /// Whether nodes on DDS take part.
    pub dds: bool,
    /// Whether nodes on rmw_zenoh take part; how is in [`Report::network`].
    pub zenoh: bool,
    /// The interface that is used for DDS; `None`: this host alone.
    pub interface: Option<String>,
    /// Nodes of others that are seen in the ROS graph.
    pub nodes: usize,
    /// Announcements by rmw_zenoh that could not be read, so that whatever they are of is not seen.
    pub malformed_tokens: u64,
    /// Types of messages that the packages under `types` have and that cannot come from ROS 2, each with why and what to do.
    pub left_out: Vec<String>,
    /// Other gateways that take part in the same DDS domain and in the same Zenoh network, by their sessions there: what several carry from one to the
    /// other comes several times.
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
    /// Whether calls go to a server at present.
    pub callable: bool,
    /// Nothing is done for it, as `problems` say.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
    /// Why not, or what else is to be known of it, each with what to do.
    pub problems: Vec<String>,
    /// Servers. Of one in Driveline, its node once for each profile that offers it; of those in ROS 2, all that have the name.
    pub servers: Vec<Ros2Server>,
    /// Nodes of ROS 2 that have a client; one whose node nobody has named is `?`.
    pub clients: Vec<String>,
    /// Nodes of the other profile can call a server in ROS 2, by this one: `DDS` or `rmw_zenoh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub across: Option<String>,
    /// Requests that have come.
    pub calls: u64,
    /// Calls that are under way.
    pub under_way: usize,
    /// Responses that were handed over.
    pub answered: u64,
    /// Calls that ended in another way, by reason. With those that were answered and those under way they are all calls, as soon as nothing moves.
    pub ended: BTreeMap<String, u64>,
    /// What came and is no call's end, such as a response that came too late, by reason.
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
    /// Why it is not called.
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
    /// Nodes of ROS 2 whose subscriptions match, each subscription by itself; one whose node nobody has named is `?`.
    pub readers: Vec<String>,
    /// Samples that arrived at the other side.
    pub carried: u64,
    /// From ROS 2: samples that passed from one profile to the other, whatever became of them here.
    pub across: u64,
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
    /// Whether samples are converted; else they pass as CDR.
    pub converted: bool,
    /// What ROS 2 knows of its QoS, in words.
    pub qos: String,
    /// By which profile: `DDS` or `rmw_zenoh`.
    pub profile: String,
}

/// How a gateway takes part in the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkReport {
    /// Where it really listens.
    pub listens: Vec<String>,
    /// Where it was told to connect to.
    pub connects: Vec<String>,
    /// The network interface on which it looks for others.
    pub interface: Option<String>,
    /// Neighbours that it is connected to as equals …
    pub peers: usize,
    /// … and as routers.
    pub routers: usize,
    /// It needs a router, and has had none for seconds.
    pub router_missing: bool,
}

/// Another host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// Name and number of its gateway's start.
    pub host: String,
    /// Whether its gateway is there.
    pub alive: bool,
    /// For how long it has been there, or gone, in milliseconds.
    #[serde(default)]
    pub for_ms: u64,
    /// How often it, or the way to it, was gone and came back …
    #[serde(default)]
    pub outages: u64,
    /// … and for how long together, in milliseconds.
    #[serde(default)]
    pub outage_ms: u64,
    /// Its clock less this host's, in nanoseconds, if that was measured.
    pub offset_ns: Option<i64>,
    /// The truth is no further from it than this.
    pub offset_error_ns: Option<u64>,
    /// Exchanges that this rests on.
    pub exchanges: u64,
    /// How often one of the two clocks has stepped.
    pub clock_steps: u64,
    /// Acknowledgements to it for which there was no room.
    #[serde(default)]
    pub acknowledgements_dropped: u64,
    /// Why nothing is carried to or from it, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A topic that a gateway was told to carry.
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
    /// Publishers on this host that others are told of.
    #[serde(default)]
    pub publishers: Vec<PublisherReport>,
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
pub struct EdgeReport {
    /// Topic.
    pub topic: String,
    /// To which host.
    pub to: String,
    /// Of publishers that offer this: `b` or `r` for best effort or reliable, `v` or `t` for volatile or transient local …
    #[serde(default)]
    pub offered: String,
    /// … and what is asked of them.
    pub qos: String,
    /// The other host does not want it at present.
    pub parked: bool,
    /// What became of samples.
    pub figures: EdgeFigures,
}

/// A publisher of another host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InletReport {
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
    /// What it offers.
    #[serde(default)]
    pub qos: Qos,
    /// Its longest sample, in bytes.
    #[serde(default)]
    pub max_payload: u64,
    /// Whether samples are sent here, and why not.
    pub state: InletState,
    /// What became of samples.
    pub figures: InletFigures,
}

/// Whether a publisher of another host is asked for its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InletState {
    /// It is.
    Wanted,
    /// No: nobody on this host subscribes.
    NobodySubscribes,
    /// Not yet: the other host's clock was not measured.
    ClockUnknown,
    /// No: its host, or the way to it, is gone; what it had published can still be read for some time.
    HostGone,
    /// No: the publisher is gone.
    PublisherGone,
}

/// Something that is not carried although somebody offers or wants it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// Topic.
    pub topic: String,
    /// The other host; of ROS 2, the node, or nothing.
    pub host: String,
    /// `true`: it would go there; `false`: it would come from there.
    pub outgoing: bool,
    /// `true`: it is a subscription that gets nothing; `false`: a publisher that is not carried, or a host that gets nothing.
    #[serde(default)]
    pub subscription: bool,
    /// Why.
    pub reason: String,
    /// When it is tried again, in milliseconds from the time of the report. `None`: when something changes.
    pub again_ms: Option<u64>,
}

/// What became of the samples of an edge: a topic on its way to one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EdgeFigures {
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
}

impl EdgeFigures {
    /// Drops with their reasons, those that have happened.
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

/// What became of the samples of an inlet: a publisher of another host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InletFigures {
    /// Published on this host.
    pub published: u64,
    /// Payload bytes of these.
    pub published_bytes: u64,
    /// Did not get here, or not into the segment, for whatever reason.
    pub lost: u64,
    /// Came more than once.
    pub duplicate: u64,
    /// Dropped: older than their lifespan on arrival.
    pub expired: u64,
    /// Dropped: they do not fit, or not their checksum.
    pub damaged: u64,
    /// Dropped: local subscriptions hold all slots.
    pub no_room: u64,
    /// Transit time of the newest, in nanoseconds: negative if the clocks are estimated wrong by more.
    pub transit_ns: i64,
}

impl InletFigures {
    /// Drops with their reasons, those that have happened.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_outages_and_what_did_not_arrive() {
        let mut report = Report::default();
        assert_eq!(report.losses(), Vec::<String>::new());
        let host = |outages, outage_ms| HostReport { host: "trunk.01".into(), outages, outage_ms, ..HostReport::default() };
        let edge = |figures| EdgeReport {
            topic: "image".into(),
            to: "trunk.01".into(),
            offered: "bv".into(),
            qos: "bv".into(),
            parked: false,
            figures,
        };
        let inlet = |figures| InletReport {
            topic: "lanes".into(),
            from: "trunk.01".into(),
            node: "lane".into(),
            publisher: "1".into(),
            schema: String::new(),
            qos: Qos::default(),
            max_payload: 1,
            state: InletState::Wanted,
            figures,
        };
        report.hosts = vec![host(0, 0)];
        report.edges = vec![edge(EdgeFigures { delivered: 10, decimated: 5, remote: 2, ..EdgeFigures::default() })];
        report.inlets = vec![inlet(InletFigures { published: 7, duplicate: 1, ..InletFigures::default() })];
        assert_eq!(report.losses(), Vec::<String>::new(), "what was to be left out is no loss");
        // Two starts of one host, and another host.
        let restarted = HostReport { host: "trunk.02".into(), ..host(2, 60_000) };
        report.up_ms = 90_100;
        report.hosts = vec![host(1, 4_200), HostReport { host: "roof.01".into(), ..host(1, 100) }, restarted];
        let before = edge(EdgeFigures { delivered: 10, decimated: 5, superseded: 3, unacknowledged: 1, ..EdgeFigures::default() });
        let after = edge(EdgeFigures { delivered: 20, superseded: 3, ..EdgeFigures::default() });
        report.edges = vec![before, EdgeReport { to: "trunk.02".into(), ..after }];
        report.inlets = vec![
            inlet(InletFigures { published: 7, lost: 2, ..InletFigures::default() }),
            inlet(InletFigures { published: 7, lost: 2, no_room: 1, ..InletFigures::default() }),
        ];
        let expected = [
            "since this gateway was started, 90 s ago:",
            "host 'roof' was out of reach once, for 0.1 s in all",
            "host 'trunk' was out of reach 3 times, for 64.2 s in all",
            "'image' to host 'trunk': 30 arrived there, 7 did not (superseded 6, unacknowledged 1)",
            "'lanes' from host 'trunk': 7 arrived, 2 did not",
            "'lanes' from host 'trunk': 7 arrived, 2 did not (of these, dropped on arrival: no room 1)",
        ];
        assert_eq!(report.losses(), expected);
        report.inlets = vec![report.inlets[0].clone(); 100];
        assert_eq!((report.losses().len(), report.losses().last().map(String::as_str)), (MOST_LOSSES + 2, Some("and 71 more")));
    }
}
