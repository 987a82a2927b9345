// SPDX-License-Identifier: Apache-2.0
//! Errors at the start of a gateway.

use crate::dds::DdsError;
use thiserror::Error;

/// Reason why a gateway could not be started.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// The configuration has mistakes.
    #[error(transparent)]
    Mistakes(#[from] driveline_gateway::ConfigMistakes),
    /// A setting in the section `ros2:` is not possible.
    #[error("ros2.{key}: {message}; {help}")]
    Config {
        /// The key.
        key: &'static str,
        /// Description.
        message: String,
        /// Remedy.
        help: String,
    },
    /// A directory under `types` cannot be used, for example because it has no definitions.
    #[error("ros2.types: {0}")]
    Types(#[from] driveline_rosidl::DefinitionError),
    /// Joining DDS is not possible.
    #[error(
        "{source}; the line above says why. It uses {interface} (`ip link` lists the interfaces), \
         and in DDS domain {domain_id} the UDP ports {ports} (`ss -lunp` lists their owners)"
    )]
    Network {
        /// Error of CycloneDDS.
        source: DdsError,
        /// The interface.
        interface: String,
        /// `ros2.domain_id`.
        domain_id: u32,
        /// Required ports.
        ports: String,
    },
    /// Zenoh refuses to open the session.
    #[error(
        "Zenoh cannot take part ({endpoints}): {reason}; `ss -lntp` lists the owners of ports; to \
         use another port, change ros2.zenoh.listen"
    )]
    Zenoh {
        /// Configured endpoints, or the setting that was refused.
        endpoints: String,
        /// Zenoh's error.
        reason: String,
    },
    /// CycloneDDS refuses a call.
    #[error("{0}")]
    Dds(#[from] DdsError),
    /// Another gateway runs in the domain, or the lock file cannot be used.
    #[error(transparent)]
    OnlyOne(#[from] driveline_gateway::OnlyOneError),
    /// The host transport refuses to join the domain.
    #[error("cannot join the domain: {0}")]
    Join(#[from] driveline_shm::OpenError),
    /// Joining the domain for services is not possible.
    #[error("cannot join the domain for services: {0}")]
    JoinServices(#[from] driveline::OpenError),
    /// The gateway's name towards other processes is invalid.
    #[error(transparent)]
    Node(#[from] driveline::NodeError),
    /// A topic cannot be read.
    #[error("cannot read topic '{topic}': {source}")]
    Read {
        /// Topic.
        topic: String,
        /// Reason.
        source: driveline_shm::CreateSubscriptionError,
    },
    /// A call of the operating system failed.
    #[error("cannot {action}: {source}")]
    System {
        /// Attempted action.
        action: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Waiting is not possible.
    #[error("cannot wait for publishers: {0}")]
    Wait(#[from] driveline_shm::WaitSetError),
}
