// SPDX-License-Identifier: Apache-2.0
//! Modes, as written.

use crate::units::Milliseconds;
use driveline::ParameterValue;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A mode: components that are active in it, and how it is entered and left.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModeSpec {
    /// Components that are active in this mode. A component that no mode names is always active.
    pub active: Vec<String>,
    /// Parameters that are set when the mode is entered: `component: {parameter: value}`.
    pub parameters: IndexMap<String, IndexMap<String, ParameterValue>>,
    /// Condition that must hold before the mode is entered, in addition to the readiness of its
    /// components' modules.
    pub entry: EntrySpec,
    /// Time to enter the mode, from the request until its components are active, in milliseconds.
    /// With `order: deactivate_first`, the condition, the deactivations and the activations each
    /// have this time. Default: 1000.
    pub enter_within_ms: Option<Milliseconds>,
    /// Modes to try, in this order, if this one cannot be entered. After the last one the run goes
    /// back to the mode before.
    pub fallback: Vec<String>,
    /// The mode is left only by a command, or by a reaction that leads to a mode in `fallback`.
    pub latch: bool,
    /// Time that the mode lasts at least, in milliseconds; reactions do not wait for it.
    /// Default: 0.
    pub min_dwell_ms: Option<Milliseconds>,
    /// Sources that may request this mode: `command`, `reaction` and names of components. Default:
    /// all.
    pub switched_by: Option<Vec<String>>,
    /// Order of the changes.
    pub order: ModeOrder,
}

/// Condition on the run's health.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EntrySpec {
    /// Modules that must be ready.
    pub ready: Vec<String>,
    /// Lowest rate of topics, in samples per second over the last second.
    pub rates: IndexMap<String, f64>,
    /// Greatest time since the newest sample of topics, in milliseconds.
    pub ages: IndexMap<String, Milliseconds>,
}

/// Order of the components of two modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModeOrder {
    /// New components become active before old ones stop.
    #[default]
    ActivateFirst,
    /// Old components stop before new ones become active.
    DeactivateFirst,
}
