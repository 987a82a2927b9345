// SPDX-License-Identifier: Apache-2.0
//! Metadata of nodes on rmw_zenoh: keys, liveliness tokens, attachments. See sections 2 and 3 of
//! `docs/protocols/ros2-zenoh.md`.

mod attachment;
mod qos;
mod token;

pub use attachment::{Attachment, AttachmentError};
pub use qos::{DEFAULT_DEPTH, TokenQos};
pub use token::{
    GATEWAY_ENCLAVE, Kind, NO_HASH, Token, TokenEndpoint, TokenError, gid_of, key_hash, topic_key,
};
