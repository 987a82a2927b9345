// SPDX-License-Identifier: Apache-2.0
//! Exchange with ROS 2: the section `ros2:` of a graph file, its rules, and the start configuration
//! of a gateway.
//!
//! Not here: the gateway (crate `driveline-gateway-ros2`). Meaning of rules:
//! `docs/protocols/ros2-dds.md`, section 2; shared parts of both profiles:
//! `docs/protocols/ros2-zenoh.md`, section 6.

mod definitions;
mod services;

pub use definitions::{CONVERTED, Definitions, LeftOut};
pub use services::{MAX_PENDING, MAX_SERVICES, ServedBy, ServiceRule};

use crate::endpoint::{self, Use};
use crate::mistakes::{ConfigMistakes, TopicNumbers};
use driveline::Reach;
use driveline_graph::model::{Access, written_qos};
use driveline_graph::section::{covers, single};
use driveline_graph::{ByteSize, ResolvedGraph};
use driveline_runtime::launch::GatewayOptions;
use driveline_types::limits::{DEFAULT_PINS, MAX_PINS};
use driveline_types::{Durability, Liveliness, Qos, Reliability, TopicName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Name of the gateway's process in a run; no module has this name.
pub const PROCESS: &str = driveline_runtime::launch::ROS2_GATEWAY_PROCESS;
/// Greatest id for which the standard ports exist.
pub const MAX_DOMAIN_ID: u32 = 232;
const MAX_ENDPOINTS: usize = 64;
const MAX_RULES: usize = 256;
const MAX_TYPES: usize = 256;
const MAX_PATTERN_LEN: usize = 200;
const DEFAULT_MAX_PAYLOAD: u64 = 256 << 10;
/// Maximum payload of a rule. The gateway handles lengths of 31 bits, so payload and CDR header
/// together must stay below 2 GiB.
const LONGEST_PAYLOAD: u64 = 1 << 30;

/// Topics and services exchanged with ROS 2 nodes, and the nodes' networks. Without rules nothing
/// is exchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ros2Spec {
    /// `ROS_DOMAIN_ID` of the ROS 2 nodes: number of the DDS domain, and beginning of the keys in
    /// Zenoh.
    #[schemars(range(max = MAX_DOMAIN_ID))]
    pub domain_id: u32,
    /// True if nodes on DDS take part. Default: yes.
    pub dds: bool,
    /// Network interface, such as `eth0`, on which ROS 2 nodes on DDS are. Default: the loopback
    /// device, so nodes of this host.
    pub interface: Option<String>,
    /// If present, nodes on rmw_zenoh take part; `zenoh: {}` uses rmw_zenoh's default addresses.
    /// Topics of rules with `direction: both` also pass between them and nodes on DDS.
    pub zenoh: Option<Ros2ZenohSpec>,
    /// Release of the ROS 2 nodes.
    pub release: Release,
    /// Stamps use a simulation's clock, published on `/clock`, in place of the wall clock.
    pub use_sim_time: bool,
    /// Places of definitions (`msg/*.msg`, `*.idl`) of types that are not converted: directories of
    /// one package, such as `/opt/ros/jazzy/share/tf2_msgs`, of many packages
    /// (`/opt/ros/jazzy/share`), or an installed ROS 2 (`/opt/ros/jazzy`). An entry can be several
    /// of them with `:` between them, and `$AMENT_PREFIX_PATH` is that variable. Relative to the
    /// graph file.
    pub types: Vec<PathBuf>,
    /// Rules for topics. The first one that fits a topic applies.
    pub topics: Vec<Rule>,
    /// Services that pass between Driveline and ROS 2.
    pub services: Vec<ServiceRule>,
}

impl Default for Ros2Spec {
    fn default() -> Self {
        Self {
            domain_id: 0,
            dds: true,
            interface: None,
            zenoh: None,
            release: Release::default(),
            use_sim_time: false,
            types: Vec::new(),
            topics: Vec::new(),
            services: Vec::new(),
        }
    }
}

