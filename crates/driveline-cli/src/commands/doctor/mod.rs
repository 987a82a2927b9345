// SPDX-License-Identifier: Apache-2.0
//! `driveline doctor`: checks the machine, and the requirements of a graph.

mod graph;
mod machine;

use super::describer::{describer, load_options, print_mistakes};
use crate::arguments::Doctor;
use crate::exit;
use driveline_graph::model::{Schedule, SchedulingClass};
use driveline_graph::{Loaded, ResolvedGraph, load};
use driveline_runtime::host::{idle_state_refusal, memory_lock_refusal};
use driveline_shm::{numa_cpus, numa_nodes};
use driveline_terminal::screen::Screen;
use graph::{Available, Tried};
use machine::{Files, Limits};
use serde::Serialize;
use serde_json::json;
use std::path::Path;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// Nothing to change.
    Good,
    /// Worth knowing.
    Note,
    /// Needs a change for good latencies.
    Warning,
    /// The machine does not meet a requirement of the graph.
    Failure,
}

/// One checked property.
#[derive(Clone, Debug, Serialize)]
struct Check {
    name: String,
    found: String,
    verdict: Verdict,
    /// Remedy, and the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<String>,
}

impl Check {
    fn new(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self { name: name.into(), found: found.into(), verdict: Verdict::Good, change: None }
    }

    fn with(self, verdict: Verdict, change: impl Into<String>) -> Self {
        Self { verdict, change: Some(change.into()), ..self }
    }

    fn note(self, change: impl Into<String>) -> Self {
        self.with(Verdict::Note, change)
    }

    fn warn(self, change: impl Into<String>) -> Self {
        self.with(Verdict::Warning, change)
    }

    fn fail(self, change: impl Into<String>) -> Self {
        self.with(Verdict::Failure, change)
    }
}

pub(crate) fn doctor(arguments: &Doctor, screen: &Screen) -> u8 {
    let graph = match &arguments.graph {
        None => None,
        Some(path) => match resolved(path, screen) {
            Some(graph) => Some(graph),
            None => return exit::GRAPH,
        },
    };
    let mut limits = Limits::here();
    // In a container, root may lack the right to real-time priorities, so the lowest one is tried.
    let lowest = Schedule { class: SchedulingClass::Fifo, priority: 1, ..Schedule::default() };
    limits.root &= refused(&lowest).is_empty();
    let uname = rustix::system::uname();
    let (release, version) = (uname.release().to_string_lossy(), uname.version().to_string_lossy());
    let memory = driveline_shm::available_memory();
    let mut checks = machine::checks(&Files::new(Path::new("/")), &release, &version, &limits);
    checks.push(Check::new(
        "memory",
        format!("{} MiB can be reserved; the limit is {}", memory.bytes >> 20, memory.limit),
    ));
    if let Some(graph) = &graph {
        let available = Available {
            memory: memory.bytes,
            memory_limit: memory.limit,
            descriptors: limits.descriptors,
            cores: machine::own_cores(),
            isolated: machine::isolated_cores(&Files::new(Path::new("/"))),
            nodes: numa_nodes().into_iter().map(|node| (node, numa_cpus(node))).collect(),
        };
        let tried =
            Tried { schedule: &refused, lock: &memory_lock_refusal, idle: &idle_state_refusal };
        checks.extend(graph::checks(graph, &available, &tried));
    }
    let worst = machine::worst(&checks);
    if screen.json {
        screen.print_json(&json!({ "verdict": worst, "checks": checks }));
    } else {
        print(&checks, worst, graph.as_ref(), screen);
    }
    if worst == Verdict::Failure { exit::FAILED } else { exit::DONE }
}

fn resolved(path: &Path, screen: &Screen) -> Option<ResolvedGraph> {
    let describer = describer();
    let Loaded { graph, diagnostics, .. } = load(path, &load_options(&describer));
    if graph.is_none() {
        print_mistakes(&diagnostics, screen);
    }
    graph
}

/// Returns the parts of a schedule that the system refuses, tried on a separate thread.
fn refused(schedule: &Schedule) -> Vec<String> {
    let schedule = schedule.clone();
    let tried = std::thread::spawn(move || schedule.apply_to_this_thread("doctor").refused);
    tried.join().unwrap_or_default()
}

fn print(checks: &[Check], worst: Verdict, graph: Option<&ResolvedGraph>, screen: &Screen) {
    let width = checks.iter().map(|c| c.name.chars().count()).max().unwrap_or(0);
    for check in checks {
        let (word, colour) = match check.verdict {
            Verdict::Good => ("good", "32"),
            Verdict::Note => ("note", "36"),
            Verdict::Warning => ("change", "33"),
            Verdict::Failure => ("FAILS", "31"),
        };
        let word = screen.paint(colour, &format!("{word:<6}"));
        screen.print(&format!("{word}  {:<width$}  {}\n", check.name, check.found));
        if let Some(change) = &check.change {
            screen.print(&format!("        {:width$}  → {change}\n", ""));
        }
    }
    let what = graph.map_or_else(|| "this machine".to_owned(), |g| format!("graph '{}'", g.name));
    let verdict = match worst {
        Verdict::Good => format!("{what} needs no change"),
        Verdict::Note => format!("{what} needs no change; what the notes suggest is optional"),
        Verdict::Warning => format!("{what} runs; the changes above give better latencies"),
        Verdict::Failure => format!("{what} does not get what it asks for: see FAILS above"),
    };
    screen.print(&format!("\n{verdict}\n"));
}
