// SPDX-License-Identifier: Apache-2.0
//! Announcements of participants: USER_DATA and `ros_discovery_info`. See sections 5 and 6 of
//! `docs/protocols/ros2-dds.md`.

use driveline_gateway::ros2::Release;
use driveline_rosidl::TypeHash;
use driveline_rosidl::cdr::{ByteOrder, CdrError, Decoder, Encoder};

/// Topic on which participants announce the nodes of their endpoints.
pub const GRAPH_TOPIC: &str = "ros_discovery_info";
/// Type of the topic.
pub const GRAPH_TYPE: &str = "rmw_dds_common::msg::dds_::ParticipantEntitiesInfo_";
/// USER_DATA of a participant.
pub const PARTICIPANT_USER_DATA: &str = "enclave=/;";

/// Key in the USER_DATA of each endpoint of a gateway.
const MARK: &str = "driveline";
const TYPE_HASH: &str = "typehash";
const SESSION: &str = "zenoh";
/// Maximum number of digits of a Zenoh id.
const MAX_SESSION: usize = 32;
/// Maximum length of USER_DATA that is read, in bytes.
const MAX_USER_DATA: usize = 1024;
const MAX_NODES: u32 = 256;
const MAX_GIDS: u32 = 1024;
const MAX_NAME: usize = 256;

/// Returns the USER_DATA of an endpoint of this gateway.
#[must_use]
pub fn endpoint_user_data(hash: Option<TypeHash>, release: Release) -> String {
    match hash.filter(|_| release != Release::Humble) {
        Some(hash) => format!("{TYPE_HASH}={hash};{MARK}=1;"),
        None => format!("{MARK}=1;"),
    }
}

/// Returns the USER_DATA of a gateway's writer of [`GRAPH_TOPIC`]. Each participant of a gateway
/// has one such writer. `session`: the gateway's Zenoh id in hexadecimal, if it uses Zenoh as well.
#[must_use]
pub fn graph_user_data(session: Option<&str>) -> String {
    session.map_or_else(|| format!("{MARK}=1;"), |id| format!("{MARK}=1;{SESSION}={id};"))
}

/// Returns the Zenoh id of the gateway with this USER_DATA.
#[must_use]
pub fn session_of(user_data: &[u8]) -> Option<&str> {
    let is_id = |id: &&str| {
        (1..=MAX_SESSION).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_hexdigit())
    };
    value(user_data, SESSION).filter(|_| is_gateway(user_data)).filter(is_id)
}

/// Returns the value of a key in USER_DATA.
pub(crate) fn value<'a>(user_data: &'a [u8], key: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(user_data.get(..user_data.len().min(MAX_USER_DATA))?).ok()?;
    text.split(';').find_map(|pair| pair.split_once('=').filter(|(k, _)| *k == key).map(|(_, v)| v))
}

/// Returns true for the USER_DATA of a gateway's endpoint.
#[must_use]
pub fn is_gateway(user_data: &[u8]) -> bool {
    value(user_data, MARK).is_some()
}

/// Returns the type hash that an endpoint announces.
#[must_use]
pub fn type_hash(user_data: &[u8]) -> Option<TypeHash> {
    value(user_data, TYPE_HASH)?.parse().ok()
}

/// Id of an endpoint or a participant.
pub type Gid = [u8; 16];

/// Node of a participant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeEndpoints {
    /// Namespace, with its leading `/`.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Ids of its readers.
    pub readers: Vec<Gid>,
    /// Ids of its writers.
    pub writers: Vec<Gid>,
}

/// Announcement of a participant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParticipantInfo {
    /// Id of the participant.
    pub gid: Gid,
    /// Its nodes.
    pub nodes: Vec<NodeEndpoints>,
}

fn gid_len(release: Release) -> usize {
    if release == Release::Humble { 24 } else { 16 }
}