/// Connection to nodes on rmw_zenoh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ros2ZenohSpec {
    /// Routers or nodes to connect to, such as `tcp/192.168.1.10:7447`. Default: the router that
    /// rmw_zenoh expects on this host, `tcp/localhost:7447`.
    pub connect: Vec<String>,
    /// Endpoints on which nodes can connect to the gateway. Default: a free port of the loopback
    /// device, `tcp/localhost:0`, as rmw_zenoh does by default.
    pub listen: Vec<String>,
    /// Permits a listener on all addresses: every program that reaches this host on any network can
    /// then publish, and there is no TLS here.
    pub insecure: bool,
}

impl Default for Ros2ZenohSpec {
    fn default() -> Self {
        Self {
            connect: vec!["tcp/localhost:7447".into()],
            listen: vec!["tcp/localhost:0".into()],
            insecure: false,
        }
    }
}

impl Ros2ZenohSpec {
    /// Returns the interfaces that endpoints to listen on are bound to.
    pub fn listen_interfaces(&self) -> impl Iterator<Item = &str> {
        self.listen.iter().filter_map(|endpoint| endpoint::interface(endpoint))
    }
}

/// Release of ROS 2, with its differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Release {
    /// Iron, Jazzy and later: 16-byte ids, type hashes.
    #[default]
    Jazzy,
    /// Humble: 24-byte ids, no type hashes.
    Humble,
}

/// Topics that are carried, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Name of the topic in ROS 2, such as `/camera/image`; `*` stands for one part of a name, `**`
    /// at the end for all that follow.
    pub topic: String,
    /// Side of the publishers.
    pub direction: Direction,
    /// Form of samples in Driveline.
    #[serde(default, rename = "as")]
    pub form: Form,
    /// Largest payload: bytes, or text such as `8 MiB`. Default 256 KiB; towards ROS 2, the topic's
    /// own.
    #[serde(default)]
    pub max_payload: Option<ByteSize>,
    /// QoS of the publishers and subscriptions that the gateway creates. Default: that of the other
    /// end.
    #[serde(default)]
    pub qos: RuleQos,
    /// Samples of one ROS 2 publisher that local subscriptions may hold together. Default 8.
    #[serde(default)]
    #[schemars(range(min = 1, max = MAX_PINS))]
    pub pins: Option<u32>,
    /// Time that counts as the measurement of the data.
    #[serde(default)]
    pub source_time: SourceTime,
}

/// Side of the publishers of a rule's topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Driveline's publishers, for ROS 2 subscriptions.
    ToRos,
    /// ROS 2 publishers, for Driveline's subscriptions.
    FromRos,
    /// Either.
    Both,
}

/// Form of samples that come from ROS 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// As Driveline's own message where there is one, else as CDR.
    #[default]
    Converted,
    /// As CDR.
    Cdr,
}

/// Source time of samples from ROS 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceTime {
    /// For converted types `header.stamp`, if it is not 0; otherwise the time at which the node
    /// published.
    #[default]
    Stamp,
    /// Time of arrival: for replayed recordings.
    Arrival,
}

/// QoS that replaces the other end's in the gateway's publishers and subscriptions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RuleQos {
    /// Reliability.
    pub reliability: Option<Reliability>,
    /// Durability.
    pub durability: Option<Durability>,
    /// Number of samples kept for slow and late subscriptions.
    #[schemars(range(min = 1, max = Qos::MAX_DEPTH))]
    pub depth: Option<u32>,
    /// Longest interval between samples, in milliseconds.
    #[schemars(range(min = 1))]
    pub deadline_ms: Option<u32>,
    /// Kind of liveliness of a publisher.
    pub liveliness: Option<Liveliness>,
    /// Time without a sign of life from which a publisher counts as not alive, in milliseconds.
    #[schemars(range(min = 1))]
    pub lease_ms: Option<u32>,
}

/// Mistake under `ros2:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Key of the setting, which may be a list.
    pub key: &'static str,
    /// Index of the rule or type, from 0.
    pub index: Option<usize>,
    /// Description.
    pub message: String,
    /// Remedy.
    pub help: String,
}

