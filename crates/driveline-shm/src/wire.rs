// SPDX-License-Identifier: Apache-2.0
//! Messages on the sockets: a fixed frame around JSON. Every message is one packet.
//!
//! `magic:u32 | version:u16 | kind:u16 | length:u32 | body`, little endian. The body is JSON
//! because messages are rare, and because a person with a socket dump can read it.
//!
//! Growth: keys may be added with a default that means "as before"; old receivers ignore them. A
//! change that must not be ignored is a new version of the protocol; the two ends agree on the
//! newest that both speak.

use crate::event::RefusalCode;
use crate::info::hex_id;
use crate::json;
use crate::layout::{Layout, OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION};
use crate::limits::{MAX_MESSAGE_LEN, MAX_SEQUENCE};
use driveline_types::{Durability, EndpointId, NodeName, Qos, Reliability, Schema, TopicName};
use serde::{Deserialize, Serialize};
use thiserror::Error;

const MAGIC: u32 = u32::from_le_bytes(*b"DRVL");
const FRAME_LEN: usize = 12;
const MAX_TEXT_LEN: usize = 8 * 1024;
/// Maximum length of the name and of the encoding of a schema, in bytes.
const MAX_SCHEMA_TEXT: usize = 1024;

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    /// Subscriber to publisher, with the subscription page.
    Hello(Box<Hello>),
    /// Publisher to subscriber, with segment and wake word.
    Accept(Box<Accept>),
    /// Publisher to subscriber.
    Refuse(Refuse),
    /// Tool to participant.
    List,
    /// Participant to tool: a part of a JSON text; an empty part ends it.
    Listing(Vec<u8>),
}

/// A request for a match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) topic: TopicName,
    pub(crate) node: NodeName,
    /// Accepted type; `None` accepts any.
    #[serde(default, deserialize_with = "json::object_or_null")]
    pub(crate) schema: Option<Schema>,
    #[serde(deserialize_with = "json::object")]
    pub(crate) qos: Qos,
    /// Exact offer that a publisher must have; others are skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) offering: Option<(Reliability, Durability)>,
    /// Number of pins requested: cells of the page in use.
    pub(crate) pins: u32,
    pub(crate) observer: bool,
    #[serde(with = "hex_id")]
    pub(crate) subscription: EndpointId,
    #[serde(with = "hex_id")]
    pub(crate) participant: EndpointId,
    pub(crate) pid: u32,
    /// Oldest and newest version of the protocol that the subscriber speaks.
    #[serde(default = "first_version")]
    pub(crate) oldest_version: u16,
    #[serde(default = "first_version")]
    pub(crate) newest_version: u16,
    /// True if the subscriber announces its sleep in a separate cache line, to publishers that
    /// support it.
    #[serde(default)]
    pub(crate) armed_apart: bool,
    /// Reason why the subscriber cannot be matched now, in place of a request. Comes without a
    /// page.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "json::object_or_null"
    )]
    pub(crate) refuse: Option<Refuse>,
}

/// A match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Accept {
    #[serde(with = "hex_id")]
    pub(crate) publisher: EndpointId,
    pub(crate) node: NodeName,
    pub(crate) pid: u32,
    #[serde(deserialize_with = "json::object")]
    pub(crate) schema: Schema,
    #[serde(deserialize_with = "json::object")]
    pub(crate) qos: Qos,
    #[serde(deserialize_with = "json::object")]
    pub(crate) layout: Layout,
    /// First sequence for the subscription to read.
    pub(crate) first: u64,
    /// Version of the protocol for this match.
    #[serde(default = "first_version")]
    pub(crate) version: u16,
    /// True if the publisher reads the subscriber's sleep in a separate cache line. True only if it
    /// is true in HELLO as well.
    #[serde(default)]
    pub(crate) armed_apart: bool,
}

/// Version of releases that do not send one.
fn first_version() -> u16 {
    1
}

/// No match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Refuse {
    pub(crate) code: RefusalCode,
    pub(crate) text: String,
}

/// The bytes are not a message.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum WireError {
    #[error("{len} bytes are too few for a message")]
    Short { len: usize },
    #[error("not a Driveline message (it begins with {found:#010x})")]
    Magic { found: u32 },
    #[error(
        "protocol version {found} is not between {OLDEST_PROTOCOL_VERSION} and {PROTOCOL_VERSION}: \
         run releases that have a version in common"
    )]
    Version { found: u16 },
    #[error("message kind {found} is not known")]
    Kind { found: u16 },
    #[error("a body of {found} bytes is announced and {actual} bytes are there")]
    Length { found: u32, actual: usize },
    #[error("the message is malformed: {0}")]
    Body(String),
}

impl WireError {
    pub(crate) fn code(&self) -> RefusalCode {
        match self {
            Self::Version { .. } => RefusalCode::Version,
            _ => RefusalCode::Protocol,
        }
    }
}

