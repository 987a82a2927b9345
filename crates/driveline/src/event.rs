// SPDX-License-Identifier: Apache-2.0
//! Events of an endpoint, other than samples.

use driveline_types::MonotonicNs;
use std::collections::VecDeque;
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
    /// A peer on the same topic cannot be matched. Or no peer can find or match this endpoint, for
    /// example because the domain directory was removed.
    Refused {
        /// Reason and remedy, with the peer if there is one.
        text: String,
    },
    /// No sample came, or was published, for longer than the deadline. Each period without a sample
    /// counts, from the first sample on; an endpoint gives at most one such event in 100 ms.
    DeadlineMissed {
        /// Text with the topic and the deadline.
        text: String,
        /// Periods missed since the previous such event.
        missed: u64,
        /// Periods missed since the endpoint was created.
        total: u64,
    },
    /// A publisher gave no sign of life for longer than its lease. The publisher itself gets this
    /// event, too.
    LivelinessLost {
        /// Publisher: its node, or `publisher` with its id (through shared memory), or
        /// `this publisher` in its own event.
        peer: String,
    },
    /// A publisher that had lost its liveliness gives signs of life again.
    LivelinessGained {
        /// Publisher: its node, or `publisher` with its id (through shared memory).
        peer: String,
    },
    /// A publish has waited `max_blocking_ms` for a reliable subscription without success.
    /// The publisher does not wait for this subscription again before it has read everything; it
    /// misses samples meanwhile.
    ReliableTimeout {
        /// Text with the topic, the time, the reader and the remedy.
        text: String,
        /// Such waits since the previous such event. A publish has one for each slow subscription.
        timeouts: u64,
        /// Time-outs since the publisher was created. At host reach: number of publishes that timed
        /// out, each counted once however many subscriptions were slow. At process reach: number of
        /// waits that timed out.
        total: u64,
    },
    /// A reliable subscription is served best effort from now on.
    Downgraded {
        /// Peer and reason.
        text: String,
    },
    /// Events were lost because they were not polled in time.
    EventsLost {
        /// Number of such events.
        count: u64,
    },
}

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Normal operation.
    Info,
    /// Works, but worse than requested.
    Warning,
    /// Does not work until a person changes something.
    Error,
}

impl EndpointEvent {
    /// Returns the severity of the event.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::Matched { .. } | Self::Unmatched { .. } | Self::LivelinessGained { .. } => {
                Severity::Info
            }
            Self::DeadlineMissed { .. }
            | Self::LivelinessLost { .. }
            | Self::ReliableTimeout { .. }
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
                let times = if *missed == 1 { "once" } else { &format!("{missed} times") };
                if missed == total {
                    write!(f, "{text}: {times} so far")
                } else {
                    write!(f, "{text}: {times} since the last line, {total} in all")
                }
            }
            Self::ReliableTimeout { text, timeouts: 1, total: 1 } => f.write_str(text),
            Self::ReliableTimeout { text, timeouts, total } => {
                write!(f, "{text} ({timeouts} times since the last line, {total} in all)")
            }
            Self::EventsLost { count } => {
                write!(f, "{count} events were lost because they were not polled")
            }
            Self::LivelinessLost { peer } => write!(f, "{peer} gives no sign of life"),
            Self::LivelinessGained { peer } => write!(f, "{peer} is alive again"),
        }
    }
}

/// Minimum time between two log lines of one kind about one endpoint.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum time between two equal log lines about a refused peer, which retries continually.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(60);
/// Refusals of one endpoint that are remembered.
const REFUSALS: usize = 32;

/// Limits the log lines of one endpoint about missed deadlines and time-outs of reliable publishes
/// to one of each kind a second. Each line contains the number since the previous one. The same
/// refusal is logged once a minute. Other events are logged without a limit.
#[derive(Clone, Debug, Default)]
pub struct EventLines {
    deadlines: LineLimit,
    timeouts: LineLimit,
    refusals: VecDeque<(MonotonicNs, String)>,
}

#[derive(Clone, Debug, Default)]
struct LineLimit {
    not_before: MonotonicNs,
    unsaid: u64,
}

impl LineLimit {
    /// Returns the number to log now, if a line is due.
    fn admit(&mut self, count: u64, now: MonotonicNs) -> Option<u64> {
        self.unsaid += count;
        if now < self.not_before {
            return None;
        }
        self.not_before = now + LINE_INTERVAL;
        Some(std::mem::take(&mut self.unsaid))
    }
}

impl EventLines {
    /// Returns the event to log now, or `None` if no line is due.
    pub fn admit(&mut self, mut event: EndpointEvent, now: MonotonicNs) -> Option<EndpointEvent> {
        match &mut event {
            EndpointEvent::DeadlineMissed { missed, .. } => {
                *missed = self.deadlines.admit(*missed, now)?;
            }
            EndpointEvent::ReliableTimeout { timeouts, .. } => {
                *timeouts = self.timeouts.admit(*timeouts, now)?;
            }
            EndpointEvent::Refused { text } => self.admit_refusal(text, now)?,
            _ => {}
        }
        Some(event)
    }

    fn admit_refusal(&mut self, text: &str, now: MonotonicNs) -> Option<()> {
        self.refusals.retain(|(logged, _)| now < *logged + REFUSAL_INTERVAL);
        if self.refusals.iter().any(|(_, logged)| logged == text) {
            return None;
        }
        self.refusals.truncate(REFUSALS - 1);
        self.refusals.push_front((now, text.to_owned()));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_on_missed_deadlines_are_a_second_apart_and_leave_none_out() {
        let mut lines = EventLines::default();
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
        assert_eq!(line.to_string(), "topic 'a': late: 59 times since the last line, 60 in all");
    }

    #[test]
    fn lines_on_one_refusal_are_a_minute_apart_whichever_others_come_between() {
        let mut lines = EventLines::default();
        let refused = |text: &str| EndpointEvent::Refused { text: text.into() };
        let at = |s: u64| MonotonicNs(1_000_000_000 * (1 + s));
        for (second, logged) in [(0, true), (59, false), (60, true)] {
            for text in ["lane needs pins", "detector needs pins"] {
                let event = lines.admit(refused(text), at(second));
                assert_eq!(event, logged.then(|| refused(text)), "{text} after {second} s");
            }
        }
    }

    #[test]
    fn lines_on_reliable_time_outs_are_a_second_apart_whatever_else_is_logged() {
        let mut lines = EventLines::default();
        let event = |timeouts, total| EndpointEvent::ReliableTimeout {
            text: "topic 'a': waited".into(),
            timeouts,
            total,
        };
        let late = EndpointEvent::DeadlineMissed { text: "b".into(), missed: 1, total: 1 };
        let at = |ms: u64| MonotonicNs(1_000_000_000 + ms * 1_000_000);
        assert_eq!(lines.admit(late.clone(), at(0)), Some(late));
        let first = lines.admit(event(1, 1), at(0)).unwrap();
        assert_eq!(first.to_string(), "topic 'a': waited");
        assert_eq!(
            (lines.admit(event(1, 2), at(9)), lines.admit(event(1, 3), at(999))),
            (None, None)
        );
        let line = lines.admit(event(1, 4), at(1000)).unwrap();
        assert_eq!(line.to_string(), "topic 'a': waited (3 times since the last line, 4 in all)");
    }
}