/// Returns true if this can be a part of a ROS 2 name between two `/`. ROS 2's design reserves
/// `__`, but rcl and rmw accept it.
#[must_use]
pub fn is_token(token: &str) -> bool {
    let starts = token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Environment variable with the places where ROS 2 is installed; permitted under `types`.
pub const AMENT_PREFIX_PATH: &str = "AMENT_PREFIX_PATH";

/// Returns the reason why this is not a pattern, with the remedy.
fn pattern_mistake(pattern: &str) -> Option<(String, &'static str)> {
    let Some(relative) = pattern.strip_prefix('/') else {
        return Some((
            format!("`{pattern}` has no leading `/`"),
            "write the topic's full name in ROS 2, such as `/camera/image`",
        ));
    };
    if pattern.len() > MAX_PATTERN_LEN {
        return Some((
            format!("a topic of {} characters", pattern.len()),
            "at most 200 are possible",
        ));
    }
    let tokens: Vec<_> = relative.split('/').collect();
    for (i, token) in tokens.iter().enumerate() {
        match *token {
            "**" if i + 1 < tokens.len() => {
                return Some((
                    format!("`{pattern}` continues after `**`"),
                    "`**` can only stand at the end; use `*` for one part",
                ));
            }
            "*" | "**" => {}
            token if is_token(token) => {}
            _ => {
                let help = "between two `/` there are letters, digits and `_`, not beginning with \
                     a digit; or `*`, or `**` at the end";
                return Some((format!("`{pattern}` cannot be the name of a topic in ROS 2"), help));
            }
        }
    }
    None
}

impl Rule {
    /// Creates a rule without options.
    #[must_use]
    pub fn new(topic: impl Into<String>, direction: Direction) -> Self {
        Self {
            topic: topic.into(),
            direction,
            form: Form::default(),
            max_payload: None,
            qos: RuleQos::default(),
            pins: None,
            source_time: SourceTime::default(),
        }
    }

    /// Returns true if the pattern fits the topic, and the rule includes the direction: from ROS 2,
    /// or to it if `from_ros` is false.
    #[must_use]
    pub fn covers(&self, topic: &TopicName, from_ros: bool) -> bool {
        self.covers_name(topic.as_str(), from_ros)
    }

    /// As [`covers`](Self::covers), for a topic name without its leading `/`, which may not be a
    /// valid name in Driveline.
    #[must_use]
    pub fn covers_name(&self, topic: &str, from_ros: bool) -> bool {
        let included = match self.direction {
            Direction::Both => true,
            Direction::FromRos => from_ros,
            Direction::ToRos => !from_ros,
        };
        included && covers(&self.topic, topic)
    }

    /// Returns the topic if the rule names exactly one.
    #[must_use]
    pub fn single(&self) -> Option<TopicName> {
        single(&self.topic)
    }

    /// Returns the maximum payload from ROS 2, in bytes.
    #[must_use]
    pub fn max_payload_bytes(&self) -> u64 {
        self.max_payload.map_or(DEFAULT_MAX_PAYLOAD, |b| b.0)
    }
}

impl Ros2Spec {
    /// Returns true if a topic or service is exchanged.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        !(self.topics.is_empty() && self.services.is_empty())
    }

    /// Returns the rule for a topic in a direction.
    #[must_use]
    pub fn rule(&self, topic: &TopicName, from_ros: bool) -> Option<&Rule> {
        self.topics.iter().find(|r| r.covers(topic, from_ros))
    }

    /// Returns all mistakes.
    #[must_use]
    pub fn mistakes(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        let mut add = |key, index, message: String, help: &str| {
            found.push(Mistake { key, index, message, help: help.to_owned() })
        };
        if self.domain_id > MAX_DOMAIN_ID {
            add(
                "domain_id",
                None,
                format!("DDS has no domain {}", self.domain_id),
                "use ROS_DOMAIN_ID of the nodes, at most 232",
            );
        }
        if let Some(i) = self.interface.as_ref().filter(|i| !endpoint::is_interface(i)) {
            add(
                "interface",
                None,
                format!("`{i}` cannot be the name of a network interface"),
                "`ip link` lists them",
            );
        }
        if !self.dds && self.zenoh.is_none() {
            add(
                "dds",
                None,
                "neither nodes on DDS nor nodes on rmw_zenoh take part".into(),
                "add `zenoh: {}`, or remove `dds: false`",
            );
        }
        if let Some(zenoh) = &self.zenoh {
            let rules = endpoint::Rules {
                protocols: &["tcp", "udp"],
                form: "write `tcp/192.168.1.10:7447`: tcp or udp, address, port",
                port: 7447,
                instead: "name the address of the network that is meant",
                tls: false,
                insecure: zenoh.insecure,
            };
            for (list, what_for) in [(&zenoh.connect, Use::Connect), (&zenoh.listen, Use::Listen)] {
                if list.len() > MAX_ENDPOINTS {
                    add(
                        "zenoh",
                        None,
                        format!("{} endpoints are too many", list.len()),
                        "at most 64 are possible",
                    );
                }
                for endpoint in list.iter().take(MAX_ENDPOINTS) {
                    if let Some((message, help)) = endpoint::mistake(endpoint, what_for, &rules) {
                        add("zenoh", None, message, &help);
                    }
                }
            }
        }
        if self.topics.len() > MAX_RULES {
            add(
                "topics",
                None,
                format!("{} rules are too many", self.topics.len()),
                "at most 256 are possible; use `*` and `**`",
            );
        }
        if self.types.len() > MAX_TYPES {
            add(
                "types",
                None,
                format!("{} packages are too many", self.types.len()),
                "at most 256 are possible",
            );
        }
        for (i, rule) in self.topics.iter().enumerate().take(MAX_RULES) {
            if let Some((message, help)) = pattern_mistake(&rule.topic) {
                add("topics", Some(i), message, help);
            }
            if rule.max_payload.is_some_and(|b| b.0 > LONGEST_PAYLOAD) {
                add(
                    "topics",
                    Some(i),
                    "a sample of ROS 2 cannot have more than 1 GiB here".into(),
                    "set `max_payload` to the size that the topic needs",
                );
            }
            if rule.qos.depth.is_some_and(|d| d == 0 || d > Qos::MAX_DEPTH) {
                add(
                    "topics",
                    Some(i),
                    "a depth is at least 1 and at most 1024".into(),
                    "set `depth` to the number that late or slow subscriptions need",
                );
            }
            for (key, ms) in
                [("deadline_ms", rule.qos.deadline_ms), ("lease_ms", rule.qos.lease_ms)]
            {
                if ms == Some(0) {
                    add(
                        "topics",
                        Some(i),
                        format!("`{key}` is at least 1"),
                        "leave it out where none is meant",
                    );
                }
            }
            if rule.pins.is_some_and(|p| p == 0 || p > MAX_PINS) {
                add(
                    "topics",
                    Some(i),
                    format!("`pins` is at least 1 and at most {MAX_PINS}"),
                    "leave it out for 8",
                );
            }
            let same = |r: &&Rule| {
                r.topic == rule.topic
                    && (r.direction == rule.direction || r.direction == Direction::Both)
            };
            if self.topics.iter().take(i).any(|r| same(&r)) {
                add(
                    "topics",
                    Some(i),
                    format!("an earlier rule decides about `{}` already", rule.topic),
                    "remove one of the two",
                );
            }
        }
        found.extend(services::mistakes(
            &self.services,
            usize::from(self.dds) + usize::from(self.zenoh.is_some()),
        ));
        found
    }

    /// Returns the configuration with paths relative to the working directory instead of
    /// `directory`, and with the value of `AMENT_PREFIX_PATH` in place of its name under `types`.
    #[must_use]
    pub fn relative_to(self, directory: &Path) -> Self {
        self.resolved(directory, std::env::var_os(AMENT_PREFIX_PATH).as_deref())
    }

    fn resolved(mut self, directory: &Path, prefixes: Option<&OsStr>) -> Self {
        let variable = format!("${AMENT_PREFIX_PATH}");
        for entry in &mut self.types {
            if entry.as_os_str() == variable.as_str() {
                // If it is not set, its name is reported as a missing directory.
                if let Some(prefixes) = prefixes.filter(|prefixes| !prefixes.is_empty()) {
                    *entry = prefixes.into();
                }
                continue;
            }
            let paths: Vec<_> =
                std::env::split_paths(&*entry).map(|path| directory.join(path)).collect();
            // Fails if `directory` has a `:` in it; the entry then stays as it is.
            if let Ok(joined) = std::env::join_paths(paths) {
                *entry = joined.into();
            }
        }
        self
    }
}

