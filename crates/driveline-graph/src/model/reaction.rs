// SPDX-License-Identifier: Apache-2.0
//! Declarations that a module must keep, and reactions, as written.

use crate::units::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Reaction to a module that breaks a declaration of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reaction {
    /// It is reported: a line, the last fault of the module, a note in the report.
    #[default]
    Event,
    /// The module is started again, whatever its `restart: policy`, within `max` and `window_s`.
    Restart,
    /// The run ends in order.
    Stop,
    /// The graph enters this mode.
    Mode(String),
}

impl fmt::Display for Reaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event => f.write_str("event"),
            Self::Restart => f.write_str("restart"),
            Self::Stop => f.write_str("stop"),
            Self::Mode(name) => write!(f, "mode '{name}'"),
        }
    }
}

/// Rate of an output, in Hz.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateSpec {
    /// Minimum number of samples each second.
    #[serde(default)]
    #[schemars(range(min = 0.01, max = 100_000.0))]
    pub min: Option<f64>,
    /// Maximum number of samples each second.
    #[serde(default)]
    #[schemars(range(min = 0.01, max = 100_000.0))]
    pub max: Option<f64>,
}

/// Resources that the process of a module may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSpec {
    /// Own memory: anonymous pages, resident and swapped out. Not memory of topics, code and files.
    pub memory: Option<ByteSize>,
    /// Maximum number of samples that one input of the module may hold. `validate` refuses an input
    /// with a greater `max_held`. An input that gets no samples because its component holds as many
    /// as permitted has reached the limit.
    #[schemars(range(min = 1, max = 4096))]
    pub max_held: Option<u32>,
    /// Threads, those of the runtime included.
    #[schemars(range(min = 1, max = 4_000_000))]
    pub threads: Option<u32>,
    /// Open descriptors, those of the runtime included.
    #[schemars(range(min = 1, max = 4_000_000))]
    pub descriptors: Option<u32>,
}
