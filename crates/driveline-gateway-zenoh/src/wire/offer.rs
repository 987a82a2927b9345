// SPDX-License-Identifier: Apache-2.0
//! A publisher, as its host's gateway describes it.

use driveline_types::{NodeName, Qos, Schema, TopicName};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Longest offer that is read, in bytes.
pub const MAX_OFFER_LEN: usize = 160 * 1024;
const MAX_NAME_LEN: usize = 256;

/// What has no room in a token. Keys that are not known are ignored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// 1.
    pub version: u16,
    /// Topic.
    pub topic: TopicName,
    /// Node that publishes.
    pub node: NodeName,
    /// Type.
    pub schema: Schema,
    /// Offered QoS.
    pub qos: Qos,
    /// Longest payload, in bytes.
    pub max_payload: u64,
}

/// Why an offer was refused.
#[derive(Debug, Error)]
pub enum OfferError {
    /// It is longer than any offer.
    #[error("the offer has {len} bytes and may have {MAX_OFFER_LEN}")]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// It is not what an offer looks like.
    #[error("the offer cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// It is for another release.
    #[error("the offer has version {0}, and this release knows 1")]
    Version(u16),
    /// A value that nobody may offer.
    #[error("the offer's {what} is not possible: {reason}")]
    Value {
        /// Which.
        what: &'static str,
        /// Why.
        reason: String,
    },
}

impl Offer {
    /// As bytes.
    ///
    /// # Errors
    /// [`OfferError`] if it is too long to be sent.
    pub fn encode(&self) -> Result<Vec<u8>, OfferError> {
        let bytes = serde_json::to_vec(self)?;
        if bytes.len() > MAX_OFFER_LEN { Err(OfferError::TooLong { len: bytes.len() }) } else { Ok(bytes) }
    }

    /// From bytes that anybody may have sent.
    ///
    /// # Errors
    /// [`OfferError`] if it is none, or offers what cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Self, OfferError> {
        if bytes.len() > MAX_OFFER_LEN {
            return Err(OfferError::TooLong { len: bytes.len() });
        }
        let offer: Self = serde_json::from_slice(bytes)?;
        if offer.version != 1 {
            return Err(OfferError::Version(offer.version));
        }
        let refuse = |what, reason: String| Err(OfferError::Value { what, reason });
        if offer.qos.depth == 0 || offer.qos.depth > Qos::MAX_DEPTH {
            return refuse("depth", format!("it is {} and must be between 1 and {}", offer.qos.depth, Qos::MAX_DEPTH));
        }
        if [offer.qos.deadline_ms, offer.qos.lifespan_ms, offer.qos.lease_ms].contains(&Some(0)) {
            return refuse("QoS", "a time of 0 ms".into());
        }
        if offer.schema.definition.len() > Schema::MAX_DEFINITION_LEN {
            return refuse("schema", format!("its definition has {} bytes", offer.schema.definition.len()));
        }
        if offer.schema.name.len() > MAX_NAME_LEN || offer.schema.encoding.len() > MAX_NAME_LEN {
            return refuse("schema", "its name or encoding is too long".into());
        }
        Ok(offer)
    }
}