/// Topic of Driveline that a ROS 2 gateway knows before it has a publisher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalTopic {
    /// Topic.
    pub topic: TopicName,
    /// Maximum payload of its publishers, in bytes.
    pub max_payload: u64,
    /// Number of samples of one publisher that local subscriptions may hold together. The gateway
    /// does not use it: a rule has its own `pins`.
    #[serde(default = "default_pins")]
    pub pins: u32,
    /// QoS of the topic. The gateway uses its lifespan. It reads each local publisher with the
    /// reliability and durability that the publisher offers, or with less if the rule says so.
    #[serde(default, deserialize_with = "written_qos")]
    pub qos: Qos,
    /// Users with access on this host.
    #[serde(default)]
    pub access: Access,
}

fn default_pins() -> u32 {
    DEFAULT_PINS
}

/// Start configuration of a ROS 2 gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ros2GatewayConfig {
    /// Name of the domain, for texts.
    #[serde(default)]
    pub domain: String,
    /// Directory of the domain.
    pub domain_dir: PathBuf,
    /// Exchanged topics and services, and networks.
    pub ros2: Ros2Spec,
    /// Topics of the graph.
    #[serde(default)]
    pub topics: Vec<LocalTopic>,
}

impl Ros2GatewayConfig {
    /// Returns the start options of the gateway in a run; for the program see
    /// [`find_ros2_gateway`](driveline_runtime::launch::find_ros2_gateway).
    ///
    /// # Errors
    /// The configuration cannot be written as JSON.
    pub fn launched_by(&self, program: PathBuf) -> serde_json::Result<GatewayOptions> {
        Ok(GatewayOptions {
            name: PROCESS,
            program,
            config: serde_json::to_string(self)?,
            environment: self.environment(),
        })
    }

