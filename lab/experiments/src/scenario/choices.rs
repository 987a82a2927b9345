// SPDX-License-Identifier: Apache-2.0
//! Values with a fixed set of choices.

use driveline_bench::Metric;
use driveline_bench::deployment::Deployment;
use driveline_bench::harness::{Payload, Reach, Reliability, Take};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Subject of a question, in addition to latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerSpec {
    /// Number of links at the same time (`copies`) without a lost, late or unsent sample.
    CarriedLinks,
    /// Difference between the first and the last of several subscribers, and whether the same one
    /// is always last.
    Fairness,
    /// Effect of a preference (`favour`) on the preferred subscriber and on the slowest other
    /// one, compared with the same case without.
    Preferred,
    /// Spread of latencies: mean and standard deviation of each system, by size where there are
    /// several.
    Jitter,
    /// Effect of other settings of a middleware (`udp_500`), compared with its usual ones (`udp`).
    Settings,
    /// Growth of latency and throughput with the size of payloads.
    Throughput,
}

/// Measurement of a link in place of samples that pass from publisher to subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeasureSpec {
    /// Processor time of both ends while nothing is published.
    AtRest,
    /// From starting the process of one end until the subscriber has a sample, for both ends.
    StartUp,
    /// From publishing to the callback, on the thread that publishes.
    SameThread,
}

/// Headline figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// From publishing until the sample is in hand, also if payloads are filled.
    Transport,
    /// From publishing until the last subscriber has it.
    LastSubscriber,
    /// From the due time until the sample is in hand.
    ScheduleRelative,
    /// From before the payload is filled until the sample is in hand.
    FillAndTransport,
    /// From one sample in hand to the next one: the size divided by it is the goodput.
    BetweenArrivals,
}

impl From<Figure> for Metric {
    fn from(f: Figure) -> Self {
        match f {
            Figure::Transport => Self::Transport,
            Figure::LastSubscriber => Self::LastSubscriber,
            Figure::ScheduleRelative => Self::ScheduleRelative,
            Figure::FillAndTransport => Self::FillAndTransport,
            Figure::BetweenArrivals => Self::BetweenArrivals,
        }
    }
}

macro_rules! words {
    ($(#[$meta:meta])* $name:ident => $to:ident { $($(#[$doc:meta])* $word:ident),* }) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
        )]
        #[serde(rename_all = "snake_case")]
        #[value(rename_all = "snake_case")]
        pub enum $name { $($(#[$doc])* $word),* }

        impl From<$name> for $to {
            fn from(w: $name) -> Self {
                match w { $($name::$word => Self::$word),* }
            }
        }
    };
}

words! {
    /// Reach between the ends.
    ReachSpec => Reach {
        /// Threads of one process.
        Process,
        /// Processes.
        Host,
        /// Processes of two hosts, which are network namespaces of this machine with a cable
        /// between them; needs root.
        Network
    }
}
words! {
    /// Place of the processes of a link.
    DeploymentSpec => Deployment {
        /// On this machine.
        Bare,
        /// In one container.
        Container,
        /// In a container each.
        Containers,
        /// In a container each, with one network, IPC and PID namespace, `/dev/shm` and `/tmp`.
        ContainersInPod,
        /// In a container each, with a seccomp profile that refuses `futex_waitv`.
        ContainersWithoutFutexWaitv
    }
}

impl DeploymentSpec {
    /// Returns the name for cells and tables.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Container => "one container",
            Self::Containers => "a container each",
            Self::ContainersInPod => "a container each, in a pod",
            Self::ContainersWithoutFutexWaitv => "a container each without futex_waitv",
        }
    }
}

words! {
    /// Access of a reader to a payload.
    TakeSpec => Take {
        /// In place.
        Borrow,
        /// Copied.
        Copy
    }
}
words! {
    /// Treatment of payloads.
    PayloadSpec => Payload {
        /// Nothing.
        Untouched,
        /// Written, read and verified.
        Filled
    }
}
words! {
    /// Permission to lose samples.
    ReliabilitySpec => Reliability {
        /// Samples may be lost.
        BestEffort,
        /// Samples may not be lost, within bounds.
        Reliable
    }
}

/// Place of the ends.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum CpusSpec {
    /// The publisher on the first CPU, subscribers on the others in turn.
    Apart,
    /// All on the first CPU.
    One,
    /// The kernel decides.
    Any,
}
