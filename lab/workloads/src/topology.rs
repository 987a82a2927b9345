// SPDX-License-Identifier: Apache-2.0
//! Many nodes, a process each, in one of three shapes: pairs, one to all, all to one.
//!
//! A message is in time if its callback begins within the deadline after it was due. Otherwise it
//! is late, lost, or was not sent because its publisher was too slow.

use crate::children::{Children, PATIENCE};
use crate::deliveries::{ALL, DUE, IN_TIME, LATE, LOST, SCHEDULED, SUBSCRIPTIONS};
use crate::experiment::Experiment;
use crate::job::WorkloadJob;
use crate::orders::{Assignment, Order, Superior, wait_matched};
use crate::part::Part;
use crate::record::{Random, Recorder, Window};
use crate::schedule::{Schedule, due_ns};
use crate::usage::Watcher;
use crate::work::Crunch;
use anyhow::{Result, bail, ensure};
use driveline::types::limits::MAX_PINS;
use driveline::{
    CallbackHandle, CallbackOptions, Executor, ExecutorOptions, GroupKind, PublisherOptions, Reach,
    SubscriptionOptions, Trigger,
};
use driveline_bench::observations::{Observations, Quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const ENCODING: &str = "topology";
/// Time without messages after which a subscriber ends, once the last message was sent.
const DRAINED: Duration = Duration::from_millis(500);

/// Shape of the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Shape {
    /// Pairs, each with its own topic.
    #[default]
    T1,
    /// One publisher to which all others subscribe.
    T2,
    /// One node that subscribes to all others.
    T3,
}

/// Assignment of the callbacks of a subscribing node to threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ExecutorKind {
    /// One thread.
    #[default]
    SingleThreaded,
    /// `threads` threads; different topics run at the same time.
    MultiThreaded,
}

/// Parameters of a topology.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Topology {
    /// Shape of the connections.
    topology: Shape,
    /// Number of nodes; even for `t1`.
    #[schemars(range(min = 2, max = 128))]
    nodes: u32,
    /// Length of each message in bytes, in addition to the 16 bytes of due time and number.
    #[schemars(range(max = 67_108_864))]
    payload_bytes: u32,
    /// Messages of each publisher per second.
    #[schemars(range(min = 0.1, max = 10_000.0))]
    rate_hz: f64,
    /// Deadline in milliseconds after the due time; 0 takes the period.
    #[schemars(range(min = 0.0, max = 10_000.0))]
    deadline_ms: f64,
    /// Assignment of callbacks to threads.
    executor: ExecutorKind,
    /// Threads of a multi-threaded executor; 0 takes as many as there are CPUs.
    #[schemars(range(max = 256))]
    threads: u32,
    /// Processor time of each callback of a subscribing node, in milliseconds.
    #[schemars(range(min = 0.0, max = 1000.0))]
    crunch_ms: f64,
}

impl Default for Topology {
    fn default() -> Self {
        let (topology, executor) = (Shape::T1, ExecutorKind::SingleThreaded);
        Self {
            topology,
            nodes: 2,
            payload_bytes: 65_536,
            rate_hz: 10.0,
            deadline_ms: 0.0,
            executor,
            threads: 0,
            crunch_ms: 0.0,
        }
    }
}

/// A publishing node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TopologyPublisher {
    topic: String,
    bytes: usize,
    subscriptions: usize,
    schedule: Schedule,
}

/// A subscribing node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TopologySubscriber {
    /// Topic of each subscription, and its name in the observations.
    topics: Vec<(String, String)>,
    threads: usize,
    deadline_ns: u64,
    rate_hz: f64,
    crunch: Crunch,
}

/// Size of the head of each message in bytes.
const HEAD: usize = 16;

