// SPDX-License-Identifier: Apache-2.0
//! Errors at the start of a gateway.

use driveline_gateway::ConfigMistakes;
use std::net::IpAddr;
use std::path::PathBuf;
use thiserror::Error;

/// Reason why a gateway could not be started.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// The configuration has mistakes.
    #[error(transparent)]
    Mistakes(#[from] ConfigMistakes),
    /// A setting in the section `network:` is not possible.
    #[error("network.{key}: {message}; {help}")]
    Network {
        /// The key.
        key: &'static str,
        /// Description.
        message: String,
        /// Remedy.
        help: String,
    },
    /// Zenoh's configuration file cannot be used.
    #[error("cannot use the Zenoh configuration {}: {reason}", path.display())]
    ZenohFile {
        /// The file.
        path: PathBuf,
        /// Zenoh's error.
        reason: String,
    },
    /// Zenoh refuses a setting.
    #[error("Zenoh refuses {key} = {value}: {reason}")]
    ZenohRefuses {
        /// Key.
        key: &'static str,
        /// Its value.
        value: String,
        /// Zenoh's error.
        reason: String,
    },
    /// A named interface does not exist, or cannot be used yet. Zenoh would search for no hosts
    /// there, and never retry.
    #[error("the network interface {name} {why}; `ip address` lists them")]
    Interface {
        /// Its name.
        name: String,
        /// Missing property.
        why: &'static str,
    },
    /// An address to listen on is not one of this host's, or not yet.
    #[error("this host has no address {0}; `ip address` lists its addresses")]
    Address(IpAddr),
    /// The session cannot be opened.
    #[error(
        "cannot take part in the network{}: {reason}{}",
        unnamed(endpoints, reason),
        advice(reason)
    )]
    Open {
        /// Configured endpoints.
        endpoints: Vec<String>,
        /// Zenoh's error.
        reason: String,
    },
    /// A declaration was refused.
    #[error("Zenoh refuses to declare {what}: {reason}")]
    Declare {
        /// Declared object.
        what: String,
        /// Zenoh's error.
        reason: String,
    },
    /// The domain's name cannot be part of a key.
    #[error(
        "the domain '{0}' cannot be carried over the network: use letters, digits, '_', '-' and '.'"
    )]
    Domain(String),
    /// Another gateway runs in the domain, or the lock file cannot be used.
    #[error(transparent)]
    OnlyOne(#[from] driveline_gateway::OnlyOneError),
    /// The host transport refuses to join the domain.
    #[error("cannot join the domain: {0}")]
    Join(#[from] driveline_shm::OpenError),
    /// A topic cannot be watched.
    #[error("cannot watch the publishers of topic '{topic}': {source}")]
    Watch {
        /// Topic.
        topic: String,
        /// Reason.
        source: driveline_shm::CreateSubscriptionError,
    },
    /// A system call failed.
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

impl GatewayError {
    /// Returns true if the cause may end by itself: a starting computer may not have all its
    /// addresses and interfaces yet.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Interface { .. } | Self::Address(_) => true,
            // The interface exists, but has no address yet.
            Self::Open { reason, .. } => reason.contains("(os error 99)"),
            _ => false,
        }
    }
}

/// Lists the endpoints, unless Zenoh's text names one of them.
fn unnamed(endpoints: &[String], reason: &str) -> String {
    let addresses = endpoints.iter().filter_map(|e| e.split('#').next()?.split_once('/'));
    let named = addresses.into_iter().any(|(_, address)| reason.contains(address));
    if named || endpoints.is_empty() {
        String::new()
    } else {
        format!(" at {}", endpoints.join(", "))
    }
}

/// Remedy if Zenoh cannot listen, derived from the text of its error.
fn advice(reason: &str) -> &'static str {
    if reason.contains("(os error 98)") {
        "; which program uses it already (`ss -ltnp`)?"
    } else if reason.contains("(os error 99)") {
        "; is the address of `listen` one of this host's (`ip address`)?"
    } else if reason.contains("No such device") {
        "; `ip link` lists the interfaces of this host"
    } else if reason.contains("failed to lookup address") {
        "; is the name known (`getent hosts NAME`)?"
    } else if reason.contains("TLS") {
        "; are `authority` and `certificate` under `tls:` (in a file of Zenoh's \
         `root_ca_certificate`, `listen_certificate`, `connect_certificate`) there, and \
         certificates in PEM \
         (`openssl x509 -in FILE -noout`), and is the private key that of the certificate?"
    } else {
        ""
    }
}
