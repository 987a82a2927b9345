// SPDX-License-Identifier: Apache-2.0
//! Services over DDS as rmw_cyclonedds has them: names of topics, the head of requests and replies
//! (16 bytes with the id of the call), ids of clients and servers in USER_DATA, and the DDS vendor
//! of an endpoint. See section "Over DDS" of `docs/protocols/ros2-services.md`.

use crate::discovery_info::{Gid, endpoint_user_data, value};
use driveline_gateway::ros2::{Release, is_token};
use driveline_rosidl::TypeHash;
use driveline_rosidl::cdr::{ByteOrder, HEADER_LEN};
use driveline_types::ServiceName;
use std::fmt::Write;
use thiserror::Error;

const REQUEST: (&str, &str) = ("rq/", "Request");
const REPLY: (&str, &str) = ("rr/", "Reply");
/// Length of the head: the bytes between the encapsulation and the request or response. It is a
/// multiple of 8, so it does not change the alignment of what follows.
const HEAD_LEN: usize = 16;

/// Topic of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceTopic {
    /// From clients to the server.
    Request,
    /// From the server to all clients.
    Reply,
}

impl ServiceTopic {
    fn mangled(self) -> (&'static str, &'static str) {
        match self {
            Self::Request => REQUEST,
            Self::Reply => REPLY,
        }
    }
}

/// Returns the DDS topic of a service; `None` if ROS 2 does not permit its name.
#[must_use]
pub fn dds_topic(service: &ServiceName, which: ServiceTopic) -> Option<String> {
    let (prefix, suffix) = which.mangled();
    service.as_str().split('/').all(is_token).then(|| format!("{prefix}{service}{suffix}"))
}

/// Returns the service of a DDS topic; `None` if it is not a topic of a ROS 2 service.
#[must_use]
pub fn service_of_dds(topic: &str) -> Option<(ServiceName, ServiceTopic)> {
    [ServiceTopic::Request, ServiceTopic::Reply].into_iter().find_map(|which| {
        let (prefix, suffix) = which.mangled();
        let service = topic.strip_prefix(prefix)?.strip_suffix(suffix)?;
        let service = service.split('/').all(is_token).then(|| service.parse().ok()).flatten()?;
        Some((service, which))
    })
}

/// Id of a call, in requests and replies. A server returns it unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId {
    /// Number that the client has chosen for itself.
    pub client: u64,
    /// Number of the call among the client's calls.
    pub sequence: i64,
}

/// Reason why a sample is not a request or reply of rmw_cyclonedds.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum HeadError {
    /// It is too short.
    #[error("{len} bytes are too few: an encapsulation of 4 bytes and a head of 16 come first")]
    Short {
        /// Its length in bytes.
        len: usize,
    },
    /// Its byte order is unknown.
    #[error("its encapsulation is {0:#06x}; plain CDR of version 1 is expected (0x0000 or 0x0001)")]
    Encapsulation(u16),
}

impl CallId {
    /// Splits a sample into call id, encapsulation, and the bytes after the head.
    ///
    /// # Errors
    /// [`HeadError`]
    pub fn split(sample: &[u8]) -> Result<(Self, [u8; HEADER_LEN], &[u8]), HeadError> {
        let short = HeadError::Short { len: sample.len() };
        let (encapsulation, rest) = sample.split_first_chunk::<HEADER_LEN>().ok_or(short)?;
        let (client, rest) = rest.split_first_chunk::<8>().ok_or(short)?;
        let (sequence, body) = rest.split_first_chunk::<8>().ok_or(short)?;
        let id = match order(*encapsulation)? {
            ByteOrder::Little => Self {
                client: u64::from_le_bytes(*client),
                sequence: i64::from_le_bytes(*sequence),
            },
            ByteOrder::Big => Self {
                client: u64::from_be_bytes(*client),
                sequence: i64::from_be_bytes(*sequence),
            },
        };
        Ok((id, *encapsulation, body))
    }

