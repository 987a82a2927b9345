// SPDX-License-Identifier: Apache-2.0
//! Exchanges topics of a Driveline domain with ROS 2 nodes, over DDS and by rmw_zenoh, as far as rules say so: `docs/protocols/ros2-dds.md` and
//! `docs/protocols/ros2-zenoh.md`.
//!
//! Without the feature `engine` this crate has the parts that need neither DDS nor Zenoh: names, QoS and why two ends do not match, what gateways and nodes say about themselves, and the
//! conversion of samples.
//!
//! Not here: definitions of ROS 2 types and CDR (`driveline-rosidl`), graph files and rules (`driveline-runtime`), services, actions.

pub mod clock;
pub mod convert;
#[cfg(feature = "engine")]
mod dds;
#[cfg(feature = "engine")]
pub mod engine;
pub mod names;
pub mod qos;
pub mod rmw_cyclonedds;
pub mod rmw_zenoh;
pub mod said;
pub mod types;
