// SPDX-License-Identifier: Apache-2.0
//! Chains: real work between the ends, with a middleware under test on every edge, or only on some.
//! `docs/protocols/chain.md` defines their stages and reports.
//!
//! A [`ChainJob`] describes a run; [`crate::Runner::run_chain`] runs it once.

mod account;
mod run;
mod shape;

use crate::harness::{Reach, Reliability, System, Wait};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Peer that carries only Driveline, through Driveline's C++ SDK. The build that makes it also
/// makes the library through which other peers carry Driveline's edges. So if this peer exists,
/// that library exists.
pub(crate) const DRIVELINE_PEER: &str = "driveline_cpp";
/// Variant of [`DRIVELINE_PEER`].
pub(crate) const DRIVELINE_VARIANT: &str = "sdk";

/// Counter of the output rate of a chain's sink, in thousandths of a hertz, since counters are
/// whole numbers. With several sinks, ` at ` and the sink's name follow. The name is part of
/// archives.
pub const OUTPUT_RATE_MHZ: &str = "output mHz";

/// A chain, and the settings of its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainJob {
    /// Stages, in any order. Exactly one of them has no inputs: the source.
    pub stages: Vec<StageSpec>,
    /// Middleware of each topic.
    pub edges: BTreeMap<String, EdgeSpec>,
    /// Process per stage, or threads of one process.
    #[serde(default = "processes")]
    pub reach: Reach,
    /// Samples of the source per second; `None`: as many as it can make.
    pub rate_hz: Option<f64>,
    /// Samples of the source before the measured ones.
    pub warm_up: u64,
    /// Samples of the source that count.
    pub messages: u64,
    /// Wait mode of stages for their first input.
    pub wait: Wait,
    /// Reliability of all edges.
    pub reliability: Reliability,
    /// History depth of all edges.
    pub depth: u32,
    /// Real-time priority (SCHED_FIFO) of all stages; 0 is time sharing.
    pub priority: u8,
}

fn processes() -> Reach {
    Reach::Host
}

/// One process of a chain, or one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// Lower-case letters, digits and `_`.
    pub name: String,
    /// Topics: the first one triggers, the others contribute their newest message.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// Output topic.
    #[serde(default)]
    pub output: Option<String>,
    /// Algorithm of the stage (its *work*): name of a shared library in the directory `works` next
    /// to the peers, without `.so`, or a path.
    pub work: String,
    /// Parameters of the work.
    #[serde(default)]
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// CPU; `None` leaves it to the kernel.
    #[serde(default)]
    pub cpu: Option<usize>,
}

/// Middleware of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeSpec {
    /// `driveline`, or a peer and its variant.
    pub system: System,
    /// Maximum size of a message in bytes, including its head of 48 bytes.
    pub size: usize,
}

/// Report of a stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageAccount {
    /// File with its rows of stamps.
    pub rows_file: PathBuf,
    /// Accounts of the inputs.
    #[serde(default)]
    pub inputs: Vec<InputAccount>,
    /// Messages on which the stage worked. A source that gave up also counts the samples that it
    /// did not make.
    #[serde(default)]
    pub worked: u64,
    /// Messages of the first input that came before another input had any message.
    #[serde(default)]
    pub skipped: u64,
    /// Messages for which the work had no output.
    #[serde(default)]
    pub no_output: u64,
    /// Counts that the work reports.
    #[serde(default)]
    pub report: BTreeMap<String, u64>,
}

/// Account of an input, end mark included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputAccount {
    /// Its topic.
    pub topic: String,
    /// Messages received.
    pub received: u64,
    /// Messages missed: gaps in their numbers.
    pub missed: u64,
    /// Number of received messages that are not valid messages of a stage.
    #[serde(default)]
    pub damaged: u64,
}

impl ChainJob {
    /// Returns the names that [`crate::peers::select`] needs so that this chain can run.
    #[must_use]
    pub fn peers_needed(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .edges
            .values()
            .filter(|e| e.system != System::Driveline)
            .map(|e| e.system.to_string())
            .collect();
        if self.edges.values().any(|e| e.system == System::Driveline) {
            names.push(format!("{DRIVELINE_PEER}/{DRIVELINE_VARIANT}"));
        }
        names.sort();
        names.dedup();
        names
    }
}
