// SPDX-License-Identifier: Apache-2.0
//! Changes of parameters and of logs during a run (`docs/protocols/control.md`).

use super::super::Event;
use super::super::control::{
    ChangeAsk, ChangeState, ChangeStatus, ParameterStatus, ParametersStatus, RequestError,
};
use super::super::supervisor::State;
use super::changes::{Change, SetValue};
use super::{Launcher, Program};
use crate::host::words::{LogWord, ParameterWord};
use driveline::ParameterValue;
use driveline_graph::{ResolvedComponent, parameter_from_text, suggest};

impl Launcher<'_> {
    fn component(&self, name: &str) -> Result<(usize, &ResolvedComponent), RequestError> {
        let mut names = Vec::new();
        for (i, p) in self.processes.iter().enumerate() {
            let Program::Module(module) = p.program else { continue };
            for c in &module.components {
                if c.name.as_str() == name {
                    return Ok((i, c));
                }
                names.push(c.name.as_str());
            }
        }
        let help = suggest(name, "components", names);
        Err(RequestError::refused(format!("there is no component '{name}': {help}")))
    }

    fn is_ready(&self, process: usize) -> Result<(), RequestError> {
        let state = match self.supervisor.state(process) {
            State::Ready { .. } => return Ok(()),
            State::Down => "has ended and is not started again in this run",
            _ => "is not ready; try again when it is",
        };
        let module = self.name(process);
        Err(RequestError::refused(format!("module '{module}' {state}")))
    }

    /// Begins a change that a tool requests.
    pub(super) fn change_requested(&mut self, ask: &ChangeAsk) -> Result<u64, RequestError> {
        match ask {
            ChangeAsk::Parameter { component, name, value } => {
                let (process, spec) = self.component(component)?;
                let Some(present) = spec.parameters.get(name) else {
                    let help =
                        suggest(name, "parameters", spec.parameters.keys().map(String::as_str));
                    let text = format!("component '{component}' has no parameter '{name}': {help}");
                    return Err(RequestError::refused(text));
                };
                let Some(range) = spec.live.get(name) else {
                    return Err(RequestError::refused(format!(
                        "{component}.{name} is fixed from the start: class '{}' does not declare \
                         it as changeable; set it in the graph or with `--set`, and restart",
                        spec.class
                    )));
                };
                let Some(new) = parameter_from_text(value, present) else {
                    let what = present.type_name();
                    return Err(RequestError::refused(format!(
                        "{component}.{name} is {what}, as {present} is, and {value:?} is not"
                    )));
                };
                if let Some(mistake) = range.mistake(&new) {
                    return Err(RequestError::refused(format!("{component}.{name}: {mistake}")));
                }
                self.is_ready(process)?;
                let parameter = (component.clone(), name.clone(), new.clone());
                let change = self.changes.begin(process, Some(parameter));
                let word = ParameterWord {
                    change,
                    component: component.clone(),
                    name: name.clone(),
                    value: new,
                    mode: None,
                };
                if let Some(child) = self.processes[process].alive() {
                    child.say(&word.line());
                }
                Ok(change)
            }
            ChangeAsk::Log { module, filter } => {
                let found = self.processes.iter().position(
                    |p| matches!(p.program, Program::Module(m) if m.name.as_str() == module),
                );
                let Some(process) = found else {
                    let names = self.graph.modules.iter().map(|m| m.name.as_str());
                    let help = suggest(module, "modules", names);
                    return Err(RequestError::refused(format!(
                        "there is no module '{module}': {help}"
                    )));
                };
                self.is_ready(process)?;
                let change = self.changes.begin(process, None);
                let word = LogWord { change, filter: filter.clone() };
                if let Some(child) = self.processes[process].alive() {
                    child.say(&word.line());
                }
                Ok(change)
            }
        }
    }

    /// Handles a module's report that it has made or refused a change.
    pub(super) fn changed(&mut self, process: usize, number: u64, error: Option<String>) {
        let found = self.changes.recent.iter_mut().find(|c| {
            c.number == number && c.process == process && c.state == ChangeState::Pending
        });
        let Some(change) = found else { return };
        change.state =
            error.clone().map_or(ChangeState::Done, |error| ChangeState::Refused { error });
        let Some((component, name, value)) = change.parameter.clone() else { return };
        if error.is_none() {
            let at = self.began.elapsed();
            let set = SetValue { value: value.clone(), mode: None, at };
            self.changes.values.insert((component.clone(), name.clone()), set);
        }
        let value = value.to_string();
        self.sink.event(&Event::ParameterChanged { component, name, value, mode: None, error });
    }

    /// Handles a module's report on a change for which no command waits: it has set the parameter,
    /// or refused to.
    pub(super) fn parameter_set(
        &mut self,
        process: usize,
        (component, name): (&str, &str),
        value: &ParameterValue,
        mode: Option<String>,
        error: Option<String>,
    ) {
        // A module answers for its own components only.
        if !self.component(component).is_ok_and(|(of, _)| of == process) {
            return;
        }
        let key = (component.to_owned(), name.to_owned());
        let Some(mode) = mode else {
            // After a restart, a refused parameter has the value of the graph.
            if error.is_some() {
                self.changes.values.remove(&key);
            }
            return;
        };
        if error.is_none() {
            let at = self.began.elapsed();
            let set = SetValue { value: value.clone(), mode: Some(mode.clone()), at };
            let before = self.changes.values.insert(key, set);
            // A restarted module gets the states of its mode again: nothing has changed.
            if before.is_some_and(|b| (&b.value, b.mode.as_ref()) == (value, Some(&mode))) {
                return;
            }
        }
        let (component, name) = (component.to_owned(), name.to_owned());
        let (value, mode) = (value.to_string(), Some(mode));
        self.sink.event(&Event::ParameterChanged { component, name, value, mode, error });
    }

    /// Handles the end of a process: its pending changes will not be acknowledged.
    pub(super) fn changes_lost(&mut self, process: usize) {
        for change in &mut self.changes.recent {
            if change.process == process && change.state == ChangeState::Pending {
                let error = "its module has ended meanwhile".to_owned();
                change.state = ChangeState::Refused { error };
            }
        }
    }

    /// Sends the set values to the process of a restarted module, unless the mode has set a newer
    /// one since: that value came with the states of its components.
    pub(super) fn send_parameters(&mut self, process: usize) {
        let Program::Module(module) = self.processes[process].program else { return };
        let words: Vec<_> = self
            .changes
            .values
            .iter()
            .filter(|((c, _), _)| module.components.iter().any(|own| own.name.as_str() == c))
            .filter(|((component, name), set)| {
                !self.modes.as_ref().is_some_and(|m| m.overrides(component, name, set.at))
            })
            .map(|((component, name), set)| {
                ParameterWord::unasked(component, name, &set.value, None)
            })
            .collect();
        if let Some(child) = self.processes[process].alive() {
            words.iter().for_each(|word| child.say(&word.line()));
        }
    }

    /// Returns all parameters of the run with their values, and the newest changes.
    pub(super) fn parameters_status(&self) -> ParametersStatus {
        let mut parameters = Vec::new();
        for p in &self.processes {
            let Program::Module(module) = p.program else { continue };
            for c in &module.components {
                for (name, value) in &c.parameters {
                    let set = self.changes.values.get(&(c.name.to_string(), name.clone()));
                    let range = c.live.get(name);
                    parameters.push(ParameterStatus {
                        component: c.name.to_string(),
                        name: name.clone(),
                        value: serde_json::to_value(set.map_or(value, |s| &s.value))
                            .unwrap_or_default(),
                        live: range.is_some(),
                        min: range.and_then(|r| r.min).map(|n| n.to_string()),
                        max: range.and_then(|r| r.max).map(|n| n.to_string()),
                        set: set.is_some(),
                        mode: set.and_then(|s| s.mode.clone()),
                    });
                }
            }
        }
        let status = |c: &Change| ChangeStatus { number: c.number, state: c.state.clone() };
        ParametersStatus { parameters, changes: self.changes.recent.iter().map(status).collect() }
    }
}
