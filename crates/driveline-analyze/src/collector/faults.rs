// SPDX-License-Identifier: Apache-2.0
//! Takes faults of modules.

use super::Collector;
use crate::faults::{Fault, MAX_FAULTS, MissedByFault, Open};
use driveline_types::{MonotonicNs, TopicId};

/// Maximum number of breaches kept; all are counted.
const MAX_BREACHES: usize = 100;

impl Collector {
    /// Notes that a module did not comply with its declaration in the graph. `text` has the figure
    /// and the key, `reaction` the consequence.
    pub fn breach(&mut self, module: &str, text: &str, reaction: &str) {
        let at_s = self.first.map_or(0.0, |first| self.last.since(first).as_secs_f64());
        let (kept, more) = &mut self.faults.breaches;
        if kept.len() < MAX_BREACHES {
            kept.push(format!("At {at_s:.1} s, module '{module}': {text}; reaction: {reaction}."));
        } else {
            *more += 1;
        }
    }

    /// Notes that a module with these components, or a gateway, has ended unexpectedly, could not
    /// start or was not ready in time.
    pub fn fault(
        &mut self,
        module: &str,
        components: &[String],
        pid: u32,
        cause: String,
        at: MonotonicNs,
    ) {
        if self.faults.kept.len() >= MAX_FAULTS {
            self.faults.beyond += 1;
            return;
        }
        let own = || self.facts.stages.iter().filter(|s| components.contains(&s.name));
        let read = |topic: TopicId| {
            self.facts.stages.iter().any(|s| s.inputs.iter().any(|i| i.topic.id() == topic))
        };
        // A sample does not name its publisher. So if another module publishes on the same topic,
        // it is unknown which sample is the first one of this module.
        let shared = |topic: TopicId| {
            let mut others = self.facts.stages.iter().filter(|s| !components.contains(&s.name));
            others.any(|s| s.outputs.iter().any(|o| o.id() == topic))
        };
        let read: Vec<_> =
            own().flat_map(|s| &s.outputs).map(|t| t.id()).filter(|t| read(*t)).collect();
        let is_sink = read.is_empty();
        let outputs = read.into_iter().filter(|topic| !shared(*topic)).collect();
        let inputs: Vec<_> = own().flat_map(|s| s.inputs.iter().map(move |i| (s, i))).collect();
        let publishers = |topic: TopicId| {
            self.facts.stages.iter().flat_map(|s| &s.outputs).filter(|o| o.id() == topic).count()
        };
        let last = |stage: &str, input: &str, topic: TopicId| {
            let series = self.stages.get(stage).and_then(|s| s.inputs.get(input));
            series.and_then(|s| s.last_sequence).filter(|_| publishers(topic) == 1)
        };
        let open = Open {
            at,
            components: components.to_vec(),
            outputs,
            is_sink,
            last: inputs.iter().map(|(s, i)| last(&s.name, &i.name, i.topic.id())).collect(),
            fault: Fault {
                module: module.to_owned(),
                pid,
                at_s: self.first.map_or(0.0, |first| at.since(first).as_secs_f64()),
                cause,
                down: false,
                ready_after_ms: None,
                first_sample_after_ms: None,
                missed: inputs
                    .iter()
                    .map(|(s, i)| MissedByFault {
                        stage: s.name.clone(),
                        input: i.name.clone(),
                        topic: i.topic.to_string(),
                        samples: None,
                    })
                    .collect(),
            },
        };
        self.faults.kept.push(open);
    }

    /// Notes that a module is ready again, `after_ms` after its newest fault ended it.
    pub fn recovered(&mut self, module: &str, after_ms: f64) {
        // The time of the first recovery stays: without a new fault, the module was restarted
        // together with another one (`restart_with`).
        if let Some(open) = self.faults.newest(module) {
            open.fault.ready_after_ms.get_or_insert(after_ms);
        }
    }

    /// Notes that a module stays down. Marks its newest fault, if it has one and the module was not
    /// ready again after it.
    pub fn stays_down(&mut self, module: &str) {
        let newest = self.faults.newest(module);
        if let Some(open) = newest.filter(|open| open.fault.ready_after_ms.is_none()) {
            open.fault.down = true;
        }
    }

    /// Notes that a process of these components was started: its counters are added to those of its
    /// predecessor.
    pub fn process_started(&mut self, components: &[String], now: MonotonicNs) {
        for component in components {
            self.publishers_restart(component, now);
            if let Some(stage) = self.stages.get_mut(component) {
                stage.inputs.values_mut().for_each(super::InputSeries::bank);
            }
            self.accounts.bank(component);
        }
    }
}

#[cfg(test)]
#[path = "faults_tests.rs"]
mod tests;