impl TopologyPublisher {
    pub(crate) fn run(&self, job: &Assignment, superior: &Superior) -> Result<Observations> {
        let pins = u32::try_from(2 * self.subscriptions).unwrap_or(MAX_PINS).clamp(8, MAX_PINS);
        let options = PublisherOptions {
            reach: Reach::Host,
            max_payload: self.bytes,
            pins,
            ..Default::default()
        };
        let mut publisher = job.node()?.bytes_publisher(&self.topic, ENCODING, options)?;
        let mut random = Random::new(job.seed, &self.topic);
        let payload: Vec<u8> =
            (0..=self.bytes / 8).flat_map(|_| random.next().to_le_bytes()).collect();
        wait_matched(&job.name, self.subscriptions, Duration::from_secs(20), || {
            publisher.matched()
        })?;
        let window = superior.ready()?;
        let mut number = 0u64;
        let fill = |rest: &mut [u8]| {
            number += 1;
            let (id, rest) = rest.split_at_mut(8);
            id.copy_from_slice(&number.to_le_bytes());
            rest.copy_from_slice(payload.get(..rest.len()).unwrap_or_default());
        };
        let sent = self.schedule.publish(&mut publisher, self.bytes, window, fill)?;
        // The publisher's memory must last until all subscribers have read.
        superior.wait_for_end();
        let mut o = sent.into_observations();
        o.counters.insert(SCHEDULED.into(), sent.scheduled * self.subscriptions as u64);
        o.counters.insert(DUE.into(), sent.sent * self.subscriptions as u64);
        o.counters.insert(
            "deliveries due in warm-up".into(),
            sent.sent_before * self.subscriptions as u64,
        );
        Ok(o)
    }
}

/// Deliveries of one node, within the measured time and before it.
#[derive(Default)]
struct Deliveries {
    in_time: AtomicU64,
    late: AtomicU64,
    before: AtomicU64,
}

impl TopologySubscriber {
    pub(crate) fn run(&self, job: &Assignment, superior: &Superior) -> Result<Observations> {
        let node = job.node()?;
        let mut subscriptions = Vec::new();
        for (topic, _) in &self.topics {
            let options =
                SubscriptionOptions { reach: Reach::Host, max_held: 2, ..Default::default() };
            subscriptions.push(node.bytes_subscription(topic, ENCODING, options)?);
        }
        let window = superior.ready()?;
        let deliveries = Arc::new(Deliveries::default());
        let executor = Executor::new(ExecutorOptions {
            name: "topology".into(),
            threads: self.threads,
            ..Default::default()
        })?;
        let (mut handles, mut recorders) = (Vec::new(), Vec::new());
        for ((topic, subject), subscription) in self.topics.iter().zip(subscriptions) {
            let recorder = Recorder::new(self.rate_hz, window.duration());
            recorders.push((subject, recorder.clone()));
            let group = executor.group(GroupKind::MutuallyExclusive);
            let inputs = vec![(topic.clone(), subscription)];
            let options =
                CallbackOptions { name: subject.clone(), group, trigger: Trigger::any(), inputs };
            let (deliveries, deadline_ns, crunch) =
                (deliveries.clone(), self.deadline_ns, self.crunch);
            handles.push(executor.add_callback(options, move |invocation| {
                let Some(sample) = invocation.sample(0) else { return };
                let Some(due) = sample.payload().and_then(due_ns) else { return invocation.fail() };
                if window.contains(due) {
                    let start = invocation.start();
                    recorder
                        .add(start, start.since(sample.header().publish_time).as_nanos() as u64);
                    let of = if start.0.saturating_sub(due) <= deadline_ns {
                        &deliveries.in_time
                    } else {
                        &deliveries.late
                    };
                    of.fetch_add(1, Relaxed);
                } else {
                    deliveries.before.fetch_add(1, Relaxed);
                }
                crunch.run();
            })?);
        }
        executor.start()?;
        superior.wait_for_end();
        drain(&handles);
        executor.stop();
        let mut o = Observations::default();
        recorders.iter().for_each(|(subject, r)| r.finish(subject, Quantity::Latency, &mut o));
        o.counters.insert(SUBSCRIPTIONS.into(), self.topics.len() as u64);
        o.counters.insert(IN_TIME.into(), deliveries.in_time.load(Relaxed));
        o.counters.insert(LATE.into(), deliveries.late.load(Relaxed));
        o.counters.insert("deliveries in warm-up".into(), deliveries.before.load(Relaxed));
        let missed = handles.iter().flat_map(CallbackHandle::inputs).map(|i| i.stats.missed).sum();
        o.counters.insert("missed by subscriptions".into(), missed);
        let failed: u64 = handles.iter().map(|h| h.stats().failed + h.stats().take_errors).sum();
        if failed > 0 {
            o.invalid.push(format!("{}: {failed} messages could not be read", job.name));
        }
        Ok(o)
    }
}

