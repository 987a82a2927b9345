// SPDX-License-Identifier: Apache-2.0
//! Faults of modules and gateways: time, cause and consequences.

use crate::records::StageRecord;
use driveline_types::{MonotonicNs, TopicId};
use serde::Serialize;

/// Maximum number of faults kept with their details; all are counted.
pub const MAX_FAULTS: usize = 1_000;

/// An unexpected end, failed start or time-out at the start of a module or gateway.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fault {
    /// Module or gateway.
    pub module: String,
    /// Its process; 0 after a failed start or a time-out.
    pub pid: u32,
    /// Time since the first callback of the run, in seconds.
    pub at_s: f64,
    /// End of the process and its cause, for people.
    pub cause: String,
    /// True if the module stays down: it was not ready again.
    pub down: bool,
    /// Time from the end until the new process was ready, in milliseconds.
    pub ready_after_ms: Option<f64>,
    /// Time from the end until the module's first new sample, in milliseconds. If no component of
    /// the graph reads the module's samples, it is the time until the module's first callback has
    /// ended. `None` if unknown: no sample was read since, or another module publishes the same
    /// topics.
    pub first_sample_after_ms: Option<f64>,
    /// Samples that each of the module's inputs did not receive because of the fault.
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
    /// Samples between the last one before the end and the first one after it. `None` if unknown:
    /// no sample came before or since, or the topic has no publisher in the graph, or several, or
    /// its publisher was restarted as well.
    pub samples: Option<u64>,
}

/// A fault, with the state that is needed to compute its missing figures.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) fault: Fault,
    pub(crate) at: MonotonicNs,
    pub(crate) components: Vec<String>,
    /// Topics that this module alone publishes and that a component of the run reads.
    pub(crate) outputs: Vec<TopicId>,
    /// True if no component of the run reads what the module publishes.
    pub(crate) is_sink: bool,
    /// For each of `fault.missed`: the last sequence number before the end. `None` if it is
    /// unknown, and once the first sample after the end has come.
    pub(crate) last: Vec<Option<u64>>,
}

impl Open {
    /// Returns true if a further record can add data.
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
                .or((own && self.is_sink).then_some(record.end));
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

/// All faults of a run.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Cases in which a module exceeded a limit that the graph declares for it: one sentence for
    /// each of the first cases, and the number of the others.
    pub(crate) breaches: (Vec<String>, u64),
    pub(crate) kept: Vec<Open>,
    /// Number of faults beyond the maximum: counted, but not kept.
    pub(crate) beyond: u64,
}

impl Faults {
    pub(crate) fn observe(&mut self, record: &StageRecord<'_>) {
        self.kept.iter_mut().filter(|open| open.waits()).for_each(|open| open.observe(record));
    }

    pub(crate) fn newest(&mut self, module: &str) -> Option<&mut Open> {
        self.kept.iter_mut().rev().find(|open| open.fault.module == module)
    }

    /// Returns true if the module of a component stays down.
    pub(crate) fn stays_down(&self, component: &str) -> bool {
        self.kept
            .iter()
            .any(|open| open.fault.down && open.components.iter().any(|name| name == component))
    }

    pub(crate) fn list(&self) -> Vec<Fault> {
        self.kept.iter().map(|open| open.fault.clone()).collect()
    }

    pub(crate) fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Returns the cases in which modules exceeded a declared limit, for the notes of the report.
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

impl Fault {
    /// Returns the fault in one line, for people.
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
