// SPDX-License-Identifier: Apache-2.0
//! Health of the components of one module, from the records of its newest process.
//!
//! Modules report counters once a second, so the states of topic ends are exact to about a second.

use super::control::{
    ComponentHealth, ComponentState, EndState, ExecutorHealth, Fault, ModuleHealth, TopicEnd,
};
use crate::account::{CallPlace, Record};
use driveline_graph::{ResolvedComponent, ResolvedExecutor, ResolvedModule, ResolvedRate};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Time over which a rate is taken; longer where reports come less often.
const WINDOW: Duration = Duration::from_secs(5);
/// Maximum number of counts kept of a port; modules report once a second, some topics ten times.
const MAX_COUNTS: usize = 64;
/// A topic end is silent if it has had no new samples for this time, nor for twice its last
/// interval.
const SILENT: Duration = Duration::from_secs(2);

/// State of the process of a module.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessNow<'a> {
    /// True if the module has a process, even if its callbacks do not run yet.
    pub(super) alive: bool,
    /// Start of its state.
    pub(super) since: Instant,
    /// The call that has run for more than 3 s; while the process ends, for more than 0.5 s.
    pub(super) busy: Option<&'a CallPlace>,
}

/// Counts of one port over time, the oldest first.
#[derive(Debug, Default)]
struct Port {
    history: VecDeque<(Instant, u64)>,
    /// First new sample after the start or after a silence.
    flows_since: Option<Instant>,
    /// Time when the rate left its range.
    off_rate_since: Option<Instant>,
    missed: u64,
    deadlines_missed: u64,
    refused: bool,
    fault: Option<(String, Instant)>,
}

impl Port {
    fn count(&mut self, now: Instant, started: Instant, samples: u64, rate: Option<&ResolvedRate>) {
        if self.history.is_empty() {
            self.history.push_back((started, 0));
        }
        if samples == self.samples() {
            // Only another counter of the port has changed.
            return;
        }
        if self.is_silent(now) || self.flows_since.is_none() {
            self.flows_since = Some(now);
        }
        self.history.push_back((now, samples));
        let old = |at: Instant| now.saturating_duration_since(at) > WINDOW;
        while self.history.len() > MAX_COUNTS
            || self.history.len() > 2 && self.history.get(1).is_some_and(|(at, _)| old(*at))
        {
            self.history.pop_front();
        }
        if self.off_rate(now, rate).is_none() {
            self.off_rate_since = None;
        } else {
            self.off_rate_since.get_or_insert(now);
        }
    }

    /// Measures the rate from now on: the component was inactive before.
    fn begin_again(&mut self, now: Instant) {
        self.history = [(now, self.samples())].into();
        (self.flows_since, self.off_rate_since) = (None, None);
    }

    fn deadlines(&mut self, now: Instant, missed: u64) {
        if missed > self.deadlines_missed {
            let text = format!("missed its deadline; {missed} so far");
            self.fault = Some((text, now));
        }
        self.deadlines_missed = missed;
    }

    fn samples(&self) -> u64 {
        self.history.back().map_or(0, |(_, samples)| *samples)
    }

    fn newest(&self) -> Option<Instant> {
        self.history.back().map(|(at, _)| *at)
    }

    /// Time between the last two reports with new samples.
    fn interval(&self) -> Duration {
        let before = self.history.len().checked_sub(2).and_then(|i| self.history.get(i));
        let (Some((before, _)), Some(newest)) = (before, self.newest()) else {
            return Duration::ZERO;
        };
        newest.saturating_duration_since(*before)
    }

    fn is_silent(&self, now: Instant) -> bool {
        let since = self.newest().map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        since > SILENT.max(2 * self.interval())
    }

    /// Returns the number of new samples, and the time in which they came.
    fn growth(&self, now: Instant) -> (u64, Duration) {
        let (Some((at, first)), Some(newest)) = (self.history.front(), self.newest()) else {
            return (0, Duration::ZERO);
        };
        // A module reports once a second if samples came. If the newest report is older than
        // `SILENT`, no samples came since, and the time until now counts as well.
        let late = now.saturating_duration_since(newest) > SILENT;
        let end = if late { now } else { newest };
        (self.samples().saturating_sub(*first), end.saturating_duration_since(*at))
    }

    fn rate(&self, now: Instant) -> f64 {
        let (samples, time) = self.growth(now);
        if time.is_zero() || self.is_silent(now) {
            return 0.0;
        }
        let rate = samples as f64 / time.as_secs_f64();
        (rate * 100.0).round() / 100.0
    }