/// Waits until no messages have come for a while and none is unread, with a limit.
fn drain(handles: &[CallbackHandle]) {
    let count = || handles.iter().map(|h| h.stats().invocations).sum::<u64>();
    let mut before = count();
    for _ in 0..50 {
        std::thread::sleep(DRAINED);
        let now = count();
        // A pause without calls is not enough: on a busy machine, the executor may get no processor
        // for that long.
        if now == before && handles.iter().all(|h| h.pending().unread.is_empty()) {
            return;
        }
        before = now;
    }
}

impl Experiment for Topology {
    const NAME: &'static str = "topology";
    const DESCRIPTION: &'static str =
        "Many processes in pairs, one to all or all to one: messages in time, late, lost, not sent";

    fn verify(&self) -> Result<()> {
        ensure!(
            (2..=128).contains(&self.nodes),
            "'nodes' is {}; it must be between 2 and 128",
            self.nodes
        );
        ensure!(
            self.topology != Shape::T1 || self.nodes.is_multiple_of(2),
            "'nodes' is {}; pairs (t1) need an even number",
            self.nodes
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
        ensure!(
            (0.0..=10_000.0).contains(&self.deadline_ms),
            "'deadline_ms' is {}; it must be between 0 and 10000",
            self.deadline_ms
        );
        ensure!(self.threads <= 256, "'threads' is {}; an executor has at most 256", self.threads);
        ensure!(
            (0.0..=1000.0).contains(&self.crunch_ms),
            "'crunch_ms' is {}; it must be between 0 and 1000",
            self.crunch_ms
        );
        Ok(())
    }

    fn run(&self, job: &WorkloadJob) -> Result<Observations> {
        let crunch = Crunch::calibrated(Duration::from_secs_f64(self.crunch_ms / 1e3))?;
        let mut children = Children::new(job)?;
        // All at the same time: starting a hundred processes one after the other takes long.
        let subscribers: Vec<usize> = self
            .subscribers(crunch)
            .into_iter()
            .enumerate()
            .map(|(i, s)| {
                children.start(&format!("subscribing node {i}"), Part::TopologySubscriber(s))
            })
            .collect::<Result<_>>()?;
        subscribers.iter().try_for_each(|s| children.ready(*s))?;
        let publishers: Vec<usize> = self
            .publishers(&mut Random::new(job.seed, "phases"))
            .into_iter()
            .enumerate()
            .map(|(i, p)| {
                children.start(&format!("publishing node {i}"), Part::TopologyPublisher(p))
            })
            .collect::<Result<_>>()?;
        publishers.iter().try_for_each(|p| children.ready(*p))?;
        let window = Window::after(Duration::from_millis(100) + job.warm_up(), job.duration());
        for &part in subscribers.iter().chain(&publishers) {
            children.begin(part, window);
        }
        let mut o = Observations::default();
        Watcher::start(children.processes().collect(), window)?.finish(&mut o);
        std::thread::sleep(DRAINED);
        // Publishers first: messages sent after a subscriber's account would be in no account.
        for part in publishers.into_iter().chain(subscribers) {
            children.order(part, Order::End);
            children.finish(part, PATIENCE, &mut o)?;
        }
        close_account(&mut o)?;
        record_all(&mut o);
        Ok(o)
    }
}

/// Records the latencies of all subscriptions as one series, in addition to the series of each
/// subscription, so that a summary covers all of them.
fn record_all(o: &mut Observations) {
    let latencies = o.series.iter().filter(|s| s.quantity == Quantity::Latency);
    let mut points: Vec<_> = latencies.flat_map(|s| s.points.iter().copied()).collect();
    points.sort_by_key(|p| p.time_ns);
    o.put(ALL, Quantity::Latency, points);
}

/// Computes the lost deliveries from the counters of all ends, and compares them with the
/// subscriptions' own counts, which come from the sequence numbers of received samples.
fn close_account(o: &mut Observations) -> Result<()> {
    let of = |name: &str| o.counters.get(name).copied().unwrap_or(0);
    let (due, came) = (of(DUE), of(IN_TIME) + of(LATE));
    let (due_before, came_before, missed) = (
        of("deliveries due in warm-up"),
        of("deliveries in warm-up"),
        of("missed by subscriptions"),
    );
    if came > due || came_before > due_before {
        bail!(
            "{came} messages were delivered where {due} were due, and {came_before} of \
             {due_before} in the warm-up: the count is wrong"
        );
    }
    let (lost, lost_before) = (due - came, due_before - came_before);
    o.counters.insert(LOST.into(), lost);
    if lost + lost_before != missed {
        o.invalid.push(format!(
            "the account does not close: {lost} messages did not come, and {lost_before} in the \
             warm-up, but subscriptions missed {missed}"
        ));
    }
    Ok(())
}

impl Topology {
    fn publishers(&self, phases: &mut Random) -> Vec<TopologyPublisher> {
        let count = match self.topology {
            Shape::T1 => self.nodes / 2,
            Shape::T2 => 1,
            Shape::T3 => self.nodes - 1,
        };
        let subscriptions = if self.topology == Shape::T2 { self.nodes as usize - 1 } else { 1 };
        let period = Duration::from_secs_f64(1.0 / self.rate_hz);
        let bytes = HEAD + self.payload_bytes as usize;
        (0..count)
            .map(|i| TopologyPublisher {
                topic: topic(i),
                bytes,
                subscriptions,
                schedule: Schedule::new(period, phases.share()),
            })
            .collect()
    }

