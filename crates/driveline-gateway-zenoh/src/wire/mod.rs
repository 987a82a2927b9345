// SPDX-License-Identifier: Apache-2.0
//! What two gateways say to each other, as bytes and keys: `docs/protocols/network.md`, sections 2 to 5. Every byte may have been
//! written by anybody.

mod attachment;
mod keys;
mod offer;

pub use attachment::{Ack, MAX_ATTACHMENT_LEN, Outcome, SampleHead, WireError};
pub use keys::{HostId, Keys, Parsed, QosMark};
pub use offer::{MAX_OFFER_LEN, Offer, OfferError};

#[cfg(test)]
mod tests;
