// SPDX-License-Identifier: Apache-2.0
//! Modes of a run: named sets of active components (`docs/protocols/modes.md`).
//!
//! `machine.rs` decides. [`ModeControl`] translates between its numbers and the names of the graph,
//! and observes the topics of entry conditions. The launcher carries out its decisions
//! (`launch/run/modes.rs`).

mod machine;
mod topics;

pub(super) use machine::{Action, Input, Source};

use super::control::{ModeStatus, SwitchStatus};
use crate::account::Record;
use crate::host::words::ModeWord;
use driveline_graph::{ModeOrder, ModeSource, ResolvedGraph, ResolvedMode, ResolvedModes};
use driveline_types::MonotonicNs;
use machine::{Failure, KillReason, ModeRules, Modes, Refusal, SourceRule, Stage};
use std::collections::BTreeMap;
use std::time::Duration;
use topics::Topics;

/// The modes of a run, with their names.
pub(super) struct ModeControl<'a> {
    modes: &'a ResolvedModes,
    machine: Modes,
    /// Components of this run's processes that a mode names in `active`.
    components: Vec<&'a str>,
    topics: Topics,
    /// Processes of the modules that each mode's condition names.
    ready: Vec<Vec<usize>>,
    last: Option<LastSwitch>,
    /// Time when the last switch that a command or a component has requested began or ended.
    asked_at: Duration,
    /// True if the last switch is one of these.
    asked: bool,
    /// Errors of the components' last failed transitions.
    errors: BTreeMap<usize, String>,
}

/// The last switch that began.
#[derive(Clone, Debug)]
struct LastSwitch {
    number: u64,
    from: Option<usize>,
    mode: usize,
    cause: String,
    after: Duration,
    at: Duration,
    /// Modes that could not be entered, and why.
    failed: Vec<String>,
}

impl<'a> ModeControl<'a> {
    /// Creates the control. `process`: the process that runs a module, if this launcher starts it.
    pub(super) fn new(
        graph: &'a ResolvedGraph,
        processes: usize,
        process: impl Fn(&str) -> Option<usize>,
    ) -> Option<Self> {
        let modes = graph.modes.as_ref()?;
        let of = |component: &str| {
            let (module, _) = graph.components().find(|(_, c)| c.name.as_str() == component)?;
            process(module.name.as_str())
        };
        // Modules of other launchers get no messages, so no acknowledgements of their components
        // are expected.
        let here: Vec<(&str, usize)> = graph
            .components()
            .map(|(_, c)| c.name.as_str())
            .filter(|name| modes.is_modal(name))
            .filter_map(|name| Some((name, of(name)?)))
            .collect();
        let components: Vec<&str> = here.iter().map(|(name, _)| *name).collect();
        let module_of: Vec<usize> = here.iter().map(|(_, process)| *process).collect();
        let rules = modes.modes.iter().map(|m| rules(m, &components, of)).collect();
        let ready = |m: &ResolvedMode| m.ready.iter().filter_map(|name| process(name)).collect();
        Some(Self {
            machine: Modes::new(rules, modes.initial, &module_of, processes),
            ready: modes.modes.iter().map(ready).collect(),
            topics: Topics::new(modes),
            modes,
            components,
            last: None,
            asked_at: Duration::ZERO,
            asked: false,
            errors: BTreeMap::new(),
        })
    }

    /// Takes an event and returns the actions. `is_suspended` as in [`Modes::step`].
    pub(super) fn step(
        &mut self,
        now: Duration,
        input: Input,
        is_suspended: &dyn Fn(usize) -> bool,
    ) -> Vec<Action> {
        let Self { modes, machine, topics, ready, .. } = self;
        let there: Vec<bool> = ready
            .iter()
            .map(|processes| processes.iter().all(|p| machine.module_is_ready(*p)))
            .collect();
        let at = MonotonicNs::now();
        let met = |mode: usize| there[mode] && topics.met(&modes.modes[mode], at);
        machine.step(now, input, &met, is_suspended)
    }

