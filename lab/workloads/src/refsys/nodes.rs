// SPDX-License-Identifier: Apache-2.0
//! The nodes of the table as callbacks of executors.

use super::pair::Pair;
use super::table::{CALLBACKS, Callback, END, LIDARS, PLANNER, Rule, is_hot_edge};
use super::{HOT_PATH, PROCESS};
use crate::record::{Random, Recorder, Window};
use crate::work::Crunch;
use anyhow::{Result, bail};
use driveline::types::MonotonicNs;
use driveline::{
    CallbackGroup, CallbackHandle, CallbackOptions, Context, Executor, GroupKind, Invocation,
    PublishedCounter, PublisherOptions, RawPublisher, RawSample, Reach, SubscriptionOptions,
    Trigger,
};
use driveline_bench::observations::{Observations, Quantity};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const ENCODING: &str = "refsys";

/// Settings that all nodes share.
pub(super) struct Setting {
    pub(super) crunch: Crunch,
    pub(super) message_bytes: usize,
    pub(super) reach: Reach,
}

/// Probes of the run.
pub(super) struct Probes {
    pub(super) window: Window,
    pub(super) latency: Recorder,
    pub(super) deviation: Recorder,
    pub(super) last_planned_ns: AtomicU64,
}

/// Measurement time of the newest data of each lidar in a message, in nanoseconds; 0 without data
/// of it.
type Stamps = [u64; 2];

fn stamps(sample: &RawSample) -> Stamps {
    let (words, _) = sample.payload().unwrap_or_default().as_chunks::<8>();
    [0, 1].map(|i| words.get(i).map_or(0, |w| u64::from_le_bytes(*w)))
}

fn newest(a: Stamps, b: Stamps) -> Stamps {
    [a[0].max(b[0]), a[1].max(b[1])]
}

/// A callback with its state.
struct Stage {
    callback: Callback,
    crunch: Crunch,
    message_bytes: usize,
    output: Option<Arc<Mutex<RawPublisher>>>,
    /// Samples that wait for their partner.
    kept: Mutex<Pair<RawSample>>,
    replaced: Arc<AtomicU64>,
    probes: Arc<Probes>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stage {
    fn run(&self, invocation: &Invocation<'_>) {
        let done = match self.callback.rule {
            Rule::Sensor(_) => {
                let now = MonotonicNs::now().0;
                self.publish(LIDARS.map(|l| if l == self.callback.node { now } else { 0 }))
            }
            Rule::Transform => self.transform(invocation),
            Rule::Fusion => self.fuse(invocation),
            Rule::Cyclic(period) => self.plan(invocation, period),
            Rule::Command => Ok(()),
        };
        if done.is_err() {
            invocation.fail();
        }
    }

    fn transform(&self, invocation: &Invocation<'_>) -> Result<()> {
        let stamps = invocation.sample(0).map_or([0; 2], stamps);
        if self.callback.node == END {
            let newest = stamps[0].max(stamps[1]);
            if self.probes.window.contains(newest) {
                self.probes
                    .latency
                    .add(invocation.start(), invocation.start().0.saturating_sub(newest));
            }
        }
        self.crunch.run();
        self.publish(stamps)
    }

    fn fuse(&self, invocation: &Invocation<'_>) -> Result<()> {
        let offered = {
            let mut kept = lock(&self.kept);
            let before = kept.replaced;
            let both =
                invocation.trigger().and_then(|i| kept.offer(i, invocation.sample(i)?.clone()));
            self.replaced.fetch_add(kept.replaced - before, Relaxed);
            both
        };
        let Some(both) = offered else { return Ok(()) };
        self.crunch.run();
        self.publish(both.iter().map(stamps).fold([0; 2], newest))
    }

    fn plan(&self, invocation: &Invocation<'_>, period: Duration) -> Result<()> {
        let start = invocation.start();
        let last = self.probes.last_planned_ns.swap(start.0, Relaxed);
        if last != 0 && self.probes.window.contains(start.0) {
            self.probes.deviation.add(start, (start.0 - last).abs_diff(period.as_nanos() as u64));
        }
        let stamps = (0..self.callback.inputs.len())
            .filter_map(|i| invocation.read(i))
            .map(|s| stamps(&s))
            .fold([0; 2], newest);
        self.crunch.run();
        self.publish(stamps)
    }

    fn publish(&self, stamps: Stamps) -> Result<()> {
        let Some(output) = &self.output else { return Ok(()) };
        let mut output = lock(output);
        let mut loan = output.loan(self.message_bytes)?;
        for (word, stamp) in loan.payload_mut().as_chunks_mut::<8>().0.iter_mut().zip(stamps) {
            *word = stamp.to_le_bytes();
        }
        output.publish(loan)?;
        Ok(())
    }
}

struct Output {
    published: PublishedCounter,
    publisher: Arc<Mutex<RawPublisher>>,
    subscriptions: usize,
}

/// The whole system.
pub(super) struct Graph {
    handles: Vec<(Callback, CallbackHandle)>,
    outputs: BTreeMap<&'static str, Output>,
    replaced: Arc<AtomicU64>,
    /// Number of samples that newer ones replaced in fusing nodes of the hot path.
    hot_replaced: Arc<AtomicU64>,
    probes: Arc<Probes>,
    reach: Reach,
}

impl Graph {
    pub(super) fn build<'a>(
        context: &Context,
        setting: &Setting,
        probes: Probes,
        mut phases: Random,
        executor_of: impl Fn(&str) -> &'a Executor,
    ) -> Result<Self> {
        let probes = Arc::new(probes);
        let (replaced, hot_replaced): (Arc<AtomicU64>, Arc<AtomicU64>) = Default::default();
        let mut groups: BTreeMap<&str, CallbackGroup> = BTreeMap::new();
        let (mut handles, mut outputs) = (Vec::new(), BTreeMap::new());
        for callback in CALLBACKS {
            let node = context.node(callback.node)?;
            let executor = executor_of(callback.node);
            let group = groups
                .entry(callback.node)
                .or_insert_with(|| executor.group(GroupKind::MutuallyExclusive))
                .clone();
            let output = match callback.output {
                None => None,
                Some(topic) => {
                    let options = PublisherOptions {
                        reach: setting.reach,
                        max_payload: setting.message_bytes,
                        pins: 32,
                        ..Default::default()
                    };
                    let publisher = node.bytes_publisher(topic, ENCODING, options)?;
                    let published = publisher.published_counter();
                    let publisher = Arc::new(Mutex::new(publisher));
                    let subscriptions =
                        CALLBACKS.iter().flat_map(|c| c.inputs).filter(|i| **i == topic).count();
                    outputs.insert(
                        topic,
                        Output { published, publisher: publisher.clone(), subscriptions },
                    );
                    Some(publisher)
                }
            };
            let subscribe = |topic: &&str| {
                let options =
                    SubscriptionOptions { reach: setting.reach, max_held: 4, ..Default::default() };
                Ok(((*topic).to_owned(), node.bytes_subscription(topic, ENCODING, options)?))
            };
            let inputs = callback.inputs.iter().map(subscribe).collect::<Result<Vec<_>>>()?;
            let trigger = match callback.rule {
                Rule::Sensor(period) | Rule::Cyclic(period) => {
                    Trigger::Timer { period, max_age: None }
                }
                Rule::Transform | Rule::Fusion | Rule::Command => Trigger::any(),
            };
            let hot = callback.inputs.iter().any(|i| is_hot_edge(callback.node, i));
            let stage = Stage {
                callback,
                crunch: setting.crunch,
                message_bytes: setting.message_bytes,
                output,
                kept: Mutex::default(),
                replaced: if hot { hot_replaced.clone() } else { replaced.clone() },
                probes: probes.clone(),
            };
            let options = CallbackOptions { name: callback.node.into(), group, trigger, inputs };
            let handle = executor.add_callback(options, move |i| stage.run(i))?;
            if let Rule::Sensor(period) | Rule::Cyclic(period) = callback.rule {
                handle.first_tick_after(period.mul_f64(phases.share()));
            }
            handles.push((callback, handle));
        }
        Ok(Self { handles, outputs, replaced, hot_replaced, probes, reach: setting.reach })
    }

