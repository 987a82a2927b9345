// SPDX-License-Identifier: Apache-2.0
//! What a run is asked for and what it answers: one line of JSON each.

use driveline_bench::observations::ObservationFiles;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Version of these lines.
pub const PROTOCOL: u32 = 1;

/// One run of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadJob {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Name of the workload.
    pub workload: String,
    /// Its parameters; what is left out has its default.
    #[serde(default)]
    pub parameters: serde_json::Value,
    /// Directory of the domain, for this run alone. Whoever asks removes it.
    pub domain_dir: PathBuf,
    /// Existing directory for the files of the observations.
    pub raw_dir: PathBuf,
    /// What happens before this does not count; milliseconds.
    pub warm_up_ms: u64,
    /// How long it counts; milliseconds.
    pub duration_ms: u64,
    /// For phases, periods and payloads: what is random is the same for the same seed.
    #[serde(default)]
    pub seed: u64,
    /// CPUs for all processes of the run; none leaves it to the kernel.
    #[serde(default)]
    pub cpus: Vec<usize>,
}

impl WorkloadJob {
    pub(crate) fn warm_up(&self) -> Duration {
        Duration::from_millis(self.warm_up_ms)
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_millis(self.duration_ms)
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum WorkloadEvent {
    /// It was observed.
    Done {
        /// What it told.
        observations: ObservationFiles,
    },
    /// It could not be run.
    Failed {
        /// Why, and what to do.
        error: String,
    },
}
