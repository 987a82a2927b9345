// SPDX-License-Identifier: Apache-2.0
//! Changes of parameters and logs during a run.

use super::super::control::ChangeState;
use driveline::ParameterValue;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Number of changes that are remembered for tools.
const REMEMBERED: usize = 64;

/// All changes of a run.
#[derive(Default)]
pub(super) struct Changes {
    /// Number of the last change.
    pub(super) last: u64,
    pub(super) recent: VecDeque<Change>,
    /// Values that were set, by component and parameter. A restarted module gets them again.
    pub(super) values: BTreeMap<(String, String), SetValue>,
}

/// Value of a parameter that a command or a mode has set.
pub(super) struct SetValue {
    pub(super) value: ParameterValue,
    /// Mode that set it; `None` for a command.
    pub(super) mode: Option<String>,
    /// Time of the change since the start of the run.
    pub(super) at: Duration,
}

/// A change, and its state.
pub(super) struct Change {
    pub(super) number: u64,
    pub(super) process: usize,
    /// The parameter and its new value; `None` for a change of the log.
    pub(super) parameter: Option<(String, String, ParameterValue)>,
    pub(super) state: ChangeState,
}

impl Changes {
    pub(super) fn begin(
        &mut self,
        process: usize,
        parameter: Option<(String, String, ParameterValue)>,
    ) -> u64 {
        self.last += 1;
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        let state = ChangeState::Pending;
        self.recent.push_back(Change { number: self.last, process, parameter, state });
        self.last
    }
}
