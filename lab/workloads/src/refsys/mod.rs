// SPDX-License-Identifier: Apache-2.0
//! The Autoware reference system: a public workload of 24 nodes in one process. Its measures are
//! latency and drops of its hot path, and the regularity of its planner.
//!
//! Fusing nodes do the fusion themselves, with the trigger `any`: they keep the newest sample of
//! each input, work as soon as both inputs have one, and then start again without samples. No
//! trigger of Driveline does exactly that: `all_latest` uses the same sample several times. Lidar
//! stamps are part of the messages, as in the original. Driveline's own origins would not do: a
//! message inherits those of the samples of the present call, but a fusing node also uses a sample
//! that it has kept from an earlier call.

mod nodes;
mod pair;
mod table;

use crate::experiment::Experiment;
use crate::job::WorkloadJob;
use crate::record::{Random, Recorder, Window, sleep_until};
use crate::usage::Watcher;
use crate::work::Crunch;
use anyhow::{Context as _, Result, ensure};
use driveline::types::MonotonicNs;
use driveline::{
    Context, ContextOptions, Executor, ExecutorOptions, Reach, Schedule, SchedulingClass,
};
use driveline_bench::observations::{Observations, Point, Quantity};
use nodes::{Graph, Probes, Setting};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Subjects of series; a further subject is [`table::PLANNER`].
const HOT_PATH: &str = "hot path";
const PROCESS: &str = "process";

/// Assignment of callbacks to threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ExecutorKind {
    /// One thread for everything.
    #[default]
    SingleThreaded,
    /// One executor with several threads.
    MultiThreaded,
    /// An executor for the planner and one for the hot path, with real-time priorities, and one for
    /// the rest.
    Prioritised,
}

/// Parameters of the reference system.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Refsys {
    /// Assignment of callbacks to threads.
    executor: ExecutorKind,
    /// Threads of each executor except the planner's; 0 takes the number of CPUs. Ignored for
    /// `single_threaded`.
    #[schemars(range(max = 256))]
    threads: u32,
    /// Processor time of each step, in milliseconds. The default follows from the published
    /// figures: four steps of the hot path took 23.8 ms with priority, and all 190 steps per second
    /// together overload one thread.
    #[schemars(range(min = 0.0, max = 1000.0))]
    crunch_ms: f64,
    /// Length of each message in bytes.
    #[schemars(range(min = 16, max = 16_777_216))]
    message_bytes: u32,
    /// Reach of the topics; the graph is one process in any case.
    reach: Reach,
}

impl Default for Refsys {
    fn default() -> Self {
        Self {
            executor: ExecutorKind::SingleThreaded,
            threads: 0,
            crunch_ms: 6.0,
            message_bytes: 4096,
            reach: Reach::Process,
        }
    }
}

/// Executors of a run: for the planner, for the hot path and for the others; they may be the same.
struct Executors {
    all: Vec<Executor>,
    planner: usize,
    hot: usize,
    rest: usize,
}

impl Executors {
    fn of(&self, node: &str) -> &Executor {
        let index = if node == table::PLANNER {
            self.planner
        } else if table::on_hot_path(node) {
            self.hot
        } else {
            self.rest
        };
        &self.all[index]
    }
}

impl Refsys {
    fn executors(&self) -> Result<Executors> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if self.threads == 0 { cpus } else { self.threads as usize };
        let executor = |name: &str, threads, priority| {
            let class = if priority > 0 { SchedulingClass::Fifo } else { SchedulingClass::Other };
            let schedule = Schedule { class, priority, ..Schedule::default() };
            Executor::new(ExecutorOptions {
                name: name.into(),
                threads,
                schedule,
                ..ExecutorOptions::default()
            })
        };
        Ok(match self.executor {
            ExecutorKind::SingleThreaded => {
                Executors { all: vec![executor("all", 1, 0)?], planner: 0, hot: 0, rest: 0 }
            }
            ExecutorKind::MultiThreaded => {
                Executors { all: vec![executor("all", threads, 0)?], planner: 0, hot: 0, rest: 0 }
            }
            ExecutorKind::Prioritised => Executors {
                all: vec![
                    executor("planner", 1, 30)?,
                    executor("hot", threads, 20)?,
                    executor("rest", threads, 0)?,
                ],
                planner: 0,
                hot: 1,
                rest: 2,
            },
        })
    }
}

impl Experiment for Refsys {
    const NAME: &'static str = "refsys";
    const DESCRIPTION: &'static str =
        "Autoware reference system: 24 nodes in one process, latency and drops of the hot path";

    fn verify(&self) -> Result<()> {
        ensure!(self.threads <= 256, "'threads' is {}; an executor has at most 256", self.threads);
        ensure!(
            (0.0..=1000.0).contains(&self.crunch_ms),
            "'crunch_ms' is {}; it must be between 0 and 1000",
            self.crunch_ms
        );
        ensure!(
            (16..=16 << 20).contains(&self.message_bytes),
            "'message_bytes' is {}; it must be between 16 (two stamps) and 16777216",
            self.message_bytes
        );
        Ok(())
    }

    fn run(&self, job: &WorkloadJob) -> Result<Observations> {
        let crunch = Crunch::calibrated(Duration::from_secs_f64(self.crunch_ms / 1e3))?;
        let context = Context::new(ContextOptions {
            domain_dir: Some(job.domain_dir.clone()),
            ..ContextOptions::named("refsys")
        })?;
        let executors = self.executors()?;
        // Computed before the start, because callbacks read it.
        let settle = Duration::from_millis(200);
        let window = Window::after(settle + job.warm_up(), job.duration());
        let probes = Probes {
            window,
            latency: Recorder::new(10.0, job.duration()),
            deviation: Recorder::new(10.0, job.duration()),
            last_planned_ns: std::sync::atomic::AtomicU64::new(0),
        };
        let setting =
            Setting { crunch, message_bytes: self.message_bytes as usize, reach: self.reach };
        let graph =
            Graph::build(&context, &setting, probes, Random::new(job.seed, "phases"), |node| {
                executors.of(node)
            })?;
        graph.wait_matched(Duration::from_secs(10))?;
        let mut o = Observations::default();
        for executor in &executors.all {
            let reports = executor.start().context("the executor does not start")?;
            o.unset.extend(
                reports.into_iter().filter(|r| !r.refused.is_empty()).map(|r| r.to_string()),
            );
        }
        let watcher = Watcher::start(vec![(PROCESS.into(), std::process::id())], window)?;
        let drops = observe_drops(&graph, window, &mut o);
        watcher.finish(&mut o);
        executors.all.iter().for_each(Executor::stop);
        graph.finish(&mut o);
        o.counters.insert("hot path drops".into(), drops);
        o.counters.insert("crunch limit".into(), crunch.limit.into());
        o.counters.insert("crunch ns".into(), crunch.unit_ns);
        Ok(o)
    }
}

/// Samples the drops of the hot path until the end of the measured time.
fn observe_drops(graph: &Graph, window: Window, o: &mut Observations) -> u64 {
    const INTERVAL_NS: u64 = 200_000_000;
    window.sleep_until_start();
    let first = graph.hot_path_drops();
    let (mut before, mut next) = (first, window.from_ns);
    while next < window.until_ns {
        next = (next + INTERVAL_NS).min(window.until_ns);
        sleep_until(next);
        let now = graph.hot_path_drops();
        o.put(
            HOT_PATH,
            Quantity::Drops,
            [Point { time_ns: MonotonicNs::now().0, value: now - before }],
        );
        before = now;
    }
    before - first
}
