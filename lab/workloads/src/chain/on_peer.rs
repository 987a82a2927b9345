// SPDX-License-Identifier: Apache-2.0
//! The chain with a peer's program in a process for each module, among the same other nodes, which
//! are a graph of Driveline.

use super::plan::{Node, Plan};
use super::table::{END, SOURCE};
use super::{Chain, UNIT};
use crate::children::{Children, PATIENCE};
use crate::command_line::{HOST, WORKLOAD_COMMAND};
use crate::job::{WorkloadJob, WorkloadPeer};
use crate::orders::Order;
use crate::peer_part::{Line, part};
use crate::record::Window;
use crate::usage::Watcher;
use crate::work::Crunch;
use anyhow::{Context, Result, anyhow, bail, ensure};
use driveline::types::MonotonicNs;
use driveline_bench::harness::{Pace, Role};
use driveline_bench::observations::{Observations, Point, Quantity};
use driveline_graph::ResolvedGraph;
use driveline_runtime::account::Record;
use driveline_runtime::launch::{
    End, Event, Interrupt, Interrupter, LaunchOptions, Outcome, Sink, Stream, run,
};
use serde::Serialize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Time in which all other nodes must have started.
const START: Duration = Duration::from_secs(90);
/// Interval at which the end of the launcher is checked while the other nodes start.
const LOOK: Duration = Duration::from_millis(100);

/// Further fields of the job of a module.
#[derive(Serialize)]
struct Callbacks<'a> {
    callbacks: Vec<Callback<'a>>,
    /// Start of the first module, on `CLOCK_MONOTONIC`.
    started_ns: u64,
}

/// A node of the chain.
#[derive(Serialize)]
struct Callback<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a str>,
    output: &'a str,
    receivers: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    period_ns: Option<u64>,
    size: u32,
    work_us: u64,
    is_end: bool,
}

/// Runs the chain, which begins when all other nodes run.
pub(super) fn run_on(with: &Chain, peer: &WorkloadPeer, job: &WorkloadJob) -> Result<Observations> {
    let unit = Crunch::calibrated(UNIT)?;
    let plan = Plan::new(with, job.seed);
    let (chain, others) = plan.parted();
    let graph = graph_of(&others, with, unit, job)?;
    let options = LaunchOptions {
        host_arguments: vec![WORKLOAD_COMMAND.into(), HOST.into()],
        ..LaunchOptions::new(
            std::env::current_exe().context("cannot find the running program")?,
            job.domain_dir.clone(),
        )
    };
    let (interrupt, interrupter) = Interrupt::by_hand().context("cannot make what ends the run")?;
    let (sender, running) = channel();
    let mut observer = Others { running: sender, processes: Vec::new(), invalid: Vec::new() };
    let mut o = std::thread::scope(|scope| {
        let launcher = scope.spawn(|| run(&graph, &options, &interrupt, &mut observer));
        // Dropping this interrupts the launcher, so that it ends its modules before its thread is
        // joined, also after an error.
        let ending = Ending(interrupter);
        let processes = await_running(&running, || launcher.is_finished());
        let o = processes.and_then(|processes| run_chain(&chain, peer, job, processes));
        drop(ending);
        let outcome = launcher.join().map_err(|_| anyhow!("the launcher has panicked"))?;
        // An error of the launcher causes the other errors, so it is reported first.
        ended_in_order(outcome?)?;
        o
    })?;
    o.invalid.append(&mut observer.invalid);
    let counters = &mut o.counters;
    counters.insert("components".into(), plan.nodes.len() as u64);
    counters.insert("planned work ns per second".into(), (plan.load() * 1e9) as u64);
    Ok(o)
}

/// Waits until the other nodes run, and returns their processes.
fn await_running(
    running: &Receiver<Vec<(String, u32)>>,
    ended: impl Fn() -> bool,
) -> Result<Vec<(String, u32)>> {
    let deadline = Instant::now() + START;
    loop {
        match running.recv_timeout(LOOK) {
            Ok(processes) => return Ok(processes),
            Err(_) if ended() => bail!("the other nodes have ended before they ran"),
            Err(_) => {
                ensure!(Instant::now() < deadline, "the other nodes did not run within {START:?}");
            }
        }
    }
}

/// Returns the graph of the other nodes.
fn graph_of(others: &Plan, with: &Chain, unit: Crunch, job: &WorkloadJob) -> Result<ResolvedGraph> {
    let [file, library, account] =
        ["graph.yaml", "components", "instances"].map(|name| job.raw_dir.join(name));
    std::fs::write(&library, "").context("cannot write into the directory for the observations")?;
    super::resolved(&others.graph(with, unit, &library, &account), &file)
}