    /// Waits until every topic has found its subscriptions.
    pub(super) fn wait_matched(&self, within: Duration) -> Result<()> {
        let end = Instant::now() + within;
        for (topic, output) in &self.outputs {
            while lock(&output.publisher).matched() < output.subscriptions {
                if Instant::now() > end {
                    bail!(
                        "only {} of {} subscriptions of '{topic}' were matched",
                        lock(&output.publisher).matched(),
                        output.subscriptions
                    );
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Returns the number of samples that were lost or replaced so far between the lidars and the
    /// end of the hot path.
    pub(super) fn hot_path_drops(&self) -> u64 {
        let missed: u64 = self
            .handles
            .iter()
            .flat_map(|(c, h)| h.inputs().into_iter().filter(|i| is_hot_edge(c.node, &i.input)))
            .map(|i| i.stats.missed + i.stats.superseded)
            .sum();
        missed + self.hot_replaced.load(Relaxed)
    }

    /// Records all results after the executors have stopped.
    pub(super) fn finish(&self, o: &mut Observations) {
        self.probes.latency.finish(HOT_PATH, Quantity::Latency, o);
        self.probes.deviation.finish(PLANNER, Quantity::PeriodDeviation, o);
        let mut count = |name: &str, n: u64| *o.counters.entry(name.to_owned()).or_default() += n;
        let (mut sent, mut received, mut replaced, mut failed, mut edges) = (0, 0, 0, 0, 0);
        for (callback, handle) in &self.handles {
            let stats = handle.stats();
            failed += stats.failed + stats.take_errors;
            count("timer overruns", stats.overruns);
            count("callbacks", stats.invocations);
            for input in
                handle.inputs().into_iter().filter(|_| !matches!(callback.rule, Rule::Cyclic(_)))
            {
                edges += 1;
                sent += self.outputs.get(input.input.as_str()).map_or(0, |out| out.published.get());
                received += input.stats.received;
                replaced += input.stats.missed + input.stats.superseded;
            }
        }
        // Only inputs that trigger count here: their samples are taken as they arrive. The planner
        // reads its inputs at its own times.
        count("sent to triggers", sent);
        count("received by triggers", received);
        count("replaced before triggers", replaced);
        count(
            "replaced before fusion",
            self.replaced.load(Relaxed) + self.hot_replaced.load(Relaxed),
        );
        count("failed callbacks", failed);
        if failed > 0 {
            o.invalid.push(format!("{failed} callbacks failed, or could not take their samples"));
        }
        // At the end, each connection may have one sample that was not taken. At a reach beyond the
        // process there may be several: a replacement is noticed when the next sample is taken.
        let most = if self.reach == Reach::Process { edges } else { sent };
        if sent.checked_sub(received + replaced).is_none_or(|unread| unread > most) {
            o.invalid.push(format!(
                "the account of {PROCESS} does not close: {sent} sent, {received} received, \
                 {replaced} replaced"
            ));
        }
    }
}
