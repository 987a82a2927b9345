// SPDX-License-Identifier: Apache-2.0
//! Job of a run and its answer: one line of JSON each.

use driveline_bench::deployment::Deployment;
use driveline_bench::harness::System;
use driveline_bench::observations::ObservationFiles;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Version of these messages.
pub const PROTOCOL: u32 = 1;

/// One run of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadJob {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Name of the workload.
    pub workload: String,
    /// Parameters of the workload; missing ones have their defaults.
    #[serde(default)]
    pub parameters: serde_json::Value,
    /// Directory of the domain of this run. The requesting process removes it.
    pub domain_dir: PathBuf,
    /// Existing directory for the files of the observations.
    pub raw_dir: PathBuf,
    /// Time at the beginning that is not measured; milliseconds.
    pub warm_up_ms: u64,
    /// Measured time; milliseconds.
    pub duration_ms: u64,
    /// Seed of phases, periods and payloads: the same seed gives the same random numbers.
    #[serde(default)]
    pub seed: u64,
    /// CPUs for all processes of the run; if empty, the kernel chooses.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// Peer whose program runs the parts of the workload; none: this program runs them over
    /// Driveline.
    #[serde(default)]
    pub peer: Option<WorkloadPeer>,
    /// Deployment of the processes of the run; only the workload `chain` has others than
    /// [`Deployment::Bare`].
    #[serde(default)]
    pub deployment: Deployment,
}

/// Peer that runs a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadPeer {
    /// Its program.
    pub program: PathBuf,
    /// The peer and its variant.
    pub system: System,
    /// True if the variant needs a keeper.
    pub keeper: bool,
}

impl WorkloadJob {
    pub(crate) fn warm_up(&self) -> Duration {
        Duration::from_millis(self.warm_up_ms)
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_millis(self.duration_ms)
    }
}

/// End of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum WorkloadEvent {
    /// The run was observed to its end.
    Done {
        /// Observations of the run.
        observations: ObservationFiles,
    },
    /// The run failed.
    Failed {
        /// Cause and remedy.
        error: String,
    },
}