/// Runs the modules of the chain to the end of the measured time. `others`: processes of the other
/// nodes.
fn run_chain(
    chain: &Plan,
    peer: &WorkloadPeer,
    job: &WorkloadJob,
    others: Vec<(String, u32)>,
) -> Result<Observations> {
    let mut children = Children::new(job)?;
    let size = chain.nodes.iter().map(|n| n.bytes).max().unwrap_or(0) as usize;
    let common = |role| part(peer, job, role, "chain", size, Pace::RateHz(1.0));
    let mut keeper = None;
    if peer.keeper {
        let index = children.start_peer("keeper", &peer.program, &common(Role::Keeper))?;
        children.ready(index)?;
        keeper = Some(index);
    }
    let started_ns = MonotonicNs::now().0;
    let mut modules: Vec<&str> = Vec::new();
    for node in &chain.nodes {
        if !modules.contains(&node.module) {
            modules.push(node.module);
        }
    }
    let mut parts = Vec::new();
    for module in modules {
        let own = chain.nodes.iter().filter(|n| n.module == module);
        let callbacks = own.map(|n| callback(n, chain)).collect();
        let line = Line { job: common(Role::Callbacks), more: Callbacks { callbacks, started_ns } };
        let name = format!("{module} ({})", peer.system);
        parts.push(children.start_peer(&name, &peer.program, &line)?);
    }
    parts.iter().try_for_each(|p| children.ready(*p))?;
    let now = MonotonicNs::now().0;
    let mut o = Observations::default();
    let ready = Point { time_ns: now, value: now - started_ns };
    o.put("all modules ready", Quantity::StartUp, [ready]);
    let window = Window::after(job.warm_up(), job.duration());
    parts.iter().for_each(|p| children.begin(*p, window));
    let of_chain = children.processes().skip(usize::from(peer.keeper));
    let watcher = Watcher::start(others.into_iter().chain(of_chain).collect(), window)?;
    window.sleep_until_end();
    watcher.finish(&mut o);
    for part in parts {
        children.finish(part, PATIENCE, &mut o)?;
    }
    if let Some(keeper) = keeper {
        children.order(keeper, Order::End);
        children.finish(keeper, PATIENCE, &mut o)?;
    }
    Ok(o)
}

fn callback<'a>(node: &'a Node, chain: &Plan) -> Callback<'a> {
    let is_read = chain.nodes.iter().filter(|n| n.input.as_ref() == Some(&node.output));
    Callback {
        name: &node.name,
        input: node.input.as_deref(),
        output: &node.output,
        receivers: is_read.count(),
        period_ns: node.period.map(|p| p.as_nanos() as u64),
        size: node.bytes,
        work_us: if node.name == SOURCE { 0 } else { node.work.as_micros() as u64 },
        is_end: node.name == END,
    }
}

fn ended_in_order(outcome: Outcome) -> Result<()> {
    match outcome.end {
        End::Interrupted => {}
        End::Died(death) => bail!("one of the other nodes: {death}"),
        End::NotReady { modules } => {
            bail!("modules of the other nodes were not ready: {}", modules.join("; "))
        }
        End::Finished { component } => {
            bail!("the other nodes ended by themselves, by component '{component}'")
        }
    }
    ensure!(outcome.killed.is_empty(), "modules had to be killed: {}", outcome.killed.join(", "));
    Ok(())
}

/// Ends the other nodes when it is dropped.
struct Ending(Interrupter);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.interrupt();
    }
}

/// Observes the other nodes.
struct Others {
    /// Receives the list of processes when all of them run.
    running: Sender<Vec<(String, u32)>>,
    processes: Vec<(String, u32)>,
    invalid: Vec<String>,
}

impl Sink for Others {
    fn output(&mut self, _: &str, _: Stream, _: &str) {}

    fn record(&mut self, _: &str, record: Record) {
        if let Record::Failure { component, text, count: 1, .. } = record {
            self.invalid.push(format!("component '{component}' failed: {text}"));
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Spawned { module, pid } => self.processes.push((module.clone(), *pid)),
            Event::Unmatched { edge } => self.invalid.push(edge.clone()),
            Event::Running { .. } => drop(self.running.send(std::mem::take(&mut self.processes))),
            _ => {}
        }
    }
}
