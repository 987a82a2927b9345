// SPDX-License-Identifier: Apache-2.0
//! Vocabulary of Driveline: ids, time, QoS, schemas, plain types, the sample header, services,
//! limits. Also prints samples as text and JSON.
//!
//! This crate is the lowest layer: it contains no transport, no thread and no file. Most values
//! here must be understood by two processes in the same way, so the layouts in bytes ([`header`],
//! [`plain`]) are versioned.
//!
//! ```
//! use driveline_types::{Qos, TopicName};
//! let topic: TopicName = "camera/front/image".parse().unwrap();
//! assert_eq!(Qos::default().depth, 1); // keeps only the newest sample
//! # let _ = topic;
//! ```

// The macros use the path `::driveline_types`, also in this crate's own tests.
#[cfg(test)]
extern crate self as driveline_types;

pub mod header;
pub mod id;
pub mod limits;
pub mod plain;
pub mod print;
pub mod protobuf;
pub mod qos;
pub mod schema;
pub mod service;
pub mod text;
pub mod time;
pub mod uncounted;

pub use driveline_derive::{Plain, plain_type};
pub use header::{Lineage, MAX_ORIGINS, Origin, Origins, Remote, SampleHeader};
pub use id::{EndpointId, NameError, NodeName, TopicId, TopicName};
pub use plain::{
    NoTail, PayloadError, Plain, PlainField, PlainLayout, PlainMut, PlainRef, TailElement,
};
pub use protobuf::ProtobufMessage;
pub use qos::{Durability, Liveliness, Qos, QosMismatch, Reliability};
pub use schema::{PayloadKind, Schema, SchemaHash, TypeMismatch};
pub use service::ServiceName;
pub use time::{MonotonicNs, VirtualClock, wall_offset_ns};
pub use uncounted::Uncounted;

// Generated code refers to these crates as `driveline_types::prost` and
// `driveline_types::zerocopy`, so that a user's crate does not have to depend on them itself.
#[doc(hidden)]
pub use prost;
#[doc(hidden)]
pub use zerocopy;
