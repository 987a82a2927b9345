// SPDX-License-Identifier: Apache-2.0
//! Whether this machine has what a graph asks for: memory, priorities, cores, descriptors.

use super::Check;
use driveline_runtime::graph::model::{Reach, Schedule};
use driveline_runtime::graph::{ResolvedGraph, ResolvedModule, ResolvedTopic};

/// Part of the available memory from which on it is tight.
const TIGHT: f64 = 0.8;
/// Descriptors of a module's process beside those of its topics.
const OF_PROCESS: u64 = 32;
/// Descriptors of an end of a topic, and of each connection of it.
const OF_END: u64 = 2;

/// What a machine gives.
pub(super) struct Available {
    /// Memory that can still be reserved, and what limits it.
    pub(super) memory: u64,
    pub(super) memory_limit: String,
    pub(super) descriptors: Option<u64>,
}

/// All checks of a graph. `refused` tries a schedule and returns what the system refuses.
pub(super) fn checks(
    graph: &ResolvedGraph,
    available: &Available,
    refused: &dyn Fn(&Schedule) -> Vec<String>,
) -> Vec<Check> {
    let mut checks = vec![memory(graph, available), descriptors(graph, available)];
    for module in &graph.modules {
        checks.extend(schedules(module, refused));
    }
    checks
}

/// Samples of a topic that one publisher keeps room for.
fn slots(topic: &ResolvedTopic, depth: u32) -> u64 {
    // One more is always being written.
    u64::from(depth) + u64::from(topic.pins) + u64::from(topic.loans) + 1
}

/// Memory that the publishers of host topics reserve at the start, in bytes.
fn reserved(graph: &ResolvedGraph) -> u64 {
    let outputs = graph.components().flat_map(|(_, c)| &c.outputs);
    let of = |output: &driveline_runtime::graph::ResolvedOutput| {
        let topic = graph.topics.get(&output.topic).filter(|t| t.reach != Reach::Process)?;
        Some(slots(topic, output.qos.depth).saturating_mul(topic.max_payload))
    };
    outputs.filter_map(of).fold(0, u64::saturating_add)
}

fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

fn memory(graph: &ResolvedGraph, available: &Available) -> Check {
    let topics = reserved(graph);
    let modules: u64 =
        graph.modules.iter().filter_map(|m| m.watch.limits.memory).map(|limit| limit.0).sum();
    let needed = topics.saturating_add(modules);
    let limits = if modules > 0 {
        format!(", limits of modules {} MiB", mib(modules))
    } else {
        String::new()
    };
    let check = Check::new(
        "memory of the graph",
        format!("topics {} MiB{limits}; {} MiB are available", mib(topics), available.memory >> 20),
    );
    let limit = &available.memory_limit;
    if needed > available.memory {
        check.fail(format!(
            "the limit is {limit}: lower max_payload, pins or depth of topics, or give it more memory"
        ))
    } else if needed as f64 > available.memory as f64 * TIGHT {
        check.warn(format!("little is left for the modules' own memory; the limit is {limit}"))
    } else {
        check
    }
}

fn descriptors(graph: &ResolvedGraph, available: &Available) -> Check {
    // Each end may be connected to every other end of its topic.
    let ends = |module: &ResolvedModule| -> u64 {
        let topics = module.components.iter().flat_map(|c| {
            c.inputs.iter().map(|i| &i.topic).chain(c.outputs.iter().map(|o| &o.topic))
        });
        let at_host =
            topics.filter(|t| graph.topics.get(*t).is_some_and(|t| t.reach != Reach::Process));
        let others = |topic: &driveline_types::TopicName| {
            let count = graph.components().flat_map(|(_, c)| {
                let inputs = c.inputs.iter().map(|i| &i.topic);
                inputs.chain(c.outputs.iter().map(|o| &o.topic))
            });
            count.filter(|t| *t == topic).count() as u64
        };
        at_host.map(|topic| OF_END + OF_END * others(topic)).sum()
    };
    let most = graph.modules.iter().map(|m| (OF_PROCESS + ends(m), m.name.as_str())).max();
    let (needed, module) = most.unwrap_or((OF_PROCESS, "-"));
    let check =
        Check::new("descriptors of the graph", format!("up to {needed} in module '{module}'"));
    match available.descriptors {
        Some(limit) if needed > limit => check.fail(format!(
            "the hard limit is {limit}: raise it (`ulimit -Hn`, LimitNOFILE= of a systemd unit)"
        )),
        _ => check,
    }
}

