// SPDX-License-Identifier: Apache-2.0
//! Zenoh support of both gateways: holds the runtime of a session, reconnects where Zenoh does not,
//! knows which side made a connection, sets options of Zenoh's sockets, and frees threads that a
//! closing connection blocks.
//!
//! Not here: the choice of hosts to reconnect to and of the times of attempts, which each gateway
//! makes (`neighbours.rs` of each); the data that the gateways send. Everything here needs the
//! feature `engine`.
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
