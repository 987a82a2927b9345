// SPDX-License-Identifier: Apache-2.0
//! What happens to an endpoint besides samples.

use driveline_types::MonotonicNs;
use std::fmt;
use std::time::Duration;

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
    /// No sample came, or was published, for longer than the deadline. Each period without a sample counts, from the first
    /// sample on; an endpoint gives at most one such event in 100 ms.
    DeadlineMissed {
        /// Text with the topic and the deadline.
        text: String,
        /// Periods missed since the event before this one.
        missed: u64,
        /// Periods missed since the endpoint was created.
        total: u64,
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
            Self::Matched { .. } | Self::Unmatched { .. } | Self::LivelinessGained { .. } => {
                Severity::Info
            }
            Self::DeadlineMissed { .. }
            | Self::LivelinessLost { .. }
            | Self::Downgraded { .. }
            | Self::EventsLost { .. } => Severity::Warning,
            Self::Refused { .. } => Severity::Error,
        }
    }
}

impl fmt::Display for EndpointEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Matched { peer } => write!(f, "matched with {peer}"),
            Self::Unmatched { peer } => write!(f, "{peer} went away"),
            Self::Refused { text } | Self::Downgraded { text } => f.write_str(text),
            Self::DeadlineMissed { text, missed, total } => {
                write!(f, "{text}: missed {missed} times since the last report, {total} in all")
            }
            Self::EventsLost { count } => {
                write!(f, "{count} events were lost because nobody asked for them")
            }
            Self::LivelinessLost { peer } => write!(f, "{peer} gives no sign of life"),
            Self::LivelinessGained { peer } => write!(f, "{peer} is alive again"),
        }
    }
}

/// Least time between two log lines on missed deadlines of one endpoint.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Limits the log lines on missed deadlines of one endpoint to one a second; each says how many were missed since the one
/// before. Other events pass.
#[derive(Clone, Debug, Default)]
pub struct DeadlineLines {
    not_before: MonotonicNs,
    unsaid: u64,
}

impl DeadlineLines {
    /// Returns what to log of an event that comes now, if anything.
    pub fn admit(&mut self, event: EndpointEvent, now: MonotonicNs) -> Option<EndpointEvent> {
        let EndpointEvent::DeadlineMissed { text, missed, total } = event else {
            return Some(event);
        };
        self.unsaid += missed;
        if now < self.not_before {
            return None;
        }
        self.not_before = now + LINE_INTERVAL;
        Some(EndpointEvent::DeadlineMissed {
            text,
            missed: std::mem::take(&mut self.unsaid),
            total,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_on_missed_deadlines_are_a_second_apart_and_leave_none_out() {
        let mut lines = DeadlineLines::default();
        let event = |missed, total| EndpointEvent::DeadlineMissed {
            text: "topic 'a': late".into(),
            missed,
            total,
        };
        let at = |ms: u64| MonotonicNs(1_000_000_000 + ms * 1_000_000);
        assert_eq!(lines.admit(event(1, 1), at(0)), Some(event(1, 1)));
        assert_eq!(
            (lines.admit(event(20, 21), at(100)), lines.admit(event(20, 41), at(999))),
            (None, None)
        );
        let other = EndpointEvent::Matched { peer: "b".into() };
        assert_eq!(lines.admit(other.clone(), at(999)), Some(other));
        let line = lines.admit(event(19, 60), at(1000)).unwrap();
        assert_eq!(
            line.to_string(),
            "topic 'a': late: missed 59 times since the last report, 60 in all"
        );
    }
}
