// SPDX-License-Identifier: Apache-2.0
//! Names of topics and nodes in Driveline, ROS 2 and DDS: section 2 of
//! `docs/protocols/ros2-dds.md`.

use driveline_gateway::ros2::is_token;
use driveline_types::{NodeName, TopicName};
use std::fmt;

/// Prefix of topic names in DDS.
pub(crate) const TOPIC_PREFIX: &str = "rt/";

/// Maximum length of a topic name in Driveline, in bytes.
const MAX_NAME_LEN: usize = 200;

/// Node in ROS 2. Names of remote nodes are not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RosNode {
    /// Namespace, with its leading `/`.
    pub namespace: String,
    /// Name within its namespace.
    pub name: String,
}

impl RosNode {
    /// Creates a node of this namespace and name, without a check.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Returns the gateway's own node, which has all endpoints without a node.
    #[must_use]
    pub fn gateway() -> Self {
        Self::new("/", "driveline")
    }
}

/// Writes the name as ROS 2 does, such as `/front/camera`.
impl fmt::Display for RosNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace.trim_end_matches('/'), self.name)
    }
}

/// Returns the DDS topic of a topic; `None` if ROS 2 does not permit its name.
#[must_use]
pub fn dds_topic(topic: &TopicName) -> Option<String> {
    topic.as_str().split('/').all(is_token).then(|| format!("{TOPIC_PREFIX}{topic}"))
}

/// Returns the topic of a DDS topic; `None` if it is not a ROS 2 topic, but a service or a topic of
/// another program, or if its name is too long for Driveline.
#[must_use]
pub fn topic_of_dds(name: &str) -> Option<TopicName> {
    topic_of_ros(name.strip_prefix(TOPIC_PREFIX)?)
}

/// Returns the topic for a ROS 2 name without its leading `/`; `None` if [`misnamed`] has a reason.
#[must_use]
pub fn topic_of_ros(name: &str) -> Option<TopicName> {
    name.split('/').all(is_token).then(|| name.parse().ok()).flatten()
}

/// Returns the reason, with the remedy, why a ROS 2 topic has no name in Driveline; `None` if it
/// has one. `topic` has no leading `/`.
#[must_use]
pub fn misnamed(topic: &str) -> Option<String> {
    if !topic.split('/').all(is_token) {
        return Some(
            "ROS 2 does not permit its name (parts of letters, digits and `_`, not beginning with \
             a digit): rename it there"
                .into(),
        );
    }
    topic.parse::<TopicName>().err().map(|_| {
        format!(
            "its name has {} bytes, and at most {MAX_NAME_LEN} can be here: rename it there",
            topic.len()
        )
    })
}

/// Returns the ROS 2 name of a Driveline node. Characters that ROS 2 does not permit become `_`.
#[must_use]
pub fn ros_node(node: &NodeName) -> RosNode {
    let mut tokens: Vec<_> = node.as_str().split('/').map(token).collect();
    let name = tokens.pop().unwrap_or_default();
    RosNode { namespace: format!("/{}", tokens.join("/")), name }
}

fn token(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 1);
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        out.push('_');
    }
    for c in text.chars() {
        let c = if c.is_ascii_alphanumeric() { c } else { '_' };
        if c != '_' || !out.ends_with('_') {
            out.push(c);
        }
    }
    out
}

/// Returns the name under which nodes of the other profile (DDS or Zenoh) see a ROS 2 node. If the
/// name is unknown or invalid, a name made of the first 12 bytes of the endpoint's id replaces it.
#[must_use]
pub fn ros_name_of(node: Option<&RosNode>, gid: &[u8; 16]) -> RosNode {
    let permitted = |namespace: &str| {
        namespace == "/" || namespace.strip_prefix('/').is_some_and(|n| n.split('/').all(is_token))
    };
    let of_gid = || {
        RosNode::new(
            "/",
            gid.iter().take(12).fold("node_".to_owned(), |text, byte| format!("{text}{byte:02x}")),
        )
    };
    node.filter(|node| permitted(&node.namespace) && is_token(&node.name))
        .cloned()
        .unwrap_or_else(of_gid)
}

