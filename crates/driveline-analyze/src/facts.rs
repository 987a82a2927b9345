// SPDX-License-Identifier: Apache-2.0
//! Facts of a run besides its records: its graph, its machine and its end.

use crate::machine::MachineFacts;
use crate::modules::ModuleFacts;
use driveline_graph::{ResolvedComponent, ResolvedGraph, ResolvedInput};
use driveline_runtime::launch::{CutOff, Unconnected};
use driveline_types::{Durability, Qos, Reliability, TopicName};
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::SystemTime;

/// Facts of a run besides its records.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// Name of the graph.
    pub graph: String,
    /// End of the run, once it has ended.
    pub ended: Option<Ended>,
    /// Notes that a reader of the figures must know, one sentence each.
    pub notes: Vec<String>,
    /// Speed of the vehicle in km/h, for [`ReactionDistance`](crate::ReactionDistance); without it
    /// no distance is given.
    pub speed_kmh: Option<f64>,
    /// Start of the run, as Unix time in seconds.
    pub started_unix_s: Option<i64>,
    /// Time that the modules ran, in seconds, once it is known.
    pub ran_s: Option<f64>,
    /// The components, in the order in which tables show them.
    pub stages: Vec<StageFacts>,
    /// Machine of the run.
    pub machine: MachineFacts,
    /// Topics that the graph marks `external`: programs outside of the graph may publish on them.
    pub external: Vec<TopicName>,
    /// Inputs that are reliable: component and port.
    pub reliable: BTreeSet<(String, String)>,
    /// Inputs that are transient-local: component and port.
    pub transient_local: BTreeSet<(String, String)>,
    /// Connections of the graph that were never made, or did not come back after a restart.
    pub unconnected: Vec<Unconnected>,
    /// Modules and gateways of the run that were suspended (SIGSTOP) when it ended.
    pub suspended: Vec<String>,
    /// Components that still had samples of a finished component to process, made no progress, and
    /// were therefore ended with the run.
    pub cut_off: Vec<CutOff>,
    /// Components that are active in some modes only.
    pub modal: Vec<String>,
    /// Place and resources of each module, in the order of the graph.
    pub modules: Vec<ModuleFacts>,
}

impl RunFacts {
    /// Returns the facts of a run of `graph` that begins now, on this machine. The caller adds
    /// facts that the graph does not have.
    #[must_use]
    pub fn of_graph(graph: &ResolvedGraph) -> Self {
        let stage = |c: &ResolvedComponent| StageFacts {
            name: c.name.to_string(),
            inputs: c
                .inputs
                .iter()
                .enumerate()
                .map(|(i, input)| input_facts(input, c.trigger.fires_on(i)))
                .collect(),
            outputs: c.outputs.iter().map(|o| o.topic.clone()).collect(),
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            graph: graph.name.clone(),
            started_unix_s: i64::try_from(now.as_secs()).ok(),
            stages: graph.modules.iter().flat_map(|m| &m.components).map(stage).collect(),
            machine: MachineFacts::here(),
            modules: graph.modules.iter().map(|m| ModuleFacts::new(m.name.as_str())).collect(),
            external: graph
                .topics
                .iter()
                .filter(|(_, t)| t.external)
                .map(|(name, _)| name.clone())
                .collect(),
            modal: graph
                .components()
                .map(|(_, c)| c.name.to_string())
                .filter(|name| graph.modes.as_ref().is_some_and(|m| m.is_modal(name)))
                .collect(),
            reliable: inputs_with(graph, |qos| qos.reliability == Reliability::Reliable),
            transient_local: inputs_with(graph, |qos| qos.durability == Durability::TransientLocal),
            ..Self::default()
        }
    }
}

/// Returns component and port of the inputs whose QoS satisfies `has`.
fn inputs_with(graph: &ResolvedGraph, has: fn(&Qos) -> bool) -> BTreeSet<(String, String)> {
    let inputs = graph.components().flat_map(|(_, c)| c.inputs.iter().map(move |i| (c, i)));
    let those = inputs.filter(|(_, input)| has(&input.qos));
    those.map(|(c, input)| (c.name.to_string(), input.port.clone())).collect()
}

/// One component and its ports according to the graph.
#[derive(Clone, Debug)]
pub struct StageFacts {
    /// The component's name.
    pub name: String,
    /// Inputs of the stage.
    pub inputs: Vec<InputFacts>,
    /// Topics that it publishes.
    pub outputs: Vec<TopicName>,
}

/// One input of a component according to the graph.
#[derive(Clone, Debug)]
pub struct InputFacts {
    /// The input port's name.
    pub name: String,
    /// Its topic.
    pub topic: TopicName,
    /// True if its samples trigger the component, alone or together with samples of other inputs.
    /// Otherwise the component reads its newest sample when something else triggers.
    pub triggers: bool,
}

fn input_facts(input: &ResolvedInput, triggers: bool) -> InputFacts {
    InputFacts { name: input.port.clone(), topic: input.topic.clone(), triggers }
}

/// End of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// `finished`, `interrupted`, `module_died`, `not_ready` or `not_started`.
    pub reason: &'static str,
    /// True if it ended as intended; failed calls do not count here.
    pub ok: bool,
    /// The module that ended the run, if one did.
    pub module: Option<String>,
    /// Exit code of the module's process, unless a signal ended it.
    pub exit_code: Option<i32>,
    /// Number of the signal that ended the module's process.
    pub signal: Option<i32>,
    /// The complete end as text for people, with the cause.
    pub text: String,
    /// Advice on finding the cause.
    pub help: Option<String>,
}
