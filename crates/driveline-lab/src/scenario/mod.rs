// SPDX-License-Identifier: Apache-2.0
//! Scenario files: what an experiment asks, of which systems, with which links or workloads, and what was published about it.
//!
//! The experiments that come with the program are such files too; [`builtin`] lists them. Users copy one and edit it.

mod builtin;
mod load;

pub use builtin::{Builtin, builtin};
pub use load::{LoadError, load, schema};

use driveline_bench::Metric;
use driveline_bench::harness::{Payload, Reach, Reliability, Take};
use driveline_runtime::graph::ByteSize;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of a scenario is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// Driveline and two peers, in minutes.
    Quick,
    /// What a person waits for.
    Default,
    /// The durations and counts of the paper.
    Paper,
}

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Version of this kind of file: 1.
    #[schemars(range(min = 1, max = 1))]
    pub scenario: u32,
    /// Short name, unique among those that are run together: letters, digits, dashes.
    pub id: String,
    /// What it is, in one line.
    pub title: String,
    /// Where it comes from.
    pub source: String,
    /// What its result answers.
    pub question: String,
    /// What the question is about, besides latencies: the answer begins with that.
    pub answer: Option<AnswerSpec>,
    /// What is measured: driveline, peers or their variants, or all.
    #[serde(default = "all_systems")]
    #[schemars(length(min = 1))]
    pub systems: Vec<String>,
    /// What all its links have in common.
    #[serde(default)]
    pub link: CaseSpec,
    /// A processing chain instead of links, with the measured system on its edges (docs/protocols/chain.md).
    pub chain: Option<ChainSpec>,
    /// What is measured of each system, by name: one link (what is not said here is as under `link`), several links at the same time, or a workload.
    #[serde(default)]
    pub cases: IndexMap<String, CaseSpec>,
    /// Every case once for each combination of these.
    #[serde(default)]
    pub vary: Vary,
    /// How much is measured.
    #[serde(default)]
    pub run: RunSpec,
    /// Changes to `run` for --quick.
    #[serde(default)]
    pub quick: RunSpec,
    /// Changes to `run` for --paper.
    #[serde(default)]
    pub paper: RunSpec,
    /// The figure that counts most.
    #[serde(default)]
    pub figure: Option<Figure>,
    /// How often processor time and memory of each process are noted, in milliseconds; not at all if it is left out, because looking costs processor time too.
    #[schemars(range(min = 10, max = 60000))]
    pub watch_every_ms: Option<u64>,
    /// Whether the latency tools that peers bring run beside their ping-pong rows, which must agree with them.
    #[serde(default)]
    pub own_tools: bool,
    /// What was published about it.
    #[serde(default)]
    pub published: Vec<Published>,
    /// What its reader must know.
    #[serde(default)]
    pub notes: Vec<String>,
}

fn all_systems() -> Vec<String> {
    vec!["all".into()]
}