    /// Returns environment variables for Zenoh. There is no TLS here.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, &'static str)> {
        vec![crate::network::ZENOH_THREADS]
    }

    /// Returns the gateway configuration of a graph; `None` if the graph has no rules.
    #[must_use]
    pub fn of_graph(graph: &ResolvedGraph, domain: &str, domain_dir: &Path) -> Option<Self> {
        let ros2 = graph.sections.get::<Ros2Spec>().cloned().filter(Ros2Spec::has_rules)?;
        let topics =
            graph.topics.iter().filter(|(_, t)| t.reach != Reach::Process).map(|(name, t)| {
                LocalTopic {
                    topic: name.clone(),
                    // If no component of the graph uses the topic, only the rule may know its
                    // payload.
                    max_payload: if t.max_payload > 0 {
                        t.max_payload
                    } else {
                        ros2.rule(name, false).map_or(0, Rule::max_payload_bytes)
                    },
                    pins: t.pins,
                    qos: t.qos.clone(),
                    access: t.access.clone(),
                }
            });
        let topics = topics.collect();
        Some(Self { domain: domain.to_owned(), domain_dir: domain_dir.to_owned(), ros2, topics })
    }

    /// Checks that a gateway can start with it. Reads no file: mistakes in definitions are reported
    /// when they are read.
    ///
    /// # Errors
    /// All mistakes.
    pub fn check(&self) -> Result<(), ConfigMistakes> {
        let mut found = ConfigMistakes::default();
        if self.domain.chars().any(char::is_control) {
            found.add(
                "domain",
                &format!("`{}` has control characters", self.domain),
                "leave it out, or write a name of the domain",
            );
        }
        for m in self.ros2.mistakes() {
            let item = m.index.map_or(String::new(), |i| format!("[{i}]"));
            found.add(&format!("ros2.{}{item}", m.key), &m.message, &m.help);
        }
        let numbers = self.topics.iter().map(|t| TopicNumbers {
            topic: &t.topic,
            max_payload: t.max_payload,
            pins: t.pins,
            qos: &t.qos,
        });
        found.topics(numbers, |_, _| {});
        found.into_result()
    }
}

#[cfg(test)]
#[path = "ros2_tests.rs"]
mod tests;
