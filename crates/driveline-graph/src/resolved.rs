// SPDX-License-Identifier: Apache-2.0
//! A graph in which every reference is resolved and every default filled in.

mod deployment;
mod modes;
mod real_time;
mod watch;

pub use deployment::{Mount, ResolvedDeployment};
pub use modes::{ModeSource, ResolvedMode, ResolvedModes};
pub use real_time::ResolvedRealTime;
pub use watch::{ResolvedBudget, ResolvedRate, ResolvedWatch};

use super::model::{
    Access, GroupSpec, OnExhausted, OnLauncherLost, Reaction, RestartPolicy, TopicNetworkSpec,
};
use super::section::Sections;
use crate::descriptor::ValueRange;
use driveline::{ParameterValue, Reach, Schedule};
use driveline_types::limits::MAX_PINS;
use driveline_types::{NodeName, Qos, Schema, TopicName};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// A graph that can run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedGraph {
    /// Name, for people; the file's name without its extension, unless given.
    pub name: String,
    /// Name of the domain.
    pub domain: String,
    /// Group whose members share the domain.
    pub domain_group: Option<u32>,
    /// The file it was loaded from.
    pub file: PathBuf,
    /// All its files: this file, included files, and parameter files.
    pub files: Vec<PathBuf>,
    /// Sections of gateways; paths are relative to the working directory.
    #[serde(flatten)]
    pub sections: Sections,
    /// Reaction of the modules when the launcher is gone.
    pub on_launcher_lost: OnLauncherLost,
    /// Topic on which the launcher publishes the health of the run.
    pub health_topic: Option<TopicName>,
    /// Topics that components of this graph, its gateways or its launcher use, by name.
    pub topics: BTreeMap<TopicName, ResolvedTopic>,
    /// Modules, in the order of the files. With `depends_on`, a module may start later.
    pub modules: Vec<ResolvedModule>,
    /// Its modes, if it has any.
    pub modes: Option<ResolvedModes>,
}

impl ResolvedGraph {
    /// Returns the exclusive CPUs of executors, ascending. No other thread of the graph runs there.
    #[must_use]
    pub fn exclusive_cpus(&self) -> Vec<usize> {
        let schedules = self.modules.iter().flat_map(|m| &m.executors).map(|e| &e.schedule);
        let cpus: BTreeSet<usize> =
            schedules.filter(|s| s.exclusive).flat_map(|s| s.cpus.iter().copied()).collect();
        cpus.into_iter().collect()
    }
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedTopic {
    /// Reach of the topic.
    pub reach: Reach,
    /// Schema of its samples, if one of its ends is in a library that was read.
    pub schema: Option<Schema>,
    /// Largest payload in bytes; 0 for objects, and where it is unknown.
    pub max_payload: u64,
    /// Default QoS of its ends.
    pub qos: Qos,
    /// Samples of one publisher that all subscriptions together may hold.
    pub pins: u32,
    /// Maximum number of other hosts that receive it at once; each takes one of the pins. 0 if it
    /// stays on this host.
    pub hosts: u32,
    /// Samples that a publisher may have on loan at once.
    pub loans: u32,
    /// Users that may take part at host reach.
    pub access: Access,
    /// True if the graph states `access`.
    #[serde(skip)]
    pub access_stated: bool,
    /// Transfer to other hosts.
    pub network: TopicNetworkSpec,
    /// True if a gateway reads the topic by a rule, or may read it. One pin is reserved for it.
    #[serde(skip)]
    pub carried: bool,
    /// A program outside the graph takes part.
    pub external: bool,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedModule {
    /// Name.
    pub name: NodeName,
    /// Environment variables to add.
    pub environment: BTreeMap<String, String>,
    /// Executors that components use, or that the file declares.
    pub executors: Vec<ResolvedExecutor>,
    /// Components, in the order in which they start.
    pub components: Vec<ResolvedComponent>,
    /// Restart after its process has ended.
    pub restart: ResolvedRestart,
    /// Time from the start of the process until it must be ready. `None`: the launcher's default.
    pub ready_within: Option<Duration>,
    /// Modules that must be ready before it is started.
    pub depends_on: Vec<String>,
    /// Modules whose restart restarts it as well.
    pub restart_with: Vec<String>,
    /// Container of the module.
    pub deployment: ResolvedDeployment,
    /// Declarations that it must keep.
    pub watch: ResolvedWatch,
    /// Requests of its process to the kernel, other than the schedules of its executors.
    pub real_time: ResolvedRealTime,
}

/// Rules for the restart of a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedRestart {
    /// Cases in which it is started again.
    pub policy: RestartPolicy,
    /// Pause before the first restart.
    pub backoff: Duration,
    /// Restarts within `window`; no limit if `None`.
    pub max: Option<u32>,
    /// Time in which restarts are counted.
    pub window: Duration,
    /// Reaction when it stays down, if the graph has one.
    pub on_exhausted: Option<OnExhausted>,
}

/// An executor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedExecutor {
    /// Name, unique in the module.
    pub name: String,
    /// Number of threads.
    pub threads: u32,
    /// Time that an idle thread spins before it sleeps, in microseconds.
    pub spin_us: u32,
    /// Scheduling of the threads.
    pub schedule: Schedule,
}

