// SPDX-License-Identifier: Apache-2.0
//! Keys for a module's requests to the kernel for memory and cores (`docs/real-time.md`).

use super::diagnostic::Diagnostic;
use super::files::{Files, Part};
use super::model::ModuleSpec;
use super::resolved::ResolvedRealTime;
use std::collections::BTreeSet;

pub(super) fn real_time(spec: &ModuleSpec) -> ResolvedRealTime {
    ResolvedRealTime {
        lock_memory: spec.lock_memory,
        numa: spec.numa,
        cpu_dma_latency_us: spec.cpu_dma_latency_us,
    }
}

/// An executor with its CPUs, if it has any, and its place in the file.
struct Pinned<'a> {
    document: usize,
    module: &'a str,
    executor: &'a str,
    cpus: &'a [usize],
    exclusive: bool,
}

impl Pinned<'_> {
    fn path<'b>(&'b self, key: &'b str) -> [&'b str; 6] {
        ["modules", self.module, "executors", self.executor, "schedule", key]
    }
}

/// Reports exclusive executors without `cpus` or with fewer CPUs than threads, and exclusive CPUs
/// that another executor has as well.
pub(super) fn check(files: &mut Files, specs: &[(String, usize, ModuleSpec)]) {
    let executors = specs.iter().flat_map(|(module, document, spec)| {
        spec.executors.iter().map(move |(executor, e)| (module, *document, executor, e))
    });
    let pinned: Vec<Pinned<'_>> = executors
        .clone()
        .map(|(module, document, executor, e)| {
            let (cpus, exclusive) = (&e.schedule.cpus[..], e.schedule.exclusive);
            Pinned { document, module, executor, cpus, exclusive }
        })
        .collect();
    for (p, (.., e)) in pinned.iter().zip(executors).filter(|(p, _)| p.exclusive) {
        let place = files.place(p.document, &p.path("exclusive"), Part::Value);
        if p.cpus.is_empty() {
            let message = format!("executor `{}`: `exclusive` needs `cpus`", p.executor);
            let help = "name the cores that no other thread may use: `cpus: [2]`";
            files.error(Diagnostic::error(message).at(place).help(help));
        } else if p.cpus.len() < e.threads as usize {
            let message = format!(
                "executor `{}` has {} threads and {} exclusive cores; threads share them",
                p.executor,
                e.threads,
                p.cpus.len()
            );
            files.error(Diagnostic::warning(message).at(place));
        }
    }
    for (i, p) in pinned.iter().enumerate() {
        // Each executor is compared with the earlier ones. Only the first of these that shares CPUs
        // with it is reported.
        let shares = |other: &&Pinned<'_>| {
            (p.exclusive || other.exclusive) && other.cpus.iter().any(|c| p.cpus.contains(c))
        };
        let Some(other) = pinned[..i].iter().find(shares) else { continue };
        let shared: BTreeSet<_> = other.cpus.iter().filter(|c| p.cpus.contains(c)).collect();
        let place = files.place(p.document, &p.path("cpus"), Part::Value);
        let related = files.place(other.document, &other.path("cpus"), Part::Value);
        let list: Vec<_> = shared.iter().map(ToString::to_string).collect();
        let message = format!(
            "cores {} are exclusive and belong to two executors: `{}` of `{}` and `{}` of `{}`",
            list.join(", "),
            other.executor,
            other.module,
            p.executor,
            p.module
        );
        let d = Diagnostic::error(message).at(place).related("also here", related);
        files.error(d.help("give each executor cores of its own, or remove `exclusive`"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Colour, DescribeError, LoadOptions, Loaded, load};

    fn loaded(keys: &str, first: &str, second: &str) -> Loaded {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g.yaml");
        let text = format!(
            "driveline: 1\nmodules:\n  one:\n    components: {{}}\n{keys}    executors: {{main: \
             {{{first}}}}}\n  two:\n    components: {{}}\n    executors: {{main: {{{second}}}}}\n"
        );
        std::fs::write(&path, text).unwrap();
        let nothing =
            |_: &std::path::Path| Err(DescribeError { reason: "none".into(), help: None });
        load(&path, &LoadOptions::new(&nothing))
    }

    #[test]
    fn keys_of_a_module_are_resolved_and_exclusive_cores_are_those_of_the_graph() {
        let keys = "    lock_memory: true\n    numa: 1\n    cpu_dma_latency_us: 0\n";
        let first = "schedule: {cpus: [5, 2], exclusive: true, timer_slack_ns: 1}";
        let graph = loaded(keys, first, "schedule: {cpus: [0]}").graph.unwrap();
        let wanted =
            ResolvedRealTime { lock_memory: true, numa: Some(1), cpu_dma_latency_us: Some(0) };
        assert_eq!(graph.modules[0].real_time, wanted);
        assert_eq!(graph.modules[1].real_time, ResolvedRealTime::default());
        assert_eq!(graph.modules[0].executors[0].schedule.timer_slack_ns, Some(1));
        assert_eq!(graph.exclusive_cpus(), [2, 5]);
    }

    #[test]
    fn keys_that_cannot_work_are_named() {
        let exclusive = "schedule: {cpus: [1, 2], exclusive: true}";
        for (keys, first, second, wanted) in [
            ("", "schedule: {exclusive: true}", "", "`exclusive` needs `cpus`"),
            ("", exclusive, "schedule: {cpus: [2, 3]}", "cores 2 are exclusive"),
            ("", "schedule: {cpus: [2, 3]}", exclusive, "cores 2 are exclusive"),
            ("", "schedule: {timer_slack_ns: 0}", "", "`timer_slack_ns` is out of range"),
            ("    numa: -1\n", "", "", "`numa` is out of range"),
            ("    lock_memory: 1\n", "", "", "`lock_memory` needs true or false"),
            ("    cpu_dma_latency_us: -1\n", "", "", "`cpu_dma_latency_us` is out of range"),
        ] {
            let loaded = loaded(keys, first, second);
            let shown = loaded.diagnostics.render(Colour::No);
            assert!(
                loaded.graph.is_none() && shown.contains(wanted),
                "{wanted} is not in\n{shown}"
            );
        }
        let shared = loaded("", "threads: 3, schedule: {cpus: [1], exclusive: true}", "");
        let shown = shared.diagnostics.render(Colour::No);
        assert!(shared.graph.is_some() && shown.contains("3 threads and 1 exclusive"), "{shown}");
    }
}