impl ParticipantInfo {
    /// Encodes a sample of [`GRAPH_TYPE`].
    ///
    /// # Errors
    /// A name or a list is longer than 32 bits can express.
    pub fn encode(&self, release: Release) -> Result<Vec<u8>, CdrError> {
        let mut to = Encoder::new(ByteOrder::Little);
        let tail = &[0; 8][..gid_len(release) - 16];
        let gid = |to: &mut Encoder, gid: &Gid| {
            to.bytes(gid);
            to.bytes(tail);
        };
        gid(&mut to, &self.gid);
        to.length(self.nodes.len())?;
        for node in &self.nodes {
            to.string(node.namespace.as_bytes())?;
            to.string(node.name.as_bytes())?;
            for list in [&node.readers, &node.writers] {
                to.length(list.len())?;
                list.iter().for_each(|g| gid(&mut to, g));
            }
        }
        Ok(to.finish())
    }

    /// Decodes a sample of [`GRAPH_TYPE`] of the release that fits its length. `None`: no release
    /// fits, or it exceeds a limit.
    #[must_use]
    pub fn decode(sample: &[u8]) -> Option<Self> {
        [Release::Jazzy, Release::Humble]
            .into_iter()
            .find_map(|release| Self::of_release(sample, gid_len(release)).ok().flatten())
    }

