// SPDX-License-Identifier: Apache-2.0
//! Endpoints of both profiles: those of other nodes, and the gateway's writers.

use super::service::{Role, ServiceChange, ServiceEndpoint};
use crate::dds;
use crate::discovery_info::{Gid, is_gateway, type_hash};
use crate::names::{RosNode, TOPIC_PREFIX, topic_of_dds, topic_of_ros};
use crate::qos::EndpointQos;
use crate::rmw_zenoh::{GATEWAY_ENCLAVE, Kind, Token, gid_of};
use driveline_gateway::ros2::is_token;
use driveline_rosidl::TypeHash;
use driveline_types::{NodeName, Qos, TopicName};
use std::fmt;

/// Way to ROS 2 nodes: DDS or rmw_zenoh. Not a QoS profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Profile {
    Dds,
    Zenoh,
}

impl Profile {
    pub(super) fn other(self) -> Self {
        if self == Self::Dds { Self::Zenoh } else { Self::Dds }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Dds { "DDS" } else { "rmw_zenoh" })
    }
}

/// Number that identifies an endpoint: over DDS the instance handle of CycloneDDS, over Zenoh the
/// endpoint's id (gid).
pub(super) type Handle = u128;

pub(super) fn handle_of(gid: &Gid) -> Handle {
    u128::from_le_bytes(*gid)
}

/// Writer or reader of another node on a ROS 2 topic.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) profile: Profile,
    pub(super) handle: Handle,
    pub(super) gid: Gid,
    pub(super) topic: TopicName,
    /// Name of its type in DDS.
    pub(super) type_name: String,
    /// Over Zenoh, the hash in its keys.
    pub(super) hash: String,
    /// Over Zenoh, the id of its session.
    pub(super) session: String,
    /// Over DDS, the hash of its type that it announces.
    pub(super) announced: Option<TypeHash>,
    pub(super) qos: EndpointQos,
    /// Number of kept samples, if known; `u32::MAX` for all.
    pub(super) depth: Option<u32>,
    /// True if it belongs to a gateway.
    pub(super) gateway: bool,
    /// Its node, if announced.
    pub(super) node: Option<RosNode>,
}

/// Returns a remark on a writer and a reader over DDS if their types have different definitions.
/// The type names are equal, so ROS 2 nodes exchange samples anyway.
pub(super) fn definitions_differ(
    writer: Option<TypeHash>,
    reader: Option<TypeHash>,
) -> Option<String> {
    let (writer, reader) = writer.zip(reader).filter(|(writer, reader)| writer != reader)?;
    Some(format!(
        "TYPE HASH: the writer's is {writer}, the reader's {reader}: their definitions differ. If \
         they differ in more than names, samples are read wrongly or dropped"
    ))
}

/// Change reported by discovery.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Here(Box<Endpoint>),
    /// An endpoint on a ROS 2 topic whose name Driveline does not permit; without its leading `/`.
    Misnamed(String),
    /// The endpoint with this handle is gone.
    Gone(Handle),
}

/// Changes: endpoints of topics (`true`: writer), and servers and clients of services.
pub(super) type Changes = (Vec<(bool, Change)>, Vec<ServiceChange>);

impl Change {
    /// Reads a discovered endpoint; `None` if it is not on a ROS 2 topic.
    pub(super) fn of_dds(found: dds::Found) -> Option<Self> {
        let e = match found {
            dds::Found::Gone(handle) => return Some(Self::Gone(handle.into())),
            dds::Found::Here(endpoint) => endpoint,
        };
        let topic = match topic_of_dds(&e.topic) {
            Some(topic) => topic,
            None => {
                return e
                    .topic
                    .strip_prefix(TOPIC_PREFIX)
                    .map(|topic| Self::Misnamed(topic.to_owned()));
            }
        };
        Some(Self::Here(Box::new(Endpoint {
            profile: Profile::Dds,
            handle: e.handle.into(),
            gid: e.gid,
            topic,
            type_name: e.type_name,
            hash: String::new(),
            session: String::new(),
            announced: type_hash(&e.user_data),
            qos: e.qos,
            depth: e.depth,
            gateway: is_gateway(&e.user_data),
            node: None,
        })))
    }

