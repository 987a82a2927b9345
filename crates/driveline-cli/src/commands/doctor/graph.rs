// SPDX-License-Identifier: Apache-2.0
//! Checks that this machine has the memory, priorities, cores and descriptors that a graph needs.

use super::Check;
use driveline_graph::model::{Reach, Schedule};
use driveline_graph::{ResolvedGraph, ResolvedModule, ResolvedTopic};

/// Fraction of the available memory above which memory is scarce.
const TIGHT: f64 = 0.8;
/// Descriptors of a module's process in addition to those of its topics.
const OF_PROCESS: u64 = 32;
/// Number of descriptors of an end of a topic, and of each of its connections.
const OF_END: u64 = 2;

/// Resources of a machine.
pub(super) struct Available {
    /// Memory that can still be reserved, and what limits it.
    pub(super) memory: u64,
    pub(super) memory_limit: String,
    pub(super) descriptors: Option<u64>,
    /// CPUs that this process may use.
    pub(super) cores: Vec<usize>,
    /// CPUs on which the kernel runs only processes that request them.
    pub(super) isolated: Vec<usize>,
    /// NUMA nodes with their CPUs.
    pub(super) nodes: Vec<(u32, Vec<usize>)>,
}

/// Functions that try a request and return what the system refuses, with the remedy.
pub(super) struct Tried<'t> {
    pub(super) schedule: &'t dyn Fn(&Schedule) -> Vec<String>,
    pub(super) lock: &'t dyn Fn() -> Option<String>,
    /// Tries to limit the idle states of cores to those that a core leaves within this many
    /// microseconds.
    pub(super) idle: &'t dyn Fn(u32) -> Option<String>,
}

/// Returns all checks of a graph.
pub(super) fn checks(
    graph: &ResolvedGraph,
    available: &Available,
    tried: &Tried<'_>,
) -> Vec<Check> {
    let mut checks = vec![memory(graph, available), descriptors(graph, available)];
    for module in &graph.modules {
        checks.extend(schedules(module, tried.schedule));
        checks.extend(real_time(module, available, tried));
    }
    checks.extend(exclusive(graph, available));
    checks
}

/// Checks the cores that executors use exclusively; `None` if there are none.
fn exclusive(graph: &ResolvedGraph, available: &Available) -> Option<Check> {
    let cores = graph.exclusive_cpus();
    if cores.is_empty() {
        return None;
    }
    let text =
        |cores: &[usize]| cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let open: Vec<usize> =
        cores.iter().filter(|c| !available.isolated.contains(c)).copied().collect();
    let check = Check::new("exclusive cores", text(&cores));
    Some(if available.cores.iter().all(|c| cores.contains(c)) {
        check.fail(format!(
            "no core remains for the other threads: this process may use {}",
            text(&available.cores)
        ))
    } else if open.is_empty() {
        check
    } else {
        let list = open.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        check.warn(format!(
            "other processes can use {}: boot with `isolcpus={list}`, or keep them off with \
             AllowedCPUs= of systemd slices",
            text(&open)
        ))
    })
}

/// Checks the requests of a module other than the schedules of its executors.
fn real_time(module: &ResolvedModule, available: &Available, tried: &Tried<'_>) -> Vec<Check> {
    let asked = &module.real_time;
    let mut checks = Vec::new();
    if asked.lock_memory {
        let check = Check::new(format!("locked memory of {}", module.name), "all of the process");
        checks.push((tried.lock)().map_or(check.clone(), |reason| check.fail(reason)));
    }
    if let Some(us) = asked.cpu_dma_latency_us {
        let check = Check::new(format!("idle states for {}", module.name), format!("{us} µs"));
        checks.push((tried.idle)(us).map_or(check.clone(), |reason| check.fail(reason)));
    }
    if let Some(node) = asked.numa {
        checks.push(numa(module, node, available));
    }
    checks
}

fn numa(module: &ResolvedModule, node: u32, available: &Available) -> Check {
    let check = Check::new(format!("NUMA node of {}", module.name), node.to_string());
    let nodes: Vec<_> = available.nodes.iter().map(|(node, _)| node.to_string()).collect();
    if nodes.len() < 2 {
        return check.note("this machine has one node: the key has no effect here");
    }
    let Some((_, cores)) = available.nodes.iter().find(|(n, _)| *n == node) else {
        return check.fail(format!("this machine has the nodes {}", nodes.join(", ")));
    };
    let away = module.executors.iter().find(|e| e.schedule.cpus.iter().any(|c| !cores.contains(c)));
    match away {
        Some(e) => check.warn(format!(
            "executor {} has cores of another node; give it cores of node {node}",
            e.name
        )),
        None => check,
    }
}

