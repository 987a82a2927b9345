// SPDX-License-Identifier: Apache-2.0
//! Why a gateway cannot start.

use crate::dds::DdsError;
use thiserror::Error;

/// A gateway could not be started.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// What the configuration says cannot be.
    #[error(transparent)]
    Mistakes(#[from] driveline_gateway::ConfigMistakes),
    /// What stands under `ros2:` cannot be.
    #[error("ros2.{key}: {message}; {help}")]
    Config {
        /// The key.
        key: &'static str,
        /// What is the matter.
        message: String,
        /// What to do.
        help: String,
    },
    /// A definition of a type is missing or has a mistake.
    #[error("ros2.types: {0}")]
    Types(#[from] driveline_rosidl::DefinitionError),
    /// Taking part in DDS is not possible.
    #[error(
        "{source}; the line above says why. It uses {interface} (`ip link` lists what there is), and in DDS domain {domain_id} the UDP ports {ports} (`ss -lunp` tells who has them)"
    )]
    Network {
        /// What CycloneDDS says.
        source: DdsError,
        /// The interface.
        interface: String,
        /// `ros2.domain_id`.
        domain_id: u32,
        /// Which ports it needs.
        ports: String,
    },
    /// Zenoh refuses.
    #[error(
        "Zenoh cannot take part ({endpoints}): {reason}; `ss -lntp` tells who has a port, and ros2.zenoh.listen names another"
    )]
    Zenoh {
        /// Where it was to listen, or which setting it does not take.
        endpoints: String,
        /// What it says.
        reason: String,
    },
    /// CycloneDDS refuses.
    #[error("{0}")]
    Dds(#[from] DdsError),
    /// Another gateway is there, or that cannot be found out.
    #[error(transparent)]
    OnlyOne(#[from] driveline_gateway::OnlyOneError),
    /// The host transport refuses.
    #[error("cannot join the domain: {0}")]
    Join(#[from] driveline_shm::OpenError),
    /// Taking part in services of the domain is not possible.
    #[error("cannot join the domain for services: {0}")]
    JoinServices(#[from] driveline::OpenError),
    /// The name that the gateway has for others cannot be.
    #[error(transparent)]
    Node(#[from] driveline::NodeError),
    /// A topic cannot be read.
    #[error("cannot read topic '{topic}': {source}")]
    Read {
        /// Topic.
        topic: String,
        /// Why.
        source: driveline_shm::CreateSubscriptionError,
    },
    /// Something of the system.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
    /// Waiting is not possible.
    #[error("cannot wait for publishers: {0}")]
    Wait(#[from] driveline_shm::WaitSetError),
}
