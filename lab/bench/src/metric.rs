// SPDX-License-Identifier: Apache-2.0
//! Figures that are computed from stamps.

use serde::{Deserialize, Serialize};

/// A figure. All are durations in nanoseconds, except those of [`Metric::is_per_second`]:
/// nanoseconds of processor time per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// From just before `publish()` until the sample is in hand (copied, if it is copied). In a
    /// ping-pong: half the round trip, without [`Self::Fill`] of both ends. If payloads are not
    /// filled, nothing is subtracted, so the request for memory is included.
    Transport,
    /// From just before `publish()` until the last of several subscribers has the sample in hand.
    LastSubscriber,
    /// From when the sample was due until it is in hand.
    ScheduleRelative,
    /// From before memory is requested until the sample is in hand: filling and transport. In a
    /// ping-pong: half the round trip.
    FillAndTransport,
    /// From before memory is requested until the payload is filled.
    Fill,
    /// The call of `publish()`.
    PublishCall,
    /// From the end of the wait until the sample is in hand.
    WakeToHand,
    /// From one sample in hand to the next one. The payload's size divided by this time is the
    /// goodput. Open loops only.
    BetweenArrivals,
    /// Copying the payload.
    Copy,
    /// Reading and verifying the payload; part of no other figure.
    Read,
    /// From the start of the publisher's process to the first sample that a waiting subscriber has
    /// in hand.
    StartPublisher,
    /// From the start of the subscriber's process until it has a sample in hand that was published
    /// before this process started.
    StartSubscriber,
    /// Processor time of the publisher's process at rest, in nanoseconds per second.
    IdlePublisherCpu,
    /// Processor time of a blocked subscriber's process at rest, in nanoseconds per second.
    IdleSubscriberCpu,
    /// Part of [`Self::IdleSubscriberCpu`]: processor time of the thread that is blocked in the
    /// wait.
    IdleReaderCpu,
}

impl Metric {
    /// Returns true if the figure is processor time per second, in nanoseconds.
    #[must_use]
    pub fn is_per_second(self) -> bool {
        matches!(self, Self::IdlePublisherCpu | Self::IdleSubscriberCpu | Self::IdleReaderCpu)
    }

    /// Returns the label for tables.
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
            Self::StartPublisher => "publisher's start-up",
            Self::StartSubscriber => "subscriber's start-up",
            Self::IdlePublisherCpu => "publisher's CPU per s",
            Self::IdleSubscriberCpu => "subscriber's CPU per s",
            Self::IdleReaderCpu => "blocked reader's CPU per s",
        }
    }
}

/// Ratio to compute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Figure of this case, the dividend.
    pub metric: Metric,
    /// Name of the other case.
    pub to: String,
    /// Figure of the other case, the divisor.
    pub of: Metric,
}
