// SPDX-License-Identifier: Apache-2.0
//! A chain of 17 callbacks over eight modules of an automated vehicle, among the other nodes of
//! such a vehicle. "As published" means, in this module: as in the paper by Betz et al., from which
//! the experiment B3 is taken (`docs/lab.md`).
//!
//! Driveline's own launcher runs the modules from a graph file that is made for the run: all
//! modules in one process, or a process for each module. These processes can also run in one
//! container, or in a container each. Alternatively, a peer's program runs the 17 callbacks with a
//! process for each module; the other nodes then still run on Driveline.
//!
//! An instance of the chain begins with a scan of the lidar, and ends with the first command that
//! descends from that scan. Driveline's headers split the age of that command into idle,
//! communication and computation.

mod component;
mod deployed;
mod on_peer;
mod plan;
mod table;

pub(crate) use component::{Builtin, READER_CLASS, SOURCE_CLASS};
pub(crate) use plan::text;

use crate::command_line::{HOST, WORKLOAD_COMMAND};
use crate::experiment::Experiment;
use crate::job::{WorkloadJob, WorkloadPeer};
use crate::record::Window;
use crate::usage::Watcher;
use crate::work::Crunch;
use anyhow::{Context, Result, bail, ensure};
use component::Instance;
use deployed::Deployed;
use driveline::types::MonotonicNs;
use driveline_bench::deployment::{self as bench, SupervisorUse};
use driveline_bench::observations::{Observations, Point, Quantity};
use driveline_deploy::Mode;
use driveline_graph::descriptor::ComponentClass;
use driveline_graph::model::GraphFile;
use driveline_graph::{Colour, DescribeError, LoadOptions, OnExhausted, ResolvedGraph, load};
use driveline_runtime::account::Record;
use driveline_runtime::component::ComponentLibrary;
use driveline_runtime::launch::{
    End, Event, Interrupt, Interrupter, LaunchOptions, Sink, Stream, run,
};
use plan::Plan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// Subject of the series of the whole chain.
const CHAIN: &str = "chain";
/// Unit of work: work is a multiple of it.
const UNIT: Duration = Duration::from_micros(100);

/// Assignment of components to processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Deployment {
    /// One process for all components; samples move as pointers.
    #[default]
    SingleProcess,
    /// One process for each module; samples between modules move through shared memory.
    ProcessPerModule,
}

/// Parameters of the chain.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Chain {
    /// Assignment of components to processes.
    deployment: Deployment,
    /// Number of nodes in addition to the chain's 14 and the lidar; with 176, modules have the
    /// published sizes.
    #[schemars(range(max = 800))]
    background_nodes: u32,
    /// Share of the CPUs that chain and background use together. The chain alone uses about half a
    /// CPU.
    #[schemars(range(min = 0.0, max = 4.0))]
    load: f64,
    /// Threads of each module's executor. Modules that share a process keep their threads, so that
    /// only the processes differ.
    #[schemars(range(min = 1, max = 256))]
    threads: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { deployment: Deployment::SingleProcess, background_nodes: 176, load: 0.5, threads: 2 }
    }
}

impl Chain {
    fn cpus(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }
}

/// Writes a graph into a file, and reads it as a launcher does. If a module ends, the run ends:
/// without all its modules, the chain would measure something else.
fn resolved(graph: &GraphFile, file: &Path) -> Result<ResolvedGraph> {
    std::fs::write(file, plan::text(graph)?)
        .with_context(|| format!("cannot write {}", file.display()))?;
    let loaded = load(file, &LoadOptions::new(&classes));
    let Some(mut graph) = loaded.graph else {
        bail!(
            "the graph that was made for this run has errors: {}",
            loaded.diagnostics.render(Colour::No)
        );
    };
    graph.modules.iter_mut().for_each(|m| m.restart.on_exhausted = Some(OnExhausted::Stop));
    Ok(graph)
}

/// Returns the assignment of modules to containers; `None` without containers.
fn mode(deployment: bench::Deployment) -> Result<Option<Mode>> {
    Ok(match deployment {
        bench::Deployment::Bare => None,
        bench::Deployment::Container => Some(Mode::One),
        bench::Deployment::Containers => Some(Mode::Each),
        bench::Deployment::ContainersInPod | bench::Deployment::ContainersWithoutFutexWaitv => {
            bail!("the workload chain runs in one `container`, or in `containers`")
        }
    })
}

