// SPDX-License-Identifier: Apache-2.0
//! Subjects of a measurement: links, workloads, chains, and varied dimensions.

use super::{
    CpusSpec, DeploymentSpec, Figure, MeasureSpec, PayloadSpec, ReachSpec, ReliabilitySpec,
    TakeSpec,
};
use driveline_graph::ByteSize;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A link, several at the same time, or a workload; or what several cases have in common. A key
/// that is not given has the value of the enclosing part, or else the default in parentheses.
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
    /// Number of links like this that run at the same time (1).
    #[schemars(range(min = 1, max = 256))]
    pub copies: Option<usize>,
    /// Where the ends of links and the stages of a chain run: threads of one process, processes of
    /// this host, or processes of two hosts (host).
    pub reach: Option<ReachSpec>,
    /// Waiting of readers: block, spin, or spin:US for so many microseconds, then block (block).
    pub wait: Option<String>,
    /// Access of readers to payloads: in place, or as a copy (borrow).
    pub take: Option<TakeSpec>,
    /// Payloads: written before publishing and verified after receiving, or not (untouched).
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
    /// CPUs of both ends: `apart` (publisher on the first CPU, subscribers on the others in turn),
    /// `one` (all on the first) or `any` (no affinity). Default: `apart`. CPUs of the stages
    /// of a chain that name none: `apart` (on all CPUs in turn, in the order of the file), `one` or
    /// `any`. Default: `any`.
    pub cpus: Option<CpusSpec>,
    /// Measurement of the link in place of samples that pass: processor time at rest, start-up, or
    /// publisher and callback on one thread. Permitted only in a case. Default: samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure: Option<MeasureSpec>,
    /// Several links at the same time, by topic, instead of one; only in a case, and not one within
    /// the other.
    #[serde(default)]
    #[schemars(extend("minProperties" = 1))]
    pub links: IndexMap<String, CaseSpec>,
    /// Processes that burn processor time next to the links (0).
    #[schemars(range(max = 64))]
    pub hogs: Option<usize>,
    /// Processor time that all ends share, in percent of one CPU (no limit).
    #[schemars(range(min = 1, max = 10_000))]
    pub quota_percent: Option<u32>,
    /// Reach network: megabits per second of the cable between the hosts, in each direction (as
    /// fast as the processors are).
    #[schemars(range(min = 1, max = 100_000))]
    pub cable_mbit: Option<u32>,
    /// Reach network: share of packets that the cable loses in each direction, in percent (0).
    #[schemars(range(min = 0.0, max = 50.0))]
    pub loss_percent: Option<f64>,
    /// Reach network: delay of the cable in each direction, in addition to the time for the bits,
    /// in milliseconds (0).
    #[schemars(range(min = 0.0, max = 500.0))]
    pub delay_ms: Option<f64>,
    /// Place of the processes of links, of chains and of the workload `chain`, at reach host:
    /// `bare`, in one `container`, or in `containers`, one each (bare). For links and chains also
    /// one each in `containers_in_pod`, with a common `/dev/shm`, or in
    /// `containers_without_futex_waitv`. Containers need root and Podman.
    pub deployment: Option<DeploymentSpec>,
    /// One subscriber of each link that is preferred to everybody else.
    pub favour: Option<FavourSpec>,
    /// A workload instead of links.
    pub workload: Option<WorkloadSpec>,
    /// Topics of the chain that Driveline carries in every system.
    #[serde(default)]
    pub driveline_edges: Vec<String>,
    /// The systems of this case, if they are others than the scenario's.
    #[schemars(length(min = 1))]
    pub systems: Option<Vec<String>>,
    /// The figure of this case that counts most, if it is another than the scenario's.
    pub figure: Option<Figure>,
}

impl CaseSpec {
    /// Returns true if the case measures samples, in place of start-up or processor time at rest.
    pub(crate) fn has_samples(&self) -> bool {
        self.measure.is_none_or(|measure| measure == MeasureSpec::SameThread)
    }
}

/// Preference for one subscriber.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FavourSpec {
    /// The subscriber; the last one if it is left out.
    pub subscriber: Option<usize>,
    /// Its real-time priority (SCHED_FIFO).
    #[serde(default)]
    #[schemars(range(max = 99))]
    pub priority: u8,
    /// True if it gets the last CPU for itself.
    #[serde(default)]
    pub exclusive_cpu: bool,
}

/// A graph that is run and observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// Name of the workload.
    pub name: String,
    /// Parameters; they depend on the workload.
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
    /// Parameters that environment variables give, where those are set: the parameter's name, and
    /// the variable's. Relative paths in these variables are relative to the directory in which the
    /// experiment is started.
    #[serde(default)]
    pub environment: IndexMap<String, String>,
    /// Parameters that name something to read: it is checked before the first run.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub reads: IndexMap<String, Reads>,
    /// CPU; as the case's `cpus` says if it is left out.
    pub cpu: Option<usize>,
}

/// Kind of thing that a parameter names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// A file.
    File,
    /// A video, a folder of images, the index of a camera, or `synthetic`.
    Frames,
}

/// Varied dimensions. A list that is empty or left out varies nothing.
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
    /// See `cases`.
    #[serde(default)]
    #[schemars(length(min = 1), inner(range(min = 0.0, max = 500.0)))]
    pub delay_ms: Vec<f64>,
    /// See `cases`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub deployment: Vec<DeploymentSpec>,
}
