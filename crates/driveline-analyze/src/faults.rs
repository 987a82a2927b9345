// SPDX-License-Identifier: Apache-2.0
//! Modules that ended while the graph ran: when, why, and what it cost.

use crate::collector::{Collector, StageRecord};
use driveline_types::{MonotonicNs, TopicId};
use serde::Serialize;

/// Maximum number of faults that are kept with their details; all are counted.
pub const MAX_FAULTS: usize = 1_000;

/// Unrequested end of a module.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fault {
    /// Module.
    pub module: String,
    /// Its process.
    pub pid: u32,
    /// Time since the first callback of the run, in seconds.
    pub at_s: f64,
    /// End of the process and its cause, for people.
    pub cause: String,
    /// True if the module was not started again.
    pub down: bool,
    /// Time from the end until the new process was ready, in milliseconds.
    pub ready_after_ms: Option<f64>,
    /// Time from the end until the module's first new sample, in milliseconds; of a module whose
    /// samples nothing in the graph reads, until its first callback has ended.
    pub first_sample_after_ms: Option<f64>,
    /// Samples that each of its inputs did not get because of it.
    pub missed: Vec<MissedByFault>,
}

/// Cost of a fault at one input of the module.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MissedByFault {
    /// Component.
    pub stage: String,
    /// Input port.
    pub input: String,
    /// Topic.
    pub topic: String,
    /// Samples between the last one before the end and the first one after it. None where it is not
    /// known: no sample came since, or the topic has several publishers, or its publisher was
    /// restarted as well.
    pub samples: Option<u64>,
}

/// A fault, and what is still to be learnt of it.
#[derive(Debug)]
struct Open {
    fault: Fault,
    at: MonotonicNs,
    components: Vec<String>,
    /// Topics that the module publishes and that a component of the run reads.
    outputs: Vec<TopicId>,
    /// For each of `fault.missed`: the last sequence number before the end, until the first after
    /// it has come.
    last: Vec<Option<u64>>,
}

impl Open {
    /// Returns true if another record can add data.
    fn waits(&self) -> bool {
        !self.fault.down
            && (self.fault.first_sample_after_ms.is_none() || self.last.iter().any(Option::is_some))
    }

    fn observe(&mut self, record: &StageRecord<'_>) {
        let own = self.components.iter().any(|c| c == record.stage);
        if record.start <= self.at && own {
            return;
        }
        let after_ms = |at: MonotonicNs| Some(at.since(self.at).as_secs_f64() * 1e3);
        if self.fault.first_sample_after_ms.is_none() {
            let published = record
                .inputs
                .iter()
                .filter(|i| self.outputs.contains(&i.topic))
                .map(|i| i.header.publish_time);
            let first = published
                .filter(|at| *at > self.at)
                .min()
                .or((own && self.outputs.is_empty()).then_some(record.end));
            self.fault.first_sample_after_ms = first.and_then(after_ms);
        }
        if !own {
            return;
        }
        for input in record.inputs.iter().filter(|i| i.fresh) {
            let edge = self
                .fault
                .missed
                .iter()
                .position(|m| m.stage == record.stage && m.input == input.input);
            if let Some(last) = edge.and_then(|edge| self.last[edge].take())
                && let (Some(edge), Some(behind)) =
                    (edge, input.header.sequence.checked_sub(last + 1))
            {
                self.fault.missed[edge].samples = Some(behind);
            }
        }
    }
}

/// Maximum number of breaches that are kept; all are counted.
const MAX_BREACHES: usize = 100;

/// All faults of a run.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Broken declarations of modules, one sentence each, and the number of further ones.
    breaches: (Vec<String>, u64),
    kept: Vec<Open>,
    /// Faults without details.
    beyond: u64,
}

impl Faults {
    pub(crate) fn observe(&mut self, record: &StageRecord<'_>) {
        self.kept.iter_mut().filter(|open| open.waits()).for_each(|open| open.observe(record));
    }

    fn newest(&mut self, module: &str) -> Option<&mut Open> {
        self.kept.iter_mut().rev().find(|open| open.fault.module == module)
    }

    pub(crate) fn list(&self) -> Vec<Fault> {
        self.kept.iter().map(|open| open.fault.clone()).collect()
    }

    pub(crate) fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Returns the broken declarations of modules, for the notes of the report.
    pub(crate) fn breaches(&self) -> impl Iterator<Item = String> {
        let (kept, more) = &self.breaches;
        let more = (*more > 0).then(|| {
            format!(
                "{more} more events of modules that did not keep to their limits are not listed."
            )
        });
        kept.iter().cloned().chain(more)
    }
}

impl Collector {
    /// A module did not keep to what the graph declares of it. `text` has the figure and the key,
    /// `reaction` what happened then.
    pub fn breach(&mut self, module: &str, text: &str, reaction: &str) {
        let at_s = self.first.map_or(0.0, |first| self.last.since(first).as_secs_f64());
        let (kept, more) = &mut self.faults.breaches;
        if kept.len() < MAX_BREACHES {
            kept.push(format!("At {at_s:.1} s, module '{module}': {text}; reaction: {reaction}."));
        } else {
            *more += 1;
        }
    }

    /// A module with these components has ended out of turn. The counters of its next process count
    /// on top.
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
        let outputs = own().flat_map(|s| &s.outputs).map(|t| t.id()).filter(|t| read(*t)).collect();
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

    /// The module of the newest fault is ready again, `after_ms` after its end.
    pub fn recovered(&mut self, module: &str, after_ms: f64) {
        // Later restarts, together with another module, are not of this fault.
        if let Some(open) = self.faults.newest(module) {
            open.fault.ready_after_ms.get_or_insert(after_ms);
        }
    }

    /// The module stays down: it was not ready again after its newest fault, if it has one.
    pub fn stays_down(&mut self, module: &str) {
        let newest = self.faults.newest(module);
        if let Some(open) = newest.filter(|open| open.fault.ready_after_ms.is_none()) {
            open.fault.down = true;
        }
    }

    /// A process of these components was started: its counters count on top of those of its
    /// predecessor.
    pub fn process_started(&mut self, components: &[String], now: MonotonicNs) {
        for component in components {
            self.publishers_restart(component, now);
            if let Some(stage) = self.stages.get_mut(component) {
                stage.inputs.values_mut().for_each(crate::collector::InputSeries::bank);
            }
            self.accounts.bank(component);
        }
    }
}

impl Fault {
    /// The fault in one line, for people.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = format!("{} at {:.1} s", self.cause, self.at_s);
        if self.down {
            line += "; it stays down";
        }
        if let Some(ms) = self.ready_after_ms {
            line += &format!("; ready again after {ms:.0} ms");
        }
        if let Some(ms) = self.first_sample_after_ms {
            line += &format!(", first sample after {ms:.0} ms");
        }
        let missed: Vec<_> = self
            .missed
            .iter()
            .filter_map(|m| {
                m.samples
                    .filter(|n| *n > 0)
                    .map(|n| format!("{} of '{}' by {}", n, m.topic, m.stage))
            })
            .collect();
        if !missed.is_empty() {
            line += &format!("; not received meanwhile: {}", missed.join(", "));
        }
        line
    }
}

#[cfg(test)]
#[path = "faults_tests.rs"]
mod tests;