    /// Reads a declared token; `true` for a publisher. `None` if it is not an endpoint of a topic.
    pub(super) fn of_token(token: Token, text: &str) -> Option<(bool, Self)> {
        let publishes = match token.kind {
            Kind::Publisher => true,
            Kind::Subscription => false,
            Kind::Node | Kind::Service | Kind::Client => return None,
        };
        let endpoint = token.endpoint?;
        let name = endpoint.topic.strip_prefix('/')?;
        let Some(topic) = topic_of_ros(name) else {
            return Some((publishes, Self::Misnamed(name.to_owned())));
        };
        let gid = gid_of(text);
        let here = Endpoint {
            profile: Profile::Zenoh,
            handle: handle_of(&gid),
            gid,
            topic,
            type_name: endpoint.type_name,
            hash: endpoint.hash,
            session: token.session,
            announced: None,
            qos: endpoint.qos.endpoint,
            depth: Some(if endpoint.qos.keep_all { u32::MAX } else { endpoint.qos.depth }),
            gateway: token.enclave == GATEWAY_ENCLAVE,
            node: Some(RosNode::new(token.namespace, token.node)),
        };
        Some((publishes, Self::Here(Box::new(here))))
    }
}

impl ServiceChange {
    /// Reads a declared token; `None` if it is not an end of a service, or not possible in
    /// Driveline.
    pub(super) fn of_token(token: Token, text: &str) -> Option<Self> {
        let role = match token.kind {
            Kind::Service => Role::Server,
            Kind::Client => Role::Client,
            Kind::Node | Kind::Publisher | Kind::Subscription => return None,
        };
        let endpoint = token.endpoint?;
        let service = endpoint
            .topic
            .strip_prefix('/')
            .filter(|t| t.split('/').all(is_token))?
            .parse()
            .ok()?;
        let gid = gid_of(text);
        Some(Self::Here(Box::new(ServiceEndpoint {
            profile: Profile::Zenoh,
            handle: handle_of(&gid),
            gid,
            role,
            service,
            type_name: endpoint.type_name,
            hash: endpoint.hash,
            gateway: token.enclave == GATEWAY_ENCLAVE,
            node: Some(RosNode::new(token.namespace, token.node)),
            unable: None,
        })))
    }
}

/// Writer of the gateway, as described to ROS 2 and in reports.
#[derive(Clone, Debug)]
pub(super) struct Writing {
    /// Its number in this gateway.
    pub(super) number: u64,
    pub(super) profile: Profile,
    pub(super) gid: Gid,
    pub(super) topic: TopicName,
    /// Name of its type in DDS.
    pub(super) type_name: String,
    /// Over Zenoh, the hash in its keys.
    pub(super) hash: String,
    /// Hash of its definition, if that is complete.
    pub(super) type_hash: Option<TypeHash>,
    pub(super) ros_type: String,
    pub(super) converted: bool,
    /// Local publisher; `None` for samples that pass from one profile to the other.
    pub(super) publisher: Option<NodeName>,
    /// Offer of that publisher.
    pub(super) offered: Option<Qos>,
    /// Remark on a publisher that offers less here than the writer does in ROS 2.
    pub(super) weaker: Option<String>,
    /// Its node in the ROS graph.
    pub(super) node: RosNode,
    pub(super) qos: EndpointQos,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_hashes_over_dds_are_compared_if_both_ends_announce_them() {
        let hash = |digit: &str| format!("RIHS01_{}", digit.repeat(64));
        let announces = |user_data: String| {
            let (topic, type_name) = ("rt/chatter".into(), "std_msgs::msg::dds_::String_".into());
            let found = dds::Endpoint {
                handle: 1,
                gid: [1; 16],
                topic,
                type_name,
                qos: EndpointQos::default(),
                depth: None,
                user_data: user_data.into_bytes(),
            };
            match Change::of_dds(dds::Found::Here(found)) {
                Some(Change::Here(endpoint)) => endpoint.announced,
                other => panic!("{other:?}"),
            }
        };
        let (one, two) = (
            announces(format!("typehash={};", hash("1"))),
            announces(format!("typehash={};", hash("2"))),
        );
        assert_eq!(
            (
                announces(String::new()),
                definitions_differ(one, None),
                definitions_differ(None, two)
            ),
            (None, None, None)
        );
        assert_eq!(definitions_differ(one, one), None);
        let said = definitions_differ(one, two).unwrap();
        assert!(
            said.starts_with(&format!(
                "TYPE HASH: the writer's is {}, the reader's {}: ",
                hash("1"),
                hash("2")
            )),
            "{said}"
        );
    }
}
