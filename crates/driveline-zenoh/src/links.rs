// SPDX-License-Identifier: Apache-2.0
//! Side of a connection that made it.

use crate::OwnRuntime;
use zenoh::session::Link;

/// Side that made a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MadeBy {
    /// The other side. The address at which it listens is unknown.
    OtherEnd,
    /// Zenoh on this side, which connects to addresses under `connect`.
    Configuration,
    /// This side, because the other side was reported to it. The other side listens at this
    /// address.
    Told(String),
}

/// Endpoints that a session listens on and connects to.
pub struct Ends {
    listens: Vec<String>,
    connects: Vec<String>,
}

impl Ends {
    /// Returns the endpoints of the session in this runtime. `connects`: its endpoints to connect
    /// to.
    #[must_use]
    pub fn new(runtime: &OwnRuntime, connects: &[String]) -> Self {
        Self {
            listens: runtime.listens(),
            connects: connects.iter().map(|endpoint| place(endpoint).to_owned()).collect(),
        }
    }

    /// Returns the side that made this connection.
    #[must_use]
    pub fn made_by(&self, link: &Link) -> MadeBy {
        self.made(link.src().as_str(), link.dst().as_str())
    }

    /// Returns the side that made a connection from `here` to `there`. If the other side made it,
    /// `here` has the port or path at which this session listens.
    fn made(&self, here: &str, there: &str) -> MadeBy {
        let there = place(there);
        if self.listens.iter().any(|listens| port(listens) == port(here)) {
            MadeBy::OtherEnd
        } else if self.connects.iter().any(|connects| connects == there) {
            MadeBy::Configuration
        } else {
            MadeBy::Told(there.to_owned())
        }
    }
}

/// Returns protocol and address, without metadata and settings.
fn place(endpoint: &str) -> &str {
    endpoint.split(['?', '#']).next().unwrap_or(endpoint)
}

/// Returns protocol, and port or path.
fn port(endpoint: &str) -> (&str, &str) {
    let (protocol, address) = place(endpoint).split_once('/').unwrap_or_default();
    (protocol, address.rsplit_once(':').map_or(address, |(_, port)| port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> Ends {
        let listens = ["tcp/10.0.0.1:7450", "tls/[::1]:7451", "unixsock-stream//run/car"]
            .map(str::to_owned)
            .to_vec();
        Ends { listens, connects: vec!["tcp/10.0.0.2:7450".into()] }
    }

    #[test]
    fn connections_of_the_other_end_have_the_port_of_this_session() {
        for here in ["tcp/10.0.0.9:7450", "tls/[fe80::1]:7451?rel=1", "unixsock-stream//run/car"] {
            assert_eq!(ends().made(here, "tcp/10.0.0.2:7450"), MadeBy::OtherEnd, "{here}");
        }
        for here in [
            "tcp/10.0.0.1:41234",
            "tcp/10.0.0.1:7451",
            "udp/10.0.0.1:7450",
            "unixsock-stream//run/other",
        ] {
            assert_eq!(
                ends().made(here, "tcp/10.0.0.3:7450?rel=1"),
                MadeBy::Told("tcp/10.0.0.3:7450".into()),
                "{here}"
            );
        }
    }

    #[test]
    fn endpoints_under_connect_are_known_without_their_metadata() {
        assert_eq!(
            ends().made("tcp/10.0.0.1:41234", "tcp/10.0.0.2:7450?rel=1"),
            MadeBy::Configuration
        );
    }
}
