// SPDX-License-Identifier: Apache-2.0
//! Zenoh support of both gateways: they hold the runtime of a session, reconnect where Zenoh does
//! not, and set options of its sockets.
//!
//! Not here: the hosts to reconnect to, and the times, which each gateway decides (`neighbours.rs`
//! of each); the data that they send. Everything here needs the feature `engine`.
#![cfg(feature = "engine")]

mod attempts;
mod in_flight;
mod links;
mod opened;
pub mod sockets;

pub use attempts::Attempts;
pub use in_flight::InFlight;
pub use links::{Ends, MadeBy};
pub use opened::{Opened, OwnRuntime};
