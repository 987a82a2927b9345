// SPDX-License-Identifier: Apache-2.0
//! List of a host's publishers of a topic.

use super::{HostId, VERSION};
use driveline_types::{EndpointId, NodeName, Qos, Schema, TopicName};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// Maximum length of a list, in bytes.
pub const MAX_LIST_LEN: usize = 256 * 1024;
/// Maximum number of publishers in a list.
pub const MAX_LISTED: usize = 64;
/// Maximum number of ended publishers in a list.
pub const MAX_ENDED_LISTED: usize = 64;
/// Maximum number of hosts that a list names for an ended publisher.
const MAX_FIRSTS: usize = 64;
/// Greatest number that a sample may have.
const MAX_NUMBER: u64 = driveline_shm::limits::MAX_SEQUENCE;
const MAX_NAME_LEN: usize = 256;

/// A publisher, as its gateway describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Node that publishes.
    pub node: NodeName,
    /// Type.
    pub schema: Arc<Schema>,
    /// Offered QoS.
    pub qos: Qos,
    /// Maximum payload, in bytes.
    pub max_payload: u64,
}

/// All publishers of a topic on one host that other hosts may receive.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// Topic.
    pub topic: TopicName,
    /// Number of the list's last change, counted over all lists of this gateway; 0: this list has
    /// not changed yet.
    pub change: u64,
    /// Publishers, each once.
    pub publishers: Vec<(EndpointId, Offer)>,
    /// Recently ended publishers, each once.
    pub ended: Vec<Ended>,
}

/// A publisher that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its id.
    pub id: EndpointId,
    /// Number of samples written in all. `None`: its gateway does not know.
    pub last: Option<u64>,
    /// For each host, the number of the first sample that the publisher's gateway had to send to
    /// it.
    pub first: BTreeMap<HostId, u64>,
}

/// Wire format: each type appears once. Unknown keys are ignored.
#[derive(Serialize, Deserialize)]
struct Text<'a> {
    version: u16,
    topic: TopicName,
    change: u64,
    schemas: Vec<Cow<'a, Schema>>,
    publishers: Vec<Entry>,
    /// Earlier releases do not send this key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ended: Vec<EndedEntry>,
}

#[derive(Serialize, Deserialize)]
struct EndedEntry {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    first: BTreeMap<String, u64>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    id: String,
    node: NodeName,
    /// Index of its schema.
    schema: usize,
    qos: Qos,
    max_payload: u64,
}

/// Reason why a list was refused.
#[derive(Debug, Error)]
pub enum ListError {
    /// It is too long.
    #[error("the list of publishers has {len} bytes, and the maximum is {MAX_LIST_LEN}")]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// It is not valid JSON of a list.
    #[error("the list of publishers cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// It is of another version.
    #[error("the list of publishers has version {0}, and this release knows {VERSION}")]
    Version(u16),
    /// A value in it is not possible.
    #[error("the list of publishers is invalid: {0}")]
    Impossible(String),
}

impl List {
    /// Encodes the list.
    ///
    /// # Errors
    /// [`ListError`] if it is too long to be sent.
    pub fn encode(&self) -> Result<Vec<u8>, ListError> {
        let mut schemas: Vec<Cow<'_, Schema>> = Vec::new();
        let mut publishers = Vec::with_capacity(self.publishers.len());
        for (id, offer) in &self.publishers {
            let schema = schemas.iter().position(|s| **s == *offer.schema).unwrap_or_else(|| {
                schemas.push(Cow::Borrowed(&offer.schema));
                schemas.len() - 1
            });
            let (id, node, qos) = (format!("{:032x}", id.0), offer.node.clone(), offer.qos.clone());
            publishers.push(Entry { id, node, schema, qos, max_payload: offer.max_payload });
        }
        let of = |e: &Ended| EndedEntry {
            id: format!("{:032x}", e.id.0),
            last: e.last,
            first: e.first.iter().map(|(host, first)| (host.to_string(), *first)).collect(),
        };
        let (topic, change, ended) =
            (self.topic.clone(), self.change, self.ended.iter().map(of).collect());
        let bytes = serde_json::to_vec(&Text {
            version: VERSION,
            topic,
            change,
            schemas,
            publishers,
            ended,
        })?;
        if bytes.len() > MAX_LIST_LEN {
            Err(ListError::TooLong { len: bytes.len() })
        } else {
            Ok(bytes)
        }
    }

