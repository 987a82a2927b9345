// SPDX-License-Identifier: Apache-2.0
//! Switches between the modes of a run: time, previous mode, cause and duration.

use serde::Serialize;

/// Maximum number of switches kept; all are counted.
pub const MAX_SWITCHES: usize = 1_000;

/// One request to switch to a mode, and its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModeSwitch {
    /// Time since the first callback of the run, in seconds.
    pub at_s: f64,
    /// The mode before; `None` at the start, and for a refused request.
    pub from: Option<String>,
    /// The mode that was requested.
    pub requested: String,
    /// The mode that was entered; `None` if the request was refused, or if the run ended or another
    /// switch began first.
    pub entered: Option<String>,
    /// Source of the request, for people.
    pub cause: String,
    /// Time from the request until the components of the mode were active, in milliseconds.
    pub took_ms: Option<f64>,
    /// Modes that were not entered, each with the reason; components without which the mode was
    /// entered; or the reason why the request was refused. For people.
    pub failed: Vec<String>,
    /// Components that became active or inactive, or failed to, in the order of their reports.
    pub transitions: Vec<ComponentTransition>,
}

/// One component that became active or inactive, or failed to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComponentTransition {
    /// Component.
    pub stage: String,
    /// True if it was to become active.
    pub active: bool,
    /// Duration of its `on_activate` or `on_deactivate`, in milliseconds.
    pub took_ms: f64,
    /// Reason of the failure; `None` if the component changed as requested.
    pub error: Option<String>,
}

/// All switches of a run.
#[derive(Debug, Default)]
pub(crate) struct ModeSwitches {
    kept: Vec<ModeSwitch>,
    /// Number of switches beyond the maximum: counted, but not kept.
    beyond: u64,
    /// The switch to which further events belong, if it is kept.
    pub(crate) open: Option<usize>,
}

impl ModeSwitches {
    pub(crate) fn list(&self) -> Vec<ModeSwitch> {
        self.kept.clone()
    }

    pub(crate) fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Keeps a switch and returns its index; `None` beyond [`MAX_SWITCHES`].
    pub(crate) fn add(&mut self, switch: ModeSwitch) -> Option<usize> {
        if self.kept.len() == MAX_SWITCHES {
            self.beyond += 1;
            return None;
        }
        self.kept.push(switch);
        Some(self.kept.len() - 1)
    }

    pub(crate) fn newest(&mut self) -> Option<&mut ModeSwitch> {
        self.kept.get_mut(self.open?)
    }
}
