// SPDX-License-Identifier: Apache-2.0
//! Values to choose from.

use driveline_bench::Metric;
use driveline_bench::deployment::Deployment;
use driveline_bench::harness::{Payload, Reach, Reliability, Take};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Subject of a question, besides latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerSpec {
    /// Number of links at the same time (`copies`) that are carried before a sample is lost, late
    /// or not sent.
    CarriedLinks,
    /// Distance between the first and the last of several subscribers, and whether the same one is
    /// always last.
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

/// The figure that counts most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Publishing to in hand, also where payloads are filled.
    Transport,
    /// Publishing until the last subscriber has it.
    LastSubscriber,
    /// From when the sample was due.
    ScheduleRelative,
    /// Filling included.
    FillAndTransport,
    /// From one sample in hand to the next one: size divided by it is the goodput.
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
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
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
        Containers
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
    /// Reliability: samples may be lost, or not.
    ReliabilitySpec => Reliability {
        /// They may.
        BestEffort,
        /// They may not, within bounds.
        Reliable
    }
}

/// Place of the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CpusSpec {
    /// The publisher on the first CPU, subscribers on the others in turn.
    Apart,
    /// All on the first CPU.
    One,
    /// The kernel decides.
    Any,
}
