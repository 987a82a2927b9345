// SPDX-License-Identifier: Apache-2.0
//! Gateway processes of a run, which carry topics between the graph and other systems.

use driveline_graph::{ResolvedGraph, ResolvedModule};
use driveline_types::TopicName;
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

/// Name of the gateway to other hosts in a run; no module has this name.
pub const GATEWAY_PROCESS: &str = "gateway";
/// Name of the gateway to ROS 2 in a run; no module has this name.
pub const ROS2_GATEWAY_PROCESS: &str = "gateway-ros2";

/// Returns true if this is the name of a gateway.
pub(super) fn is_gateway(process: &str) -> bool {
    [GATEWAY_PROCESS, ROS2_GATEWAY_PROCESS].contains(&process)
}

/// Displays a process of a run within a sentence: a gateway as `process 'NAME'`, a module as
/// `module 'NAME'`.
pub(super) struct Called<'a>(pub(super) &'a str);

impl fmt::Display for Called<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if is_gateway(self.0) { "process" } else { "module" };
        write!(f, "{kind} '{}'", self.0)
    }
}

/// A gateway for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayOptions {
    /// Name among the modules of the run.
    pub name: &'static str,
    /// The program.
    pub program: PathBuf,
    /// Configuration: the line of JSON that it reads first.
    pub config: String,
    /// Environment variables that libraries of the gateway read. A variable that the launcher's own
    /// environment has keeps that value.
    pub environment: Vec<(&'static str, &'static str)>,
}

/// Returns the topics that a module publishes and that a gateway reads because a rule in its keys
/// of the graph selects them, separated by commas.
pub(super) fn carried(graph: &ResolvedGraph, module: &ResolvedModule) -> String {
    let outputs = module.components.iter().flat_map(|c| &c.outputs).map(|o| &o.topic);
    let of_rules = |topic: &&TopicName| graph.topics.get(*topic).is_some_and(|t| t.carried);
    let names: BTreeSet<&str> = outputs.filter(of_rules).map(TopicName::as_str).collect();
    names.into_iter().collect::<Vec<_>>().join(",")
}
