// SPDX-License-Identifier: Apache-2.0
//! `on_activate` and `on_deactivate` of one component, and their reports.

use super::changes::Changes;
use super::failures::Failures;
use super::output;
use crate::account::{Call, Record, Writer};
use crate::component::Component;
use driveline::{Invocation, StateChange, StateOutcome};
use std::sync::Arc;

pub(super) struct Transitions {
    pub(super) name: String,
    pub(super) component: Arc<dyn Component>,
    pub(super) failures: Arc<Failures>,
    pub(super) account: Option<Arc<Writer>>,
    /// Changes of its parameters, which a mode makes before the component is active.
    pub(super) changes: Option<Arc<Changes>>,
}

impl StateChange for Transitions {
    fn change(&self, invocation: &Invocation<'_>, active: bool) -> Result<(), String> {
        let call = if active { Call::OnActivate } else { Call::OnDeactivate };
        if let Some(changes) = self.changes.as_ref().filter(|_| active) {
            changes.make_all();
        }
        self.failures
            .watch(invocation, call, || match active {
                true => self.component.on_activate(),
                false => self.component.on_deactivate(),
            })
            .map_err(|e| e.text)
    }

    fn done(&self, outcome: StateOutcome) {
        let StateOutcome { request, took, error } = outcome;
        let Some(account) = &self.account else {
            let state = if request.active && error.is_none() { "active" } else { "inactive" };
            return output::print(format_args!("component '{}' is {state}", self.name));
        };
        account.send_vital(Record::Transition {
            component: self.name.clone(),
            active: request.active,
            switch: request.number,
            took_ns: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
            error,
        });
    }
}