impl Message {
    /// The message as a packet. `None` if it is too long to send, which the checks at creation
    /// exclude.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let (kind, body) = match self {
            Self::Hello(m) => (1u16, serde_json::to_vec(m).ok()?),
            Self::Accept(m) => (2, serde_json::to_vec(m).ok()?),
            Self::Refuse(m) => (3, serde_json::to_vec(m).ok()?),
            Self::List => (4, Vec::new()),
            Self::Listing(part) => (5, part.clone()),
        };
        if body.len() + FRAME_LEN > MAX_MESSAGE_LEN {
            return None;
        }
        let mut packet = Vec::with_capacity(FRAME_LEN + body.len());
        packet.extend(MAGIC.to_le_bytes());
        // The receiver may not know a newer version.
        packet.extend(OLDEST_PROTOCOL_VERSION.to_le_bytes());
        packet.extend(kind.to_le_bytes());
        packet.extend((body.len() as u32).to_le_bytes());
        packet.extend(body);
        Some(packet)
    }

    /// Reads a packet from any sender. Any bytes give a message with numbers in range, or an error.
    pub(crate) fn decode(packet: &[u8]) -> Result<Self, WireError> {
        let Some((frame, body)) = packet.split_first_chunk::<FRAME_LEN>() else {
            return Err(WireError::Short { len: packet.len() });
        };
        let [m0, m1, m2, m3, v0, v1, k0, k1, l0, l1, l2, l3] = *frame;
        let magic = u32::from_le_bytes([m0, m1, m2, m3]);
        if magic != MAGIC {
            return Err(WireError::Magic { found: magic });
        }
        let version = u16::from_le_bytes([v0, v1]);
        if !is_spoken(version) {
            return Err(WireError::Version { found: version });
        }
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        if length as usize != body.len() {
            return Err(WireError::Length { found: length, actual: body.len() });
        }
        match u16::from_le_bytes([k0, k1]) {
            1 => Hello::parse(body).map(|m| Self::Hello(Box::new(m))),
            2 => Accept::parse(body).map(|m| Self::Accept(Box::new(m))),
            3 => Refuse::parse(body).map(Self::Refuse),
            4 if body.is_empty() => Ok(Self::List),
            5 => Ok(Self::Listing(body.to_vec())),
            found => Err(WireError::Kind { found }),
        }
    }
}

/// Returns true if this release speaks a version.
fn is_spoken(version: u16) -> bool {
    (OLDEST_PROTOCOL_VERSION..=PROTOCOL_VERSION).contains(&version)
}

fn json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, WireError> {
    json::read(body).map_err(WireError::Body)
}

fn check_schema(s: &Schema) -> Result<(), WireError> {
    for (what, text, limit) in [
        ("definition", &s.definition, Schema::MAX_DEFINITION_LEN),
        ("name", &s.name, MAX_SCHEMA_TEXT),
        ("encoding", &s.encoding, MAX_SCHEMA_TEXT),
    ] {
        if text.len() > limit {
            return Err(WireError::Body(format!(
                "a schema's {what} of {} bytes is longer than {limit}",
                text.len()
            )));
        }
    }
    Ok(())
}

impl Hello {
    fn parse(body: &[u8]) -> Result<Self, WireError> {
        let mut m: Self = json(body)?;
        m.schema.iter().try_for_each(check_schema)?;
        m.refuse = m.refuse.map(|r| Refuse::new(r.code, r.text));
        if m.oldest_version == 0 || m.oldest_version > m.newest_version {
            return Err(WireError::Body(format!(
                "versions {} to {} are no valid range",
                m.oldest_version, m.newest_version
            )));
        }
        if m.pins == 0 || m.pins > crate::limits::MAX_HELD {
            return Err(WireError::Body(format!(
                "{} pins are not between 1 and {}",
                m.pins,
                crate::limits::MAX_HELD
            )));
        }
        Ok(m)
    }

    /// Returns the newest version that both ends speak, or the reason why there is none.
    pub(crate) fn common_version(&self) -> Result<u16, String> {
        let version = self.newest_version.min(PROTOCOL_VERSION);
        if version >= self.oldest_version && is_spoken(version) {
            return Ok(version);
        }
        let (oldest, newest) = (self.oldest_version, self.newest_version);
        Err(format!(
            "the subscription speaks protocol versions {oldest} to {newest}, the publisher \
             {OLDEST_PROTOCOL_VERSION} to {PROTOCOL_VERSION}: run releases that have one in common"
        ))
    }
}

impl Accept {
    fn parse(body: &[u8]) -> Result<Self, WireError> {
        let m: Self = json(body)?;
        check_schema(&m.schema)?;
        if !is_spoken(m.version) {
            return Err(WireError::Version { found: m.version });
        }
        m.layout.check().map_err(WireError::Body)?;
        if m.first == 0 || m.first > MAX_SEQUENCE + 1 {
            return Err(WireError::Body(format!("{} cannot be the first sequence", m.first)));
        }
        if m.qos.depth == 0 || m.qos.depth >= m.layout.ring_len {
            return Err(WireError::Body(format!(
                "depth {} is impossible with a ring of {} entries",
                m.qos.depth, m.layout.ring_len
            )));
        }
        Ok(m)
    }
}

impl Refuse {
    pub(crate) fn new(code: RefusalCode, text: impl Into<String>) -> Self {
        let mut text = text.into();
        let mut end = text.len().min(MAX_TEXT_LEN);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        Self { code, text }
    }

    fn parse(body: &[u8]) -> Result<Self, WireError> {
        let m: Self = json(body)?;
        Ok(Self::new(m.code, m.text))
    }
}

/// Checks that any packet is a message or an error, and that an encoded message decodes to the same
/// message.
#[cfg(feature = "fuzzing")]
#[allow(unreachable_pub, missing_docs, reason = "only the fuzz targets see it")]
pub fn fuzz_control_frame(packet: &[u8]) {
    let Ok(message) = Message::decode(packet) else { return };
    if let Message::Accept(a) = &message {
        assert!(
            a.layout.check().is_ok()
                && a.layout.len() > 0
                && a.first > 0
                && a.qos.depth < a.layout.ring_len
        );
    }
    if let Some(again) = message.encode() {
        assert_eq!(Message::decode(&again), Ok(message));
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "wire_page_tests.rs"]
mod page_tests;
