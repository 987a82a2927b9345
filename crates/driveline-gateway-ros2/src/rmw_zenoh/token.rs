// SPDX-License-Identifier: Apache-2.0
//! Liveliness tokens, by which endpoints are discovered and from which their ids are computed.

use super::qos::TokenQos;
use crate::discovery_info::Gid;
use driveline_gateway::ros2::Release;
use driveline_rosidl::TypeHash;
use std::fmt::{self, Display};
use std::str::FromStr;
use thiserror::Error;
use twox_hash::XxHash3_128;

/// Prefix of all tokens.
const SPACE: &str = "@ros2_lv";
/// Text in place of a type hash in Humble.
pub const NO_HASH: &str = "TypeHashNotSupported";
/// Enclave that marks an endpoint as one of a gateway.
pub const GATEWAY_ENCLAVE: &str = "/driveline_gateway";
/// Maximum length of a token and of one of its fields, in bytes.
const MAX_TOKEN: usize = 2048;
const MAX_FIELD: usize = 256;
/// Maximum number of digits of a session's id.
const MAX_ZID: usize = 32;

/// Kind of entity that a token announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Node,
    Publisher,
    Subscription,
    Service,
    Client,
}

const KINDS: [(Kind, &str); 5] = [
    (Kind::Node, "NN"),
    (Kind::Publisher, "MP"),
    (Kind::Subscription, "MS"),
    (Kind::Service, "SS"),
    (Kind::Client, "SC"),
];

/// Liveliness token of a node or an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// `ROS_DOMAIN_ID`.
    pub domain: u32,
    /// The session's Zenoh id, in hexadecimal.
    pub session: String,
    /// Number of the node in its session.
    pub node_id: u64,
    /// Number of the endpoint; for a node, the same as `node_id`.
    pub id: u64,
    /// Kind of entity.
    pub kind: Kind,
    /// Enclave, with its leading `/`.
    pub enclave: String,
    /// The node's namespace, with its leading `/`.
    pub namespace: String,
    /// Name of the node.
    pub node: String,
    /// Endpoint; `None` for nodes.
    pub endpoint: Option<TokenEndpoint>,
}

/// Topic, type and QoS of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenEndpoint {
    /// Topic, with its leading `/`.
    pub topic: String,
    /// Name of its type in DDS.
    pub type_name: String,
    /// Hash of the type in the form that keys have.
    pub hash: String,
    /// QoS.
    pub qos: TokenQos,
}