/// A link, several at the same time, or a workload; or what several cases have in common. What is left out is as the enclosing part
/// says, and else as noted in parentheses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaseSpec {
    /// Bytes of payload.
    pub size: Option<ByteSize>,
    /// Samples per second, at absolute times (open loop). Without it: ping-pong, half round trips.
    #[schemars(range(min = 0.01, max = 1_000_000.0))]
    pub rate_hz: Option<f64>,
    /// Number of subscribers (1).
    #[schemars(range(min = 1, max = 512))]
    pub subscribers: Option<usize>,
    /// How many links like this run at the same time (1).
    #[schemars(range(min = 1, max = 256))]
    pub copies: Option<usize>,
    /// Threads of one process, or processes (host): the ends of links, the stages of a chain.
    pub reach: Option<ReachSpec>,
    /// How readers wait: block, spin, or spin:US for so many microseconds, then block (block).
    pub wait: Option<String>,
    /// Whether readers look at payloads in place or copy them (borrow).
    pub take: Option<TakeSpec>,
    /// Whether payloads are written before publishing and verified after receiving (untouched).
    pub payload: Option<PayloadSpec>,
    /// QoS of both ends (`best_effort`).
    pub reliability: Option<ReliabilitySpec>,
    /// History depth of both ends (1).
    #[schemars(range(min = 1, max = 1024))]
    pub depth: Option<u32>,
    /// Busy work of a subscriber after each sample, in microseconds (0).
    #[schemars(range(max = 10_000_000))]
    pub processing_us: Option<u64>,
    /// Real-time priority (SCHED_FIFO) of all ends; 0 is time sharing (0).
    #[schemars(range(max = 99))]
    pub priority: Option<u8>,
    /// CPUs of both ends: `apart` (publisher on the first, subscribers on the others in turn), `one` (all on the first), `any` (apart).
    /// Of the stages of a chain that name no CPU: `apart` (on all CPUs in turn, in the order of the file), `one`, `any` (any).
    pub cpus: Option<CpusSpec>,
    /// Several links at the same time, by topic, instead of one; only in a case, and not one within the other.
    #[serde(default)]
    pub links: IndexMap<String, CaseSpec>,
    /// Processes that burn processor time beside the links (0).
    #[schemars(range(max = 64))]
    pub hogs: Option<usize>,
    /// Processor time that all ends share, in percent of one CPU (no limit).
    #[schemars(range(min = 1, max = 10_000))]
    pub quota_percent: Option<u32>,
    /// Reach network: megabits per second of the cable between the hosts, in each direction (as fast as the processors are).
    #[schemars(range(min = 1, max = 100_000))]
    pub cable_mbit: Option<u32>,
    /// Reach network: share of packets that the cable loses in each direction, in percent (0).
    #[schemars(range(min = 0.0, max = 50.0))]
    pub loss_percent: Option<f64>,
    /// One subscriber of each link that is preferred to everybody else.
    pub favour: Option<FavourSpec>,
    /// A workload instead of links.
    pub workload: Option<WorkloadSpec>,
    /// Topics of the chain that Driveline carries whoever is measured.
    #[serde(default)]
    pub driveline_edges: Vec<String>,
    /// The systems of this case, if they are others than the scenario's.
    #[schemars(length(min = 1))]
    pub systems: Option<Vec<String>>,
    /// The figure of this case that counts most, if it is another than the scenario's.
    pub figure: Option<Figure>,
}

/// How one subscriber is preferred.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FavourSpec {
    /// Which; the last one if it is left out.
    pub subscriber: Option<usize>,
    /// Its real-time priority (SCHED_FIFO).
    #[serde(default)]
    #[schemars(range(max = 99))]
    pub priority: u8,
    /// Whether it gets the last CPU for itself.
    #[serde(default)]
    pub exclusive_cpu: bool,
}

/// A graph that is run and observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// Which one.
    pub name: String,
    /// How; what there is depends on the workload.
    #[serde(default)]
    pub parameters: serde_json::Map<String, serde_json::Value>,
}

/// A chain of stages, each a process, or a thread, that works on what it receives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChainSpec {
    /// Stages by name; exactly one has no inputs: the source.
    pub stages: IndexMap<String, StageSpec>,
    /// Greatest size of a message on each topic, its head of 48 bytes included.
    pub edges: IndexMap<String, ByteSize>,
}

/// A stage of a chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// Topics: the first one triggers, the others contribute their newest.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// Topic.
    pub output: Option<String>,
    /// Name of a work that `make peers` builds, or the path of a library.
    pub work: String,
    /// For the work.
    #[serde(default)]
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// Parameters that environment variables give, where those are set: the parameter's name, and the variable's. Files are named
    /// from where the experiment is started.
    #[serde(default)]
    pub environment: IndexMap<String, String>,
    /// CPU; as the case's `cpus` says if it is left out.
    pub cpu: Option<usize>,
}

