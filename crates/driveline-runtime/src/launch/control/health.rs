// SPDX-License-Identifier: Apache-2.0
//! Health of a module in a response to `health`. Keys and meanings: `docs/protocols/control.md`.

use super::Fault;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Components and executors of a module. Counters are those of its newest process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModuleHealth {
    /// Components, in the order of the graph.
    pub components: Vec<ComponentHealth>,
    /// Executors.
    #[serde(default)]
    pub executors: Vec<ExecutorHealth>,
}

/// State of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComponentState {
    /// Its module has no process.
    #[default]
    Down,
    /// Its process initialises, or waits for the others.
    Starting,
    /// The component works.
    Active,
    /// The mode of the run makes it inactive.
    Inactive,
    /// It has requested the end of the run.
    Finished,
    /// A state of a later version.
    #[serde(untagged)]
    Other(String),
}

impl fmt::Display for ComponentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down => "down",
            Self::Starting => "starting",
            Self::Active => "active",
            Self::Inactive => "inactive",
            Self::Finished => "finished",
            Self::Other(text) => text,
        })
    }
}

/// One component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComponentHealth {
    /// Its name.
    pub name: String,
    /// Executor that calls it.
    pub executor: String,
    /// Its state.
    #[serde(default)]
    pub state: ComponentState,
    /// Time in this state.
    #[serde(default)]
    pub since_ms: u64,
    /// Calls of its callback and timers.
    pub calls: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Timer ticks that passed without a call.
    #[serde(default)]
    pub overruns: u64,
    /// Last failure of a call, or last hang, overrun, missed deadline or rate out of range that
    /// was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fault: Option<Fault>,
    /// Its inputs.
    #[serde(default)]
    pub inputs: Vec<TopicEnd>,
    /// Its outputs.
    #[serde(default)]
    pub outputs: Vec<TopicEnd>,
}

/// State of one end of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndState {
    /// Its component does not run, or is inactive.
    #[default]
    Off,
    /// No sample has passed since its process started, or since a mode made its component active.
    Waiting,
    /// Samples pass.
    Flowing,
    /// Samples pass, but less often than declared.
    Slow,
    /// Samples pass, but more often than declared.
    Fast,
    /// Samples have passed, and pass no longer.
    Silent,
    /// As `Waiting`, and another end of the topic is incompatible with this one.
    Refused,
    /// A state of a later version.
    #[serde(untagged)]
    Other(String),
}

impl fmt::Display for EndState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Waiting => "waiting",
            Self::Flowing => "flowing",
            Self::Slow => "slow",
            Self::Fast => "fast",
            Self::Silent => "silent",
            Self::Refused => "refused",
            Self::Other(text) => text,
        })
    }
}

/// One end of a topic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopicEnd {
    /// Name of the port.
    pub port: String,
    /// The topic.
    pub topic: String,
    /// Its state.
    #[serde(default)]
    pub state: EndState,
    /// Time since the state began, to about a second.
    #[serde(default)]
    pub since_ms: u64,
    /// Samples that an input received or an output published.
    pub samples: u64,
    /// Samples each second over the last seconds.
    pub rate_hz: f64,
    /// Minimum rate that the graph declares for an output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_hz: Option<f64>,
    /// Maximum rate that the graph declares for an output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hz: Option<f64>,
    /// Samples that newer ones replaced, of an input.
    #[serde(default)]
    pub missed: u64,
    /// Deadlines missed.
    #[serde(default)]
    pub deadlines_missed: u64,
    /// Last missed deadline, or the reason why another end of the topic is refused or an input gets
    /// no samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fault: Option<Fault>,
}

/// One executor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecutorHealth {
    /// Its name.
    pub name: String,
    /// State, as that of a component: `active` from the start of its threads on.
    #[serde(default)]
    pub state: ComponentState,
    /// Time in this state.
    #[serde(default)]
    pub since_ms: u64,
    /// Threads that the graph declares.
    pub threads: u32,
    /// The call that has run for more than 3 s, for people; while the process ends, for more than
    /// 0.5 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<String>,
    /// Schedule of each thread and what was refused, for people; empty before the start.
    #[serde(default)]
    pub schedules: Vec<String>,
}