    /// Returns the state of a rate out of its range. One sample more or less is no fault.
    fn off_rate(&self, now: Instant, declared: Option<&ResolvedRate>) -> Option<EndState> {
        let (samples, time) = self.growth(now);
        let (declared, samples, time) = (declared?, samples as f64, time.as_secs_f64());
        let slow = declared.min.is_some_and(|min| samples + 1.0 < min * time);
        let fast = declared.max.is_some_and(|max| samples - 1.0 > max * time);
        if slow {
            Some(EndState::Slow)
        } else if fast {
            Some(EndState::Fast)
        } else {
            None
        }
    }

    fn state(&self, now: Instant, declared: Option<&ResolvedRate>) -> (EndState, Option<Instant>) {
        if self.flows_since.is_none() {
            let refused = self.fault.as_ref().filter(|_| self.refused).map(|(_, at)| *at);
            return refused.map_or((EndState::Waiting, None), |at| (EndState::Refused, Some(at)));
        }
        if self.is_silent(now) {
            return (EndState::Silent, self.newest());
        }
        match self.off_rate(now, declared) {
            Some(state) => (state, self.off_rate_since.or(Some(now))),
            None => (EndState::Flowing, self.flows_since),
        }
    }
}

#[derive(Debug, Default)]
struct Component {
    calls: u64,
    failed: u64,
    overruns: u64,
    fault: Option<(String, Instant)>,
    changed: Option<Instant>,
    finished: Option<Instant>,
    inputs: BTreeMap<String, Port>,
    outputs: BTreeMap<String, Port>,
}

/// Health figures from the records of one process.
#[derive(Debug, Default)]
pub(super) struct Observed {
    components: BTreeMap<String, Component>,
    schedules: Vec<String>,
    started: Option<Instant>,
}

impl Observed {
    /// Takes a record. Records of components and ports that the module does not have are ignored.
    pub(super) fn take(&mut self, module: &ResolvedModule, record: &Record, now: Instant) {
        if let Record::Started { threads, .. } = record {
            self.schedules.clone_from(threads);
            self.started = Some(now);
            return;
        }
        let name = match record {
            Record::Counters { component, .. }
            | Record::Failure { component, .. }
            | Record::Transition { component, .. }
            | Record::Finished { component }
            | Record::Refused { component, .. }
            | Record::Held { component, .. }
            | Record::Input { component, .. }
            | Record::Output { component, .. } => component,
            _ => return,
        };
        let Some(declared) = module.components.iter().find(|c| c.name.as_str() == name) else {
            return;
        };
        let started = self.started.unwrap_or(now);
        let own = self.components.entry(name.clone()).or_default();
        match record {
            Record::Counters { stats, .. } => {
                (own.calls, own.failed, own.overruns) =
                    (stats.invocations, stats.failed, stats.overruns);
            }
            Record::Failure { text, .. } => own.fault = Some((text.clone(), now)),
            Record::Transition { active, error, .. } => {
                own.changed = Some(now);
                if *active && error.is_none() {
                    // Also of ports that have no counts yet: theirs begin now.
                    for i in &declared.inputs {
                        own.inputs.entry(i.port.clone()).or_default().begin_again(now);
                    }
                    for o in &declared.outputs {
                        own.outputs.entry(o.port.clone()).or_default().begin_again(now);
                    }
                }
            }
            Record::Finished { .. } => {
                own.finished.get_or_insert(now);
            }
            Record::Refused { port, text, .. } => {
                let port = if declared.inputs.iter().any(|i| i.port == *port) {
                    own.inputs.entry(port.clone()).or_default()
                } else if declared.outputs.iter().any(|o| o.port == *port) {
                    own.outputs.entry(port.clone()).or_default()
                } else {
                    return;
                };
                (port.refused, port.fault) = (true, Some((text.clone(), now)));
            }
            Record::Held { input, held, end, .. }
                if declared.inputs.iter().any(|i| i.port == *input) =>
            {
                let text = match end {
                    None => format!(
                        "gets no samples: the component keeps {held}, which is its max_held"
                    ),
                    Some(end) => format!(
                        "got no samples for {:.1} s: the component kept {held}, \
                         which is its max_held",
                        end.lasted_ms as f64 / 1e3
                    ),
                };
                own.inputs.entry(input.clone()).or_default().fault = Some((text, now));
            }
            Record::Input { input, stats, .. }
                if declared.inputs.iter().any(|i| i.port == *input) =>
            {
                let port = own.inputs.entry(input.clone()).or_default();
                port.count(now, started, stats.received, None);
                port.deadlines(now, stats.deadlines_missed);
                port.missed = stats.replaced();
            }
            Record::Output { output, published, deadlines_missed, .. } => {
                if let Some(declared) = declared.outputs.iter().find(|o| o.port == *output) {
                    let port = own.outputs.entry(output.clone()).or_default();
                    port.count(now, started, *published, declared.rate.as_ref());
                    port.deadlines(now, *deadlines_missed);
                }
            }
            _ => {}
        }
    }

