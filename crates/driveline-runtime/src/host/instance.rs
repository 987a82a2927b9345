// SPDX-License-Identifier: Apache-2.0
//! One component, brought up and wired to its executor.

use super::changes::{Changes, Target};
use super::failures::{FailureSink, Failures};
use super::pulse::{Budget, Words};
use super::run::HostError;
use super::transitions::Transitions;
use super::words::ParameterWord;
use crate::account::{
    BlockedCounters, Call, CallPlace, CallbackCounters, ComponentWork, InputCounters, Record,
    UnreadInput, Writer,
};
use crate::activity::Seen;
use crate::component::{
    Component, ComponentIo, ComponentLibrary, Facts, ModeRequests, StopHandle, Timers,
};
use crate::heartbeats::Heartbeats;
use driveline::service::ServiceCalls;
use driveline::{
    CallbackGroup, CallbackHandle, CallbackOptions, Context, EventLines, EventSender, Executor,
    GroupKind, InputStats, Invocation, Lifecycle, Node, Observer, ParameterValue, PortEvent,
    PublishedCounter, PublisherEvents, PublisherOptions, RawSubscription, Severity, StateRequest,
    SubscriptionOptions, Trigger,
};
use driveline_graph::model::{Access, GroupSpec};
use driveline_graph::{ResolvedComponent, ResolvedGraph, ResolvedInput, ResolvedTrigger};
use driveline_types::{MonotonicNs, TopicId};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) struct Instance {
    name: String,
    seen: Seen,
    component: Arc<dyn Component>,
    callback: Option<CallbackHandle>,
    timers: Timers,
    /// Callback that runs `on_event`, and its sender.
    events: (CallbackHandle, EventSender),
    outputs: Vec<Output>,
    node: Node,
    /// Lifecycle state, if a mode names the component.
    lifecycle: Option<Lifecycle>,
    /// Changes of its parameters, if any can be changed or a mode sets one.
    changes: Option<Arc<Changes>>,
    reported: CallbackCounters,
    reported_inputs: Vec<InputCounters>,
    reported_calls: Vec<ServiceCalls>,
}

/// An output: its counts (published samples, missed deadlines, blocked publishes), the counts last
/// reported, and its events.
struct Output {
    port: String,
    topic: TopicId,
    published: PublishedCounter,
    reported: (u64, u64, BlockedCounters),
    /// True if the entry condition of a mode depends on it.
    watched: bool,
    events: PublisherEvents,
    event_lines: EventLines,
    /// True if it has a deadline or a lease.
    promises: bool,
}

/// Inputs to the bring-up of a component.
pub(crate) struct Bringup<'a> {
    pub(crate) graph: &'a ResolvedGraph,
    pub(crate) context: &'a Context,
    pub(crate) library: &'a dyn ComponentLibrary,
    pub(crate) executor: Arc<Executor>,
    pub(crate) stop: StopHandle,
    pub(crate) account: Option<Arc<Writer>>,
    /// Heartbeats of the module, and the component's index in them.
    pub(crate) beats: Option<(Arc<Heartbeats>, usize)>,
    /// Takes failures of calls instead of standard error and the account.
    pub(crate) failures: Option<FailureSink>,
}