    /// Returns the encapsulation and the head, in the byte order of the encapsulation.
    ///
    /// # Errors
    /// [`HeadError::Encapsulation`]
    pub fn head(
        self,
        encapsulation: [u8; HEADER_LEN],
    ) -> Result<[u8; HEADER_LEN + HEAD_LEN], HeadError> {
        let (client, sequence) = match order(encapsulation)? {
            ByteOrder::Little => (self.client.to_le_bytes(), self.sequence.to_le_bytes()),
            ByteOrder::Big => (self.client.to_be_bytes(), self.sequence.to_be_bytes()),
        };
        let mut head = [0; HEADER_LEN + HEAD_LEN];
        let parts = encapsulation.into_iter().chain(client).chain(sequence);
        head.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        Ok(head)
    }
}

fn order([high, low, ..]: [u8; HEADER_LEN]) -> Result<ByteOrder, HeadError> {
    match u16::from_be_bytes([high, low]) {
        0 => Ok(ByteOrder::Big),
        1 => Ok(ByteOrder::Little),
        other => Err(HeadError::Encapsulation(other)),
    }
}

/// Role of one end of a service: client or server. An end has two endpoints, a writer and a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends requests.
    Client,
    /// Sends responses.
    Server,
}

impl Role {
    fn key(self) -> &'static str {
        match self {
            Self::Client => "clientid",
            Self::Server => "serviceid",
        }
    }

    /// Returns the USER_DATA for both endpoints of a client or server of this gateway. `id` is
    /// unique to the client or server. It shows other nodes that the two endpoints belong together.
    #[must_use]
    pub fn user_data(self, id: &Gid, hash: Option<TypeHash>, release: Release) -> String {
        let mut text = format!("{}=", self.key());
        for (i, byte) in id.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = write!(text, "{}{byte:x}", if i == 0 { "" } else { "." });
        }
        format!("{text};{}", endpoint_user_data(hash, release))
    }

    /// Returns the id of the client or server with this USER_DATA, if it has one.
    #[must_use]
    pub fn id(self, user_data: &[u8]) -> Option<&str> {
        value(user_data, self.key())
    }
}

/// Vendor of an endpoint's DDS, which decides how services are mapped to topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vendor([u8; 2]);

impl Vendor {
    /// Eclipse Cyclone DDS.
    pub const CYCLONE: Self = Self([1, 0x10]);

    /// Returns the vendor of an endpoint: its id begins with the vendor's (RTPS 2.5, section
    /// 8.2.4.2).
    #[must_use]
    pub fn of(gid: &Gid) -> Self {
        Self([gid[0], gid[1]])
    }
}

