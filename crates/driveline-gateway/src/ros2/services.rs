// SPDX-License-Identifier: Apache-2.0
//! Rules for services, under `ros2: services:`. Keys: `docs/ros2.md`; meaning: section 1 of
//! `docs/protocols/ros2-services.md`.

use super::{MAX_PATTERN_LEN, Mistake, is_token};
use driveline_graph::ByteSize;
use driveline_types::ServiceName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Maximum number of services of a gateway, each of which has a thread.
pub const MAX_SERVICES: usize = 64;
/// Maximum number of calls in flight of a service: as many as one Driveline client may have.
pub const MAX_PENDING: u32 = 64;
const MIN_TIMEOUT_MS: u32 = 100;
const MAX_TIMEOUT_MS: u32 = 600_000;
/// Minimum payload: the 4 bytes of the CDR header (encapsulation).
const SHORTEST_PAYLOAD: u64 = 4;
/// More memory than this causes a remark.
const MUCH_MEMORY: u64 = 1 << 30;
/// Maximum payload, as for topics.
const LONGEST_PAYLOAD: u64 = 1 << 30;

/// A service that passes between Driveline and ROS 2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceRule {
    /// Full name in ROS 2, such as `/map/tile`; here it is called `map/tile`.
    pub service: String,
    /// Type in ROS 2, such as `nav_msgs/srv/GetMap`; the directory of its package must be
    /// listed under `types`.
    #[serde(rename = "type")]
    pub ros_type: String,
    /// Side of the server.
    pub server: ServedBy,
    /// Longest request: bytes, or text such as `8 MiB`. Default 64 KiB.
    #[serde(default = "default_max_request")]
    pub max_request: ByteSize,
    /// Longest response. Default 256 KiB. With `server: driveline`, the server reserves memory for
    /// `max(pending, 2) + 2 · pending + 4` responses of the `max_response` in its own options.
    #[serde(default = "default_max_response")]
    pub max_response: ByteSize,
    /// Maximum number of calls in flight, of all clients on the other side together. Default 4.
    #[serde(default = "default_pending")]
    #[schemars(range(min = 1, max = MAX_PENDING))]
    pub pending: u32,
    /// Time-out of a call, in milliseconds. Default 10 s.
    #[serde(default = "default_timeout_ms")]
    #[schemars(range(min = MIN_TIMEOUT_MS, max = MAX_TIMEOUT_MS))]
    pub timeout_ms: u32,
    /// Of a server in ROS 2: nodes of the other profile can call it, too. Default: no.
    #[serde(default)]
    pub across: bool,
}

/// Side of a service's server. Its clients are on the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServedBy {
    /// A Driveline server, for ROS 2 clients.
    Driveline,
    /// A ROS 2 server, for Driveline's clients.
    Ros,
}

fn default_max_request() -> ByteSize {
    ByteSize(64 << 10)
}

fn default_max_response() -> ByteSize {
    ByteSize(256 << 10)
}

fn default_pending() -> u32 {
    4
}

fn default_timeout_ms() -> u32 {
    10_000
}

/// Splits `package/srv/Name` into package and name.
fn type_parts(ros_type: &str) -> Option<(&str, &str)> {
    let (package, name) = ros_type.split_once("/srv/")?;
    let is_token = |text: &str| is_token(text) && !text.contains("__");
    (is_token(package) && is_token(name) && name.starts_with(|c: char| c.is_ascii_uppercase()))
        .then_some((package, name))
}

/// Suggests the intended type for `package/Name`, `package/msg/Name` or `package/srv/name`.
fn meant(ros_type: &str) -> Option<String> {
    let (package, name) = (ros_type.split_once('/')?.0, ros_type.rsplit_once('/')?.1);
    if ["msg", "srv", "action"].contains(&package) {
        return None;
    }
    let mut letters = name.chars();
    let text =
        format!("{package}/srv/{}{}", letters.next()?.to_ascii_uppercase(), letters.as_str());
    (ros_type.split('/').count() <= 3 && type_parts(&text).is_some()).then_some(text)
}

impl ServiceRule {
    /// Creates a rule without options.
    #[must_use]
    pub fn new(service: impl Into<String>, ros_type: impl Into<String>, server: ServedBy) -> Self {
        Self {
            service: service.into(),
            ros_type: ros_type.into(),
            server,
            max_request: default_max_request(),
            max_response: default_max_response(),
            pending: default_pending(),
            timeout_ms: default_timeout_ms(),
            across: false,
        }
    }