pub(crate) fn classes(_: &Path) -> Result<Vec<ComponentClass>, DescribeError> {
    Ok(Builtin.classes())
}

impl Experiment for Chain {
    const NAME: &'static str = "chain";
    const DESCRIPTION: &'static str = "A chain of 17 callbacks over 8 modules among 176 \
         background nodes, in one process or a process each";

    fn verify(&self) -> Result<()> {
        ensure!(
            self.background_nodes <= 800,
            "'background_nodes' is {}; it must be at most 800",
            self.background_nodes
        );
        ensure!(
            (0.0..=4.0).contains(&self.load),
            "'load' is {}; it must be between 0 and 4 (of all CPUs together)",
            self.load
        );
        ensure!(
            (1..=256).contains(&self.threads),
            "'threads' is {}; it must be between 1 and 256",
            self.threads
        );
        Ok(())
    }

    fn verify_deployment(&self, deployment: bench::Deployment) -> Result<()> {
        mode(deployment)?;
        ensure!(
            deployment.is_bare() || self.deployment == Deployment::ProcessPerModule,
            "containers hold a process for each module: add the parameter `deployment: \
             process_per_module`, or leave the containers out"
        );
        Ok(())
    }

    fn run(&self, job: &WorkloadJob) -> Result<Observations> {
        let unit = Crunch::calibrated(UNIT)?;
        let plan = Plan::new(self, job.seed);
        let [file, library, account] =
            ["graph.yaml", "components", "instances"].map(|name| job.raw_dir.join(name));
        std::fs::write(&library, "")
            .context("cannot write into the directory for the observations")?;
        let mode = mode(job.deployment)?;
        let mut graph = plan.graph(self, unit, &library, &account);
        if mode.is_some() {
            deployed::mount(&mut graph, &library, &account)?;
        }
        let graph = resolved(&graph, &file)?;
        let deployed = mode.map(|mode| Deployed::new(&graph, mode, &job.raw_dir)).transpose()?;
        let options = LaunchOptions {
            placement: deployed.as_ref().map(Deployed::placement),
            // A run with unmatched endpoints after this time is invalid.
            matched_within: Duration::from_secs(60),
            host_arguments: vec![WORKLOAD_COMMAND.into(), HOST.into()],
            ..LaunchOptions::new(
                std::env::current_exe().context("cannot find the running program")?,
                deployed.as_ref().map_or_else(|| job.domain_dir.clone(), Deployed::domain),
            )
        };
        let (interrupt, interrupter) =
            Interrupt::by_hand().context("cannot make what ends the run")?;
        let mut observer = Observer::new(job, deployed.as_ref(), interrupter);
        let outcome = run(&graph, &options, &interrupt, &mut observer)?;
        match outcome.end {
            End::Interrupted => {}
            End::Died(death) => bail!("{death}{}", observer.last_words()),
            End::NotReady { modules } => bail!(
                "modules were not ready in time: {}{}",
                modules.join("; "),
                observer.last_words()
            ),
            End::Finished { component } => {
                bail!("the run ended by itself, by component '{component}'")
            }
        }
        ensure!(
            outcome.killed.is_empty(),
            "modules had to be killed: {}",
            outcome.killed.join(", ")
        );
        let mut o = observer.finish()?;
        let bytes = std::fs::read(&account).context("the end of the chain has left no account")?;
        o.report_instances(&Instance::read_all(&bytes));
        let counters = &mut o.observations.counters;
        counters.insert("components".into(), plan.nodes.len() as u64);
        counters.insert("crunch limit".into(), unit.limit.into());
        counters.insert("crunch ns".into(), unit.unit_ns);
        counters.insert("planned work ns per second".into(), (plan.load() * 1e9) as u64);
        Ok(o.observations)
    }

    fn run_on(&self, peer: &WorkloadPeer, job: &WorkloadJob) -> Result<Observations> {
        ensure!(
            job.deployment.is_bare() && self.deployment == Deployment::ProcessPerModule,
            "a peer runs a process for each module of the chain, without containers"
        );
        on_peer::run_on(self, peer, job)
    }
}

/// Records messages of the launcher, and ends the run when its time is up.
struct Observer<'a> {
    deployed: Option<&'a Deployed>,
    supervisors: Option<SupervisorUse>,
    warm_up: Duration,
    duration: Duration,
    interrupter: Interrupter,
    interrupted: bool,
    started_ns: u64,
    processes: Vec<(String, u32)>,
    watching: Option<(Window, Watcher)>,
    observations: Observations,
    lost_records: std::collections::BTreeMap<String, u64>,
    said: Vec<String>,
}

