// SPDX-License-Identifier: Apache-2.0
//! Fusion of several large channels of different rates, from publishers in processes of their own.

mod on_peer;

use crate::children::{Children, PATIENCE};
use crate::experiment::Experiment;
use crate::job::{WorkloadJob, WorkloadPeer};
use crate::orders::{Assignment, Superior, wait_matched};
use crate::part::Part;
use crate::record::{Random, Recorder, Window};
use crate::schedule::{Schedule, due_ns};
use crate::usage::Watcher;
use anyhow::{Result, ensure};
use driveline::{
    CallbackHandle, CallbackOptions, Context, ContextOptions, Executor, ExecutorOptions, GroupKind,
    Invocation, PublisherOptions, RawSample, Reach, SubscriptionOptions, Trigger,
};
use driveline_bench::observations::{Observations, Quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const ENCODING: &str = "fusion";
const FUSION: &str = "fusion";
/// Counter of the calls.
const FUSED: &str = "fused";

/// Trigger of the fusing callback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum FusionTrigger {
    /// Each sample of the first channel, with the newest of each other one (`all_latest`).
    #[default]
    FirstChannel,
    /// Samples of all channels whose source times lie closest together, each used once
    /// (`approximate`).
    Approximate,
}

/// Parameters of the fusion.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Fusion {
    /// Time between samples of each channel, in milliseconds: one number for each channel.
    #[schemars(length(min = 2, max = 8))]
    periods_ms: Vec<f64>,
    /// Trigger of the fusing callback.
    trigger: FusionTrigger,
    /// Length of each sample in bytes.
    #[schemars(range(min = 8, max = 67_108_864))]
    payload_bytes: u32,
    /// Number of samples of each channel that `approximate` keeps until their partners arrive. 0
    /// takes as many as the fastest channel has during one period of the slowest, and two more.
    /// With fewer, it finds no partners.
    #[schemars(range(max = 256))]
    queue: u32,
}

impl Default for Fusion {
    fn default() -> Self {
        Self {
            periods_ms: vec![10.0; 4],
            trigger: FusionTrigger::FirstChannel,
            payload_bytes: 4 << 20,
            queue: 0,
        }
    }
}

/// The publisher of a channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FusionPublisher {
    topic: String,
    payload_bytes: usize,
    pins: u32,
    schedule: Schedule,
}

impl FusionPublisher {
    pub(crate) fn run(&self, job: &Assignment, superior: &Superior) -> Result<Observations> {
        let options = PublisherOptions {
            reach: Reach::Host,
            max_payload: self.payload_bytes,
            pins: self.pins,
            ..Default::default()
        };
        let mut publisher = job.node()?.bytes_publisher(&self.topic, ENCODING, options)?;
        wait_matched(&job.name, 1, Duration::from_secs(20), || publisher.matched())?;
        let window = superior.ready()?;
        // Payloads are neither filled nor read, because the path of the samples is observed, not
        // the memory's bandwidth.
        Ok(self
            .schedule
            .publish(&mut publisher, self.payload_bytes, window, |_| {})?
            .into_observations())
    }
}

/// Probes of the callback.
struct Probes {
    window: Window,
    latency: Recorder,
    age: Recorder,
    /// For each channel, the time from publishing its sample to the call that fuses it.
    channels: Vec<Recorder>,
}

impl Probes {
    fn fused(&self, invocation: &Invocation<'_>) {
        let channels = self.channels.len();
        let now = invocation.start();
        let samples = || (0..channels).filter_map(|i| invocation.sample(i));
        let newest = samples().map(|s| s.header().publish_time).max().unwrap_or(now);
        let source = |s: &RawSample| s.header().oldest_source_time();
        let oldest = samples().filter_map(source).min().unwrap_or(now);
        let due = invocation.trigger().and_then(|t| due_ns(invocation.sample(t)?.payload()?));
        if samples().count() != channels {
            invocation.fail();
        } else if due.is_some_and(|due| self.window.contains(due)) {
            self.latency.add(now, now.since(newest).as_nanos() as u64);
            self.age.add(now, now.since(oldest).as_nanos() as u64);
            for (channel, sample) in self.channels.iter().zip(samples()) {
                channel.add(now, now.since(sample.header().publish_time).as_nanos() as u64);
            }
        }
    }
}

impl Experiment for Fusion {
    const NAME: &'static str = "fusion";
    const DESCRIPTION: &'static str = "Fusion of four 4 MiB channels of other processes, by the \
         first channel or by approximate time";

    fn verify(&self) -> Result<()> {
        ensure!(
            (2..=8).contains(&self.periods_ms.len()),
            "'periods_ms' has {} channels; give 2 to 8",
            self.periods_ms.len()
        );
        for p in &self.periods_ms {
            ensure!(
                (0.1..=10_000.0).contains(p),
                "'periods_ms' has {p}; each must be between 0.1 and 10000"
            );
        }
        ensure!(
            (8..=64 << 20).contains(&self.payload_bytes),
            "'payload_bytes' is {}; it must be between 8 and 67108864",
            self.payload_bytes
        );
        let queue = self.queue();
        ensure!(
            queue <= 256,
            "'queue' would have to be {queue} for channels of such different 'periods_ms'; at \
             most 256 are kept"
        );
        Ok(())
    }

