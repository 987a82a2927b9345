// SPDX-License-Identifier: Apache-2.0
//! Changes that a tool requests, and parameters in a response.

use serde::{Deserialize, Serialize};

/// A requested change during a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ChangeAsk {
    /// Change of a parameter.
    #[serde(rename_all = "snake_case")]
    Parameter {
        /// Component.
        component: String,
        /// Parameter.
        name: String,
        /// New value, as `--set` takes it.
        value: String,
    },
    /// Change of the log filter of a module.
    #[serde(rename_all = "snake_case")]
    Log {
        /// Module.
        module: String,
        /// Filter, such as `debug` or `driveline=debug,warn`.
        filter: String,
    },
}

/// All parameters of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParametersStatus {
    /// Parameters of all components, in the order of the graph.
    pub parameters: Vec<ParameterStatus>,
    /// The newest 64 changes.
    pub changes: Vec<ChangeStatus>,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterStatus {
    /// Component.
    pub component: String,
    /// Name.
    pub name: String,
    /// Value in effect: of the graph, or set since by a command or a mode.
    pub value: serde_json::Value,
    /// True if a command can change it during the run.
    pub live: bool,
    /// Minimum value, if there is one; only if `live`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<String>,
    /// Maximum value, if there is one; only if `live`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
    /// True if it was set since the run began.
    #[serde(default)]
    pub set: bool,
    /// Mode that set it; absent if a command did, or if it is the graph's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeStatus {
    /// Number of the change in the run.
    pub number: u64,
    /// Result of the change.
    #[serde(flatten)]
    pub state: ChangeState,
}

/// Result of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ChangeState {
    /// The module has not responded yet.
    Pending,
    /// The change was made.
    Done,
    /// The change was not made.
    Refused {
        /// Reason, for people.
        error: String,
    },
}
