// SPDX-License-Identifier: Apache-2.0
//! What happens to an endpoint besides samples.

use std::fmt;

/// An event of a publisher or a subscription; its text is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointEvent {
    /// A peer was matched.
    Matched {
        /// Node at the other end.
        peer: String,
    },
    /// A matched peer went away or died.
    Unmatched {
        /// Node at the other end.
        peer: String,
    },
    /// A peer on the same topic cannot be matched.
    Refused {
        /// Who, why and what to do.
        text: String,
    },
    /// No sample came, or was published, for longer than the deadline.
    DeadlineMissed {
        /// Text with the topic and the deadline.
        text: String,
    },
    /// A publisher gave no sign of life for longer than its lease.
    LivelinessLost {
        /// Node at the other end.
        peer: String,
    },
    /// It is back.
    LivelinessGained {
        /// Node at the other end.
        peer: String,
    },
    /// A reliable subscription is served best effort from now on.
    Downgraded {
        /// Which, and why.
        text: String,
    },
    /// Events were lost because nobody asked for them in time.
    EventsLost {
        /// How many.
        count: u64,
    },
}

/// How much an event should worry whoever reads of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Info,
    /// Works, but worse than was asked for.
    Warning,
    /// Does not work until somebody changes something.
    Error,
}

impl EndpointEvent {
    /// How much it should worry whoever reads of it.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::Matched { .. } | Self::Unmatched { .. } | Self::LivelinessGained { .. } => Severity::Info,
            Self::DeadlineMissed { .. } | Self::LivelinessLost { .. } | Self::Downgraded { .. } | Self::EventsLost { .. } => {
                Severity::Warning
            }
            Self::Refused { .. } => Severity::Error,
        }
    }
}

impl fmt::Display for EndpointEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Matched { peer } => write!(f, "matched with {peer}"),
            Self::Unmatched { peer } => write!(f, "{peer} went away"),
            Self::Refused { text } | Self::DeadlineMissed { text } | Self::Downgraded { text } => f.write_str(text),
            Self::EventsLost { count } => write!(f, "{count} events were lost because nobody asked for them"),
            Self::LivelinessLost { peer } => write!(f, "{peer} gives no sign of life"),
            Self::LivelinessGained { peer } => write!(f, "{peer} is alive again"),
        }
    }
}