    /// Returns the service's name in Driveline; `None` if it is not valid there.
    #[must_use]
    pub fn name(&self) -> Option<ServiceName> {
        let relative = self.service.strip_prefix('/').filter(|s| s.split('/').all(is_token))?;
        relative.parse().ok()
    }

    /// Returns the time-out of a call.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.into())
    }

    /// Returns the bytes that a Driveline server with this `max_response`, and access for its own
    /// user only, reserves for the responses of one client with `pending` calls in flight.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let pending = u64::from(self.pending);
        self.max_response.0.saturating_mul(pending.max(2) + 2 * pending + 4)
    }

    /// Returns a remark, with the remedy, if the service reserves much memory.
    #[must_use]
    pub fn memory_remark(&self) -> Option<(String, &'static str)> {
        let bytes = self.memory_bytes();
        if bytes <= MUCH_MEMORY {
            return None;
        }
        let gib = bytes as f64 / f64::from(1 << 30);
        let whose = match self.server {
            ServedBy::Driveline => {
                "the server reserves for the gateway, if its responses can be that long"
            }
            ServedBy::Ros => "the gateway reserves for each Driveline client (at most 8)",
        };
        let message = format!(
            "`max_response` and `pending` amount to {gib:.1} GiB of shared memory that {whose}"
        );
        Some((
            message,
            "lower `max_response` to the size of the longest response, or `pending`; it holds \
             `max(pending, 2) + 2 · pending + 4` responses",
        ))
    }

    /// Returns mistakes, with remedies.
    fn mistakes(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut add = |message: String, help: &str| found.push((message, help.to_owned()));
        let shown = |text: &str| text.chars().take(MAX_PATTERN_LEN).collect::<String>();
        if self.name().is_none() {
            let message = format!(
                "`{}` cannot be the name of a service in ROS 2 and here",
                shown(&self.service)
            );
            let help = "write its full name, such as `/map/tile`: between two `/` there are \
                 letters, digits and `_`, not beginning with a digit; \
                        there are no patterns, and at most 165 bytes";
            add(message, help);
        }
        if type_parts(&self.ros_type).is_none() {
            let help = match meant(&self.ros_type) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "write it as package/srv/Name, such as `nav_msgs/srv/GetMap`".to_owned(),
            };
            add(format!("`{}` is no type of a service in ROS 2", shown(&self.ros_type)), &help);
        }
        for (key, bytes) in
            [("max_request", self.max_request.0), ("max_response", self.max_response.0)]
        {
            if !(SHORTEST_PAYLOAD..=LONGEST_PAYLOAD).contains(&bytes) {
                add(
                    format!("`{key}` is at least 4 bytes and at most 1 GiB"),
                    "set it to the size of the longest one, with the 4 bytes that CDR begins with",
                );
            }
        }
        if !(1..=MAX_PENDING).contains(&self.pending) {
            add("`pending` is at least 1 and at most 64".into(), "leave it out for 4");
        }
        if !(MIN_TIMEOUT_MS..=MAX_TIMEOUT_MS).contains(&self.timeout_ms) {
            add("`timeout_ms` is at least 100 and at most 600000".into(), "leave it out for 10 s");
        }
        if self.across && self.server == ServedBy::Driveline {
            add(
                "`across` is for servers in ROS 2".into(),
                "remove it: nodes of both profiles can call a Driveline server anyway",
            );
        }
        found
    }
}