    fn subscribers(&self, crunch: Crunch) -> Vec<TopologySubscriber> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = match self.executor {
            ExecutorKind::SingleThreaded => 1,
            ExecutorKind::MultiThreaded if self.threads == 0 => cpus,
            ExecutorKind::MultiThreaded => self.threads as usize,
        };
        let deadline_ms =
            if self.deadline_ms > 0.0 { self.deadline_ms } else { 1e3 / self.rate_hz };
        let node = |topics| TopologySubscriber {
            topics,
            threads,
            deadline_ns: (deadline_ms * 1e6) as u64,
            rate_hz: self.rate_hz,
            crunch,
        };
        match self.topology {
            Shape::T1 => (0..self.nodes / 2)
                .map(|i| node(vec![(topic(i), format!("subscriber {i}"))]))
                .collect(),
            Shape::T2 => (0..self.nodes - 1)
                .map(|i| node(vec![(topic(0), format!("subscriber {i}"))]))
                .collect(),
            Shape::T3 => vec![node(
                (0..self.nodes - 1).map(|i| (topic(i), format!("subscription {i}"))).collect(),
            )],
        }
    }
}

fn topic(i: u32) -> String {
    format!("topology/{i}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(topology: Shape, nodes: u32) -> (usize, usize, usize) {
        let t = Topology { topology, nodes, ..Topology::default() };
        let (publishers, subscribers) =
            (t.publishers(&mut Random::new(1, "")), t.subscribers(Crunch::NONE));
        for p in &publishers {
            let takes = subscribers
                .iter()
                .flat_map(|s| &s.topics)
                .filter(|(topic, _)| *topic == p.topic)
                .count();
            assert_eq!(takes, p.subscriptions, "{topology:?} {}", p.topic);
        }
        (publishers.len(), subscribers.len(), subscribers.iter().map(|s| s.topics.len()).sum())
    }

    #[test]
    fn shapes_have_the_published_numbers_of_nodes_and_edges() {
        for n in [2, 8, 32, 64] {
            let half = n as usize / 2;
            assert_eq!(edges(Shape::T1, n), (half, half, half));
            assert_eq!(edges(Shape::T2, n), (1, n as usize - 1, n as usize - 1));
            assert_eq!(edges(Shape::T3, n), (n as usize - 1, 1, n as usize - 1));
        }
    }

    #[test]
    fn what_subscriptions_missed_is_what_did_not_come() {
        let account = |in_time: u64, in_warm_up: u64, missed: u64| {
            let mut o = Observations::default();
            for (name, n) in [
                ("deliveries due", 100),
                ("deliveries in time", in_time),
                ("deliveries late", 5),
                ("deliveries due in warm-up", 10),
                ("deliveries in warm-up", in_warm_up),
                ("missed by subscriptions", missed),
            ] {
                o.counters.insert(name.into(), n);
            }
            close_account(&mut o).map(|()| (o.counters["deliveries lost"], o.invalid.join("; ")))
        };
        assert_eq!(account(95, 10, 0).unwrap(), (0, String::new()));
        assert_eq!(account(90, 8, 7).unwrap(), (5, String::new()));
        for missed in [6, 8] {
            let (lost, invalid) = account(90, 8, missed).unwrap();
            assert!(
                lost == 5 && invalid.contains(&format!("subscriptions missed {missed}")),
                "{invalid}"
            );
        }
        assert!(account(96, 10, 0).is_err() && account(95, 11, 0).is_err());
    }
}
