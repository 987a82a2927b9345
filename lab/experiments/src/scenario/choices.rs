// SPDX-License-Identifier: Apache-2.0
//! What there is to choose from.

use driveline_bench::Metric;
use driveline_bench::deployment::Deployment;
use driveline_bench::harness::{Payload, Reach, Reliability, Take};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a question is about, besides latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerSpec {
    /// How many links at the same time (`copies`) are carried before a sample is lost, late or not
    /// sent.
    CarriedLinks,
    /// How far apart the first and the last of several subscribers are, and whether it is always
    /// the same one that is last.
    Fairness,
    /// What a preference (`favour`) does for the subscriber that has it and for the slowest other
    /// one, beside the same case without.
    Preferred,
    /// How latencies spread: mean and standard deviation of each system, by size where there are
    /// several.
    Jitter,
    /// What other settings of a middleware (`udp_500`) change beside its usual ones (`udp`).
    Settings,
    /// How latency and throughput grow with the size of payloads.
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
    /// Where the ends are.
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
    /// Where the processes of a link run.
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
    /// How a reader gets at a payload.
    TakeSpec => Take {
        /// In place.
        Borrow,
        /// Copied.
        Copy
    }
}
words! {
    /// What is done with payloads.
    PayloadSpec => Payload {
        /// Nothing.
        Untouched,
        /// Written, read and verified.
        Filled
    }
}
words! {
    /// Whether samples may be lost.
    ReliabilitySpec => Reliability {
        /// They may.
        BestEffort,
        /// They may not, within bounds.
        Reliable
    }
}

/// Where the ends run.
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