    /// Notes that a component violates a limit of the graph.
    pub(super) fn fault(&mut self, component: &str, text: &str, now: Instant) {
        self.components.entry(component.to_owned()).or_default().fault =
            Some((text.to_owned(), now));
    }

    /// Returns the state of the module's components and executors. `active`: returns whether the
    /// mode makes a component active, if a mode names it.
    pub(super) fn health(
        &self,
        module: &ResolvedModule,
        process: ProcessNow<'_>,
        now: Instant,
        active: impl Fn(&str) -> Option<bool>,
    ) -> ModuleHealth {
        let component = |c: &ResolvedComponent| self.component(c, process, now, &active);
        let executor = |e: &ResolvedExecutor| self.executor(module, e, process, now);
        ModuleHealth {
            components: module.components.iter().map(component).collect(),
            executors: module.executors.iter().map(executor).collect(),
        }
    }

    /// Returns the state that all executors of the process have, and its beginning.
    fn whole(&self, process: ProcessNow<'_>) -> (ComponentState, Instant) {
        match (process.alive, self.started) {
            (false, _) => (ComponentState::Down, process.since),
            (true, None) => (ComponentState::Starting, process.since),
            (true, Some(at)) => (ComponentState::Active, at),
        }
    }

    fn component(
        &self,
        declared: &ResolvedComponent,
        process: ProcessNow<'_>,
        now: Instant,
        active: impl Fn(&str) -> Option<bool>,
    ) -> ComponentHealth {
        let nothing = Component::default();
        let own = self.components.get(declared.name.as_str()).unwrap_or(&nothing);
        let (mut state, mut since) = self.whole(process);
        if state == ComponentState::Active {
            (state, since) = match (active(declared.name.as_str()), own.finished) {
                (_, Some(at)) => (ComponentState::Finished, at),
                (Some(false), _) => (ComponentState::Inactive, own.changed.unwrap_or(since)),
                (Some(true), _) => (ComponentState::Active, own.changed.unwrap_or(since)),
                (None, _) => (ComponentState::Active, since),
            };
        }
        let end = |port: &str, topic: String, seen: Option<&Port>, rate: Option<&ResolvedRate>| {
            let (mut end, mut from) = (EndState::Off, None);
            if matches!(state, ComponentState::Active | ComponentState::Finished) {
                (end, from) = seen.map_or((EndState::Waiting, None), |port| port.state(now, rate));
            }
            let in_use = seen.filter(|_| end != EndState::Off);
            TopicEnd {
                port: port.to_owned(),
                topic,
                state: end,
                since_ms: ms(now, from.unwrap_or(since)),
                samples: seen.map_or(0, Port::samples),
                rate_hz: in_use.map_or(0.0, |port| port.rate(now)),
                min_hz: rate.and_then(|r| r.min),
                max_hz: rate.and_then(|r| r.max),
                missed: seen.map_or(0, |port| port.missed),
                deadlines_missed: seen.map_or(0, |port| port.deadlines_missed),
                last_fault: seen.and_then(|port| fault(now, port.fault.as_ref())),
            }
        };
        let inputs = declared.inputs.iter();
        let outputs = declared.outputs.iter();
        ComponentHealth {
            name: declared.name.to_string(),
            executor: declared.executor.clone(),
            since_ms: ms(now, since),
            calls: own.calls,
            failed: own.failed,
            overruns: own.overruns,
            last_fault: fault(now, own.fault.as_ref()),
            inputs: inputs
                .map(|i| end(&i.port, i.topic.to_string(), own.inputs.get(&i.port), None))
                .collect(),
            outputs: outputs
                .map(|o| {
                    let seen = own.outputs.get(&o.port);
                    end(&o.port, o.topic.to_string(), seen, o.rate.as_ref())
                })
                .collect(),
            state,
        }
    }

    fn executor(
        &self,
        module: &ResolvedModule,
        declared: &ResolvedExecutor,
        process: ProcessNow<'_>,
        now: Instant,
    ) -> ExecutorHealth {
        let (state, since) = self.whole(process);
        let calls = |place: &&CallPlace| {
            let mut components = module.components.iter();
            components.any(|c| c.name.as_str() == place.component && c.executor == declared.name)
        };
        // Threads are called `name/0`.
        let of_it = format!("thread {}/", declared.name);
        ExecutorHealth {
            name: declared.name.clone(),
            state,
            since_ms: ms(now, since),
            threads: declared.threads,
            busy: process.busy.filter(calls).map(ToString::to_string),
            schedules: self
                .schedules
                .iter()
                .filter(|line| line.starts_with(&of_it))
                .cloned()
                .collect(),
        }
    }
}

fn ms(now: Instant, at: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(at).as_millis()).unwrap_or(u64::MAX)
}

fn fault(now: Instant, fault: Option<&(String, Instant)>) -> Option<Fault> {
    fault.map(|(text, at)| Fault { text: text.clone(), ago_ms: ms(now, *at) })
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
