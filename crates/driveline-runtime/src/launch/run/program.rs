// SPDX-License-Identifier: Apache-2.0
//! Processes that a run starts: modules and gateways, with their rules for the supervisor.

use super::super::gateway::GatewayOptions;
use super::super::options::LaunchOptions;
use super::super::supervisor::Rules;
use driveline_graph::{
    ResolvedComponent, ResolvedGraph, ResolvedModule, ResolvedRestart, ResolvedTrigger,
    RestartPolicy,
};
use std::time::Duration;

/// Pause before the first restart of a gateway.
const GATEWAY_PAUSE: Duration = Duration::from_secs(1);

/// A process of a run.
#[derive(Clone, Copy)]
pub(super) enum Program<'a> {
    Gateway(&'a GatewayOptions),
    Module(&'a ResolvedModule),
}

impl Program<'_> {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Gateway(gateway) => gateway.name,
            Self::Module(module) => module.name.as_str(),
        }
    }
}

/// Rules of the supervisor for a process.
pub(super) fn rules(program: &Program<'_>, all: &[Program<'_>], options: &LaunchOptions) -> Rules {
    // This launcher does not wait for modules that it does not start.
    let places = |names: &[String]| {
        names.iter().filter_map(|n| all.iter().position(|p| p.name() == n)).collect()
    };
    match program {
        // Others start the module, also after its end: this launcher only listens again.
        Program::Module(_) if options.placement.as_ref().is_some_and(|p| p.starter.is_none()) => {
            Rules {
                restart: ResolvedRestart {
                    policy: RestartPolicy::Always,
                    backoff: Duration::ZERO,
                    max: None,
                    window: Duration::ZERO,
                    on_exhausted: None,
                },
                ready_within: options.ready_within,
                grace: options.grace,
                depends_on: Vec::new(),
                restart_with: Vec::new(),
                gateway: false,
            }
        }
        Program::Module(module) => Rules {
            restart: module.restart.clone(),
            ready_within: module.ready_within.unwrap_or(options.ready_within),
            grace: options.grace,
            depends_on: places(&module.depends_on),
            restart_with: places(&module.restart_with),
            gateway: false,
        },
        Program::Gateway(_) => Rules {
            restart: ResolvedRestart {
                policy: RestartPolicy::Always,
                backoff: GATEWAY_PAUSE,
                max: None,
                window: Duration::ZERO,
                on_exhausted: None,
            },
            ready_within: options.ready_within,
            grace: options.grace,
            depends_on: Vec::new(),
            restart_with: Vec::new(),
            gateway: true,
        },
    }
}

/// Returns the other modules that publish topics that a module reads, in the order of the graph.
pub(super) fn feeders<'a>(graph: &'a ResolvedGraph, module: &str) -> Vec<&'a str> {
    let read: Vec<_> = graph
        .module(module)
        .into_iter()
        .flat_map(|m| &m.components)
        .flat_map(|c| &c.inputs)
        .map(|i| &i.topic)
        .collect();
    let feeds = |m: &ResolvedModule| {
        m.components.iter().flat_map(|c| &c.outputs).any(|o| read.contains(&&o.topic))
    };
    graph
        .modules
        .iter()
        .filter(|m| m.name.as_str() != module && feeds(m))
        .map(|m| m.name.as_str())
        .collect()
}

/// Returns the longest period of the timers that trigger components with inputs, in the modules
/// that are `wanted`.
pub(super) fn slowest_timer(graph: &ResolvedGraph, wanted: impl Fn(&str) -> bool) -> Duration {
    let period = |c: &ResolvedComponent| match c.trigger {
        ResolvedTrigger::Timer { period, .. } if !c.inputs.is_empty() => Some(period),
        _ => None,
    };
    graph
        .components()
        .filter(|(m, _)| wanted(m.name.as_str()))
        .filter_map(|(_, c)| period(c))
        .max()
        .unwrap_or_default()
}