    pub(super) fn next(&self, now: Duration) -> Option<Duration> {
        self.machine.next(now)
    }

    /// Takes a process's counters of published samples.
    pub(super) fn observe(&mut self, record: &Record, now: MonotonicNs) {
        self.topics.observe(record, now);
    }

    /// Notes that these components are in a new process, whose counters begin with 0.
    pub(super) fn restarted(&mut self, components: &[&str]) {
        self.topics.restarted(components);
    }

    pub(super) fn index(&self, name: &str) -> Option<usize> {
        self.modes.index(name)
    }

    pub(super) fn component(&self, name: &str) -> Option<usize> {
        self.components.iter().position(|c| *c == name)
    }

    /// Returns true if a component is to be active; `None` for a component that no mode names.
    pub(super) fn is_active(&self, name: &str) -> Option<bool> {
        self.component(name).map(|c| self.machine.is_active(c))
    }

    /// Returns true if a component is to be inactive.
    pub(super) fn is_inactive(&self, name: &str) -> bool {
        self.component(name).is_some_and(|c| !self.machine.is_active(c))
    }

    pub(super) fn component_name(&self, component: usize) -> &'a str {
        self.components[component]
    }

    /// Name of a mode.
    pub(super) fn name(&self, mode: usize) -> &'a str {
        &self.modes.modes[mode].name
    }

    /// Returns true once the initial mode was entered.
    pub(super) fn has_entered(&self) -> bool {
        self.machine.current().is_some()
    }

    /// Returns the mode of the run, or the mode that is being entered, and the time when
    /// the last switch that a command or a component has requested began or ended.
    pub(super) fn in_force(&self) -> Option<(&'a str, Duration)> {
        let current = self.machine.current().map(|(mode, _)| mode);
        let mode = self.machine.switch().map(|s| s.target).or(current)?;
        Some((self.name(mode), self.asked_at))
    }

    /// Names of all modes.
    pub(super) fn names(&self) -> String {
        self.modes.modes.iter().map(|m| m.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Returns true if the mode of the run sets a parameter, and was entered after `at`.
    pub(super) fn overrides(&self, component: &str, name: &str, at: Duration) -> bool {
        let Some((mode, since)) = self.machine.mode_to_send() else { return false };
        let parameters = &self.modes.modes[mode].parameters;
        at < since && parameters.get(component).is_some_and(|values| values.contains_key(name))
    }

    /// Returns the message to a module. `own`: returns true if a component belongs to it.
    pub(super) fn word(
        &self,
        switch: u64,
        mode: usize,
        activate: &[usize],
        deactivate: &[usize],
        own: impl Fn(&str) -> bool,
    ) -> ModeWord {
        let names = |list: &[usize]| {
            list.iter().map(|c| self.components[*c].to_owned()).collect::<Vec<_>>()
        };
        // The parameters come with the activations.
        let parameters: BTreeMap<_, _> = self.modes.modes[mode]
            .parameters
            .iter()
            .filter(|(component, _)| deactivate.is_empty() && own(component))
            .map(|(component, values)| (component.clone(), values.clone()))
            .collect();
        ModeWord {
            switch,
            mode: self.name(mode).to_owned(),
            activate: names(activate),
            deactivate: names(deactivate),
            parameters,
        }
    }

    /// Returns the reason why the module of a component is killed, for people.
    pub(super) fn killed(&self, component: usize, why: KillReason) -> String {
        let name = self.components[component];
        let (state, call) = match why {
            KillReason::Late { active: true } => ("active", "on_activate"),
            KillReason::Late { active: false } => ("inactive", "on_deactivate"),
            KillReason::Failed => {
                let error = self.error(component);
                return format!(
                    "was killed because its component '{name}' failed to become active{error}"
                );
            }
        };
        format!(
            "was killed because its component '{name}' did not become {state} in time \
             (`enter_within_ms`; its `{call}`, or a call before it in the module)"
        )
    }

    /// Notes the error of a component's last transition.
    pub(super) fn failed(&mut self, component: usize, error: &str) {
        self.errors.insert(component, error.to_owned());
    }

    /// Returns the last error of a component, as the end of a sentence.
    fn error(&self, component: usize) -> String {
        self.errors.get(&component).map_or_else(String::new, |e| format!(": {e}"))
    }

    /// Names the components of the current mode that are not active: their module is not ready or
    /// is being killed, or they have not become active since its restart or suspension.
    pub(super) fn missing(&self) -> Vec<String> {
        let Some((mode, _)) = self.machine.current() else { return Vec::new() };
        let active = &self.modes.modes[mode].active;
        let is_missing = |c: &&String| {
            self.component(c).is_some_and(|c| {
                !self.machine.component_is_there(c) || self.machine.is_activating(c)
            })
        };
        active.iter().filter(is_missing).cloned().collect()
    }

    /// Notes the beginning, the failed modes and the end of a switch, for [`Self::status`].
    pub(super) fn note(&mut self, action: &Action, now: Duration) {
        match action {
            Action::Began { switch, from, mode, by } => {
                self.asked = matches!(by, Source::Command | Source::Component(_));
                if self.asked {
                    self.asked_at = now;
                }
                self.last = Some(LastSwitch {
                    number: *switch,
                    from: *from,
                    mode: *mode,
                    cause: cause(by),
                    after: Duration::ZERO,
                    at: now,
                    failed: Vec::new(),
                });
            }
            Action::Failed { mode, why, .. } => {
                let text = format!("mode '{}': {}", self.name(*mode), self.failure(*mode, why));
                if let Some(last) = &mut self.last {
                    last.failed.push(text);
                }
            }
            Action::Entered { mode, after, .. } => {
                if self.asked {
                    self.asked_at = now;
                }
                if let Some(last) = &mut self.last {
                    (last.mode, last.after, last.at) = (*mode, *after, now);
                }
            }
            _ => {}
        }
    }

    /// Cause of the last switch, for people.
    pub(super) fn last_cause(&self) -> String {
        self.last.as_ref().map_or_else(String::new, |l| l.cause.clone())
    }

    /// Returns the reason why a mode was not entered, for people.
    pub(super) fn failure(&self, mode: usize, why: &Failure) -> String {
        let name = |c: &usize| self.components[*c];
        match why {
            Failure::Condition => format!(
                "its entry condition did not hold within {} ms: {}",
                self.modes.modes[mode].enter_within.as_millis(),
                self.unmet(mode)
            ),
            Failure::Component(c) => {
                format!("'{}' failed to become active{}", name(c), self.error(*c))
            }
            Failure::Hung(c) => format!("'{}' did not become active in time", name(c)),
            Failure::Suspended(c) => {
                format!("'{}' did not become active: its module is suspended", name(c))
            }
            Failure::Ended(c) => format!("the module of '{}' ended", name(c)),
            Failure::Replaced => "another mode was requested".to_owned(),
        }
    }

    /// Returns the unmet entry conditions of a mode, for people.
    fn unmet(&self, mode: usize) -> String {
        let rules = &self.modes.modes[mode];
        let mut missing: Vec<String> = Vec::new();
        let waits =
            |c: &&String| self.component(c).is_some_and(|i| !self.machine.component_is_there(i));
        missing.extend(
            rules.active.iter().filter(waits).map(|c| format!("the module of '{c}' is not ready")),
        );
        let processes = &self.ready[mode];
        missing.extend(
            rules
                .ready
                .iter()
                .zip(processes)
                .filter(|(_, p)| !self.machine.module_is_ready(**p))
                .map(|(name, _)| format!("module '{name}' is not ready")),
        );
        missing.extend(self.topics.unmet(rules, MonotonicNs::now()));
        if missing.is_empty() { "it holds now".to_owned() } else { missing.join("; ") }
    }

    /// Returns the reason why a request was refused, for people.
    pub(super) fn refusal(&self, mode: usize, why: &Refusal) -> String {
        let current = self.machine.current().map_or("none", |(m, _)| self.name(m));
        match why {
            Refusal::NotRunning => "the graph does not run".to_owned(),
            Refusal::NotAllowed => {
                format!("`switched_by` of mode '{}' does not name the source", self.name(mode))
            }
            Refusal::Latched => {
                format!(
                    "mode '{current}' is latched: only a command (`driveline mode`), or a reaction \
                     that leads to one of its fallbacks, leaves it"
                )
            }
            Refusal::Dwell(left) => {
                format!("mode '{current}' lasts {} ms more (`min_dwell_ms`)", left.as_millis())
            }
            Refusal::Busy(to) => {
                format!(
                    "a switch to mode '{}' of a source of higher rank is in flight",
                    self.name(*to)
                )
            }
        }
    }

    /// Returns the state for tools. `now`: time since the start of the run.
    pub(super) fn status(&self, now: Duration) -> ModeStatus {
        let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        let current = self.machine.current();
        let switch = self.machine.switch().map(|s| SwitchStatus {
            number: s.number,
            mode: self.name(s.target).to_owned(),
            cause: cause(&s.by),
            stage: match s.stage {
                Stage::Waiting => "waiting",
                Stage::Activating => "activating",
                Stage::Deactivating => "deactivating",
            }
            .to_owned(),
            waits_for: match s.stage {
                Stage::Waiting => self.unmet(s.target),
                _ => {
                    let names: Vec<_> = self
                        .machine
                        .pending()
                        .map(|c| format!("'{}'", self.components[c]))
                        .collect();
                    names.join(", ")
                }
            },
        });
        let last = self.last.as_ref().filter(|_| switch.is_none());
        ModeStatus {
            current: current.map(|(m, _)| self.name(m).to_owned()),
            since_ms: current.map_or(0, |(_, since)| ms(now.saturating_sub(since))),
            latched: current.is_some_and(|(m, _)| self.modes.modes[m].latch),
            names: self.modes.modes.iter().map(|m| m.name.clone()).collect(),
            missing: self.missing(),
            active: (0..self.components.len())
                .filter(|c| self.machine.is_active(*c))
                .map(|c| self.components[c].to_owned())
                .collect(),
            inactive: (0..self.components.len())
                .filter(|c| !self.machine.is_active(*c))
                .map(|c| self.components[c].to_owned())
                .collect(),
            switch,
            last_switch: last.map(|l| super::control::LastSwitch {
                number: l.number,
                from: l.from.map(|m| self.name(m).to_owned()),
                mode: self.name(l.mode).to_owned(),
                cause: l.cause.clone(),
                took_ms: ms(l.after),
                ago_ms: ms(now.saturating_sub(l.at)),
                failed: l.failed.clone(),
            }),
        }
    }
}

/// Source of a request, for people.
pub(super) fn cause(by: &Source) -> String {
    match by {
        Source::Start => "the start of the run".to_owned(),
        Source::Command => "a command".to_owned(),
        Source::Component(name) => format!("component '{name}'"),
        Source::Reaction(text) => text.clone(),
    }
}

/// Returns the rules. `process`: the process of a component, if this launcher starts it.
fn rules(
    mode: &ResolvedMode,
    components: &[&str],
    process: impl Fn(&str) -> Option<usize>,
) -> ModeRules {
    let mut active: Vec<usize> =
        mode.active.iter().filter_map(|name| components.iter().position(|c| c == name)).collect();
    active.sort_unstable();
    let source = |s: &ModeSource| match s {
        ModeSource::Command => SourceRule::Command,
        ModeSource::Reaction => SourceRule::Reaction,
        ModeSource::Component(name) => SourceRule::Component(name.clone()),
    };
    ModeRules {
        active,
        sets: mode.parameters.keys().filter_map(|component| process(component)).collect(),
        enter_within: mode.enter_within,
        fallback: mode.fallback.clone(),
        latch: mode.latch,
        min_dwell: mode.min_dwell,
        deactivate_first: mode.order == ModeOrder::DeactivateFirst,
        switched_by: mode.switched_by.as_ref().map(|list| list.iter().map(source).collect()),
    }
}