/// Returns all mistakes. `profiles`: number of profiles by which ROS 2 nodes are reached.
pub(super) fn mistakes(services: &[ServiceRule], profiles: usize) -> Vec<Mistake> {
    let mut found = Vec::new();
    let mut add = |index, message, help: &str| {
        found.push(Mistake { key: "services", index, message, help: help.to_owned() })
    };
    if services.len() > MAX_SERVICES {
        add(None, format!("{} services are too many", services.len()), "at most 64 are possible");
    }
    for (i, rule) in services.iter().enumerate().take(MAX_SERVICES) {
        for (message, help) in rule.mistakes() {
            add(Some(i), message, &help);
        }
        if rule.across && rule.server == ServedBy::Ros && profiles < 2 {
            let help = "remove it, or have both take part: `zenoh: {}`, and no `dds: false`";
            add(Some(i), "`across` needs nodes on DDS and nodes on rmw_zenoh".into(), help);
        }
        if services.iter().take(i).any(|r| r.service == rule.service) {
            let help = "remove one of the two: a service is served on one side";
            add(Some(i), format!("an earlier rule decides about `{}` already", rule.service), help);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(json: &str) -> ServiceRule {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_rule_has_a_name_here_and_bounds() {
        let r = rule(
            r#"{"service": "/map/tile", "type": "map_msgs/srv/GetTile", "server": "driveline",
                "max_response": "4 MiB"}"#,
        );
        assert_eq!(r.name().unwrap().as_str(), "map/tile");
        assert_eq!(
            (r.max_request.0, r.max_response.0, r.pending, r.timeout()),
            (64 << 10, 4 << 20, 4, Duration::from_secs(10))
        );
        assert_eq!(mistakes(std::slice::from_ref(&r), 1), []);
        assert_eq!(
            serde_json::from_str::<ServiceRule>(&serde_json::to_string(&r).unwrap()).unwrap(),
            r
        );
        assert!(
            serde_json::from_str::<ServiceRule>(r#"{"service": "/a", "type": "a/srv/B"}"#).is_err(),
            "a rule names the side of the server"
        );
    }

    #[test]
    fn much_memory_causes_a_remark() {
        let of = |server: &str, bounds: &str| {
            rule(&format!(
                r#"{{"service": "/a", "type": "a/srv/B", "server": "{server}", {bounds}}}"#
            ))
            .memory_remark()
            .map(|(text, _)| text)
        };
        assert_eq!(of("ros", r#""max_response": "64 MiB""#), None, "16 of them are 1 GiB");
        let reported = of("ros", r#""max_response": "65 MiB""#).unwrap();
        assert!(
            reported.contains("1.0 GiB") && reported.contains("each Driveline client"),
            "{reported}"
        );
        let reported = of("driveline", r#""max_response": "1 GiB", "pending": 64"#).unwrap();
        assert!(
            reported.contains("196.0 GiB") && reported.contains("for the gateway"),
            "{reported}"
        );
    }

    #[test]
    fn each_mistake_is_reported_with_a_remedy() {
        let good = r#""service": "/map/tile", "type": "map_msgs/srv/GetTile", "server": "ros""#;
        let with = |more: &str| format!("{{{good}, {more}}}");
        let named = |service: &str, of: &str| {
            format!(r#"{{"service": "{service}", "type": "{of}", "server": "ros"}}"#)
        };
        for (bad, says) in [
            (named("map/tile", "a/srv/B"), "full name"),
            (named("/map/*", "a/srv/B"), "no patterns"),
            (named("/map-1", "a/srv/B"), "digits and `_`"),
            (named("/", "a/srv/B"), "full name"),
            (named(&format!("/{}", "a".repeat(166)), "a/srv/B"), "165 bytes"),
            (named("/map", "a/msg/B"), "did you mean `a/srv/B`?"),
            (named("/map", "a/B"), "did you mean `a/srv/B`?"),
            (named("/map", "a/srv/b"), "did you mean `a/srv/B`?"),
            (named("/map", "a/srv/b/c"), "package/srv/Name"),
            (named("/map", "B"), "package/srv/Name"),
            (named("/map", "srv/B"), "package/srv/Name"),
            (with(r#""max_request": 3"#), "at least 4 bytes"),
            (with(r#""max_response": "2 GiB""#), "at most 1 GiB"),
            (with(r#""pending": 0"#), "at least 1"),
            (with(r#""pending": 65"#), "at most 64"),
            (with(r#""timeout_ms": 99"#), "at least 100"),
            (with(r#""timeout_ms": 600001"#), "at most 600000"),
            (with(r#""across": true"#), "`zenoh: {}`"),
            (
                with(r#""across": true"#).replace(r#""ros""#, r#""driveline""#),
                "for servers in ROS 2",
            ),
        ] {
            let found = mistakes(&[rule(&bad)], 1);
            let [m] = found.as_slice() else { panic!("{bad}: {found:?}") };
            assert_eq!((m.key, m.index), ("services", Some(0)), "{bad}");
            assert!(format!("{} ({})", m.message, m.help).contains(says), "{bad}: {m:?}");
        }
        assert_eq!(mistakes(&[rule(&with(r#""across": true"#))], 2), []);
        let twice = [rule(&with(r#""pending": 2"#)), rule(&with(r#""pending": 3"#))];
        assert!(matches!(mistakes(&twice, 1).as_slice(), [Mistake { index: Some(1), message, .. }]
                if message.contains("earlier rule")));
        let many: Vec<_> = (0..65).map(|i| rule(&named(&format!("/s{i}"), "a/srv/B"))).collect();
        assert!(matches!(mistakes(&many, 1).as_slice(), [Mistake { index: None, message, .. }]
                if message.contains("65")));
    }
}
