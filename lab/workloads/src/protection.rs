// SPDX-License-Identifier: Apache-2.0
//! A camera and several subscribers next to processes that use processor time: the effect of the
//! real-time keys of a graph file on the slowest subscriber.
//!
//! Driveline's own launcher runs the graph twice, each time for half of the duration: first without
//! the keys, then with the keys on the executor of the subscriber that was the slowest. Nothing
//! else sets a priority or a CPU. Both graph files stay next to the results.

use crate::chain::{READER_CLASS, SOURCE_CLASS, classes, text};
use crate::children::Children;
use crate::command_line::{HOST, WORKLOAD_COMMAND};
use crate::experiment::Experiment;
use crate::hog::Hog;
use crate::job::WorkloadJob;
use crate::orders::Order;
use crate::part::Part;
use crate::record::Window;
use anyhow::{Context, Result, bail, ensure};
use driveline::types::{MonotonicNs, Qos, Reliability};
use driveline::{ParameterValue, Reach, Schedule};
use driveline_bench::observations::{Observations, Point, Quantity};
use driveline_graph::model::{
    ComponentSpec, ExecutorSpec, GraphFile, GroupSpec, InputSpec, ModuleSpec, OutputSpec, TopicSpec,
};
use driveline_graph::{ByteSize, Colour, LoadOptions, OnExhausted, load};
use driveline_runtime::account::Record;
use driveline_runtime::launch::{
    End, Event, Interrupt, Interrupter, LaunchOptions, Sink, Stream, run,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

const CAMERA: &str = "camera";
const IMAGE: &str = "image";
const MAIN: &str = "main";

/// Parameters of the protection.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Protection {
    /// Number of subscribers, a module each.
    #[schemars(range(min = 2, max = 64))]
    subscribers: u32,
    /// Length of each image in bytes.
    #[schemars(range(max = 67_108_864))]
    payload_bytes: u32,
    /// Images per second.
    #[schemars(range(min = 0.1, max = 10_000.0))]
    rate_hz: f64,
    /// Number of processes that use processor time, at normal priority. They do not belong to the
    /// graph.
    #[schemars(range(max = 256))]
    hogs: u32,
    /// Keys of the executor of the slowest subscriber in the second half, as under `schedule` in a
    /// graph file.
    schedule: Schedule,
    /// Key `lock_memory` of its module.
    lock_memory: bool,
}

impl Default for Protection {
    fn default() -> Self {
        Self {
            subscribers: 8,
            payload_bytes: 4 << 20,
            rate_hz: 50.0,
            hogs: 4,
            schedule: Schedule::default(),
            lock_memory: false,
        }
    }
}

fn subscriber(i: usize) -> String {
    format!("subscriber_{i}")
}

impl Protection {
    /// Returns the graph file. `with_keys`: index of the subscriber that gets the keys.
    fn graph(&self, library: &Path, with_keys: Option<usize>) -> GraphFile {
        let integer = |n: u64| ParameterValue::Integer(i64::try_from(n).unwrap_or(i64::MAX));
        let component = |class: &str| ComponentSpec {
            library: library.to_owned(),
            class: class.into(),
            executor: None,
            callback_group: GroupSpec::MutuallyExclusive,
            parameters: Default::default(),
            inputs: Default::default(),
            outputs: Default::default(),
            trigger: None,
            budget_ms: None,
            on_overrun: None,
        };
        let module = |name: &str, component: ComponentSpec| {
            let mut module = ModuleSpec::default();
            module.components.insert(name.to_owned(), component);
            module
        };
        let mut graph = GraphFile {
            driveline: 1,
            name: Some("protection".into()),
            domain: None,
            domain_group: None,
            on_launcher_lost: None,
            include: Vec::new(),
            params_files: Vec::new(),
            topics: Default::default(),
            modules: Default::default(),
            modes: Default::default(),
            initial_mode: None,
            health_topic: None,
        };
        let topic = TopicSpec {
            reach: Reach::Host,
            max_payload: Some(ByteSize(self.payload_bytes.max(1).into())),
            qos: Qos { reliability: Reliability::Reliable, ..Qos::default() },
            ..TopicSpec::default()
        };
        graph.topics.insert(IMAGE.into(), topic);
        let period = Duration::from_secs_f64(1.0 / self.rate_hz).as_nanos() as u64;
        let mut camera = component(SOURCE_CLASS);
        camera.parameters.insert("bytes".into(), integer(self.payload_bytes.into()));
        camera.parameters.insert("period_ns".into(), integer(period));
        camera.outputs.insert("out".into(), OutputSpec::Topic(IMAGE.into()));
        graph.modules.insert(CAMERA.into(), module(CAMERA, camera));
        for i in 0..self.subscribers as usize {
            let mut reader = component(READER_CLASS);
            reader.inputs.insert("in".into(), InputSpec::Topic(IMAGE.into()));
            let mut module = module(&subscriber(i), reader);
            if with_keys == Some(i) {
                module.lock_memory = self.lock_memory;
                let schedule = self.schedule.clone();
                module
                    .executors
                    .insert(MAIN.into(), ExecutorSpec { schedule, ..Default::default() });
            }
            graph.modules.insert(subscriber(i), module);
        }
        graph
    }

