// SPDX-License-Identifier: Apache-2.0
//! Types of a graph file. The published JSON Schema and the structural check are generated from
//! them.
//!
//! Names and references are plain text here; references are checked when the graph is resolved.

mod deployment;
mod modes;
mod reaction;
mod supervision;

pub use deployment::Cpus;
pub use modes::{EntrySpec, ModeOrder, ModeSpec};
pub use reaction::{LimitsSpec, RateSpec, Reaction};
pub use supervision::{OnExhausted, OnLauncherLost, RestartPolicy, RestartSpec};

use super::units::{ByteSize, Milliseconds};
use driveline::ParameterValue;
pub use driveline::{Reach, Schedule, SchedulingClass};
use driveline_types::limits::{MAX_HELD, MAX_LOANS, MAX_PINS};
use driveline_types::{Durability, Liveliness, Qos, Reliability};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::path::PathBuf;

/// Minimum and maximum of `max_rate_hz`, in samples each second.
pub const RATE_HZ: [f64; 2] = [0.001, 1_000_000.0];
/// Minimum and maximum of `every`.
pub const EVERY: [u32; 2] = [1, 1_000_000];

/// The format that this library reads.
pub const FORMAT: u32 = 1;

/// A graph: processes, the components in them, and the topics between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Driveline graph")]
pub struct GraphFile {
    /// Format of this file; the only one so far is 1.
    #[schemars(range(min = 1, max = 1))]
    pub driveline: u32,
    /// Name of the graph, for people.
    #[serde(default)]
    pub name: Option<String>,
    /// Name of the domain; processes of one user in one domain see each other's host topics.
    /// Default: the value of `DRIVELINE_DOMAIN`, or else `default`.
    #[serde(default)]
    #[schemars(extend("format" = "domain"))]
    pub domain: Option<String>,
    /// Id of a group whose members share the domain; without it, the domain belongs to one user.
    /// Topics admit other users only by `access`. Containers have a directory for each run.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub domain_group: Option<u32>,
    /// Other graph files, relative to this one, whose topics and modules belong to the graph.
    #[serde(default)]
    pub include: Vec<PathBuf>,
    /// Files `component: {parameter: value}`, relative to this one. They win over this file; later
    /// files win over earlier ones.
    #[serde(default)]
    pub params_files: Vec<PathBuf>,
    /// Reaction of the modules when the launcher is gone, for example killed. Default: `stop`.
    #[serde(default)]
    pub on_launcher_lost: Option<OnLauncherLost>,
    /// Topic on which the launcher publishes the health of the run, as `driveline.msgs.RunHealth`,
    /// once a second and when the state of a module, the phase or the mode changes. Declare it
    /// under `topics` with `external: true` and `reach: host` or `network`. Default: none.
    #[serde(default)]
    pub health_topic: Option<String>,
    /// Topics that need more than the defaults. Topics that are only named by components exist
    /// without an entry.
    #[serde(default)]
    pub topics: IndexMap<String, TopicSpec>,
    /// Modules; each is one process.
    #[serde(default)]
    pub modules: IndexMap<String, ModuleSpec>,
    /// Modes: named sets of active components. The run is in one of them at a time.
    #[serde(default)]
    pub modes: IndexMap<String, ModeSpec>,
    /// Mode in which the run begins. Default: the first one under `modes`.
    #[serde(default)]
    pub initial_mode: Option<String>,
}

/// A topic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TopicSpec {
    /// Reach of the topic.
    pub reach: Reach,
    /// Type that the ports must have, such as `driveline/Image`; checked, never needed.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// Largest payload: bytes, or text such as `2 MiB`. Memory for it is reserved at the start.
    pub max_payload: Option<ByteSize>,
    /// QoS that publishers offer and subscriptions request unless they say otherwise.
    pub qos: Qos,
    /// Samples of one publisher that all subscriptions together may hold. Default 8, and always
    /// enough for the subscriptions in this graph.
    #[schemars(range(min = 1, max = MAX_PINS))]
    pub pins: Option<u32>,
    /// Samples that a publisher may have on loan at once. Default 2.
    #[schemars(range(min = 1, max = MAX_LOANS))]
    pub loans: Option<u32>,
    /// Users that may take part at host reach. Default: `own_user`, or in containers with several
    /// users, the users of the modules at its ends.
    pub access: Option<Access>,
    /// Transfer of a topic with `reach: network` to other hosts.
    pub network: TopicNetworkSpec,
    /// A program outside this graph publishes or subscribes; without this key, a topic with only
    /// one end is reported.
    pub external: bool,
}

