// SPDX-License-Identifier: Apache-2.0
//! Reports of a measured process.

use super::{Role, Unset};
use crate::observations::ObservationFiles;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Report of a measured process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// Its endpoints exist; the other processes may start.
    Ready,
    /// The link is up and at rest.
    Idle,
    /// Everything is sent or received, and written to files.
    Done {
        /// Report of each end in the process.
        ends: Vec<End>,
    },
    /// It cannot continue.
    Failed {
        /// Cause and remedy.
        error: String,
    },
}

/// Report of one end. Fields that an end leaves out are 0 or empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Role of the end.
    pub role: Role,
    /// Index of the subscriber.
    #[serde(default)]
    pub index: usize,
    /// File with its rows of sent samples, if it sent any.
    pub sent_file: Option<PathBuf>,
    /// File with its rows of received samples, if it received any.
    pub received_file: Option<PathBuf>,
    /// Number of samples published: the first one, warm-up, counted ones, and the end mark.
    #[serde(default)]
    pub published: u64,
    /// Sequence number of the first published sample.
    #[serde(default)]
    pub first_sequence: u64,
    /// Sequence number from which samples count.
    #[serde(default)]
    pub counted_from: u64,
    /// Scheduled samples, warm-up included, that were not published, by reason. For the answering
    /// end of a closed loop: answers.
    #[serde(default)]
    pub not_sent: BTreeMap<String, u64>,
    /// Number of samples received.
    #[serde(default)]
    pub received: u64,
    /// Number of samples missed, as counted by the reads.
    #[serde(default)]
    pub missed: u64,
    /// For the asking end of a closed loop: rounds without an answer in time. `None` for programs
    /// that end at the first loss and send no end mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<u64>,
    /// For the asking end of a closed loop: answers that came after their time-out.
    #[serde(default)]
    pub late: u64,
    /// Number of payloads that were checked, right or wrong.
    #[serde(default)]
    pub verified: u64,
    /// Errors in payloads: the first few, and the number of others.
    #[serde(default)]
    pub mismatches: Vec<String>,
    /// Number of wrong payloads.
    #[serde(default)]
    pub mismatched: u64,
    /// Processor time of the process (at process reach: of the end's thread) while the counted
    /// samples ran, in nanoseconds.
    #[serde(default)]
    pub cpu_ns: u64,
    /// Number of counted samples for which `cpu_ns` was used; 0 if the processor time cannot be
    /// attributed to samples.
    #[serde(default)]
    pub cpu_samples: u64,
    /// System calls for waking readers while the counted samples ran.
    pub wake_calls: Option<u64>,
    /// Time at which the end had its first received sample, on `CLOCK_MONOTONIC`.
    pub first_sample_ns: Option<u64>,
    /// Settings that the machine refused.
    #[serde(default)]
    pub unset: Unset,
    /// Additional report of a stage of a chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<crate::chain::StageAccount>,
    /// For [`Role::OwnTool`]: result of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_tool: Option<OwnTool>,
    /// For a part of a workload: its observations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observations: Option<ObservationFiles>,
}

/// One-way result of a middleware's own latency tool: half of a round trip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnTool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Median in nanoseconds; for a tool that prints only averages, the median of the averages.
    pub p50_ns: u64,
    /// 99th percentile in nanoseconds, if the tool prints it.
    pub p99_ns: Option<u64>,
    /// Mean in nanoseconds, if the tool prints it.
    pub mean_ns: Option<u64>,
    /// Number of round trips.
    pub n: u64,
    /// For a tool that prints only averages: number of round trips in each average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub averages_of: Option<u64>,
}

impl End {
    /// Report of an end that has not done anything yet.
    #[must_use]
    pub fn new(role: Role, index: usize) -> Self {
        Self {
            role,
            index,
            sent_file: None,
            received_file: None,
            published: 0,
            first_sequence: 0,
            counted_from: 0,
            not_sent: BTreeMap::new(),
            received: 0,
            missed: 0,
            unanswered: None,
            late: 0,
            verified: 0,
            mismatches: Vec::new(),
            mismatched: 0,
            cpu_ns: 0,
            cpu_samples: 0,
            wake_calls: None,
            first_sample_ns: None,
            unset: Vec::new(),
            stage: None,
            own_tool: None,
            observations: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_may_leave_out_what_it_does_not_know() {
        let end: End =
            serde_json::from_str(r#"{"role":"subscriber","received":3,"someday":1}"#).unwrap();
        assert_eq!(end, End { received: 3, ..End::new(Role::Subscriber, 0) });
    }
}
