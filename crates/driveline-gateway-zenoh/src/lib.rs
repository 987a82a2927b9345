// SPDX-License-Identifier: Apache-2.0
//! Network reach: carries topics between the domains of two hosts, over Zenoh.
//!
//! Each host has one gateway for each domain. It takes part in the host transport as any process
//! does. The protocol between two gateways is in `docs/protocols/network.md`. Without the feature
//! `engine`, this crate has only the parts that need no Zenoh.
//!
//! Not here: graph files (`driveline-graph`, and `driveline-gateway` for the section `network:`),
//! and ROS 2 (`driveline-gateway-ros2`).

pub mod arrival;
pub mod clock;
pub mod directory;
#[cfg(feature = "engine")]
pub mod engine;
#[cfg(test)]
mod ledger_world;
pub mod neighbours;
pub mod offering;
pub mod peer_discovery;
pub mod probing;
#[cfg(test)]
mod protocol_world;
pub mod receive_window;
pub mod window;
pub mod wire;