    fn of_release(sample: &[u8], gid_len: usize) -> Result<Option<Self>, CdrError> {
        let mut from = Decoder::new(sample)?;
        let gid = |from: &mut Decoder<'_>| -> Result<Option<Gid>, CdrError> {
            let bytes = from.bytes(gid_len as u32)?;
            let (gid, rest) = bytes.split_at(16);
            Ok(gid.try_into().ok().filter(|_| rest.iter().all(|b| *b == 0)))
        };
        let text = |from: &mut Decoder<'_>| -> Result<Option<String>, CdrError> {
            let bytes = from.string()?;
            Ok(std::str::from_utf8(bytes).ok().filter(|t| t.len() <= MAX_NAME).map(str::to_owned))
        };
        let Some(own) = gid(&mut from)? else { return Ok(None) };
        let count = from.length(16)?;
        let mut nodes = Vec::new();
        for _ in 0..count {
            let (Some(namespace), Some(name)) = (text(&mut from)?, text(&mut from)?) else {
                return Ok(None);
            };
            let mut lists = [Vec::new(), Vec::new()];
            for list in &mut lists {
                let len = from.length(gid_len as u64)?;
                if len > MAX_GIDS || count > MAX_NODES {
                    return Ok(None);
                }
                for _ in 0..len {
                    let Some(gid) = gid(&mut from)? else { return Ok(None) };
                    list.push(gid);
                }
            }
            let [readers, writers] = lists;
            nodes.push(NodeEndpoints { namespace, name, readers, writers });
        }
        from.finish()?;
        Ok(Some(Self { gid: own, nodes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn user_data_equals_that_of_ros_2_with_the_mark() {
        let hash = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18";
        let ours = endpoint_user_data(Some(hash.parse().unwrap()), Release::Jazzy);
        assert_eq!(ours, format!("typehash={hash};driveline=1;"));
        assert!(
            is_gateway(ours.as_bytes()) && type_hash(ours.as_bytes()).unwrap().to_string() == hash
        );
        assert_eq!(
            endpoint_user_data(Some(hash.parse().unwrap()), Release::Humble),
            "driveline=1;"
        );
        let theirs = format!("typehash={hash};");
        assert!(!is_gateway(theirs.as_bytes()) && type_hash(theirs.as_bytes()).is_some());
        for odd in [
            &b""[..],
            b"driveline",
            b"xdriveline=1;",
            b"typehash=RIHS01_00;",
            b"\xff=1;driveline=1;",
        ] {
            assert!(!is_gateway(odd) && type_hash(odd).is_none(), "{odd:?}");
        }
    }

    #[test]
    fn a_gateway_announces_its_zenoh_session() {
        assert_eq!(
            (graph_user_data(None).as_str(), session_of(b"driveline=1;")),
            ("driveline=1;", None)
        );
        let both = graph_user_data(Some("1af5"));
        assert_eq!(
            (session_of(both.as_bytes()), is_gateway(both.as_bytes())),
            (Some("1af5"), true)
        );
        for odd in [
            &b"zenoh=1af5;"[..],
            b"driveline=1;zenoh=;",
            b"driveline=1;zenoh=x y;",
            &[b"driveline=1;zenoh=".to_vec(), vec![b'a'; 33]].concat(),
        ] {
            assert_eq!(session_of(odd), None, "{odd:?}");
        }
    }

    /// Bytes laid out by hand after rmw_dds_common's definition.
    #[test]
    fn the_graph_of_a_node_has_these_bytes() {
        let info = ParticipantInfo {
            gid: [1; 16],
            nodes: vec![NodeEndpoints {
                namespace: "/".into(),
                name: "abc".into(),
                readers: vec![],
                writers: vec![[2; 16]],
            }],
        };
        let mut jazzy = vec![0, 1, 0, 0];
        jazzy.extend([1; 16]);
        jazzy.extend([
            1, 0, 0, 0, 2, 0, 0, 0, b'/', 0, 0, 0, 4, 0, 0, 0, b'a', b'b', b'c', 0, 0, 0, 0, 0, 1,
            0, 0, 0,
        ]);
        let mut humble = jazzy.clone();
        jazzy.extend([2; 16]);
        humble.splice(20..20, [0; 8]);
        humble.extend([2; 16].into_iter().chain([0; 8]));
        assert_eq!(info.encode(Release::Jazzy).unwrap(), jazzy);
        assert_eq!(info.encode(Release::Humble).unwrap(), humble);
        for bytes in [jazzy, humble] {
            assert_eq!(ParticipantInfo::decode(&bytes).as_ref(), Some(&info));
            for cut in 0..bytes.len() {
                // A Humble sample that is cut in the zeros after its first id decodes as a Jazzy
                // sample without nodes. Such an announcement changes nothing.
                assert!(
                    ParticipantInfo::decode(&bytes[..cut]).is_none_or(|i| i.nodes.is_empty()),
                    "{cut}"
                );
            }
        }
    }

    #[test]
    fn impossibly_large_announcements_are_refused() {
        let node =
            NodeEndpoints { namespace: "/".into(), name: "n".into(), ..NodeEndpoints::default() };
        let of = |count| {
            ParticipantInfo { gid: [1; 16], nodes: vec![node.clone(); count] }
                .encode(Release::Jazzy)
                .unwrap()
        };
        assert!(
            ParticipantInfo::decode(&of(256)).is_some()
                && ParticipantInfo::decode(&of(257)).is_none()
        );
        let long = ParticipantInfo {
            gid: [1; 16],
            nodes: vec![NodeEndpoints { name: "n".repeat(257), ..node.clone() }],
        };
        assert!(ParticipantInfo::decode(&long.encode(Release::Jazzy).unwrap()).is_none());
        let many = ParticipantInfo {
            gid: [1; 16],
            nodes: vec![NodeEndpoints { readers: vec![[3; 16]; 1025], ..node }],
        };
        assert!(ParticipantInfo::decode(&many.encode(Release::Jazzy).unwrap()).is_none());
    }

    fn node() -> impl Strategy<Value = NodeEndpoints> {
        let gids = || prop::collection::vec(any::<Gid>(), 0..4);
        ("(/[a-z]{1,4}){1,3}", "[a-z_]{1,9}", gids(), gids()).prop_map(
            |(namespace, name, readers, writers)| NodeEndpoints {
                namespace,
                name,
                readers,
                writers,
            },
        )
    }

    proptest! {
        #[test]
        fn announcements_round_trip_and_other_bytes_are_refused(
            gid: Gid,
            nodes in prop::collection::vec(node(), 0..4),
            noise: Vec<u8>,
            at: prop::sample::Index,
            byte: u8,
        ) {
            let info = ParticipantInfo { gid, nodes };
            for release in [Release::Jazzy, Release::Humble] {
                let mut bytes = info.encode(release).unwrap();
                let read = ParticipantInfo::decode(&bytes);
                // Humble samples without nodes are not compared.
                if release == Release::Jazzy || !info.nodes.is_empty() {
                    prop_assert_eq!(read.as_ref(), Some(&info));
                }
                let at = at.index(bytes.len());
                bytes[at] = byte;
                let _ = ParticipantInfo::decode(&bytes);
            }
            let _ = ParticipantInfo::decode(&noise);
        }
    }
}
