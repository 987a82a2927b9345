// SPDX-License-Identifier: Apache-2.0
//! Processes beside the modules of a graph, which carry its topics elsewhere.

use crate::network::GatewayConfig;
use crate::ros2::Ros2GatewayConfig;
use std::path::PathBuf;

/// A gateway for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayOptions {
    /// What it is called among the modules of the run.
    pub name: &'static str,
    /// The program.
    pub program: PathBuf,
    /// What it is to carry, and how: the line of JSON that it reads first.
    pub config: String,
}

impl GatewayOptions {
    /// A gateway to other hosts; for the program see [`super::find_gateway`].
    ///
    /// # Errors
    /// If the configuration cannot be written as JSON.
    pub fn to_hosts(program: PathBuf, config: &GatewayConfig) -> serde_json::Result<Self> {
        Ok(Self { name: "gateway", program, config: serde_json::to_string(config)? })
    }

    /// A gateway to ROS 2 nodes; for the program see [`super::find_ros2_gateway`].
    ///
    /// # Errors
    /// If the configuration cannot be written as JSON.
    pub fn to_ros2(program: PathBuf, config: &Ros2GatewayConfig) -> serde_json::Result<Self> {
        Ok(Self { name: "gateway-ros2", program, config: serde_json::to_string(config)? })
    }
}
