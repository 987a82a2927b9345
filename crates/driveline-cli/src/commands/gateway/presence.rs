// SPDX-License-Identifier: Apache-2.0
//! Presence of a host, or of another start of its gateway.

use super::format::{NAME, short};
use crate::text::cut;
use driveline_gateway::{HostReport, Report};

/// Present state of a host that sends or receives a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    There,
    Gone,
    /// The gateway of this start is gone. A gateway of another start exists on the same host, or
    /// existed there later than this one.
    Restarted,
}

impl Presence {
    /// Returns the state of a host. A host that the report does not name counts as present.
    pub(super) fn of(host: &str, report: &Report) -> Self {
        let name = |host: &str| host.rsplit_once('.').map_or(host, |(name, _)| name).to_owned();
        let Some(this) = report.hosts.iter().find(|h| h.host == host).filter(|h| !h.alive) else {
            return Self::There;
        };
        let since = |other: &HostReport| {
            name(&other.host) == name(host) && (other.alive || other.for_ms < this.for_ms)
        };
        if report.hosts.iter().any(since) { Self::Restarted } else { Self::Gone }
    }

    /// Returns the host's name, with the start number if the host's gateway has restarted.
    pub(super) fn name(self, host: &str) -> String {
        if self == Self::Restarted { cut(host, NAME) } else { short(host) }
    }

    /// Returns the state of a topic, or the state of its host if that host is gone.
    pub(super) fn or(self, state: &str) -> &str {
        match self {
            Self::There => state,
            Self::Gone => "host is gone",
            Self::Restarted => "restarted since",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_starts_of_a_host_that_is_gone_the_last_one_is_gone_and_the_others_have_restarted()
    {
        let host = |start: &str, alive, for_ms| HostReport {
            host: format!("trunk.{start}"),
            alive,
            for_ms,
            ..HostReport::default()
        };
        let of = |hosts: Vec<HostReport>| {
            let report = Report { hosts, ..Report::default() };
            ["trunk.1", "trunk.2", "roof.9"].map(|name| Presence::of(name, &report))
        };
        let roof =
            HostReport { host: "roof.9".into(), alive: false, for_ms: 1, ..HostReport::default() };
        let gone = of(vec![host("1", false, 9_000), roof.clone(), host("2", false, 300)]);
        assert_eq!(gone, [Presence::Restarted, Presence::Gone, Presence::Gone]);
        let back = of(vec![host("1", false, 300), host("2", true, 100)]);
        assert_eq!(back, [Presence::Restarted, Presence::There, Presence::There]);
    }
}
