// SPDX-License-Identifier: Apache-2.0
//! The figures that stamps turn into.

use serde::{Deserialize, Serialize};

/// A figure. All are durations in nanoseconds, except those of [`Metric::is_per_second`]:
/// nanoseconds of processor time per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Just before `publish()` until the sample is in hand (copied, if it is copied). In a
    /// ping-pong half the round trip, asking for memory included, filling not.
    Transport,
    /// Likewise, until the last of several subscribers has it.
    LastSubscriber,
    /// From when the sample was due until it is in hand.
    ScheduleRelative,
    /// From before memory is asked for until the sample is in hand: filling and transport.
    FillAndTransport,
    /// From before memory is asked for until the payload is filled.
    Fill,
    /// The call of `publish()`.
    PublishCall,
    /// From the end of the wait until the sample is in hand.
    WakeToHand,
    /// From one sample in hand to the next one: the payload's size divided by it is the goodput.
    /// Open loops only.
    BetweenArrivals,
    /// Copying the payload.
    Copy,
    /// Reading and verifying the payload; in no other figure.
    Read,
    /// From the start of the publisher's process to the first sample that a waiting subscriber has
    /// in hand.
    StartPublisher,
    /// From the start of the subscriber's process until it has the sample in hand that waits for
    /// it.
    StartSubscriber,
    /// Processor time of the publisher's process at rest, in nanoseconds per second.
    IdlePublisherCpu,
    /// Processor time of a blocked subscriber's process at rest, in nanoseconds per second.
    IdleSubscriberCpu,
    /// Of that: the thread that is blocked in the wait.
    IdleReaderCpu,
}

impl Metric {
    /// Returns whether it is processor time per second, in nanoseconds.
    #[must_use]
    pub fn is_per_second(self) -> bool {
        matches!(self, Self::IdlePublisherCpu | Self::IdleSubscriberCpu | Self::IdleReaderCpu)
    }

    /// For tables.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::LastSubscriber => "last subscriber",
            Self::ScheduleRelative => "schedule-relative",
            Self::FillAndTransport => "fill + transport",
            Self::Fill => "fill",
            Self::PublishCall => "publish()",
            Self::WakeToHand => "wake to hand",
            Self::BetweenArrivals => "between arrivals",
            Self::Copy => "copy",
            Self::Read => "read + verify",
            Self::StartPublisher => "publisher starts",
            Self::StartSubscriber => "subscriber starts",
            Self::IdlePublisherCpu => "publisher's CPU per s",
            Self::IdleSubscriberCpu => "subscriber's CPU per s",
            Self::IdleReaderCpu => "blocked reader's CPU per s",
        }
    }
}

/// A ratio to be computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Figure of this case.
    pub metric: Metric,
    /// The other case.
    pub to: String,
    /// Figure of the other case.
    pub of: Metric,
}