impl std::fmt::Display for Vendor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            [1, 0x10] => f.write_str("CycloneDDS"),
            [1, 0x0f] => f.write_str("Fast DDS"),
            [1, 0x01] => f.write_str("Connext DDS"),
            [1, 0x12] => f.write_str("RustDDS"),
            [a, b] => write!(f, "the vendor {a:02x}.{b:02x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes laid out by hand: AddTwoInts with 2 and 3.
    #[test]
    fn a_request_has_these_bytes() {
        let mut sample = vec![0, 1, 0, 0];
        sample.extend([8, 7, 6, 5, 4, 3, 2, 1]);
        sample.extend([9, 0, 0, 0, 0, 0, 0, 0]);
        sample.extend([2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        let id = CallId { client: 0x0102_0304_0506_0708, sequence: 9 };
        let (found, encapsulation, body) = CallId::split(&sample).unwrap();
        assert_eq!((found, encapsulation, body), (id, [0, 1, 0, 0], &sample[20..]));
        assert_eq!(id.head([0, 1, 0, 0]).unwrap(), sample[..20]);
        let big = id.head([0, 0, 0, 3]).unwrap();
        assert_eq!(big, [0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(CallId::split(&big).unwrap(), (id, [0, 0, 0, 3], &[][..]));
    }

    #[test]
    fn an_invalid_head_is_reported() {
        let sample = [0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        for cut in 0..sample.len() {
            assert_eq!(CallId::split(&sample[..cut]), Err(HeadError::Short { len: cut }));
        }
        let mut other = sample;
        other[1] = 7;
        assert_eq!(CallId::split(&other), Err(HeadError::Encapsulation(7)));
        assert_eq!(
            CallId { client: 1, sequence: 1 }.head([0, 0x0b, 0, 0]),
            Err(HeadError::Encapsulation(0x0b))
        );
    }

    #[test]
    fn services_are_mangled_as_ros_2_does() {
        let service = "front/add".parse().unwrap();
        assert_eq!(
            dds_topic(&service, ServiceTopic::Request).as_deref(),
            Some("rq/front/addRequest")
        );
        assert_eq!(dds_topic(&service, ServiceTopic::Reply).as_deref(), Some("rr/front/addReply"));
        assert_eq!(dds_topic(&"a-b".parse().unwrap(), ServiceTopic::Request), None);
        for other in [
            "rt/addRequest",
            "rq/addReply",
            "rr/addRequest",
            "rq/Request",
            "rq/a//bRequest",
            "rq/a-bRequest",
            "rq/add",
            "addRequest",
            "",
        ] {
            assert_eq!(service_of_dds(other), None, "{other}");
        }
        // Services of actions are services.
        let (service, which) = service_of_dds("rr/fibonacci/_action/get_resultReply").unwrap();
        assert_eq!(
            (service.as_str(), which),
            ("fibonacci/_action/get_result", ServiceTopic::Reply)
        );
    }

    #[test]
    fn the_ids_of_ends_are_read_as_rmw_cyclonedds_writes_them() {
        assert_eq!(
            Role::Server.id(b"serviceid= 1.10.a7.0.0.0.0.0.0.0.0.0.0.0.1.3;typehash=RIHS01_00;"),
            Some(" 1.10.a7.0.0.0.0.0.0.0.0.0.0.0.1.3")
        );
        assert_eq!(Role::Client.id(b"serviceid=1;"), None);
        assert_eq!(Role::Client.id(b""), None);
        let mut gid = [0; 16];
        (gid[0], gid[15]) = (1, 0xff);
        let text = Role::Client.user_data(&gid, None, Release::Humble);
        assert_eq!(text, "clientid=1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ff;driveline=1;");
        assert!(crate::discovery_info::is_gateway(text.as_bytes()));
        assert_eq!(Role::Client.id(text.as_bytes()), Some("1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ff"));
    }

    #[test]
    fn vendors_are_recognised_by_their_ids() {
        let of = |a, b| {
            let mut gid = [7; 16];
            (gid[0], gid[1]) = (a, b);
            Vendor::of(&gid)
        };
        assert_eq!(of(1, 0x10), Vendor::CYCLONE);
        for (vendor, text) in [
            (of(1, 0x10), "CycloneDDS"),
            (of(1, 0x0f), "Fast DDS"),
            (of(1, 0x12), "RustDDS"),
            (of(2, 0xa), "the vendor 02.0a"),
        ] {
            assert_eq!(vendor.to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn heads_round_trip_and_other_bytes_do_no_harm(
            client: u64,
            sequence: i64,
            big: bool,
            options: [u8; 2],
            body: Vec<u8>,
            noise: Vec<u8>,
        ) {
            let encapsulation = [0, u8::from(!big), options[0], options[1]];
            let id = CallId { client, sequence };
            let sample = [&id.head(encapsulation).unwrap()[..], &body].concat();
            prop_assert_eq!(CallId::split(&sample), Ok((id, encapsulation, &body[..])));
            match CallId::split(&noise) {
                Ok((found, encapsulation, body)) => prop_assert_eq!(
                    [&found.head(encapsulation).unwrap()[..], body].concat(),
                    &noise[..]
                ),
                Err(HeadError::Short { len }) => prop_assert!(len == noise.len() && len < 20),
                Err(HeadError::Encapsulation(other)) => prop_assert!(other > 1),
            }
            let _ = Role::Client.id(&noise);
        }

        #[test]
        fn mangling_is_undone(
            service in "[a-z_][a-z0-9_]{0,4}(/[a-z_][a-z0-9]{0,3}){0,3}",
            any in "\\PC{0,20}",
        ) {
            let service: ServiceName = service.parse().unwrap();
            for which in [ServiceTopic::Request, ServiceTopic::Reply] {
                if let Some(dds) = dds_topic(&service, which) {
                    prop_assert_eq!(service_of_dds(&dds), Some((service.clone(), which)));
                }
            }
            if let Some((service, which)) = service_of_dds(&any) {
                prop_assert_eq!(dds_topic(&service, which), Some(any));
            }
        }
    }
}
