// SPDX-License-Identifier: Apache-2.0
//! Protobuf messages as payloads.

use crate::schema::Schema;

/// A protobuf message with an identity that both ends can compare.
///
/// In a build script, `driveline-build` implements this trait for every message of a set of
/// `.proto` files. `docs/protocols/protobuf-definition.md` describes the definition text, which is
/// the same in C++.
pub trait ProtobufMessage: prost::Message + Default + Clone + 'static {
    /// Full name, such as `driveline.msgs.LaneMarkings`.
    const NAME: &'static str;

    /// Canonical definition text of the message and of all types that it refers to.
    const DEFINITION: &'static str;

    /// The schema of topics that carry this message. Does not allocate.
    #[must_use]
    fn schema() -> Schema {
        Schema::protobuf(Self::NAME, Self::DEFINITION)
    }
}