/// Text that is not a token of rmw_zenoh.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("it is not a token of rmw_zenoh: {0}")]
pub struct TokenError(&'static str);

/// Returns the id of the endpoint with this token.
#[must_use]
pub fn gid_of(token: &str) -> Gid {
    XxHash3_128::oneshot(token.as_bytes()).to_le_bytes()
}

/// Returns a type's hash in the form of the keys of a ROS 2 release; `None` if the release needs a
/// hash and it is unknown.
#[must_use]
pub fn key_hash(hash: Option<TypeHash>, release: Release) -> Option<String> {
    if release == Release::Humble { Some(NO_HASH.to_owned()) } else { hash.map(|h| h.to_string()) }
}

/// Returns the key of samples of a topic. `topic` has no leading `/`.
#[must_use]
pub fn topic_key(domain: u32, topic: &str, type_name: &str, hash: &str) -> String {
    format!("{domain}/{topic}/{type_name}/{hash}")
}

fn mangled(name: &str) -> String {
    name.replace('/', "%")
}

impl Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, session, node_id, id, kind, enclave, namespace, node, endpoint } = self;
        let kind = KINDS.iter().find(|(k, _)| k == kind).map_or("", |(_, text)| text);
        write!(
            f,
            "{SPACE}/{domain}/{session}/{node_id}/{id}/{kind}/{}/{}/{}",
            mangled(enclave),
            mangled(namespace),
            mangled(node)
        )?;
        match endpoint {
            Some(e) => write!(
                f,
                "/{}/{}/{}/{}",
                mangled(&e.topic),
                mangled(&e.type_name),
                mangled(&e.hash),
                e.qos
            ),
            None => Ok(()),
        }
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        if text.len() > MAX_TOKEN {
            return Err(TokenError("it is longer than 2048 bytes"));
        }
        let mut fields = text.split('/');
        let mut field = |missing: &'static str| {
            fields.next().filter(|f| (1..=MAX_FIELD).contains(&f.len())).ok_or(TokenError(missing))
        };
        if field("no space")? != SPACE {
            return Err(TokenError("it does not begin with @ros2_lv"));
        }
        let number =
            |text: &str, wrong: &'static str| text.parse::<u64>().map_err(|_| TokenError(wrong));
        let domain = number(field("no domain")?, "its domain is not a number")?;
        let domain = u32::try_from(domain).map_err(|_| TokenError("its domain is not a number"))?;
        let session = field("no session")?;
        if session.len() > MAX_ZID || !session.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(TokenError("its session is not a Zenoh id"));
        }
        let (node_id, id) = (
            number(field("no node id")?, "its node id is not a number")?,
            number(field("no id")?, "its id is not a number")?,
        );
        let kind = field("no kind")?;
        let kind = KINDS
            .iter()
            .find(|(_, text)| *text == kind)
            .ok_or(TokenError("its kind is not NN, MP, MS, SS or SC"))?
            .0;
        let named = |field: &str| field.replace('%', "/");
        let (enclave, namespace, node) =
            (named(field("no enclave")?), named(field("no namespace")?), named(field("no name")?));
        let endpoint = match kind {
            Kind::Node => None,
            _ => Some(TokenEndpoint {
                topic: named(field("no topic")?),
                type_name: named(field("no type")?),
                hash: field("no type hash")?.to_owned(),
                qos: TokenQos::parse(field("no QoS")?)
                    .ok_or(TokenError("its QoS cannot be read"))?,
            }),
        };
        // Newer releases append fields. They count for the id, and are not used otherwise.
        Ok(Self {
            domain,
            session: session.to_owned(),
            node_id,
            id,
            kind,
            enclave,
            namespace,
            node,
            endpoint,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::attachment::{Attachment, tests};
    use super::super::qos::tests::any_qos;
    use super::*;
    use crate::qos::DurabilityKind;
    use proptest::prelude::*;

    /// Captured from `ros2 topic pub` on rmw_zenoh, Humble.
    const CAPTURED: &str = "@ros2_lv/0/9ca0f8facf84ffb1e6bfa4f2500889f0/0/3/MP/%/%/_ros2cli_712/\
                            %chatter/std_msgs::msg::dds_::String_/TypeHashNotSupported/\
                            :1:,1:,:,:,,";

    #[test]
    fn the_captured_text_round_trips() {
        let token: Token = CAPTURED.parse().unwrap();
        assert_eq!((token.domain, token.node_id, token.id, token.kind), (0, 0, 3, Kind::Publisher));
        assert_eq!(
            (token.enclave.as_str(), token.namespace.as_str(), token.node.as_str()),
            ("/", "/", "_ros2cli_712")
        );
        let endpoint = token.endpoint.as_ref().unwrap();
        assert_eq!((endpoint.topic.as_str(), endpoint.hash.as_str()), ("/chatter", NO_HASH));
        assert_eq!(
            (endpoint.qos.depth, endpoint.qos.endpoint.durability),
            (1, DurabilityKind::TransientLocal)
        );
        assert_eq!(token.to_string(), CAPTURED);
        assert_eq!(
            topic_key(0, "chatter", &endpoint.type_name, &endpoint.hash),
            "0/chatter/std_msgs::msg::dds_::String_/TypeHashNotSupported"
        );
        let newer: Token = format!("{CAPTURED}/cpu:x").parse().unwrap();
        assert_eq!(newer, token);
    }

    #[test]
    fn an_id_is_the_hash_of_the_text() {
        // The gid of the empty text is the XXH3-128 hash that the reference implementation gives
        // for an empty input, low 64 bits first. The captured sample was sent by the publisher of
        // the captured token.
        assert_eq!(Attachment::decode(&tests::CAPTURED).unwrap().gid, gid_of(CAPTURED));
        assert_eq!(gid_of(""), 0x99aa_06d3_0147_98d8_6001_c324_468d_497f_u128.to_le_bytes());
        assert_ne!(gid_of(CAPTURED), gid_of(&format!("{CAPTURED}/cpu:x")));
    }

    #[test]
    fn malformed_bytes_are_refused() {
        let with = |from: &str, to: &str| CAPTURED.replacen(from, to, 1).parse::<Token>();
        for (from, to) in [
            ("@ros2_lv", "@ros2"),
            ("/0/9ca", "/x/9ca"),
            ("/0/9ca", "/4294967296/9ca"),
            ("9ca0", "9cz0"),
            ("9ca0", "9ca00"),
            ("/0/3/", "/-1/3/"),
            ("/0/3/", "/0/18446744073709551616/"),
            ("MP", "XX"),
            ("/%/%/", "//%/"),
            ("_ros2cli_712", &"n".repeat(257)),
            ("/:1:,1:,:,:,,", ""),
            ("/:1:,1:,:,:,,", "/:1:"),
        ] {
            assert!(with(from, to).is_err(), "{from} → {to}");
        }
        assert!(format!("{CAPTURED}/{}", "x".repeat(2048)).parse::<Token>().is_err());
    }

    fn endpoint() -> impl Strategy<Value = TokenEndpoint> {
        ("(/[a-z0-9_]{1,5}){1,3}", "[a-z_:]{1,9}", "[A-Za-z0-9_]{1,20}", any_qos())
            .prop_map(|(topic, type_name, hash, qos)| TokenEndpoint { topic, type_name, hash, qos })
    }

    proptest! {
        #[test]
        fn tokens_round_trip_and_other_text_does_no_harm(
            (domain, node_id, id) in any::<(u32, u64, u64)>(),
            session in "[0-9a-f]{1,32}",
            enclave in "(/[a-z_]{1,5}){1,2}|/",
            namespace in "(/[a-z_]{1,5}){1,3}|/",
            node in "[a-z_0-9]{1,9}",
            endpoint in endpoint(),
            kind in 0usize..5,
            noise in "\\PC{0,60}",
            cut in any::<prop::sample::Index>(),
        ) {
            let kind = KINDS[kind].0;
            let token = Token {
                domain,
                session,
                node_id,
                id,
                kind,
                enclave,
                namespace,
                node,
                endpoint: Some(endpoint).filter(|_| kind != Kind::Node),
            };
            let text = token.to_string();
            prop_assert_eq!(text.parse(), Ok(token));
            let _ = text[..cut.index(text.len())].parse::<Token>();
            let _ = noise.parse::<Token>();
        }
    }
}
