// SPDX-License-Identifier: Apache-2.0
//! Modes of a graph.

use crate::model::ModeOrder;
use driveline::ParameterValue;
use driveline_types::TopicName;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The modes of a graph.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedModes {
    /// Index of the mode in which the run begins.
    pub initial: usize,
    /// Modes, in the order of the file.
    pub modes: Vec<ResolvedMode>,
}

/// A mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedMode {
    /// Name.
    pub name: String,
    /// Components that are active in it.
    pub active: Vec<String>,
    /// Parameters that are set when it is entered, by component.
    pub parameters: BTreeMap<String, BTreeMap<String, ParameterValue>>,
    /// Modules that must be ready.
    pub ready: Vec<String>,
    /// Lowest rates of topics, in samples per second.
    pub rates: Vec<(TopicName, f64)>,
    /// Greatest times since the newest sample of topics.
    pub ages: Vec<(TopicName, Duration)>,
    /// Time to enter it.
    pub enter_within: Duration,
    /// Indices of the modes to try if it cannot be entered.
    pub fallback: Vec<usize>,
    /// True if only a command leaves it, or a reaction that leads to a fallback.
    pub latch: bool,
    /// Minimum time in the mode.
    pub min_dwell: Duration,
    /// Sources that may request it; all if `None`.
    pub switched_by: Option<Vec<ModeSource>>,
    /// Order of the changes.
    pub order: ModeOrder,
}

/// A source that may request a mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModeSource {
    /// `driveline mode`, or a tool on the control socket.
    Command,
    /// A declared reaction, such as `on_exhausted`.
    Reaction,
    /// A component.
    Component(String),
}

impl ResolvedModes {
    /// Index of a mode.
    #[must_use]
    pub fn index(&self, name: &str) -> Option<usize> {
        self.modes.iter().position(|m| m.name == name)
    }

    /// Returns true if a mode names the component: it is active only in the modes that name it.
    #[must_use]
    pub fn is_modal(&self, component: &str) -> bool {
        self.modes.iter().any(|m| m.active.iter().any(|c| c == component))
    }

    /// Returns true if a mode sets a parameter of a component.
    #[must_use]
    pub fn sets_parameters(&self, component: &str) -> bool {
        self.modes.iter().any(|m| m.parameters.contains_key(component))
    }

    /// Returns true if an entry condition names the topic.
    #[must_use]
    pub fn watches(&self, topic: &TopicName) -> bool {
        self.modes.iter().any(|m| {
            m.rates.iter().any(|(t, _)| t == topic) || m.ages.iter().any(|(t, _)| t == topic)
        })
    }
}
