// SPDX-License-Identifier: Apache-2.0
//! What both gateways do with Zenoh beside what its sessions do for everybody: they have the
//! runtime of a session, connect again where Zenoh does not, and see to its sockets.
//!
//! Not here: who is connected to again, and when, which the gateways know (`neighbours.rs` of
//! each); what they send. All of it needs the feature `engine`.
#![cfg(feature = "engine")]

mod attempts;
mod links;
mod opened;
pub mod sockets;
mod under_way;

pub use attempts::Attempts;
pub use links::{Ends, MadeBy};
pub use opened::{Opened, OwnRuntime};
pub use under_way::UnderWay;
