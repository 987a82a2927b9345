// SPDX-License-Identifier: Apache-2.0
//! Messages between two gateways, as bytes and keys: `docs/protocols/network.md`, sections 2 to 6.
//! All bytes are untrusted.

mod attachment;
mod keys;
mod known_hosts;
mod list;

pub use attachment::{Ack, MAX_ATTACHMENT_LEN, Outcome, SampleHead, Time, WireError};
pub use keys::{HostId, Keys, Parsed, QosMark};
pub use known_hosts::{KnownHosts, MAX_KNOWN_HOSTS_LEN, place};
pub use list::{Ended, List, ListError, MAX_ENDED_LISTED, MAX_LIST_LEN, MAX_LISTED, Offer};

/// Version of this protocol, for keys, attachments, acknowledgements and lists.
pub const VERSION: u16 = 2;

#[cfg(test)]
mod tests;