    fn run(&self, job: &WorkloadJob) -> Result<Observations> {
        let trigger = match self.trigger {
            FusionTrigger::FirstChannel => Trigger::AllLatest { on: 0, max_age: None },
            FusionTrigger::Approximate => Trigger::Approximate {
                queue: self.queue() as usize,
                max_interval: None,
                max_age: None,
            },
        };
        // One more sample is held during a call.
        let max_held = trigger.holds() + 1;
        let context = Context::new(ContextOptions {
            domain_dir: Some(job.domain_dir.clone()),
            ..ContextOptions::named(FUSION)
        })?;
        let node = context.node(FUSION)?;
        let mut inputs = Vec::new();
        for topic in self.topics() {
            let options =
                SubscriptionOptions { reach: Reach::Host, max_held, ..Default::default() };
            let subscription = node.bytes_subscription(&topic, ENCODING, options)?;
            inputs.push((topic, subscription));
        }
        let mut children = Children::new(job)?;
        let mut publishers = Vec::new();
        for (topic, schedule) in self.topics().zip(self.schedules(job)) {
            let part = FusionPublisher {
                topic,
                payload_bytes: self.payload_bytes as usize,
                pins: max_held,
                schedule,
            };
            publishers.push(
                children.start(
                    &format!("publisher {}", publishers.len()),
                    Part::FusionPublisher(part),
                )?,
            );
        }
        publishers.iter().try_for_each(|p| children.ready(*p))?;

        let window = window(job);
        let fastest = self.periods_ms.iter().copied().fold(f64::INFINITY, f64::min);
        let recorder = || Recorder::new(1e3 / fastest, job.duration());
        let of_channels: Vec<Recorder> = inputs.iter().map(|_| recorder()).collect();
        let probes =
            Probes { window, latency: recorder(), age: recorder(), channels: of_channels.clone() };
        let (latency, age) = (probes.latency.clone(), probes.age.clone());
        let executor =
            Executor::new(ExecutorOptions { name: FUSION.into(), ..Default::default() })?;
        let group = executor.group(GroupKind::MutuallyExclusive);
        let options = CallbackOptions { name: FUSION.into(), group, trigger, inputs };
        let handle = executor.add_callback(options, move |i| probes.fused(i))?;
        executor.start()?;
        publishers.iter().for_each(|p| children.begin(*p, window));
        let processes =
            children.processes().chain([(FUSION.to_owned(), std::process::id())]).collect();
        let watcher = Watcher::start(processes, window)?;
        window.sleep_until_start();
        let before = Counts::of(&handle);
        window.sleep_until_end();
        let after = Counts::of(&handle);

        let mut o = Observations::default();
        watcher.finish(&mut o);
        for p in publishers {
            children.finish(p, PATIENCE, &mut o)?;
        }
        executor.stop();
        latency.finish(FUSION, Quantity::Latency, &mut o);
        age.finish(FUSION, Quantity::Age, &mut o);
        for (i, channel) in of_channels.into_iter().enumerate() {
            channel.finish(&format!("channel {i}"), Quantity::Latency, &mut o);
        }
        after.report_since(&before, &mut o);
        judge(&mut o);
        let stats = handle.stats();
        if stats.failed + stats.take_errors > 0 {
            o.invalid.push(format!(
                "{} calls lacked an input, {} samples could not be taken",
                stats.failed, stats.take_errors
            ));
        }
        Ok(o)
    }

    fn run_on(&self, peer: &WorkloadPeer, job: &WorkloadJob) -> Result<Observations> {
        let fusing = on_peer::Fusing {
            topics: self.topics().collect(),
            trigger: self.trigger,
            queue: self.queue(),
        };
        let (schedules, size) = (self.schedules(job), self.payload_bytes as usize);
        let mut o = on_peer::run(fusing, &schedules, size, peer, job, || window(job))?;
        judge(&mut o);
        Ok(o)
    }
}

/// Returns the measured time, which begins after the parts have started.
fn window(job: &WorkloadJob) -> Window {
    Window::after(Duration::from_millis(50) + job.warm_up(), job.duration())
}

/// Makes a run invalid for reasons that apply to every system.
fn judge(o: &mut Observations) {
    if o.counters.get(FUSED) == Some(&0) {
        let remedy = "run longer than the slowest of 'periods_ms', or give a longer 'queue'";
        o.invalid.push(format!("nothing was fused: {remedy}"));
    }
}

impl Fusion {
    /// Returns the schedule of each channel; the same for every system with the same seed.
    fn schedules(&self, job: &WorkloadJob) -> Vec<Schedule> {
        let mut phases = Random::new(job.seed, "phases");
        let schedule = |ms: &f64| Schedule::new(Duration::from_secs_f64(ms / 1e3), phases.share());
        self.periods_ms.iter().map(schedule).collect()
    }

    fn queue(&self) -> u32 {
        if self.queue > 0 {
            return self.queue;
        }
        let slowest = self.periods_ms.iter().copied().fold(0.0, f64::max);
        let fastest = self.periods_ms.iter().copied().fold(f64::INFINITY, f64::min);
        (slowest / fastest).ceil() as u32 + 2
    }

    fn topics(&self) -> impl Iterator<Item = String> {
        (0..self.periods_ms.len()).map(|i| format!("channel/{i}"))
    }
}

/// Counters of the fusing node at one point in time.
#[derive(Clone, Debug)]
struct Counts([(&'static str, u64); 6]);

impl Counts {
    fn of(handle: &CallbackHandle) -> Self {
        let stats = handle.stats();
        let inputs = handle.inputs();
        Self([
            (FUSED, stats.invocations),
            ("inputs missing", stats.skipped_missing),
            ("without partners", stats.unsynchronised),
            ("room for held samples missing", stats.held_limit),
            ("samples received", inputs.iter().map(|i| i.stats.received).sum()),
            ("drops", inputs.iter().map(|i| i.stats.missed).sum()),
        ])
    }

    fn report_since(&self, before: &Self, o: &mut Observations) {
        for ((name, n), (_, b)) in self.0.iter().zip(before.0) {
            o.counters.insert((*name).into(), n.saturating_sub(b));
        }
    }
}
