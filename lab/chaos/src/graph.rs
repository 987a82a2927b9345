// SPDX-License-Identifier: Apache-2.0
//! Facts of a graph for the laboratory: components, topics, restart policies and limits of each
//! module.

use driveline_graph::{
    LoadOptions, Loaded, OnLauncherLost, Reaction, ResolvedGraph, ResolvedModule, RestartPolicy,
    load,
};
use driveline_runtime::launch::{HostDescriber, find_host};
use std::path::Path;
use std::time::Duration;

/// A module.
#[derive(Clone, Debug)]
pub struct ModuleFacts {
    /// Name.
    pub name: String,
    /// Names of its components.
    pub components: Vec<String>,
    /// Topics that its components publish.
    pub publishes: Vec<String>,
    /// Topics of the inputs of its components, one for each input.
    pub reads: Vec<String>,
    /// Restart policy.
    pub policy: RestartPolicy,
    /// Maximum number of restarts within `window`.
    pub max: usize,
    /// Time window in which restarts are counted.
    pub window: Duration,
    /// Reaction to a call that hangs, if the graph declares one.
    pub on_hang: Option<Reaction>,
    /// Reaction to a limit that is exceeded.
    pub on_limit: Reaction,
    /// `limits: memory`, in bytes.
    pub memory: Option<u64>,
    /// `limits: descriptors`.
    pub descriptors: Option<u32>,
}

impl ModuleFacts {
    /// Returns a module without any key.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            components: Vec::new(),
            publishes: Vec::new(),
            reads: Vec::new(),
            policy: RestartPolicy::Never,
            max: 5,
            window: Duration::from_secs(60),
            on_hang: None,
            on_limit: Reaction::Event,
            memory: None,
            descriptors: None,
        }
    }

    fn of(module: &ResolvedModule) -> Self {
        let outputs = module.components.iter().flat_map(|c| &c.outputs);
        let inputs = module.components.iter().flat_map(|c| &c.inputs);
        Self {
            name: module.name.to_string(),
            components: module.components.iter().map(|c| c.name.to_string()).collect(),
            publishes: outputs.map(|o| o.topic.to_string()).collect(),
            reads: inputs.map(|i| i.topic.to_string()).collect(),
            policy: module.restart.policy,
            max: module.restart.max.map_or(usize::MAX, |max| max as usize),
            window: module.restart.window,
            on_hang: module.watch.hang.as_ref().map(|(_, reaction)| reaction.clone()),
            on_limit: module.watch.on_limit.clone(),
            memory: module.watch.limits.memory.map(|size| size.0),
            descriptors: module.watch.limits.descriptors,
        }
    }
}

/// A graph.
#[derive(Clone, Debug)]
pub struct GraphFacts {
    /// Name.
    pub name: String,
    /// Modules, in the order of the graph.
    pub modules: Vec<ModuleFacts>,
    /// True if the modules end when the launcher is gone.
    pub ends_with_launcher: bool,
}

/// A graph cannot be used.
#[derive(Debug)]
pub enum GraphError {
    /// The graph has errors; the text lists them.
    Mistakes(String),
    /// The graph's libraries cannot be described, because `driveline-host` was not found.
    Failed(String),
}

impl GraphFacts {
    /// Reads a graph and describes its libraries.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn load(file: &Path, set: &[String]) -> Result<Self, GraphError> {
        let host = find_host().map_err(|e| GraphError::Failed(e.to_string()))?;
        let describer = HostDescriber::new(host);
        let options = LoadOptions {
            set: set.to_vec(),
            registered: driveline_gateway::registered(),
            ..LoadOptions::new(&describer)
        };
        let Loaded { graph, diagnostics, .. } = load(file, &options);
        let colour = driveline_graph::Colour::No;
        let graph = graph.ok_or_else(|| GraphError::Mistakes(diagnostics.render(colour)))?;
        Ok(Self::of(&graph))
    }

    fn of(graph: &ResolvedGraph) -> Self {
        Self {
            name: graph.name.clone(),
            modules: graph.modules.iter().map(ModuleFacts::of).collect(),
            ends_with_launcher: graph.on_launcher_lost == OnLauncherLost::Stop,
        }
    }

    /// The module with this name.
    #[must_use]
    pub fn module(&self, name: &str) -> Option<&ModuleFacts> {
        self.modules.iter().find(|m| m.name == name)
    }
}
