// SPDX-License-Identifier: Apache-2.0
//! Resolves the inputs, outputs and trigger of a component.

use super::{At, Resolver};
use crate::descriptor::{ComponentClass, Port};
use crate::diagnostic::suggest;
use crate::files::Part;
use crate::model::{ComponentSpec, InputSpec, ModuleSpec, OutputSpec, QosChange, TriggerSpec};
use crate::reaction;
use crate::resolved::{ResolvedInput, ResolvedOutput, ResolvedTrigger};
use crate::topology::{End, EndKind};
use crate::units::Milliseconds;
use driveline::Trigger;
use driveline_types::limits::MAX_INPUTS;
use driveline_types::{Qos, TopicName};
use std::time::Duration;

impl Resolver<'_> {
    /// Returns the path of a port's topic.
    fn topic_path(detailed: bool, ports: &'static str, port: &str) -> Vec<String> {
        let mut path = vec![ports.to_owned(), port.to_owned()];
        if detailed {
            path.push("topic".into());
        }
        path
    }

    fn unknown_ports<'p>(
        &mut self,
        at: &At<'_>,
        which: &'static str,
        given: impl Iterator<Item = &'p String>,
        class: &ComponentClass,
        known: &[Port],
    ) {
        for port in given.filter(|p| !known.iter().any(|k| k.name == **p)) {
            let singular = which.trim_end_matches('s');
            let help = suggest(
                port,
                &format!("{which} of `{}`", class.name),
                known.iter().map(|k| k.name.as_str()),
            );
            self.error(
                format!("the class `{}` has no {singular} `{port}`", class.name),
                self.place(at, &[which, port], Part::Key),
                Some(help),
            );
        }
    }

    /// Returns the topic's QoS with the changes of one end.
    fn qos(&self, topic: &str, change: &QosChange) -> Qos {
        change
            .apply(&self.files.topics.get(topic).map_or_else(Qos::default, |t| t.spec.qos.clone()))
    }

    pub(super) fn inputs(
        &mut self,
        at: &At<'_>,
        spec: &ComponentSpec,
        class: Option<&ComponentClass>,
        concurrency: u32,
        module: &ModuleSpec,
    ) -> Vec<ResolvedInput> {
        if let Some(class) = class {
            self.unknown_ports(at, "inputs", spec.inputs.keys(), class, &class.inputs);
            for port in class.inputs.iter().filter(|p| !spec.inputs.contains_key(&p.name)) {
                let help = format!(
                    "add `{}: TOPIC` to `inputs:`; it carries {} `{}`",
                    port.name, port.schema.kind, port.schema.name
                );
                let message =
                    format!("the input `{}` of `{}` is not connected", port.name, at.component);
                self.error(message, self.place(at, &["inputs"], Part::Key), Some(help));
            }
        }
        let order: Vec<String> = match class {
            Some(class) => class
                .inputs
                .iter()
                .map(|p| p.name.clone())
                .filter(|p| spec.inputs.contains_key(p))
                .collect(),
            None => spec.inputs.keys().cloned().collect(),
        };
        let needed = holds(spec.trigger.as_ref());
        if order.len() > MAX_INPUTS {
            let message = format!(
                "`{}` has {} inputs; a component can have at most {MAX_INPUTS}",
                at.component,
                order.len()
            );
            self.error(
                message,
                self.place(at, &["inputs"], Part::Key),
                Some("split the component".into()),
            );
        }
        let mut inputs = Vec::new();
        for port in order {
            let connection = &spec.inputs[&port];
            let detail = match connection {
                InputSpec::Topic(_) => None,
                InputSpec::Detailed(d) => Some(d),
            };
            let path = Self::topic_path(detail.is_some(), "inputs", &port);
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let place = self.place(at, &path, Part::Value);
            let Ok(topic) = connection.topic().parse::<TopicName>() else { continue };
            let none = QosChange::default();
            let qos = self.qos(topic.as_str(), detail.map_or(&none, |d| &d.qos));
            let max_held =
                detail.and_then(|d| d.max_held).unwrap_or(needed.saturating_add(concurrency));
            if max_held < needed {
                let place = self.place(at, &["inputs", &port, "max_held"], Part::Value);
                let help = format!("raise it to {needed} or leave it out");
                self.error(
                    format!(
                        "the trigger of `{}` needs to hold {needed} samples of `{port}`, not \
                         {max_held}",
                        at.component
                    ),
                    place,
                    Some(help),
                );
            }
            if let Some(limit) = module.limits.max_held.filter(|limit| max_held > *limit) {
                let (place, parts) = if detail.is_some_and(|d| d.max_held.is_some()) {
                    (self.place(at, &["inputs", &port, "max_held"], Part::Value), String::new())
                } else {
                    let calls = max_held - needed;
                    (place.clone(), format!(" ({needed} for its trigger, {calls} for calls)"))
                };
                self.error(
                    format!(
                        "the input `{port}` may hold {max_held} samples{parts}, its module {limit}"
                    ),
                    place,
                    Some(
                        "lower `max_held` of the input, or raise it under `limits:` of the module"
                            .into(),
                    ),
                );
            }
            let schema = class
                .and_then(|c| c.inputs.iter().find(|p| p.name == port))
                .map(|p| p.schema.clone());
            self.ends.push(End {
                kind: EndKind::Subscription { max_held },
                module: at.module.to_owned(),
                component: at.component.to_owned(),
                port: port.clone(),
                topic: topic.clone(),
                schema: schema.clone(),
                qos: qos.clone(),
                place: Some(place),
            });
            if detail.is_some_and(|d| d.on_deadline.is_some()) && qos.deadline_ms.is_none() {
                let place = self.place(at, &["inputs", &port, "on_deadline"], Part::Key);
                self.error(
                    format!("`{port}` has a reaction and no deadline that could be missed"),
                    place,
                    Some(format!(
                        "add `qos: {{ deadline_ms: … }}` to the topic `{topic}`, or remove \
                         `on_deadline`"
                    )),
                );
            }
            let on_deadline = reaction::on_deadline(module, connection);
            inputs.push(ResolvedInput { port, topic, schema, qos, max_held, on_deadline });
        }
        inputs
    }

    pub(super) fn outputs(
        &mut self,
        at: &At<'_>,
        spec: &ComponentSpec,
        class: Option<&ComponentClass>,
        module: &ModuleSpec,
    ) -> Vec<ResolvedOutput> {
        if let Some(class) = class {
            self.unknown_ports(at, "outputs", spec.outputs.keys(), class, &class.outputs);
        }
        let order: Vec<String> = match class {
            Some(class) => class.outputs.iter().map(|p| p.name.clone()).collect(),
            None => spec.outputs.keys().cloned().collect(),
        };
        let mut outputs = Vec::new();
        for port in order {
            let (name, change, place) = match spec.outputs.get(&port) {
                Some(connection) => {
                    let detail = match connection {
                        OutputSpec::Topic(_) => None,
                        OutputSpec::Detailed(d) => Some(d),
                    };
                    let path = Self::topic_path(detail.is_some(), "outputs", &port);
                    let path: Vec<&str> = path.iter().map(String::as_str).collect();
                    (
                        connection.topic().to_owned(),
                        detail.map(|d| d.qos.clone()).unwrap_or_default(),
                        Some(self.place(at, &path, Part::Value)),
                    )
                }
                // A component publishes on all outputs of its class. An output that the graph does
                // not name gets a topic of its own, `<component>/<port>`.
                None => (format!("{}/{port}", at.component), QosChange::default(), None),
            };
            let Ok(topic) = name.parse::<TopicName>() else { continue };
            let qos = self.qos(topic.as_str(), &change);
            let schema = class
                .and_then(|c| c.outputs.iter().find(|p| p.name == port))
                .map(|p| p.schema.clone());
            self.ends.push(End {
                kind: EndKind::Publisher,
                module: at.module.to_owned(),
                component: at.component.to_owned(),
                port: port.clone(),
                topic: topic.clone(),
                schema: schema.clone(),
                qos: qos.clone(),
                place,
            });
            let rate = spec.outputs.get(&port).and_then(|o| reaction::rate(module, o));
            outputs.push(ResolvedOutput { port, topic, schema, qos, rate });
        }
        outputs
    }

    /// Returns the index of an input that a trigger names. Reports a name that no input has, unless
    /// the component has no inputs at all: [`Self::trigger`] reports that.
    fn trigger_input(&mut self, at: &At<'_>, name: &str, ports: &[&str]) -> Option<usize> {
        let found = ports.iter().position(|p| *p == name);
        if found.is_none() && !ports.is_empty() {
            let help = suggest(name, "connected inputs", ports.iter().copied());
            let place = self.place(at, &["trigger", "on"], Part::Value);
            self.error(
                format!(
                    "the trigger names the input `{name}`, which `{}` does not have",
                    at.component
                ),
                place,
                Some(help),
            );
        }
        found
    }

    pub(super) fn trigger(
        &mut self,
        at: &At<'_>,
        spec: Option<&TriggerSpec>,
        ports: &[&str],
    ) -> ResolvedTrigger {
        let duration = |ms: &Milliseconds| ms.duration().unwrap_or(Duration::from_nanos(1));
        let limit = |ms: &Option<Milliseconds>| ms.as_ref().map(duration);
        let trigger = match spec {
            None if ports.is_empty() => return ResolvedTrigger::Own,
            None => ResolvedTrigger::Any { on: (0..ports.len()).collect(), max_age: None },
            Some(TriggerSpec::Any { on, max_age_ms }) => {
                let named =
                    on.iter().filter_map(|name| self.trigger_input(at, name, ports)).collect();
                ResolvedTrigger::Any {
                    on: if on.is_empty() { (0..ports.len()).collect() } else { named },
                    max_age: limit(max_age_ms),
                }
            }
            Some(TriggerSpec::Timer { period_ms, max_age_ms }) => {
                return ResolvedTrigger::Timer {
                    period: duration(period_ms),
                    max_age: limit(max_age_ms),
                };
            }
            Some(TriggerSpec::AllLatest { on, max_age_ms }) => {
                match self.trigger_input(at, on, ports) {
                    Some(on) => ResolvedTrigger::AllLatest { on, max_age: limit(max_age_ms) },
                    None => ResolvedTrigger::Any { on: Vec::new(), max_age: None },
                }
            }
            Some(TriggerSpec::Exact { queue, max_age_ms }) => {
                ResolvedTrigger::Exact { queue: *queue, max_age: limit(max_age_ms) }
            }
            Some(TriggerSpec::Approximate { queue, max_interval_ms, max_age_ms }) => {
                ResolvedTrigger::Approximate {
                    queue: *queue,
                    max_interval: limit(max_interval_ms),
                    max_age: limit(max_age_ms),
                }
            }
        };
        if ports.is_empty() {
            let place = self.place(at, &["trigger"], Part::Key);
            let help = "connect an input, use `trigger: {kind: timer, period_ms: …}`, or leave the \
                 trigger out";
            self.error(
                format!("the trigger of `{}` waits for inputs, and it has none", at.component),
                place,
                Some(help.into()),
            );
        }
        trigger
    }
}

/// Returns the number of samples that a subscription must be able to hold for its trigger, in
/// addition to samples in running callbacks.
fn holds(trigger: Option<&TriggerSpec>) -> u32 {
    match trigger {
        None | Some(TriggerSpec::Any { .. } | TriggerSpec::Timer { .. }) => Trigger::any().holds(),
        Some(TriggerSpec::AllLatest { .. }) => Trigger::AllLatest { on: 0, max_age: None }.holds(),
        Some(TriggerSpec::Exact { queue, .. } | TriggerSpec::Approximate { queue, .. }) => {
            Trigger::Exact { queue: *queue as usize, max_age: None }.holds()
        }
    }
}
