// SPDX-License-Identifier: Apache-2.0
//! Why a gateway cannot start.

use driveline_gateway::ConfigMistakes;
use std::net::IpAddr;
use std::path::PathBuf;
use thiserror::Error;

/// A gateway could not be started.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// What the configuration says cannot be.
    #[error(transparent)]
    Mistakes(#[from] ConfigMistakes),
    /// What stands under `network:` cannot be.
    #[error("network.{key}: {message}; {help}")]
    Network {
        /// The key.
        key: &'static str,
        /// What is the matter.
        message: String,
        /// What to do.
        help: String,
    },
    /// Zenoh's configuration file cannot be used.
    #[error("cannot use the Zenoh configuration {}: {reason}", path.display())]
    ZenohFile {
        /// The file.
        path: PathBuf,
        /// What Zenoh says.
        reason: String,
    },
    /// Zenoh does not take a setting.
    #[error("Zenoh refuses {key} = {value}: {reason}")]
    ZenohRefuses {
        /// Which.
        key: &'static str,
        /// Its value.
        value: String,
        /// What Zenoh says.
        reason: String,
    },
    /// An interface that is named is not there, or cannot be used yet. Zenoh would look for nobody,
    /// and never again.
    #[error("the network interface {name} {why}; `ip address` lists them")]
    Interface {
        /// Its name.
        name: String,
        /// What it lacks.
        why: &'static str,
    },
    /// An address to listen on is not one of this host's, or not yet.
    #[error("this host has no address {0}; `ip address` lists those that it has")]
    Address(IpAddr),
    /// The session does not open.
    #[error(
        "cannot take part in the network{}: {reason}{}",
        unnamed(endpoints, reason),
        advice(reason)
    )]
    Open {
        /// Where it was to listen and to connect to.
        endpoints: Vec<String>,
        /// What Zenoh says.
        reason: String,
    },
    /// A declaration was refused.
    #[error("Zenoh refuses to declare {what}: {reason}")]
    Declare {
        /// What.
        what: String,
        /// What Zenoh says.
        reason: String,
    },
    /// The domain's name cannot stand in keys.
    #[error(
        "the domain '{0}' cannot be carried over the network: use letters, digits, '_', '-' and '.'"
    )]
    Domain(String),
    /// Another gateway is there, or that cannot be found out.
    #[error(transparent)]
    OnlyOne(#[from] driveline_gateway::OnlyOneError),
    /// The host transport refuses.
    #[error("cannot join the domain: {0}")]
    Join(#[from] driveline_shm::OpenError),
    /// A topic cannot be watched.
    #[error("cannot watch the publishers of topic '{topic}': {source}")]
    Watch {
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

impl GatewayError {
    /// Whether it may be otherwise without anybody doing anything: a computer that starts may not
    /// have all its addresses and interfaces yet.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Interface { .. } | Self::Address(_) => true,
            // On an interface that is there, the address is not yet.
            Self::Open { reason, .. } => reason.contains("(os error 99)"),
            _ => false,
        }
    }
}

/// The endpoints, if Zenoh's words name none of them.
fn unnamed(endpoints: &[String], reason: &str) -> String {
    let addresses = endpoints.iter().filter_map(|e| e.split('#').next()?.split_once('/'));
    let named = addresses.into_iter().any(|(_, address)| reason.contains(address));
    if named || endpoints.is_empty() {
        String::new()
    } else {
        format!(" at {}", endpoints.join(", "))
    }
}

/// What to look at when Zenoh cannot listen: it says why in words only.
fn advice(reason: &str) -> &'static str {
    if reason.contains("(os error 98)") {
        "; who is there already (`ss -ltnp`)?"
    } else if reason.contains("(os error 99)") {
        "; is the address of `listen` one of this host's (`ip address`)?"
    } else if reason.contains("No such device") {
        "; `ip link` lists the interfaces of this host"
    } else if reason.contains("failed to lookup address") {
        "; is the name known (`getent hosts NAME`)?"
    } else if reason.contains("TLS") {
        "; are `authority` and `certificate` under `tls:` (in a file of Zenoh's `root_ca_certificate`, `listen_certificate`, `connect_certificate`) there, and certificates in PEM \
         (`openssl x509 -in FILE -noout`), and is the private key that of the certificate?"
    } else {
        ""
    }
}
