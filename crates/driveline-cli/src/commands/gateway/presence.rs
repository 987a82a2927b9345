// SPDX-License-Identifier: Apache-2.0
//! Whether a host is there, or another start of its gateway.

use super::{NAME, short};
use crate::text::cut;
use driveline_runtime::gateway::Report;

/// A host to which or from which a topic goes, as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    There,
    Gone,
    /// The gateway of this start is gone, and another one of the same host is there.
    Restarted,
}

impl Presence {
    /// One that the report does not name is there: nothing says that it is not.
    pub(super) fn of(host: &str, report: &Report) -> Self {
        let name = |host: &str| host.rsplit_once('.').map_or(host, |(name, _)| name).to_owned();
        if report.hosts.iter().find(|h| h.host == host).is_none_or(|h| h.alive) {
            Self::There
        } else if report.hosts.iter().any(|h| h.alive && name(&h.host) == name(host)) {
            Self::Restarted
        } else {
            Self::Gone
        }
    }

    /// The host's name; of one of several starts, with its number.
    pub(super) fn name(self, host: &str) -> String {
        if self == Self::Restarted { cut(host, NAME) } else { short(host) }
    }

    /// The state of a topic, or why it is another one.
    pub(super) fn or(self, state: &str) -> &str {
        match self {
            Self::There => state,
            Self::Gone => "host is gone",
            Self::Restarted => "restarted since",
        }
    }
}