    /// Runs the graph for half of the time.
    fn half(&self, job: &WorkloadJob, name: &str, with_keys: Option<usize>) -> Result<Half> {
        let library = job.raw_dir.join("components");
        let file = job.raw_dir.join(format!("{name}.yaml"));
        std::fs::write(&library, "")
            .context("cannot write into the directory for the observations")?;
        std::fs::write(&file, text(&self.graph(&library, with_keys))?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        let loaded = load(&file, &LoadOptions::new(&classes));
        let Some(mut graph) = loaded.graph else {
            bail!("the graph of this run has errors: {}", loaded.diagnostics.render(Colour::No));
        };
        graph.modules.iter_mut().for_each(|m| m.restart.on_exhausted = Some(OnExhausted::Stop));
        let options = LaunchOptions {
            matched_within: Duration::from_secs(60),
            host_arguments: vec![WORKLOAD_COMMAND.into(), HOST.into()],
            ..LaunchOptions::new(
                std::env::current_exe().context("cannot find the running program")?,
                job.domain_dir.clone(),
            )
        };
        let (interrupt, interrupter) =
            Interrupt::by_hand().context("cannot make what ends the run")?;
        let mut half = Half {
            warm_up: job.warm_up() / 2,
            duration: job.duration() / 2,
            interrupter,
            interrupted: false,
            window: None,
            transport: vec![Vec::new(); self.subscribers as usize],
            published: 0,
            missed: 0,
            lost_records: 0,
            unset: Vec::new(),
            invalid: Vec::new(),
        };
        let outcome = run(&graph, &options, &interrupt, &mut half)?;
        match outcome.end {
            End::Interrupted => {}
            End::Died(death) => bail!("{death}"),
            End::NotReady { modules } => bail!("not ready in time: {}", modules.join("; ")),
            End::Finished { component } => bail!("component '{component}' ended the run"),
        }
        ensure!(outcome.killed.is_empty(), "killed: {}", outcome.killed.join(", "));
        Ok(half)
    }
}

/// Collects the launcher's reports.
struct Half {
    warm_up: Duration,
    duration: Duration,
    interrupter: Interrupter,
    interrupted: bool,
    window: Option<Window>,
    /// Times from publishing to the start of the callback, one list for each subscriber.
    transport: Vec<Vec<Point>>,
    published: u64,
    missed: u64,
    lost_records: u64,
    unset: Vec<String>,
    invalid: Vec<String>,
}

impl Half {
    /// Returns the subscriber with the largest median; one that received nothing is the slowest.
    fn slowest(&self) -> usize {
        let median = |points: &[Point]| {
            let mut values: Vec<u64> = points.iter().map(|p| p.value).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied().unwrap_or(u64::MAX)
        };
        let medians = self.transport.iter().map(|points| median(points)).enumerate();
        medians.max_by_key(|(_, median)| *median).map_or(0, |(i, _)| i)
    }

    fn index(component: &str) -> Option<usize> {
        component.strip_prefix("subscriber_")?.parse().ok()
    }

    /// Adds the transport times of the slowest subscriber as one series, and those of all others as
    /// another one.
    fn add_to(self, slowest: usize, how: &str, o: &mut Observations) {
        let mut others = Vec::new();
        for (i, points) in self.transport.into_iter().enumerate() {
            match i == slowest {
                true => o.put(&format!("{how}: slowest"), Quantity::Latency, points),
                false => others.extend(points),
            }
        }
        others.sort_by_key(|p| p.time_ns);
        o.put(&format!("{how}: the others"), Quantity::Latency, others);
        for (name, n) in [
            ("images published", self.published),
            ("images missed", self.missed),
            ("records lost", self.lost_records),
        ] {
            o.counters.insert(format!("{name}, {how}"), n);
        }
        o.unset.extend(self.unset);
        o.invalid.extend(self.invalid);
    }
}

impl Sink for Half {
    fn output(&mut self, _: &str, _: Stream, _: &str) {}

