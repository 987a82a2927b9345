// SPDX-License-Identifier: Apache-2.0
//! What two gateways say to each other, as bytes and keys: `docs/protocols/network.md`, sections 2
//! to 5. Every byte may have been written by anybody.

mod attachment;
mod introduction;
mod keys;
mod list;

pub use attachment::{Ack, MAX_ATTACHMENT_LEN, Outcome, SampleHead, Time, WireError};
pub use introduction::{Introduction, MAX_INTRODUCTION_LEN, place};
pub use keys::{HostId, Keys, Parsed, QosMark};
pub use list::{Ended, List, ListError, MAX_ENDED_LISTED, MAX_LIST_LEN, MAX_LISTED, Offer};

/// Of this protocol: keys, attachments, acknowledgements and lists have one.
pub const VERSION: u16 = 2;

#[cfg(test)]
mod tests;