/// Returns the memory that the publishers of host topics reserve at the start, in bytes.
fn reserved(graph: &ResolvedGraph) -> u64 {
    let outputs = graph.components().flat_map(|(_, c)| &c.outputs);
    let of = |output: &driveline_graph::ResolvedOutput| {
        let topic = graph.topics.get(&output.topic).filter(|t| t.reach != Reach::Process)?;
        let ResolvedTopic { loans, pins, max_payload, .. } = topic;
        Some(driveline_shm::reserved_bytes(output.qos.depth, *loans, *pins, *max_payload))
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
            "the limit is {limit}: lower max_payload, pins or depth of topics, or give it more \
             memory"
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
    let check = |e: &driveline_graph::ResolvedExecutor| {
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
        let alone = if schedule.exclusive { "exclusive " } else { "" };
        parts.push(format!("{alone}cores {}", cpus.join(", ")));
    }
    if let Some(slack) = schedule.timer_slack_ns {
        parts.push(format!("timer slack {slack} ns"));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Verdict;
    use driveline_graph::{DescribeError, LoadOptions, load};

    fn graph() -> ResolvedGraph {
        graph_of("", "")
    }

    /// Returns a graph with these further keys of the module and of its executor's schedule.
    fn graph_of(module: &str, schedule: &str) -> ResolvedGraph {
        let text = format!(
            "driveline: 1\ntopics:\n  a: {{reach: host, max_payload: 1 MiB, pins: 5, loans: 2, \
             qos: {{depth: 2}}, external: true}}\nmodules:\n  one:\n{module}    limits: {{memory: \
             20 MiB}}\n    executors: {{main: {{schedule: {{class: fifo, priority: 50, cpus: \
             [0]{schedule}}}}}}}\n    components:\n      c: {{library: lib, class: C, outputs: \
             {{out: a}}}}\n"
        );
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("g.yaml");
        std::fs::write(&path, text).unwrap();
        let nothing =
            |_: &std::path::Path| Err(DescribeError { reason: "not looked at".into(), help: None });
        let options = LoadOptions { modules: Some(Vec::new()), ..LoadOptions::new(&nothing) };
        let loaded = load(&path, &options);
        loaded
            .graph
            .unwrap_or_else(|| panic!("{}", loaded.diagnostics.render(driveline_graph::Colour::No)))
    }

    fn available(memory_mib: u64, descriptors: Option<u64>) -> Available {
        Available {
            memory: memory_mib << 20,
            memory_limit: "the test's".into(),
            descriptors,
            cores: vec![0, 1],
            isolated: vec![0],
            nodes: vec![(0, vec![0]), (1, vec![1])],
        }
    }

    fn tried(schedule: &dyn Fn(&Schedule) -> Vec<String>) -> Tried<'_> {
        Tried { schedule, lock: &|| None, idle: &|_| None }
    }

    #[test]
    fn what_a_graph_asks_for_is_compared_with_what_there_is() {
        let graph = graph();
        let good = checks(&graph, &available(1000, Some(64)), &tried(&|_| Vec::new()));
        let found: Vec<_> = good.iter().map(|c| (c.name.as_str(), c.found.as_str())).collect();
        assert_eq!(
            found,
            [
                (
                    "memory of the graph",
                    "topics 13 MiB, limits of modules 20 MiB; 1000 MiB are available"
                ),
                ("descriptors of the graph", "up to 36 in module 'one'"),
                ("executor one/main", "fifo, priority 50, cores 0"),
            ]
        );
        assert!(good.iter().all(|c| c.verdict == Verdict::Good), "{good:?}");
        let refuse = |_: &Schedule| vec!["priority 50 of SCHED_FIFO: CAP_SYS_NICE".to_owned()];
        let bad = checks(&graph, &available(32, Some(35)), &tried(&refuse));
        assert!(bad.iter().all(|c| c.verdict == Verdict::Failure && c.change.is_some()), "{bad:?}");
        let tight = checks(&graph, &available(36, None), &tried(&|_| Vec::new()));
        assert_eq!(tight[0].verdict, Verdict::Warning);
    }

    #[test]
    fn what_a_module_asks_of_the_kernel_is_tried() {
        let keys = |numa: u32| {
            format!("    lock_memory: true\n    cpu_dma_latency_us: 0\n    numa: {numa}\n")
        };
        let verdicts = |graph: &ResolvedGraph, available: &Available, tried: &Tried<'_>| {
            let all = checks(graph, available, tried).into_iter().skip(3);
            all.map(|c| (c.name, c.verdict)).collect::<Vec<_>>()
        };
        let name = |of: &str, verdict| (of.to_owned(), verdict);
        let granted = tried(&|_| Vec::new());
        let graph = graph_of(&keys(0), ", exclusive: true");
        let (locked, idle) = ("locked memory of one", "idle states for one");
        let wanted = [locked, idle, "NUMA node of one", "exclusive cores"];
        assert_eq!(
            verdicts(&graph, &available(1000, None), &granted),
            wanted.map(|of| name(of, Verdict::Good))
        );
        let refused = Tried {
            lock: &|| Some("limit".into()),
            idle: &|_| Some("file".into()),
            ..tried(&|_| Vec::new())
        };
        let elsewhere = graph_of(&keys(1), ", exclusive: true");
        let open = Available { isolated: Vec::new(), ..available(1000, None) };
        assert_eq!(
            verdicts(&elsewhere, &open, &refused),
            [
                name(locked, Verdict::Failure),
                name(idle, Verdict::Failure),
                name("NUMA node of one", Verdict::Warning),
                name("exclusive cores", Verdict::Warning),
            ]
        );
        let only = Available { cores: vec![0], nodes: vec![(0, vec![0])], ..available(1000, None) };
        let found = verdicts(&graph_of(&keys(2), ", exclusive: true"), &only, &granted);
        assert_eq!(
            found[2..],
            [name("NUMA node of one", Verdict::Note), name("exclusive cores", Verdict::Failure),]
        );
        let none = verdicts(&graph_of(&keys(2), ""), &available(1000, None), &granted);
        assert_eq!(none[2], name("NUMA node of one", Verdict::Failure));
    }
}