    fn record(&mut self, module: &str, record: Record) {
        match record {
            Record::Callback(call) => {
                let Some(window) = self.window else { return };
                let points = Self::index(&call.component).and_then(|i| self.transport.get_mut(i));
                let (Some(points), Some(input)) = (points, call.inputs.first()) else { return };
                if window.contains(call.start_ns) {
                    let value = call.start_ns.saturating_sub(input.publish_ns);
                    points.push(Point { time_ns: call.start_ns, value });
                    self.missed += input.missed;
                }
            }
            Record::Started { settings, .. } => self.unset.extend(
                settings.iter().filter_map(|s| Some(format!("{module}: {}", s.refused.as_ref()?))),
            ),
            Record::Output { component, published, .. } if component == CAMERA => {
                self.published = published;
            }
            Record::Lost { callbacks, others } => self.lost_records += callbacks + others,
            Record::Failure { component, text, count: 1, .. } => {
                self.invalid.push(format!("component '{component}' failed: {text}"));
            }
            _ => {}
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Unmatched { edge } => self.invalid.push(edge.clone()),
            Event::Running { .. } => self.window = Some(Window::after(self.warm_up, self.duration)),
            _ => {}
        }
    }

    fn tick(&mut self) {
        let over = self.window.is_some_and(|w| MonotonicNs::now().0 >= w.until_ns);
        if over && !std::mem::replace(&mut self.interrupted, true) {
            self.interrupter.interrupt();
        }
    }
}

impl Experiment for Protection {
    const NAME: &'static str = "protection";
    const DESCRIPTION: &'static str =
        "A camera and its subscribers with hogs: the slowest as it is, and with real-time keys";

    fn verify(&self) -> Result<()> {
        ensure!(
            (2..=64).contains(&self.subscribers),
            "'subscribers' is {}; it must be between 2 and 64",
            self.subscribers
        );
        ensure!(
            self.payload_bytes <= 64 << 20,
            "'payload_bytes' is {}; it must be at most 67108864",
            self.payload_bytes
        );
        ensure!(
            (0.1..=10_000.0).contains(&self.rate_hz),
            "'rate_hz' is {}; it must be between 0.1 and 10000",
            self.rate_hz
        );
        ensure!(self.hogs <= 256, "'hogs' is {}; it must be at most 256", self.hogs);
        Ok(())
    }

    fn run(&self, job: &WorkloadJob) -> Result<Observations> {
        let mut hogs = Children::new(job)?;
        for n in 0..self.hogs {
            let hog = hogs.start_ready(&format!("hog {n}"), Part::Hog(Hog {}))?;
            hogs.order(hog, Order::Begin { window: Window::after(job.warm_up(), job.duration()) });
        }
        let without_keys = self.half(job, "graph", None)?;
        let slowest = without_keys.slowest();
        let with_keys = self.half(job, "graph-with-keys", Some(slowest))?;
        let mut o = Observations::default();
        without_keys.add_to(slowest, "without keys", &mut o);
        with_keys.add_to(slowest, "with keys", &mut o);
        o.counters.insert("slowest subscriber".into(), slowest as u64);
        Ok(o)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The graph file of the second half has the given keys only at the chosen subscriber.
    #[test]
    fn the_keys_stand_in_the_graph_file_of_the_slowest_alone() {
        let schedule = json!({"class": "fifo", "priority": 80, "cpus": [0], "exclusive": true});
        let given: Protection = serde_json::from_value(
            json!({"subscribers": 3, "schedule": schedule, "lock_memory": true}),
        )
        .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join("components");
        std::fs::write(&library, "").unwrap();
        for with_keys in [None, Some(1)] {
            let file = dir.path().join("graph.yaml");
            std::fs::write(&file, text(&given.graph(&library, with_keys)).unwrap()).unwrap();
            let loaded = load(&file, &LoadOptions::new(&classes));
            let graph =
                loaded.graph.unwrap_or_else(|| panic!("{}", loaded.diagnostics.render(Colour::No)));
            assert_eq!(graph.modules.len(), 4);
            for m in &graph.modules {
                let has = with_keys.is_some() && m.name.as_str() == "subscriber_1";
                let expected = if has { given.schedule.clone() } else { Schedule::default() };
                let executor = m.executors.iter().find(|e| e.name == MAIN).unwrap();
                assert_eq!(
                    (&executor.schedule, m.real_time.lock_memory),
                    (&expected, has),
                    "{}",
                    m.name
                );
            }
        }
    }
}
