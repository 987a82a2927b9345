// SPDX-License-Identifier: Apache-2.0
//! State of a subscription and of its connections to publishers.

use super::match_limits::Dialled;
use super::watch::SubscriptionWatch;
use crate::inlet::{Edge, Inlet, Page};
use crate::sys::blocking_tasks::Foreign;
use driveline_types::{EndpointId, MonotonicNs};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// A subscription, as the control thread sees it.
pub(super) struct InletState {
    pub(super) inlet: Arc<Inlet>,
    pub(super) topic: u64,
    /// Publishers of the topic by socket name.
    pub(super) known: HashMap<String, Known>,
    /// Publishers already notified that they cannot be matched now.
    pub(super) notified: HashSet<String>,
    pub(super) watch: SubscriptionWatch,
}

pub(super) enum Known {
    /// Dialled, with or without a match.
    Connected,
    /// Refused permanently.
    Refused,
    /// Not matched now. For example, it refused for now, was busy, or hung up. Dialled again at
    /// `at`.
    Retry { at: MonotonicNs, pause: Duration },
}

/// A connection to a publisher.
pub(super) struct Dial {
    pub(super) inlet: EndpointId,
    pub(super) name: String,
    pub(super) state: DialState,
}

impl Dial {
    pub(super) fn undecided(&self) -> Option<&Foreign> {
        if let DialState::Asked { socket, .. } = &self.state { Some(socket) } else { None }
    }

    pub(super) fn dialled(&self, key: u64) -> Dialled {
        let (socket, matched, silent) = match &self.state {
            DialState::Asked { socket, complain_at, .. } => (socket, false, complain_at.is_none()),
            DialState::Matched { edge, .. } => (&*edge.socket, true, false),
        };
        Dialled { key, user: socket.user(), matched, silent }
    }
}

pub(super) enum DialState {
    /// HELLO is sent.
    Asked {
        socket: Foreign,
        page: Page,
        /// Pause before the next attempt, if this one fails.
        pause: Duration,
        /// Time at which the publisher's silence is reported. `None`: it was reported.
        complain_at: Option<MonotonicNs>,
    },
    Matched {
        edge: Arc<Edge>,
        since: MonotonicNs,
        /// Pause before the next attempt, if the match ends within a second.
        pause: Duration,
    },
}
