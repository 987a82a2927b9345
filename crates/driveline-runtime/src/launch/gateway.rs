// SPDX-License-Identifier: Apache-2.0
//! Processes beside the modules of a graph, which carry its topics elsewhere.

use crate::network::{self, GatewayConfig};
use crate::ros2::{self, Ros2GatewayConfig};
use std::fmt;
use std::path::PathBuf;

/// Whether this is the name of a gateway; no module has it.
pub(super) fn is_gateway(process: &str) -> bool {
    [network::PROCESS, ros2::PROCESS].contains(&process)
}

/// A process of a run in words, at the beginning or in the middle of a sentence.
pub(super) struct Called<'a>(pub(super) &'a str);

impl fmt::Display for Called<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if is_gateway(self.0) { "process" } else { "module" };
        write!(f, "{kind} '{}'", self.0)
    }
}

/// A gateway for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayOptions {
    /// What it is called among the modules of the run.
    pub name: &'static str,
    /// The program.
    pub program: PathBuf,
    /// What it is to carry, and how: the line of JSON that it reads first.
    pub config: String,
    /// What libraries in it read from the environment, unless a person has set it.
    pub environment: Vec<(&'static str, &'static str)>,
}

impl GatewayOptions {
    /// A gateway to other hosts; for the program see [`super::find_gateway`].
    ///
    /// # Errors
    /// If the configuration cannot be written as JSON.
    pub fn to_hosts(program: PathBuf, config: &GatewayConfig) -> serde_json::Result<Self> {
        Ok(Self {
            name: network::PROCESS,
            program,
            config: serde_json::to_string(config)?,
            environment: config.environment(),
        })
    }

    /// A gateway to ROS 2 nodes; for the program see [`super::find_ros2_gateway`].
    ///
    /// # Errors
    /// If the configuration cannot be written as JSON.
    pub fn to_ros2(program: PathBuf, config: &Ros2GatewayConfig) -> serde_json::Result<Self> {
        Ok(Self {
            name: ros2::PROCESS,
            program,
            config: serde_json::to_string(config)?,
            environment: config.environment(),
        })
    }
}