impl Instance {
    pub(crate) fn bring_up(spec: &ResolvedComponent, with: Bringup<'_>) -> Result<Self, HostError> {
        let name = spec.name.as_str();
        let fail = |text: String| HostError::Component { component: name.to_owned(), text };
        let node = with.context.node(name).map_err(|e| fail(e.to_string()))?;
        for (parameter, value) in &spec.parameters {
            node.parameters().declare(parameter, value.clone()).map_err(|e| fail(e.to_string()))?;
        }
        let modes = with.graph.modes.as_ref();
        let lifecycle = modes.filter(|m| m.is_modal(name)).map(|_| Lifecycle::inactive());
        let (mut outputs, mut counted) = (Vec::new(), Vec::new());
        for output in &spec.outputs {
            let Some((topic, schema)) =
                with.graph.topics.get(&output.topic).zip(output.schema.clone())
            else {
                continue;
            };
            let options = PublisherOptions {
                reach: topic.reach,
                qos: output.qos.clone(),
                max_payload: usize::try_from(topic.max_payload).unwrap_or(usize::MAX),
                loans: topic.loans,
                pins: topic.pins,
                access: access(&topic.access),
            };
            let mut publisher = node
                .raw_publisher(output.topic.as_str(), schema, options)
                .map_err(|e| fail(e.to_string()))?;
            if let Some(lifecycle) = &lifecycle {
                publisher.follow(lifecycle);
            }
            let published = publisher.published_counter();
            let events = publisher.events();
            let promises = output.qos.deadline_ms.is_some() || output.qos.lease_ms.is_some();
            counted.push(Output {
                port: output.port.clone(),
                topic: output.topic.id(),
                published,
                reported: Default::default(),
                watched: modes.is_some_and(|m| m.watches(&output.topic)),
                events,
                event_lines: EventLines::default(),
                promises,
            });
            outputs.push(publisher);
        }
        let mut inputs: Vec<(String, RawSubscription)> = Vec::new();
        for input in &spec.inputs {
            let Some((topic, schema)) =
                with.graph.topics.get(&input.topic).zip(input.schema.clone())
            else {
                continue;
            };
            let options = SubscriptionOptions {
                reach: topic.reach,
                qos: input.qos.clone(),
                max_held: input.max_held,
                access: access(&topic.access),
            };
            let subscription = node
                .raw_subscription(input.topic.as_str(), schema, options)
                .map_err(|e| fail(e.to_string()))?;
            inputs.push((input.port.clone(), subscription));
        }
        let group = with.executor.group(match spec.callback_group {
            GroupSpec::MutuallyExclusive => GroupKind::MutuallyExclusive,
            GroupSpec::Reentrant => GroupKind::Reentrant,
        });
        let topics: Vec<String> = spec.inputs.iter().map(|i| i.topic.to_string()).collect();
        let seen = Seen::new(name, &topics);
        if let Some(account) = &with.account {
            account.send(Record::Entered { call: place(name, Call::Init) });
        }
        let component: Arc<dyn Component> = {
            let _inside = seen.enter(Call::Init, MonotonicNs::now(), None);
            Arc::from(with.library.create(&spec.class, name).map_err(|e| fail(e.text))?)
        };
        let budget = spec
            .budget
            .as_ref()
            .zip(with.beats.as_ref())
            .map(|(budget, (beats, place))| Budget::new(budget.time, beats.clone(), *place));
        let failures = Arc::new(Failures::new(
            name,
            topics,
            seen,
            with.account.clone(),
            budget,
            with.failures.clone(),
        ));
        let timers =
            Timers::new(name, &with.executor, group.clone(), failures.clone(), with.stop.clone());
        let io = ComponentIo {
            node: node.clone(),
            outputs,
            parameters: spec.parameters.clone(),
            facts: Facts::new(name, with.account.clone()),
            timers: timers.clone(),
            stop: with.stop.clone(),
            modes: ModeRequests::new(
                name,
                modes.into_iter().flat_map(|m| &m.modes).map(|m| m.name.clone()).collect(),
                with.account.clone(),
            ),
        };
        {
            let _inside = seen.enter(Call::Init, MonotonicNs::now(), None);
            component.init(io).map_err(|e| fail(e.text))?;
        }
        let events = {
            let (component, failures) = (component.clone(), failures.clone());
            let call = move |invocation: &Invocation<'_>, event: &PortEvent| {
                let _ = failures.watch(invocation, Call::OnEvent, || component.on_event(event));
            };
            with.executor
                .add_event_callback(name, group.clone(), call)
                .map_err(|e| fail(e.to_string()))?
        };
        let changes = if spec.live.is_empty() && !modes.is_some_and(|m| m.sets_parameters(name)) {
            None
        } else {
            let target = Target { component: component.clone(), node: node.clone(), seen };
            let account = with.account.clone();
            let added = Changes::add(name, &with.executor, group.clone(), target, account);
            Some(Arc::new(added.map_err(|e| fail(e.to_string()))?))
        };
        if let Some(lifecycle) = &lifecycle {
            let transitions = Transitions {
                name: name.to_owned(),
                component: component.clone(),
                failures: failures.clone(),
                account: with.account.clone(),
                changes: changes.clone(),
            };
            with.executor
                .add_lifecycle(name, group.clone(), lifecycle, transitions)
                .map_err(|e| fail(e.to_string()))?;
            events.0.follow(lifecycle);
            timers.added().iter().for_each(|timer| timer.follow(lifecycle));
        }
        let callback =
            add_callback(spec, &with.executor, group, inputs, component.clone(), failures)
                .map_err(|e| fail(e.to_string()))?;
        if let Some(callback) = &callback {
            callback.send_events_to(events.1.clone());
            timers.added().iter().for_each(|timer| timer.fed_by(callback));
        }
        if let (Some(callback), Some(lifecycle)) = (&callback, &lifecycle) {
            callback.follow(lifecycle);
        }
        if let (Some(callback), ResolvedTrigger::Timer { .. }) = (&callback, &spec.trigger) {
            with.stop.ends(callback.timer_end());
        }
        Ok(Self {
            name: name.to_owned(),
            seen,
            component,
            callback,
            timers,
            events,
            outputs: counted,
            node,
            lifecycle,
            changes,
            reported: CallbackCounters::default(),
            reported_inputs: Vec::new(),
            reported_calls: Vec::new(),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Activates a component that is always active. Call it before the executors run.
    pub(crate) fn activate(&self) -> Result<(), HostError> {
        if self.lifecycle.is_some() {
            return Ok(());
        }
        if let Some(changes) = &self.changes {
            changes.make_all();
        }
        let _inside = self.seen.enter(Call::OnActivate, MonotonicNs::now(), None);
        self.component
            .on_activate()
            .map_err(|e| HostError::Component { component: self.name.clone(), text: e.text })
    }

    /// Requests a change of the state of a modal component, which is one that a mode names. The
    /// outcome is a record of the account.
    pub(super) fn request(&self, active: bool, switch: u64) {
        if let Some(lifecycle) = &self.lifecycle {
            lifecycle.request(StateRequest { active, number: switch });
        }
    }

    /// Requests a change of a parameter; the outcome is a record of the account.
    pub(super) fn change(&self, word: &ParameterWord, account: Option<&Writer>) {
        match (&self.changes, account) {
            (Some(changes), _) => changes.request(word.clone()),
            (None, Some(account)) => {
                let error = Some("it cannot be changed while the component runs".to_owned());
                account.send_vital(Record::Changed { change: word.change, error });
            }
            (None, None) => {}
        }
    }

    /// Requests the parameter values of a mode: they are set before `on_activate`, or between two
    /// calls. A refusal by the component is logged.
    pub(super) fn set_parameters(&self, mode: &str, values: &BTreeMap<String, ParameterValue>) {
        let Some(changes) = &self.changes else { return };
        for (name, value) in values {
            changes.request(ParameterWord::unasked(&self.name, name, value, Some(mode)));
        }
    }

    /// Changes a parameter on this thread: for tests, in which nothing else runs.
    pub(crate) fn change_here(&self, name: &str, value: &ParameterValue) -> Result<(), String> {
        let word = ParameterWord::unasked(&self.name, name, value, None);
        self.changes.as_ref().map_or(Ok(()), |changes| changes.make(&word))
    }

    /// Returns the sources of its words in the heartbeats. `inputs`: those of the graph, in order.
    pub(super) fn pulse(&self, inputs: &[ResolvedInput]) -> Words {
        let deadlines = |input: &ResolvedInput| {
            let callback = self.callback.as_ref().filter(|_| input.on_deadline.is_some())?;
            callback.deadlines(&input.port)
        };
        Words {
            calls: self.seen,
            deadlines: inputs.iter().map(deadlines).collect(),
            published: self.outputs.iter().map(|o| o.published.clone()).collect(),
        }
    }

    /// Handles the finish of a component of the run: timers tick once more, and then only with new
    /// data. From now on, missing samples do not count as missed deadlines.
    pub(super) fn drain(&self) {
        self.callback.iter().for_each(CallbackHandle::end_deadlines);
        self.outputs.iter().for_each(|o| o.published.end_deadlines());
        self.timers.added().iter().chain(&self.callback).for_each(|c| c.timer_end().drain());
    }

    /// Returns the work in progress or waiting. Pending work is read before the number of ended
    /// calls, so that a call that ends in between is seen in at least one of the two.
    pub(super) fn work(&self) -> ComponentWork {
        let timers = self.timers.added();
        let all: Vec<_> = timers.iter().chain(&self.callback).map(|c| c.pending()).collect();
        let names: Vec<String> =
            self.callback.iter().flat_map(|c| c.inputs()).map(|i| i.input).collect();
        let unread = all.iter().flat_map(|p| &p.unread).map(|(input, samples)| UnreadInput {
            input: names.get(*input).cloned().unwrap_or_default(),
            samples: *samples,
        });
        let tick = all.iter().filter_map(|p| p.tick).min();
        ComponentWork {
            component: self.name.clone(),
            calls: self.calls(),
            running: all.iter().map(|p| p.running).sum(),
            unread: unread.collect(),
            tick_ms: tick.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
        }
    }

    /// Reports stalls of inputs at the end of a run, even short ones, since no further samples will
    /// come.
    pub(super) fn report_stalls(&self, account: &Writer) {
        for (input, stall) in self.callback.iter().flat_map(CallbackHandle::unreported_stalls) {
            tracing::error!(component = self.name.as_str(), input, "{stall}");
            account.stall(&self.name, &input, &stall);
        }
    }

    /// Returns true if the condition of a mode depends on an output.
    pub(super) fn is_watched(&self) -> bool {
        self.outputs.iter().any(|o| o.watched)
    }

    /// Returns the counters of outputs that have changed. `watched`: only of outputs in a mode's
    /// condition.
    pub(super) fn outputs(&mut self, watched: bool) -> Vec<Record> {
        let mut changed = Vec::new();
        for output in self.outputs.iter_mut().filter(|o| o.watched || !watched) {
            let counter = &output.published;
            let (published, deadlines_missed) = (counter.get(), counter.deadlines_missed());
            let blocked = BlockedCounters::from(counter.blocked());
            let new = (published, deadlines_missed, blocked);
            if std::mem::replace(&mut output.reported, new) != new {
                changed.push(Record::Output {
                    component: self.name.clone(),
                    output: output.port.clone(),
                    topic: output.topic,
                    published,
                    deadlines_missed,
                    newest_ns: output.published.newest().map_or(0, |at| at.0),
                    blocked,
                });
            }
        }
        changed
    }

    /// Returns the counters that have changed since the last call.
    pub(super) fn counters(&mut self) -> Vec<Record> {
        let mut changed = self.outputs(false);
        let services = self.node.calls();
        for calls in services.iter().filter(|calls| !self.reported_calls.contains(calls)) {
            let (component, service) = (self.name.clone(), calls.service.to_string());
            changed.push(Record::Service {
                component,
                service,
                end: calls.end.into(),
                calls: calls.into(),
            });
        }
        self.reported_calls = services;
        let calls = self.timers.added();
        // Calls of `on_event` are not added to the other counts, since they work on no data.
        let events = CallbackCounters {
            failed_events: self.events.0.stats().failed,
            ..CallbackCounters::default()
        };
        let stats =
            calls.iter().chain(&self.callback).fold(events, |sum, c| sum.and(c.stats().into()));
        if stats != self.reported {
            self.reported = stats;
            changed.push(Record::Counters { component: self.name.clone(), stats });
        }
        let Some(callback) = &self.callback else { return changed };
        let inputs = callback.inputs();
        self.reported_inputs.resize(inputs.len(), InputCounters::default());
        for (i, reported) in inputs.into_iter().zip(&mut self.reported_inputs) {
            let stats = InputCounters::from(i.stats);
            if stats != *reported {
                *reported = stats;
                changed.push(Record::Input {
                    component: self.name.clone(),
                    input: i.input,
                    topic: i.topic.id(),
                    stats,
                });
            }
        }
        changed
    }

    /// Number of calls of the callback and of timers, without those with events.
    pub(crate) fn calls(&self) -> u64 {
        let timers = self.timers.added();
        timers.iter().chain(&self.callback).map(|c| c.stats().invocations).sum()
    }

    /// Counters of each input.
    pub(crate) fn inputs(&self) -> Vec<InputStats> {
        self.callback.iter().flat_map(CallbackHandle::inputs).collect()
    }

    /// Returns true if an output has a deadline or a lease, so its events must be polled often.
    pub(crate) fn promises(&self) -> bool {
        self.outputs.iter().any(|o| o.promises)
    }

    /// Logs the events of outputs, adds them to the account, and sends them to `on_event`, as the
    /// executor does for inputs.
    pub(crate) fn log_events(&mut self, account: Option<&Writer>) {
        for output in &mut self.outputs {
            while let Some(event) = output.events.poll() {
                let (component, output, lines) =
                    (self.name.as_str(), output.port.as_str(), &mut output.event_lines);
                if let Some(account) = account {
                    account.endpoint(component, output, &event);
                }
                self.events.1.send(output, true, &event);
                let Some(event) = lines.admit(event, MonotonicNs::now()) else { continue };
                match event.severity() {
                    Severity::Error => tracing::error!(component, output, "{event}"),
                    Severity::Warning => tracing::warn!(component, output, "{event}"),
                    Severity::Info => tracing::debug!(component, output, "{event}"),
                }
            }
        }
    }

    pub(crate) fn shutdown(&self) {
        let _inside = self.seen.enter(Call::Shutdown, MonotonicNs::now(), None);
        self.component.shutdown();
    }
}

/// Returns the place of a call that no sample has triggered.
pub(super) fn place(component: &str, call: Call) -> CallPlace {
    CallPlace { component: component.to_owned(), call, topic: None, sequence: None }
}

fn add_callback(
    spec: &ResolvedComponent,
    executor: &Executor,
    group: CallbackGroup,
    inputs: Vec<(String, RawSubscription)>,
    component: Arc<dyn Component>,
    failures: Arc<Failures>,
) -> Result<Option<CallbackHandle>, driveline::ExecutorError> {
    let queue = |n: u32| n as usize;
    let trigger = match &spec.trigger {
        ResolvedTrigger::Own => return Ok(None),
        ResolvedTrigger::Any { on, max_age } => Trigger::Any { on: on.clone(), max_age: *max_age },
        ResolvedTrigger::Timer { period, max_age } => {
            Trigger::Timer { period: *period, max_age: *max_age }
        }
        ResolvedTrigger::AllLatest { on, max_age } => {
            Trigger::AllLatest { on: *on, max_age: *max_age }
        }
        ResolvedTrigger::Exact { queue: q, max_age } => {
            Trigger::Exact { queue: queue(*q), max_age: *max_age }
        }
        ResolvedTrigger::Approximate { queue: q, max_interval, max_age } => Trigger::Approximate {
            queue: queue(*q),
            max_interval: *max_interval,
            max_age: *max_age,
        },
    };
    let options = CallbackOptions { name: spec.name.to_string(), group, trigger, inputs };
    let handle = executor.add_callback(options, move |invocation| {
        let _ = failures.watch(invocation, Call::OnTrigger, || component.on_trigger(invocation));
    })?;
    Ok(Some(handle))
}

pub(crate) fn access(of: &Access) -> driveline::Access {
    match of {
        Access::OwnUser => driveline::Access::OwnUser,
        Access::Anyone => driveline::Access::Anyone,
        Access::Users(users) => driveline::Access::Users(users.clone()),
    }
}