/// A component. Its node has its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedComponent {
    /// Name, unique in the graph.
    pub name: NodeName,
    /// Path of the library found, or as written if it was not searched.
    pub library: PathBuf,
    /// Class in the library.
    pub class: String,
    /// Executor in the module.
    pub executor: String,
    /// Overlap of callbacks.
    pub callback_group: GroupSpec,
    /// Every parameter of the class with its value. For a library that was not read: the parameters
    /// that are set.
    pub parameters: BTreeMap<String, ParameterValue>,
    /// Ranges of the parameters that have one.
    pub ranges: BTreeMap<String, ValueRange>,
    /// Parameters that can be changed while it runs, each within all its ranges.
    pub live: BTreeMap<String, ValueRange>,
    /// Inputs, in the order in which the class declares them; in the order of the file if the
    /// library was not read.
    pub inputs: Vec<ResolvedInput>,
    /// Outputs, in the same order.
    pub outputs: Vec<ResolvedOutput>,
    /// Trigger of the callback.
    pub trigger: ResolvedTrigger,
    /// Longest time of a call.
    pub budget: Option<ResolvedBudget>,
}

/// An input port.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedInput {
    /// Name of the port.
    pub port: String,
    /// Topic.
    pub topic: TopicName,
    /// Schema that the class expects.
    #[serde(skip)]
    pub schema: Option<Schema>,
    /// Requested QoS.
    pub qos: Qos,
    /// Samples that it may hold at once.
    pub max_held: u32,
    /// Reaction when it misses its deadline, if the graph has one.
    pub on_deadline: Option<Reaction>,
}

/// An output port.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedOutput {
    /// Name of the port.
    pub port: String,
    /// Topic; `<component>/<port>` unless the graph connects the port.
    pub topic: TopicName,
    /// Schema that the class sends.
    #[serde(skip)]
    pub schema: Option<Schema>,
    /// Offered QoS.
    pub qos: Qos,
    /// Rate of publishing.
    pub rate: Option<ResolvedRate>,
}

/// Trigger of a callback.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ResolvedTrigger {
    /// No trigger: the component has no inputs and works by its own timers.
    Own,
    /// A sample on any of these inputs.
    Any {
        /// Indices of the inputs that trigger.
        on: Vec<usize>,
        /// Greatest age of a sample that triggers or is read.
        max_age: Option<Duration>,
    },
    /// Absolute times.
    Timer {
        /// Period.
        period: Duration,
        /// Greatest age of a sample that is read.
        max_age: Option<Duration>,
    },
    /// A sample on input `on`.
    AllLatest {
        /// Index of the input that triggers.
        on: usize,
        /// Greatest age of a sample.
        max_age: Option<Duration>,
    },
    /// A set of samples with equal source times, one from each input.
    Exact {
        /// Samples kept per input.
        queue: u32,
        /// Greatest age of a sample in a set.
        max_age: Option<Duration>,
    },
    /// A set of samples with close source times, one from each input.
    Approximate {
        /// Samples kept per input.
        queue: u32,
        /// Greatest distance of source times in a set.
        max_interval: Option<Duration>,
        /// Greatest age of a sample in a set.
        max_age: Option<Duration>,
    },
}

impl ResolvedTrigger {
    /// Returns true if a sample on input `index` can start the callback.
    #[must_use]
    pub fn fires_on(&self, index: usize) -> bool {
        match self {
            Self::Own | Self::Timer { .. } => false,
            Self::Exact { .. } | Self::Approximate { .. } => true,
            Self::Any { on, .. } => on.contains(&index),
            Self::AllLatest { on, .. } => *on == index,
        }
    }
}

impl ResolvedGraph {
    /// Returns the module with a name.
    #[must_use]
    pub fn module(&self, name: &str) -> Option<&ResolvedModule> {
        self.modules.iter().find(|m| m.name.as_str() == name)
    }

    /// Gives modules of several users (`user:` of containers) access to their common topics: each
    /// topic without `access` admits the users of all modules at its ends, with enough pins
    /// for users other than the publisher's. `default` is the user of modules without the key.
    /// Topics that state their `access` keep it.
    pub fn admit_users(&mut self, default: u32) {
        let user = |m: &ResolvedModule| m.deployment.user.unwrap_or(default);
        for (name, topic) in &mut self.topics {
            let at = |m: &&ResolvedModule| {
                let ends = m.components.iter().any(|c| {
                    c.inputs.iter().any(|i| i.topic == *name)
                        || c.outputs.iter().any(|o| o.topic == *name)
                });
                ends && topic.reach >= Reach::Host
            };
            let mut users: Vec<u32> = self.modules.iter().filter(at).map(user).collect();
            users.sort_unstable();
            users.dedup();
            if users.len() > 1 && !topic.access_stated {
                topic.access = Access::Users(users);
                // Half of a publisher's pins stay for its own user.
                topic.pins = topic.pins.saturating_mul(2).min(MAX_PINS);
            }
        }
    }

    /// All components with their modules.
    pub fn components(&self) -> impl Iterator<Item = (&ResolvedModule, &ResolvedComponent)> {
        self.modules.iter().flat_map(|m| m.components.iter().map(move |c| (m, c)))
    }
}
