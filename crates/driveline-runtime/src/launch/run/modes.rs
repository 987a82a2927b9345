// SPDX-License-Identifier: Apache-2.0
//! Carries out the decisions of the modes of a run (`docs/protocols/modes.md`).

use super::super::Event;
use super::super::control::RequestError;
use super::super::modes::{Action, Input, Source, cause};
use super::{Launcher, Phase, Program};
use crate::account::Record;
use crate::launch::child::Child;
use driveline_graph::{OnExhausted, ResolvedModule};
use driveline_types::MonotonicNs;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Time after which the same refused request of a component is reported again.
const REFUSED_AGAIN: Duration = Duration::from_secs(10);

impl<'a> Launcher<'a> {
    fn module_of(&self, process: usize) -> Option<&'a ResolvedModule> {
        match self.processes[process].program {
            Program::Module(module) => Some(module),
            Program::Gateway(_) => None,
        }
    }

    /// Reports an event to the modes and carries out their actions. Returns the reason if a request
    /// was refused.
    pub(super) fn switch(&mut self, input: Input) -> Result<(), String> {
        let now = self.began.elapsed();
        let actions = match &mut self.modes {
            Some(modes) => {
                let processes = &self.processes;
                modes.step(now, input, &|module| {
                    processes[module].child.as_ref().is_some_and(Child::is_stopped)
                })
            }
            None => return Ok(()),
        };
        let mut refused = Ok(());
        for action in actions {
            if let Some(modes) = &mut self.modes {
                modes.note(&action, now);
            }
            if let Err(text) = self.carry_out(action) {
                refused = Err(text);
            }
        }
        refused
    }

    fn carry_out(&mut self, action: Action) -> Result<(), String> {
        let Some(modes) = &self.modes else { return Ok(()) };
        let name = |mode: usize| modes.name(mode).to_owned();
        let event = match action {
            Action::SendStates { module, switch, mode, activate, deactivate } => {
                let own = self.module_of(module);
                let word = modes.word(switch, mode, &activate, &deactivate, |component| {
                    own.is_some_and(|m| m.components.iter().any(|c| c.name.as_str() == component))
                });
                if let Some(child) = self.processes[module].alive() {
                    child.say(&word.line());
                }
                return Ok(());
            }
            Action::Kill { component, why } => {
                let (text, component) =
                    (modes.killed(component, why), modes.component_name(component));
                self.kill_hung(component, text);
                return Ok(());
            }
            Action::Refused { mode, by, why } => {
                let why = modes.refusal(mode, &why);
                let (mode, cause) = (name(mode), cause(&by));
                let text = format!("mode '{mode}' is refused: {why}");
                // A component can request a mode at each of its calls.
                let again = self.refused.as_ref().is_some_and(|(last, at)| {
                    *last == (mode.clone(), cause.clone()) && at.elapsed() < REFUSED_AGAIN
                });
                if !again || !matches!(by, Source::Component(_)) {
                    self.refused = Some(((mode.clone(), cause.clone()), Instant::now()));
                    self.sink.event(&Event::ModeRefused { mode, cause, why });
                }
                return Err(text);
            }
            Action::Began { from, mode, by, .. } => {
                Event::ModeRequested { from: from.map(name), mode: name(mode), cause: cause(&by) }
            }
            Action::Failed { mode, why, next, .. } => Event::ModeFailed {
                mode: name(mode),
                why: modes.failure(mode, &why),
                next: next.map(name),
            },
            Action::Entered { from, mode, after, .. } => Event::ModeEntered {
                from: from.map(name),
                mode: name(mode),
                cause: modes.last_cause(),
                after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
                without: modes.missing(),
            },
        };
        self.sink.event(&event);
        Ok(())
    }

    /// Kills the process of a component that has not changed its state in time, or failed to become
    /// active; its end is a fault.
    fn kill_hung(&mut self, component: &str, text: String) {
        let of = |p: &super::Process<'_>| match p.program {
            Program::Module(m) => m.components.iter().any(|c| c.name.as_str() == component),
            Program::Gateway(_) => false,
        };
        let Some(process) = self.processes.iter().position(of) else { return };
        if let Some(child) = self.processes[process].alive() {
            child.hung = Some(text);
            child.signal(Signal::KILL);
        }
    }

    /// Sends the states of a module's components, before the command to start.
    pub(super) fn send_mode(&mut self, process: usize) {
        if let (Some(modes), Program::Module(module)) =
            (&mut self.modes, self.processes[process].program)
        {
            let names: Vec<&str> = module.components.iter().map(|c| c.name.as_str()).collect();
            modes.restarted(&names);
        }
        let _ = self.switch(Input::ModuleReady(process));
    }

    /// Handles a module's records about its components.
    pub(super) fn mode_record(&mut self, process: usize, record: &Record) {
        let Some(modes) = &mut self.modes else { return };
        modes.observe(record, MonotonicNs::now());
        let own = |module: Option<&ResolvedModule>, component: &str| {
            module.is_some_and(|m| m.components.iter().any(|c| c.name.as_str() == component))
        };
        match record {
            Record::Transition { component, active, switch, took_ns, error } => {
                // A module answers for its own components only.
                let known = modes.component(component);
                let Some(index) = known.filter(|_| own(self.module_of(process), component)) else {
                    return;
                };
                let event = Event::Transition {
                    component: component.clone(),
                    active: *active,
                    took_ms: took_ns / 1_000_000,
                    error: error.clone(),
                };
                self.sink.event(&event);
                if let (Some(modes), Some(error)) = (&mut self.modes, error) {
                    modes.failed(index, error);
                }
                let (switch, ok) = (*switch, error.is_none());
                let _ = self.switch(Input::Acknowledged { component: index, switch, ok });
            }
            Record::ModeRequest { component, mode } => {
                let Some(mode) = modes.index(mode) else { return };
                if own(self.module_of(process), component) {
                    let by = Source::Component(component.clone());
                    let _ = self.switch(Input::Request { mode, by });
                }
            }
            _ => {}
        }
    }

    /// Makes the declared reaction to a module that stays down.
    pub(super) fn react_to_down(&mut self, process: usize, why: &str) {
        let Some(module) = self.module_of(process) else { return };
        if let Some(OnExhausted::Mode(mode)) = &module.restart.on_exhausted {
            self.enter_mode(mode, format!("module '{}', which stays down: {why}", module.name));
        }
    }

    /// Switches to a mode as a declared reaction; `cause` is for people.
    pub(super) fn enter_mode(&mut self, mode: &str, cause: String) {
        let Some(mode) = self.modes.as_ref().and_then(|m| m.index(mode)) else { return };
        let _ = self.switch(Input::Request { mode, by: Source::Reaction(cause) });
    }

    /// Handles a tool's request for a mode.
    pub(super) fn mode_requested(&mut self, mode: &str) -> Result<(), RequestError> {
        let Some(modes) = &self.modes else {
            return Err(RequestError::unknown_mode("the graph of this run has no `modes`"));
        };
        let Some(index) = modes.index(mode) else {
            let text = format!("there is no mode {mode:?}; this run has: {}", modes.names());
            return Err(RequestError::unknown_mode(text));
        };
        self.switch(Input::Request { mode: index, by: Source::Command })
            .map_err(RequestError::refused)
    }

    /// Returns the time of the next step of the modes.
    pub(super) fn mode_due(&self) -> Option<Instant> {
        let next = self.modes.as_ref()?.next(self.began.elapsed())?;
        Some(self.began + next)
    }

    /// Returns true while the callbacks run: after the start, and before the modules are stopped.
    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Settling)
    }
}