/// Transfer of a topic to other hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TopicNetworkSpec {
    /// Maximum number of samples sent to a host each second; the newest ones are sent. Default:
    /// only the link limits it.
    #[schemars(range(min = RATE_HZ[0], max = RATE_HZ[1]))]
    pub max_rate_hz: Option<f64>,
    /// Only every n-th sample of a publisher is sent to other hosts. Default: 1, all samples.
    #[schemars(range(min = EVERY[0], max = EVERY[1]))]
    pub every: Option<u32>,
}

/// Users that may take part in a host topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Processes of the user who runs the graph.
    #[default]
    OwnUser,
    /// Every process that can reach the domain directory.
    Anyone,
    /// Processes of these users (numeric user ids) and of the user who runs the graph.
    Users(Vec<u32>),
}

/// A module: one process with its executors and components.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModuleSpec {
    /// Environment variables of the process, in addition to the launcher's own.
    pub environment: IndexMap<String, String>,
    /// Executors. `main` need not be declared: it has one thread, and exists if a component uses
    /// it.
    pub executors: IndexMap<String, ExecutorSpec>,
    /// Components, started in this order and shut down in reverse.
    pub components: IndexMap<String, ComponentSpec>,
    /// Restart of the module after its process has ended. Default: it stays down, and the other
    /// modules continue.
    pub restart: Option<RestartSpec>,
    /// Time from the start of the process until all its components are initialised, in
    /// milliseconds. Default: 60 000.
    pub ready_within_ms: Option<Milliseconds>,
    /// Modules that must be ready before this one is started.
    pub depends_on: Vec<String>,
    /// Modules whose restart restarts this one as well.
    pub restart_with: Vec<String>,
    /// Image of the module's container. Default: one that is made from its libraries. The keys
    /// `image`, `user`, `cpus`, `memory`, `devices` and `mounts` are for runs in containers.
    pub image: Option<String>,
    /// User id of the module in its container. Default: that of the launcher, or 65532 if that is
    /// root.
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub user: Option<u32>,
    /// CPUs of the container: a number is a share of CPU time, a list a set of CPUs. Default: all.
    pub cpus: Option<Cpus>,
    /// Memory limit of the container, such as `512 MiB`; shared memory of the module's outputs
    /// counts. Default: none.
    pub memory: Option<ByteSize>,
    /// Devices in the container: `/dev/video0`, or a CDI name such as `nvidia.com/gpu=all`.
    pub devices: Vec<String>,
    /// Files and directories of the host in the container, read-only: `source`, `source:target`, or
    /// either with `:rw`. Relative sources are relative to this file.
    pub mounts: Vec<String>,
    /// Time after which a call that has not ended hangs, in milliseconds. Default: 3000 if
    /// `on_hang` is given; without both, calls are not checked.
    pub hang_ms: Option<Milliseconds>,
    /// Reaction when a call hangs. Default: `event`.
    pub on_hang: Option<Reaction>,
    /// Reaction when a call takes longer than the `budget_ms` of its component. Default: `event`.
    pub on_overrun: Option<Reaction>,
    /// Reaction when an input misses its `deadline_ms`. Default: it is counted and logged.
    pub on_deadline: Option<Reaction>,
    /// Reaction when an output leaves its `rate_hz`. Default: `event`.
    pub on_rate: Option<Reaction>,
    /// Resources that the process may use. Default: no limits but the system's.
    pub limits: LimitsSpec,
    /// Reaction when it uses more. Default: `event`.
    pub on_limit: Option<Reaction>,
    /// Keep all memory of the process present and locked, that of its topics, stacks and libraries
    /// included. Needs CAP_IPC_LOCK or an unlimited memlock limit. Default: false.
    pub lock_memory: bool,
    /// NUMA node on which the module's memory is and its threads run. Has no effect on a machine
    /// with one node. Default: anywhere.
    #[schemars(range(max = 1023))]
    pub numa: Option<u32>,
    /// Longest time in microseconds that a core may take to leave an idle state while the module
    /// runs; holds for the whole machine. Default: as the machine has it.
    #[schemars(range(max = 2_000_000_000))]
    pub cpu_dma_latency_us: Option<u32>,
}