fn schedules(module: &ResolvedModule, refused: &dyn Fn(&Schedule) -> Vec<String>) -> Vec<Check> {
    let asked = module.executors.iter().filter(|e| e.schedule != Schedule::default());
    let check = |e: &driveline_runtime::graph::ResolvedExecutor| {
        let name = format!("executor {}/{}", module.name, e.name);
        let refused = refused(&e.schedule);
        let check = Check::new(name, describe(&e.schedule));
        if refused.is_empty() { check } else { check.fail(refused.join("; ")) }
    };
    asked.map(check).collect()
}

fn describe(schedule: &Schedule) -> String {
    let default = Schedule::default();
    let class = serde_json::to_value(schedule.class);
    let class = class.ok().and_then(|c| c.as_str().map(str::to_owned)).unwrap_or_default();
    let mut parts = vec![class];
    if schedule.priority != default.priority {
        parts.push(format!("priority {}", schedule.priority));
    }
    if schedule.nice != default.nice {
        parts.push(format!("nice {}", schedule.nice));
    }
    if !schedule.cpus.is_empty() {
        let cpus: Vec<_> = schedule.cpus.iter().map(ToString::to_string).collect();
        parts.push(format!("cores {}", cpus.join(", ")));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Verdict;
    use driveline_runtime::graph::{DescribeError, LoadOptions, load};

    fn graph() -> ResolvedGraph {
        let text = "driveline: 1\ntopics:\n  a: {reach: host, max_payload: 1 MiB, pins: 5, loans: 2, qos: {depth: 2}, external: true}\nmodules:\n  one:\n    limits: {memory: 20 MiB}\n    executors: {main: {schedule: {class: fifo, priority: 50, cpus: [0]}}}\n    components:\n      c: {library: lib, class: C, outputs: {out: a}}\n";
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("g.yaml");
        std::fs::write(&path, text).unwrap();
        let nothing =
            |_: &std::path::Path| Err(DescribeError { reason: "not looked at".into(), help: None });
        let options = LoadOptions { modules: Some(Vec::new()), ..LoadOptions::new(&nothing) };
        let loaded = load(&path, &options);
        loaded.graph.unwrap_or_else(|| {
            panic!("{}", loaded.diagnostics.render(driveline_runtime::graph::Colour::No))
        })
    }

    fn available(memory_mib: u64, descriptors: Option<u64>) -> Available {
        Available { memory: memory_mib << 20, memory_limit: "the test's".into(), descriptors }
    }

    #[test]
    fn what_a_graph_asks_for_is_compared_with_what_there_is() {
        let graph = graph();
        let good = checks(&graph, &available(1000, Some(64)), &|_| Vec::new());
        let found: Vec<_> = good.iter().map(|c| (c.name.as_str(), c.found.as_str())).collect();
        assert_eq!(
            found,
            [
                (
                    "memory of the graph",
                    "topics 10 MiB, limits of modules 20 MiB; 1000 MiB are available"
                ),
                ("descriptors of the graph", "up to 36 in module 'one'"),
                ("executor one/main", "fifo, priority 50, cores 0"),
            ]
        );
        assert!(good.iter().all(|c| c.verdict == Verdict::Good), "{good:?}");
        let refuse = |_: &Schedule| vec!["priority 50 of SCHED_FIFO: CAP_SYS_NICE".to_owned()];
        let bad = checks(&graph, &available(29, Some(35)), &refuse);
        assert!(bad.iter().all(|c| c.verdict == Verdict::Failure && c.change.is_some()), "{bad:?}");
        let tight = checks(&graph, &available(33, None), &|_| Vec::new());
        assert_eq!(tight[0].verdict, Verdict::Warning);
    }
}