/// Returns the node name of a remote publisher: the writer's node, or the first 12 bytes of the
/// writer's id if the node is unknown or Driveline does not permit its name. `fallback`: used if it
/// permits neither.
#[must_use]
pub fn inlet_node(node: Option<&RosNode>, gid: &[u8; 16], fallback: &NodeName) -> NodeName {
    let named = node.and_then(|RosNode { namespace, name }| {
        let namespace = namespace.trim_matches('/');
        let full = if namespace.is_empty() {
            format!("ros2/{name}")
        } else {
            format!("ros2/{namespace}/{name}")
        };
        full.parse().ok()
    });
    let of_gid = || {
        gid.iter()
            .take(12)
            .fold("ros2/".to_owned(), |text, byte| format!("{text}{byte:02x}"))
            .parse()
            .ok()
    };
    named.or_else(of_gid).unwrap_or_else(|| fallback.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn topics_are_mangled_as_ros_2_does() {
        for (topic, dds) in [
            ("a/b", Some("rt/a/b")),
            ("tf_static", Some("rt/tf_static")),
            ("a-b", None),
            ("a/1b", None),
            ("a__b", Some("rt/a__b")),
        ] {
            assert_eq!(dds_topic(&topic.parse().unwrap()).as_deref(), dds);
        }
        for other in [
            "ros_discovery_info",
            "rq/add/_Request",
            "rq/addRequest",
            "rr/addReply",
            "rt/",
            "rt//a",
            "rt/a-b",
            "a",
            "rt/a b",
            "rt/ä",
        ] {
            assert_eq!(topic_of_dds(other), None, "{other}");
        }
    }

    #[test]
    fn the_reason_for_an_impossible_name_is_reported_with_the_remedy() {
        assert_eq!(["a/b", "a__b/_c", &"a".repeat(MAX_NAME_LEN)].map(misnamed), [None, None, None]);
        for (odd, says) in [
            ("a-b", "ROS 2 does not permit"),
            ("a//b", "ROS 2 does not permit"),
            (&"a".repeat(201), "200"),
        ] {
            let reported = misnamed(odd).unwrap();
            assert!(reported.contains(says) && reported.ends_with("rename it there"), "{reported}");
        }
    }

    #[test]
    fn nodes_get_a_namespace_and_characters_that_ros_2_permits() {
        let of = |name: &str| ros_node(&name.parse().unwrap());
        assert_eq!(of("camera"), RosNode::new("/", "camera"));
        assert_eq!(of("front/left/camera-1"), RosNode::new("/front/left", "camera_1"));
        assert_eq!(of("2d/9-_x"), RosNode::new("/_2d", "_9_x"));
        assert_eq!(
            (of("camera").to_string(), of("front/left/camera").to_string()),
            ("/camera".into(), "/front/left/camera".into())
        );
    }

    #[test]
    fn remote_publishers_are_named_after_their_node_or_their_id() {
        let (gid, fallback) = ([0xa1; 16], "gateway".parse().unwrap());
        assert_eq!(
            inlet_node(Some(&RosNode::new("/", "talker")), &gid, &fallback).as_str(),
            "ros2/talker"
        );
        assert_eq!(
            inlet_node(Some(&RosNode::new("/front/left", "camera")), &gid, &fallback).as_str(),
            "ros2/front/left/camera"
        );
        let unnamed = "ros2/a1a1a1a1a1a1a1a1a1a1a1a1";
        for odd in
            [None, Some(("/", "")), Some(("/", "a b")), Some(("//", "/")), Some(("/x", "\u{e4}"))]
        {
            let node = odd.map(|(namespace, name)| RosNode::new(namespace, name));
            assert_eq!(inlet_node(node.as_ref(), &gid, &fallback).as_str(), unnamed, "{odd:?}");
        }
    }

    #[test]
    fn nodes_keep_valid_names_in_the_other_profile() {
        let gid = [0xa1; 16];
        for good in [RosNode::new("/", "talker"), RosNode::new("/front/left", "_ros2cli_712")] {
            assert_eq!(ros_name_of(Some(&good), &gid), good);
        }
        for odd in [
            None,
            Some(("/", "")),
            Some(("", "a")),
            Some(("/a b", "c")),
            Some(("/", "*")),
            Some(("/x", "a/b")),
        ] {
            let node = odd.map(|(namespace, name)| RosNode::new(namespace, name));
            assert_eq!(
                ros_name_of(node.as_ref(), &gid),
                RosNode::new("/", "node_a1a1a1a1a1a1a1a1a1a1a1a1"),
                "{odd:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn mangling_is_undone_and_nodes_are_always_valid(
            topic in "[a-z_][a-z0-9_]{0,4}(/[a-z_][a-z0-9]{0,3}){0,3}",
            node in "[a-z0-9_-]{1,6}(/[a-z0-9_-]{1,4}){0,3}",
            any in "\\PC{0,20}",
        ) {
            let topic: TopicName = topic.parse().unwrap();
            if let Some(dds) = dds_topic(&topic) {
                prop_assert_eq!(topic_of_dds(&dds), Some(topic));
            }
            if let Some(topic) = topic_of_dds(&any) {
                prop_assert_eq!(dds_topic(&topic), Some(any));
            }
            let RosNode { namespace, name } = ros_node(&node.parse().unwrap());
            prop_assert!(
                is_token(&name) && (namespace == "/" || namespace.split('/').skip(1).all(is_token)),
                "{} {}",
                namespace,
                name
            );
        }
    }
}