    /// Decodes untrusted bytes.
    ///
    /// # Errors
    /// [`ListError`] if it is not valid. [`Offer::check`] checks the offers in it.
    pub fn decode(bytes: &[u8]) -> Result<Self, ListError> {
        if bytes.len() > MAX_LIST_LEN {
            return Err(ListError::TooLong { len: bytes.len() });
        }
        // Checked first, so that a list of another release is reported as such.
        #[derive(Deserialize)]
        struct Versioned {
            version: u16,
        }
        let Versioned { version } = serde_json::from_slice(bytes)?;
        if version != VERSION {
            return Err(ListError::Version(version));
        }
        let text: Text<'static> = serde_json::from_slice(bytes)?;
        let refuse = |reason: String| Err(ListError::Impossible(reason));
        if text.publishers.len() > MAX_LISTED {
            return refuse(format!(
                "it has {} publishers, and the maximum is {MAX_LISTED}",
                text.publishers.len()
            ));
        }
        let schemas: Vec<Arc<Schema>> =
            text.schemas.into_iter().map(|s| Arc::new(s.into_owned())).collect();
        let mut publishers: Vec<(EndpointId, Offer)> = Vec::with_capacity(text.publishers.len());
        for entry in text.publishers {
            let Some(id) = id_of(&entry.id) else {
                return refuse(format!("'{:.40}' is not the id of a publisher", entry.id));
            };
            let Some(schema) = schemas.get(entry.schema).cloned() else {
                return refuse(format!("it has no schema {}", entry.schema));
            };
            if publishers.iter().any(|(known, _)| *known == id) {
                return refuse(format!("publisher {id} is listed twice"));
            }
            publishers.push((
                id,
                Offer { node: entry.node, schema, qos: entry.qos, max_payload: entry.max_payload },
            ));
        }
        if text.ended.len() > MAX_ENDED_LISTED {
            return refuse(format!(
                "it has {} ended publishers, and the maximum is {MAX_ENDED_LISTED}",
                text.ended.len()
            ));
        }
        let mut ended: Vec<Ended> = Vec::with_capacity(text.ended.len());
        for entry in text.ended {
            let Some(one) = entry.checked() else {
                return refuse(format!(
                    "its entry of the ended publisher '{:.40}' is impossible",
                    entry.id
                ));
            };
            if ended.iter().any(|known| known.id == one.id)
                || publishers.iter().any(|(known, _)| *known == one.id)
            {
                return refuse(format!("publisher {} is listed twice", one.id));
            }
            ended.push(one);
        }
        Ok(Self { topic: text.topic, change: text.change, publishers, ended })
    }
}

fn id_of(text: &str) -> Option<EndpointId> {
    super::keys::plain_hex(text, 32)
        .and_then(|hex| u128::from_str_radix(hex, 16).ok())
        .map(EndpointId)
}

impl EndedEntry {
    /// Returns the checked entry. `None`: a value in it is not possible.
    fn checked(&self) -> Option<Ended> {
        let id = id_of(&self.id)?;
        if self.first.len() > MAX_FIRSTS || self.last.is_some_and(|last| last > MAX_NUMBER) {
            return None;
        }
        // The first sample for a host may not have been written yet when the publisher ended.
        let possible = |first: u64| first >= 1 && self.last.is_none_or(|last| first <= last + 1);
        let firsts = self.first.iter().map(|(host, first)| {
            Some((host.parse().ok()?, *first)).filter(|(_, first)| possible(*first))
        });
        Some(Ended { id, last: self.last, first: firsts.collect::<Option<_>>()? })
    }
}

impl Offer {
    /// Checks that the offer is possible.
    ///
    /// # Errors
    /// Description of the mistake.
    pub fn check(&self) -> Result<(), String> {
        let Qos { depth, deadline_ms, lifespan_ms, lease_ms, .. } = self.qos;
        if depth == 0 || depth > Qos::MAX_DEPTH {
            return Err(format!(
                "its depth is {depth} and must be between 1 and {}",
                Qos::MAX_DEPTH
            ));
        }
        if [deadline_ms, lifespan_ms, lease_ms].contains(&Some(0)) {
            return Err("its QoS has a time of 0 ms".into());
        }
        if self.schema.definition.len() > Schema::MAX_DEFINITION_LEN {
            return Err(format!(
                "its type's definition has {} bytes",
                self.schema.definition.len()
            ));
        }
        if self.schema.name.len() > MAX_NAME_LEN || self.schema.encoding.len() > MAX_NAME_LEN {
            return Err("its type's name or encoding is too long".into());
        }
        Ok(())
    }
}