/// Result of a run that was observed to its end.
struct Observed {
    observations: Observations,
    window: Window,
    started_ns: u64,
}

impl<'a> Observer<'a> {
    fn new(job: &WorkloadJob, deployed: Option<&'a Deployed>, interrupter: Interrupter) -> Self {
        Self {
            deployed,
            supervisors: None,
            warm_up: job.warm_up(),
            duration: job.duration(),
            interrupter,
            interrupted: false,
            started_ns: MonotonicNs::now().0,
            processes: Vec::new(),
            watching: None,
            observations: Observations::default(),
            lost_records: Default::default(),
            said: Vec::new(),
        }
    }

    fn last_words(&self) -> String {
        self.said.iter().map(|line| format!("\n  {line}")).collect()
    }

    fn finish(mut self) -> Result<Observed> {
        let Some((window, watcher)) = self.watching.take() else {
            bail!("the modules never ran{}", self.last_words())
        };
        watcher.finish(&mut self.observations);
        let lost = self.lost_records.values().sum();
        self.observations.counters.insert("records lost".into(), lost);
        Ok(Observed { observations: self.observations, window, started_ns: self.started_ns })
    }
}

impl Sink for Observer<'_> {
    fn output(&mut self, module: &str, _: Stream, line: &str) {
        // The last few lines show why something failed.
        if self.said.len() >= 20 {
            self.said.remove(0);
        }
        self.said.push(format!("{module}: {line}"));
    }

    fn record(&mut self, module: &str, record: Record) {
        match record {
            Record::Failure { component, text, count: 1, .. } => {
                self.observations.invalid.push(format!("component '{component}' failed: {text}"));
            }
            Record::Output { component, published, .. } if component == table::SOURCE => {
                self.observations.counters.insert("scans".into(), published);
            }
            Record::Lost { callbacks, others } => {
                self.lost_records.insert(module.to_owned(), callbacks + others);
            }
            _ => {}
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Spawned { module, pid } => self.processes.push((module.clone(), *pid)),
            Event::Unmatched { edge } => self.observations.invalid.push(edge.clone()),
            Event::Running { .. } => {
                let now = MonotonicNs::now().0;
                self.observations.put(
                    "all modules ready",
                    Quantity::StartUp,
                    [Point { time_ns: now, value: now - self.started_ns }],
                );
                if let Some(deployed) = self.deployed {
                    self.processes = deployed.processes();
                    self.supervisors = Some(deployed.supervisors());
                }
                let window = Window::after(self.warm_up, self.duration);
                match Watcher::start(self.processes.clone(), window) {
                    Ok(watcher) => self.watching = Some((window, watcher)),
                    Err(e) => self.observations.invalid.push(e.to_string()),
                }
            }
            _ => {}
        }
    }

    fn tick(&mut self) {
        let over = self
            .watching
            .as_ref()
            .is_some_and(|(window, _)| MonotonicNs::now().0 >= window.until_ns);
        if over && !std::mem::replace(&mut self.interrupted, true) {
            // Reported before the containers end, while their supervisors still run.
            if let Some(supervisors) = self.supervisors.take() {
                supervisors.report(&mut self.observations);
            }
            self.interrupter.interrupt();
        }
    }
}

impl Observed {
    fn report_instances(&mut self, instances: &[Instance]) {
        let counting = || instances.iter().filter(|i| self.window.contains(i.time_ns));
        let o = &mut self.observations;
        type Part = fn(&Instance) -> u64;
        let parts: [(Quantity, Part); 4] = [
            (Quantity::Latency, |i| i.latency_ns),
            (Quantity::Idle, |i| i.idle_ns),
            (Quantity::Communication, |i| i.communication_ns),
            (Quantity::Computation, |i| i.computation_ns),
        ];
        for (quantity, part) in parts {
            o.put(
                CHAIN,
                quantity,
                counting().map(|i| Point { time_ns: i.time_ns, value: part(i) }),
            );
        }
        if let Some(first) = instances.first() {
            let value = first.time_ns.saturating_sub(self.started_ns);
            o.put("first command", Quantity::StartUp, [Point { time_ns: first.time_ns, value }]);
        }
        o.counters.insert("scans that reached the end".into(), instances.len() as u64);
        o.counters.insert("instances".into(), counting().count() as u64);
    }
}