/// Threads that run callbacks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExecutorSpec {
    /// Number of threads.
    #[schemars(range(min = 1, max = 256))]
    pub threads: u32,
    /// Microseconds that an idle thread spins before it sleeps.
    #[schemars(range(max = 1_000_000))]
    pub spin_us: u32,
    /// Scheduling of the threads. What the system refuses is reported when the graph starts, and
    /// the graph runs without it.
    pub schedule: Schedule,
}

impl Default for ExecutorSpec {
    fn default() -> Self {
        Self { threads: 1, spin_us: 0, schedule: Schedule::default() }
    }
}

/// A component: an instance of a class from a library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComponentSpec {
    /// Shared library. A relative path is searched next to the graph file, in
    /// `DRIVELINE_COMPONENT_PATH` and in the installation of Driveline.
    pub library: PathBuf,
    /// Class in the library.
    pub class: String,
    /// Executor of the module that runs the callbacks. Default: `main`.
    #[serde(default)]
    pub executor: Option<String>,
    /// Overlap of this component's callbacks.
    #[serde(default)]
    pub callback_group: GroupSpec,
    /// Parameters that differ from the class's defaults.
    #[serde(default)]
    pub parameters: IndexMap<String, ParameterValue>,
    /// Input ports: `port: topic`, or `port: {topic: …, max_held: …, qos: {…}}`.
    #[serde(default)]
    pub inputs: IndexMap<String, InputSpec>,
    /// Output ports: `port: topic`, or `port: {topic: …, qos: {…}}`.
    #[serde(default)]
    pub outputs: IndexMap<String, OutputSpec>,
    /// Trigger of the callback. Default: a sample on any input.
    #[serde(default)]
    pub trigger: Option<TriggerSpec>,
    /// Longest time of one call of the component, in milliseconds: of its callback, of a timer, of
    /// `on_event`, or a change of its state. Default: no limit.
    #[serde(default)]
    pub budget_ms: Option<Milliseconds>,
    /// Reaction when a call takes longer than `budget_ms`. Default: as the module says.
    #[serde(default)]
    pub on_overrun: Option<Reaction>,
}

/// Overlap of callbacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupSpec {
    /// One at a time.
    #[default]
    MutuallyExclusive,
    /// As many at once as the executor has threads.
    Reentrant,
}

/// An input port's connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum InputSpec {
    /// The topic.
    #[schemars(extend("format" = "name"))]
    Topic(String),
    /// The topic with more detail.
    Detailed(InputDetail),
}

/// An input port's connection in detail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputDetail {
    /// The topic.
    #[schemars(extend("format" = "name"))]
    pub topic: String,
    /// Samples of this input that the component may hold at once, those of running calls included.
    /// The default is the number that its trigger needs, plus one for each callback that may run
    /// at once.
    #[serde(default)]
    #[schemars(range(min = 1, max = MAX_HELD))]
    pub max_held: Option<u32>,
    /// Changes of the topic's QoS for this subscription.
    #[serde(default)]
    pub qos: QosChange,
    /// Reaction when the input misses its `deadline_ms`. Default: as the module says.
    #[serde(default)]
    pub on_deadline: Option<Reaction>,
}

/// An output port's connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OutputSpec {
    /// The topic.
    #[schemars(extend("format" = "name"))]
    Topic(String),
    /// The topic with more detail.
    Detailed(OutputDetail),
}

/// An output port's connection in detail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputDetail {
    /// The topic.
    #[schemars(extend("format" = "name"))]
    pub topic: String,
    /// Changes of the topic's QoS for this publisher.
    #[serde(default)]
    pub qos: QosChange,
    /// Strength of this publisher among those of the topic. Subscriptions of a topic with strengths
    /// deliver the strongest publisher's samples, and those of the next one when it is silent for
    /// `deadline_ms`. Default: 0; without any, all are delivered.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub strength: Option<u32>,
    /// Rate of the output while the graph runs, in Hz. Default: not checked.
    #[serde(default)]
    pub rate_hz: Option<RateSpec>,
    /// Reaction when the output leaves `rate_hz`. Default: as the module says.
    #[serde(default)]
    pub on_rate: Option<Reaction>,
}

impl InputSpec {
    /// The topic's name.
    #[must_use]
    pub fn topic(&self) -> &str {
        match self {
            Self::Topic(t) => t,
            Self::Detailed(d) => &d.topic,
        }
    }
}

impl OutputSpec {
    /// The topic's name.
    #[must_use]
    pub fn topic(&self) -> &str {
        match self {
            Self::Topic(t) => t,
            Self::Detailed(d) => &d.topic,
        }
    }
}

