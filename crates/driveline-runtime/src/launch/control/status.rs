// SPDX-License-Identifier: Apache-2.0
//! Status that a run reports. Keys and meanings: `docs/protocols/control.md`.

use super::ModuleHealth;
use super::change::ParametersStatus;
use serde::{Deserialize, Serialize};
use std::fmt;

/// State of a run. Durations are in milliseconds, on `CLOCK_MONOTONIC`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStatus {
    /// Digits in the name of its socket.
    pub id: String,
    /// Name of the graph.
    pub graph: String,
    /// Name of the domain, or its directory where a directory names it.
    pub domain: String,
    /// The launcher, as a process id in its own PID namespace.
    pub pid: u32,
    /// Phase of the run.
    pub phase: RunPhase,
    /// Time in this phase.
    pub since_ms: u64,
    /// Time since its start.
    pub age_ms: u64,
    /// Verdict; only in a response to `health`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Reason why it is not ready, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Gateways, and modules in the order of the graph.
    pub processes: Vec<ProcessStatus>,
    /// Modes of the run, if its graph has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ModeStatus>,
    /// Parameters; only in a response to `param`, `param_set` and `log_level`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<ParametersStatus>,
    /// Number of the requested change, which is found in `parameters.changes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<u64>,
}

/// Modes of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeStatus {
    /// The mode that was entered last; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// Time since then.
    pub since_ms: u64,
    /// True if only a command leaves it, or a reaction that leads to one of its fallbacks.
    #[serde(default)]
    pub latched: bool,
    /// All modes.
    pub names: Vec<String>,
    /// Components that a mode names, and that are to be active.
    #[serde(default)]
    pub active: Vec<String>,
    /// Components of the mode that are not active: their module is not ready, or they have not
    /// become active since its restart or suspension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Components that a mode names, and that are to be inactive.
    #[serde(default)]
    pub inactive: Vec<String>,
    /// The switch in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<SwitchStatus>,
    /// The last switch that ended; none while one is in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_switch: Option<LastSwitch>,
}

/// A switch in flight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchStatus {
    /// Its number.
    pub number: u64,
    /// The mode that it leads to.
    pub mode: String,
    /// Source of the request, for people.
    pub cause: String,
    /// `waiting`, `activating` or `deactivating`.
    pub stage: String,
    /// Condition it waits for, for people.
    pub waits_for: String,
}

/// A switch that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastSwitch {
    /// Its number.
    pub number: u64,
    /// The mode before; none at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The mode that was entered.
    pub mode: String,
    /// Source of the request, for people.
    pub cause: String,
    /// Time from the request until its components were active.
    pub took_ms: u64,
    /// Time since then.
    pub ago_ms: u64,
    /// Modes that could not be entered, and why, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

/// Phase of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunPhase {
    /// Not all modules are ready, or not all are matched.
    Starting,
    /// The callbacks run.
    Running,
    /// The modules are stopped.
    Ending,
    /// A phase of a later version.
    #[serde(untagged)]
    Other(String),
}

impl fmt::Display for RunPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Ending => "ending",
            Self::Other(text) => text,
        })
    }
}

/// State of one process of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// Name of the module, or of the gateway's process.
    pub name: String,
    /// Kind of process.
    pub kind: ProcessKind,
    /// Its process id in the launcher's PID namespace, while there is a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// State.
    pub state: ProcessState,
    /// Time in this state.
    pub since_ms: u64,
    /// Restarts so far.
    pub restarts: u64,
    /// True if SIGSTOP has suspended it. A process held by a debugger is not seen.
    #[serde(default)]
    pub suspended: bool,
    /// For people: the call that has run for more than 3 s (while the process ends, for more than
    /// 0.5 s); before the module is ready, the call that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<String>,
    /// The last unexpected end, time-out, failed start or violation of a limit of the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fault: Option<Fault>,
    /// Names of its components.
    #[serde(default)]
    pub components: Vec<String>,
    /// Topics of its components.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<ModuleTopic>,
    /// Verdict; only in a response to `health`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Reason why it is not ready, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its components and executors; only in a response to `health`, none for a gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<ModuleHealth>,
}

/// A topic of a module's components, as the graph has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleTopic {
    /// Its name.
    pub name: String,
    /// A component publishes it.
    #[serde(default)]
    pub publishes: bool,
    /// A component subscribes to it.
    #[serde(default)]
    pub subscribes: bool,
    /// It stays in the process (`reach: process`), so that tools do not see it.
    #[serde(default)]
    pub inside: bool,
    /// The graph says that programs outside of it use the topic as well (`external: true`).
    #[serde(default)]
    pub external: bool,
}

/// Kind of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessKind {
    /// A module of the graph.
    Module,
    /// A gateway, which carries topics of the graph to other hosts or to ROS 2.
    Gateway,
    /// A kind of a later version.
    #[serde(untagged)]
    Other(String),
}

/// State of a process, as in `docs/protocols/supervision.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessState {
    /// No process yet; others must be ready first.
    Waiting,
    /// Its components are being initialised.
    Starting,
    /// All its components are initialised.
    Ready,
    /// It was asked to end.
    Ending,
    /// No process; it starts again after a pause. Earlier releases call this state `paused`.
    #[serde(alias = "paused")]
    Restarting,
    /// No process, and none any more in this run.
    Down,
    /// A state of a later version.
    #[serde(untagged)]
    Other(String),
}

impl fmt::Display for ProcessState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Ending => "ending",
            Self::Restarting => "restarting",
            Self::Down => "down",
            Self::Other(text) => text,
        })
    }
}

/// The last fault of a process, a component, or an end of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Text of the event, for people.
    pub text: String,
    /// Time since then.
    pub ago_ms: u64,
}
