// SPDX-License-Identifier: Apache-2.0
//! Scenario files: question, systems, links or workloads of an experiment, and published figures.
//!
//! The built-in experiments are such files; [`builtin`] lists them. Users copy one and edit it.

mod builtin;
mod case;
mod check;
mod choices;
mod effect;
mod error;
mod extent;
mod load;
mod unused_keys;

pub use builtin::{Builtin, builtin};
pub use case::{CaseSpec, ChainSpec, FavourSpec, Reads, StageSpec, Vary, WorkloadSpec};
pub(crate) use check::OWN_SYSTEMS;
pub use choices::{
    AnswerSpec, CpusSpec, DeploymentSpec, Figure, MeasureSpec, PayloadSpec, ReachSpec,
    ReliabilitySpec, TakeSpec,
};
pub use error::LoadError;
pub use extent::Extent;
pub(crate) use load::{built_in, from_text, is_same, no_such};
pub use load::{load, load_for, schema};

use driveline_graph::ByteSize;
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Version of this kind of file: 1.
    #[schemars(range(min = 1, max = 1))]
    pub scenario: u32,
    /// Short name, unique among the experiments of one call: letters, digits, dashes.
    pub id: String,
    /// Title, in one line.
    pub title: String,
    /// Source, such as a paper.
    pub source: String,
    /// Question that its result answers.
    pub question: String,
    /// Subject of the question, besides latencies: the answer begins with that.
    pub answer: Option<AnswerSpec>,
    /// Measured systems: driveline, peers or their variants, or all.
    #[serde(default = "all_systems")]
    #[schemars(length(min = 1))]
    pub systems: Vec<String>,
    /// Common settings of all its links.
    #[serde(default)]
    #[schemars(schema_with = "common")]
    pub link: CaseSpec,
    /// A processing chain instead of links, with the measured system on its edges
    /// (docs/protocols/chain.md).
    pub chain: Option<ChainSpec>,
    /// Cases measured of each system, by name: one link (default: the values under `link`), several
    /// links at the same time, or a workload.
    #[serde(default)]
    pub cases: IndexMap<String, CaseSpec>,
    /// Every case once for each combination of these.
    #[serde(default)]
    pub vary: Vary,
    /// Amount of measurement.
    #[serde(default)]
    pub run: RunSpec,
    /// Changes to `run` for --quick.
    #[serde(default)]
    pub quick: RunSpec,
    /// Changes to `run` for --paper.
    #[serde(default)]
    pub paper: RunSpec,
    /// The figure that counts most.
    #[serde(default)]
    pub figure: Option<Figure>,
    /// Period at which processor time and memory of each process are noted, in milliseconds; not at
    /// all if it is left out, because noting them costs processor time too.
    #[schemars(range(min = 10, max = 60000))]
    pub watch_every_ms: Option<u64>,
    /// True if the latency tools of peers run for their ping-pong rows, which must agree
    /// with them.
    #[serde(default)]
    pub own_tools: bool,
    /// Published figures.
    #[serde(default)]
    pub published: Vec<Published>,
    /// Notes for the reader.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Returns the schema of common settings of links: a case without the keys of single cases.
fn common(generator: &mut SchemaGenerator) -> Schema {
    let mut case = CaseSpec::json_schema(generator);
    if let Some(properties) = case.get_mut("properties").and_then(serde_json::Value::as_object_mut)
    {
        properties.retain(|key, _| {
            !["links", "measure", "workload", "driveline_edges"].contains(&key.as_str())
        });
    }
    case
}

fn all_systems() -> Vec<String> {
    vec!["all".into()]
}

/// Amount of measurement. `quick` and `paper` set only differences from `run`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Number of rounds, each with everything started anew, in a new random order (5).
    #[schemars(range(min = 1, max = 1000))]
    pub rounds: Option<u64>,
    /// Samples of links and chains that count in each run (1000), or else `seconds`.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub messages: Option<u64>,
    /// Sending time of each run of links and chains with a rate, at least one sample; observation
    /// time of a workload and of a link at rest (10). A case without a rate sends 1000 messages.
    #[schemars(range(min = 0.1, max = 86400.0))]
    pub seconds: Option<f64>,
    /// Samples of links and chains before the counted ones (100, of chains 10).
    #[schemars(range(max = 1_000_000))]
    pub warm_up: Option<u64>,
    /// Systems, if others.
    #[schemars(length(min = 1))]
    pub systems: Option<Vec<String>>,
    /// Cases, if not all.
    #[schemars(length(min = 1))]
    pub cases: Option<Vec<String>>,
    /// Varied dimensions, if others: replaces single lists.
    #[serde(default)]
    pub vary: Vary,
}

/// A figure that was published.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The system that was measured.
    pub system: String,
    /// The system here that it is compared with.
    #[serde(default)]
    pub beside: Option<String>,
    /// Difference between the system here and the published one, in a few words.
    #[serde(default)]
    pub here: Option<String>,
    /// The case that it belongs to.
    #[serde(default)]
    pub case: Option<String>,
    /// Bytes of payload, where the case has several.
    pub size: Option<ByteSize>,
    /// Number of subscribers, where the case has several.
    pub subscribers: Option<usize>,
    /// Threads of one process or processes, where the case has both.
    pub reach: Option<ReachSpec>,
    /// Reliability of the links, where the case has both.
    pub reliability: Option<ReliabilitySpec>,
    /// Place of the processes, where the case has several.
    pub deployment: Option<DeploymentSpec>,
    /// Figure (transport), or a quantity of a workload.
    #[serde(default)]
    pub figure: Option<String>,
    /// Mean, in microseconds.
    pub mean_us: Option<f64>,
    /// Standard deviation, in microseconds.
    pub deviation_us: Option<f64>,
    /// Median, in microseconds.
    pub p50_us: Option<f64>,
    /// 95th percentile, in microseconds.
    pub p95_us: Option<f64>,
    /// 99th percentile, in microseconds.
    pub p99_us: Option<f64>,
    /// Greatest, in microseconds.
    pub max_us: Option<f64>,
    /// Of stages of a chain, by name: transmission in percent of processing.
    #[serde(default)]
    pub transmission_percent: IndexMap<String, f64>,
    /// On which machine, and under which conditions.
    #[serde(default)]
    pub on: String,
}