/// Trigger of a callback.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum TriggerSpec {
    /// A sample on any of the inputs `on`; the others are read. Default: every input.
    Any {
        /// The inputs that trigger.
        #[serde(default)]
        on: Vec<String>,
        /// A sample with older data neither triggers nor is read, and is counted. Default: no
        /// limit.
        #[serde(default)]
        max_age_ms: Option<Milliseconds>,
    },
    /// Absolute times, free of drift; inputs are read.
    Timer {
        /// Period in milliseconds.
        period_ms: Milliseconds,
        /// A sample with older data is not read, and is counted. Default: no limit.
        #[serde(default)]
        max_age_ms: Option<Milliseconds>,
    },
    /// A sample on `on`; the other inputs contribute their newest.
    AllLatest {
        /// The input that triggers.
        on: String,
        /// The callback is skipped, and counted, if an input's newest sample is older. Default: no
        /// limit.
        #[serde(default)]
        max_age_ms: Option<Milliseconds>,
    },
    /// One sample of each input with equal source time.
    Exact {
        /// Samples that are kept per input until their partners arrive.
        #[serde(default = "default_queue")]
        #[schemars(range(min = 1, max = 256))]
        queue: u32,
        /// A set with an older sample is dropped and counted. Default: no limit.
        #[serde(default)]
        max_age_ms: Option<Milliseconds>,
    },
    /// One sample of each input with source times as close as possible (ROS message_filters'
    /// ApproximateTime).
    Approximate {
        /// Samples that are kept per input until their partners arrive.
        #[serde(default = "default_queue")]
        #[schemars(range(min = 1, max = 256))]
        queue: u32,
        /// Greatest distance of the source times in a set. Default: no limit.
        #[serde(default)]
        max_interval_ms: Option<Milliseconds>,
        /// A set with an older sample is dropped and counted. Default: no limit.
        #[serde(default)]
        max_age_ms: Option<Milliseconds>,
    },
}

fn default_queue() -> u32 {
    10
}

/// QoS policies of one end that differ from the topic's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QosChange {
    /// Keep the last `depth` samples.
    #[schemars(range(min = 1, max = Qos::MAX_DEPTH))]
    pub depth: Option<u32>,
    /// Behaviour of the publisher towards slow subscriptions.
    pub reliability: Option<Reliability>,
    /// Longest wait of a reliable publish, in milliseconds.
    pub max_blocking_ms: Option<u32>,
    /// Delivery of earlier samples to late subscriptions.
    pub durability: Option<Durability>,
    /// Longest interval between samples, in milliseconds.
    #[schemars(range(min = 1))]
    pub deadline_ms: Option<u32>,
    /// Greatest age of a sample that is delivered, in milliseconds.
    #[schemars(range(min = 1))]
    pub lifespan_ms: Option<u32>,
    /// Way in which a publisher shows that it is alive.
    pub liveliness: Option<Liveliness>,
    /// Time without a sign of life from which a publisher counts as not alive, in milliseconds.
    #[schemars(range(min = 1))]
    pub lease_ms: Option<u32>,
    /// Put a checksum into each header (publisher), require and verify it (subscription).
    pub checksum: Option<bool>,
}

impl QosChange {
    /// Returns `base` with these changes.
    #[must_use]
    pub fn apply(&self, base: &Qos) -> Qos {
        Qos {
            depth: self.depth.unwrap_or(base.depth),
            reliability: self.reliability.unwrap_or(base.reliability),
            max_blocking_ms: self.max_blocking_ms.unwrap_or(base.max_blocking_ms),
            durability: self.durability.unwrap_or(base.durability),
            deadline_ms: self.deadline_ms.or(base.deadline_ms),
            lifespan_ms: self.lifespan_ms.or(base.lifespan_ms),
            liveliness: self.liveliness.unwrap_or(base.liveliness),
            lease_ms: self.lease_ms.or(base.lease_ms),
            checksum: self.checksum.unwrap_or(base.checksum),
            strength: base.strength,
        }
    }
}

/// Reads QoS from a graph file. [`Qos`] itself, which is also read from peers, accepts unknown
/// keys.
///
/// # Errors
/// Errors of the deserializer, also for unknown keys.
pub fn written_qos<'de, D: Deserializer<'de>>(from: D) -> Result<Qos, D::Error> {
    Ok(QosChange::deserialize(from)?.apply(&Qos::default()))
}
