// SPDX-License-Identifier: Apache-2.0
//! Type of a topic, as in MCAP and Foxglove: kind, name, encoding, definition, hash.

use crate::plain::PlainLayout;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt;
use thiserror::Error;

/// Representation of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PayloadKind {
    /// C-layout head with at most one trailing array; read in place.
    Plain,
    /// Protocol buffers; a pointer inside a process, bytes outside.
    Protobuf,
    /// Any value of one language; process reach only.
    Object,
    /// Bytes with an encoding that Driveline does not interpret.
    Bytes,
}

impl fmt::Display for PayloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Protobuf => "protobuf",
            Self::Object => "object",
            Self::Bytes => "bytes",
        })
    }
}

/// SHA-256 over kind, name, encoding and definition.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SchemaHash(pub [u8; 32]);

impl fmt::Display for SchemaHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for SchemaHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The identity of a payload type.
///
/// For plain types `definition` is the canonical text of a [`PlainLayout`]; for protobuf the
/// canonical text of the message and what it refers to (`docs/protocols/protobuf-definition.md`);
/// for bytes a description of the encoding, or nothing (for samples of ROS 2:
/// `docs/protocols/ros2-schema.md`); for objects usually nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Schema {
    /// Representation.
    pub kind: PayloadKind,
    /// Type name, such as `driveline/Image` or `driveline.Detections2D`.
    pub name: Cow<'static, str>,
    /// `plain`, `protobuf`, `cdr`, `json`, …
    pub encoding: Cow<'static, str>,
    /// Text that defines the type.
    pub definition: Cow<'static, str>,
}

impl Schema {
    /// Longest definition, in bytes. A longer one is refused when an endpoint is created, and from
    /// a peer.
    pub const MAX_DEFINITION_LEN: usize = 32 * 1024;

    /// The schema of a plain type.
    #[must_use]
    pub fn plain(layout: &PlainLayout) -> Self {
        Self {
            kind: PayloadKind::Plain,
            name: layout.name.clone(),
            encoding: Cow::Borrowed("plain"),
            definition: Cow::Owned(layout.to_string()),
        }
    }

    /// The schema of a protobuf message with the given full name and canonical definition.
    #[must_use]
    pub fn protobuf(
        name: impl Into<Cow<'static, str>>,
        definition: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            kind: PayloadKind::Protobuf,
            name: name.into(),
            encoding: Cow::Borrowed("protobuf"),
            definition: definition.into(),
        }
    }

    /// A schema of opaque bytes.
    #[must_use]
    pub fn bytes(
        name: impl Into<Cow<'static, str>>,
        encoding: impl Into<Cow<'static, str>>,
        definition: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            kind: PayloadKind::Bytes,
            name: name.into(),
            encoding: encoding.into(),
            definition: definition.into(),
        }
    }

    /// The identity hash. Equal hashes mean that the two ends agree on every byte.
    #[must_use]
    pub fn hash(&self) -> SchemaHash {
        let mut h = Sha256::new();
        for part in [self.kind.to_string().as_str(), &self.name, &self.encoding, &self.definition] {
            h.update((part.len() as u64).to_le_bytes());
            h.update(part.as_bytes());
        }
        SchemaHash(h.finalize().into())
    }

    /// Compares what a publisher offers with what a subscription expects.
    ///
    /// # Errors
    /// [`TypeMismatch`] with the first difference.
    pub fn check(topic: &str, offered: &Schema, expected: &Schema) -> Result<(), TypeMismatch> {
        if offered == expected {
            return Ok(());
        }
        let difference = if offered.kind != expected.kind {
            format!(
                "the publisher sends kind '{}', the subscription expects kind '{}'",
                offered.kind, expected.kind
            )
        } else if offered.name != expected.name {
            format!(
                "the publisher sends type '{}', the subscription expects '{}'",
                offered.name, expected.name
            )
        } else if offered.encoding != expected.encoding {
            format!(
                "the publisher encodes as '{}', the subscription expects '{}'",
                offered.encoding, expected.encoding
            )
        } else if offered.kind == PayloadKind::Plain {
            match (
                offered.definition.parse::<PlainLayout>(),
                expected.definition.parse::<PlainLayout>(),
            ) {
                (Ok(a), Ok(b)) => {
                    a.first_difference(&b).unwrap_or_else(|| "their definitions differ".into())
                }
                _ => first_line_difference(&offered.definition, &expected.definition),
            }
        } else {
            first_line_difference(&offered.definition, &expected.definition)
        };
        Err(TypeMismatch {
            topic: topic.to_owned(),
            offered: offered.name.to_string(),
            expected: expected.name.to_string(),
            hashes: Box::new([offered.hash(), expected.hash()]),
            difference,
        })
    }
}

fn first_line_difference(offered: &str, expected: &str) -> String {
    let (mut a, mut b) = (offered.lines(), expected.lines());
    loop {
        match (a.next(), b.next()) {
            (Some(x), Some(y)) if x == y => {}
            (None, None) => return "their definitions differ".into(),
            (x, y) => {
                let show =
                    |l: Option<&str>| l.map_or("nothing".to_owned(), |l| format!("`{}`", l.trim()));
                return format!(
                    "first difference: the publisher has {}, the subscription has {}",
                    show(x),
                    show(y)
                );
            }
        }
    }
}

/// Two ends of a topic disagree about its type.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "topic '{topic}': the publisher's type '{offered}' (hash {}) and the subscription's type \
     '{expected}' (hash {}) differ: \
     {difference}; connect one of them to another topic, or build both ends from the same \
     definition",
    hashes[0],
    hashes[1]
)]
pub struct TypeMismatch {
    /// The topic.
    pub topic: String,
    /// The publisher's type.
    pub offered: String,
    /// The subscription's type.
    pub expected: String,
    /// Their hashes, in this order.
    pub hashes: Box<[SchemaHash; 2]>,
    /// The first difference.
    pub difference: String,
}