/// What varies. A list that is empty or left out varies nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    /// See `link`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub size: Vec<ByteSize>,
    /// See `link`.
    #[serde(default)]
    #[schemars(length(min = 1), inner(range(min = 0.01, max = 1_000_000.0)))]
    pub rate_hz: Vec<f64>,
    /// See `link`.
    #[serde(default)]
    #[schemars(length(min = 1), inner(range(min = 1, max = 512)))]
    pub subscribers: Vec<usize>,
    /// See `link`.
    #[serde(default)]
    #[schemars(length(min = 1), inner(range(min = 1, max = 256)))]
    pub copies: Vec<usize>,
    /// See `link`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub reach: Vec<ReachSpec>,
    /// See `link`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub wait: Vec<String>,
    /// See `link`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub take: Vec<TakeSpec>,
    /// See `link`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub payload: Vec<PayloadSpec>,
    /// See `link`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub reliability: Vec<ReliabilitySpec>,
    /// See `link`.
    #[serde(default)]
    #[schemars(length(min = 1), inner(range(min = 1, max = 1024)))]
    pub depth: Vec<u32>,
    /// See `link`.
    #[serde(default)]
    #[schemars(length(min = 1), inner(range(max = 10_000_000)))]
    pub processing_us: Vec<u64>,
    /// See `link`.
    #[serde(default)]
    #[schemars(length(min = 1), inner(range(max = 99)))]
    pub priority: Vec<u8>,
    /// See `cases`.
    #[serde(default)]
    #[schemars(length(min = 1), inner(range(max = 64)))]
    pub hogs: Vec<usize>,
    /// See `cases`.
    #[serde(default)]
    #[schemars(length(min = 1), inner(range(min = 1, max = 10_000)))]
    pub quota_percent: Vec<u32>,
    /// See `cases`.
    #[serde(default)]
    #[schemars(length(min = 1), inner(range(min = 1, max = 100_000)))]
    pub cable_mbit: Vec<u32>,
    /// See `cases`.
    #[serde(default)]
    #[schemars(length(min = 1), inner(range(min = 0.0, max = 50.0)))]
    pub loss_percent: Vec<f64>,
}

/// How much is measured. `quick` and `paper` say what is different from `run`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// How often everything is started anew, in a new random order (5).
    #[schemars(range(min = 1, max = 1000))]
    pub rounds: Option<u64>,
    /// Samples that count in each run (1000), or else `seconds`.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub messages: Option<u64>,
    /// How long each run sends or is observed; at least one sample of each link.
    #[schemars(range(min = 0.1, max = 86400.0))]
    pub seconds: Option<f64>,
    /// Samples before those that count (100).
    #[schemars(range(max = 1_000_000))]
    pub warm_up: Option<u64>,
    /// Which systems, if others.
    #[schemars(length(min = 1))]
    pub systems: Option<Vec<String>>,
    /// Which cases, if not all.
    #[schemars(length(min = 1))]
    pub cases: Option<Vec<String>>,
    /// What varies, if something else: replaces single lists.
    #[serde(default)]
    pub vary: Vary,
}

/// A figure that was published.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The system that was measured.
    pub system: String,
    /// The system here that it is shown beside.
    #[serde(default)]
    pub beside: Option<String>,
    /// The case that it belongs to.
    #[serde(default)]
    pub case: Option<String>,
    /// Bytes of payload, where the case has several.
    pub size: Option<ByteSize>,
    /// Number of subscribers, where the case has several.
    pub subscribers: Option<usize>,
    /// Threads of one process or processes, where the case has both.
    pub reach: Option<ReachSpec>,
    /// Which figure (transport), or what a workload observes.
    #[serde(default)]
    pub figure: Option<String>,
    /// Mean, in microseconds.
    pub mean_us: Option<f64>,
    /// Standard deviation, in microseconds.
    pub deviation_us: Option<f64>,
    /// Median, in microseconds.
    pub p50_us: Option<f64>,
    /// 95th percentile, in microseconds.
    pub p95_us: Option<f64>,
    /// 99th percentile, in microseconds.
    pub p99_us: Option<f64>,
    /// Greatest, in microseconds.
    pub max_us: Option<f64>,
    /// Of stages of a chain, by name: transmission in percent of processing.
    #[serde(default)]
    pub transmission_percent: IndexMap<String, f64>,
    /// On which machine, and under which conditions.
    #[serde(default)]
    pub on: String,
}

/// What a question is about, besides latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerSpec {
    /// How many links at the same time (`copies`) are carried before a sample is lost, late or not sent.
    CarriedLinks,
    /// What other settings of a middleware (`udp_500`) change beside its usual ones (`udp`).
    Settings,
    /// How latency and throughput grow with the size of payloads.
    Throughput,
}

/// The figure that counts most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Publishing to in hand.
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
        /// Processes of two hosts, which are network namespaces of this machine with a cable between them; needs root.
        Network
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
