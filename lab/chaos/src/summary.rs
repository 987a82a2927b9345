// SPDX-License-Identifier: Apache-2.0
//! Part of a run's `summary.json` on which the verdict depends.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Figures of a run, as `driveline run --report` writes them. Other keys are ignored.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RunSummary {
    /// From the first callback to the last one, in seconds.
    #[serde(default)]
    pub duration_s: f64,
    /// Modules that ended unexpectedly.
    pub faults: Vec<ReportedFault>,
    /// First failures of components.
    #[serde(default)]
    pub failures: Vec<String>,
    /// Samples published, by topic.
    pub published: BTreeMap<String, u64>,
    /// Inputs of components.
    pub subscriptions: Vec<Edge>,
    /// Components.
    pub stages: Vec<Stage>,
    /// Work that was not done although no call failed.
    #[serde(default)]
    pub problems: Vec<Problem>,
    /// Notes for readers of the report.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A module that ended unexpectedly.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ReportedFault {
    /// Module.
    pub module: String,
    /// Its process.
    pub pid: u32,
    /// Time in the run, in seconds.
    pub at_s: f64,
    /// Kind of end, and its reason.
    pub cause: String,
    /// True if the module stayed down.
    pub down: bool,
    /// Time until the new process was ready, in milliseconds.
    pub ready_after_ms: Option<f64>,
    /// Time until the first sample of the new process, in milliseconds.
    pub first_sample_after_ms: Option<f64>,
}

/// Input of a component, with the counts of its topic's samples.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Edge {
    /// Component.
    pub stage: String,
    /// Input port.
    pub input: String,
    /// Topic.
    pub topic: String,
    /// Samples that were read.
    pub received: u64,
    /// Samples that newer samples replaced before they were read.
    pub missed: u64,
    /// Samples that were too old.
    pub expired: u64,
    /// Samples with an invalid header, checksum or index.
    pub corrupt: u64,
    /// Samples that did not fulfil the guarantees that their publisher had offered.
    pub refused: u64,
    /// Samples lost between hosts.
    pub lost_on_the_way: u64,
    /// Samples that could still be read at the end, and `unread`.
    pub not_read: u64,
    /// Samples that came while the component was inactive.
    pub inactive: u64,
    /// Samples of standby publishers.
    pub standby: u64,
    /// Samples published while the input was not connected.
    pub not_connected: u64,
    /// Unread samples that a killed process could not report.
    pub unread: u64,
    /// Reason why the number of unread samples is unknown, so that the account may lack some.
    pub unknown: Option<String>,
}

impl Edge {
    /// Returns the number of samples in the account: the sum of its counts.
    #[must_use]
    pub fn named(&self) -> u64 {
        let parts = [
            self.received,
            self.missed,
            self.expired,
            self.corrupt,
            self.refused,
            self.lost_on_the_way,
            self.not_read,
            self.inactive,
            self.standby,
            self.not_connected,
        ];
        parts.iter().fold(0, |sum: u64, n| sum.saturating_add(*n))
    }
}

/// A component.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Stage {
    /// Its name.
    pub stage: String,
    /// Calls.
    #[serde(default)]
    pub runs: u64,
    /// Calls that failed.
    #[serde(default)]
    pub failed: u64,
}

/// Work that was not done although no call failed, for example by a component that was never
/// called.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Problem {
    /// Component.
    #[serde(default)]
    pub stage: String,
    /// Description of the work.
    #[serde(default)]
    pub what: String,
}
