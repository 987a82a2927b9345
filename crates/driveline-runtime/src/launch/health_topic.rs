// SPDX-License-Identifier: Apache-2.0
//! Publishes the health of a run on the topic that the graph names (`health_topic`).
//!
//! The launcher's loop passes on a snapshot and never waits: a separate thread encodes and
//! publishes it. A snapshot is dropped while two others wait; the next one comes a second later.

use super::control::{ComponentHealth, Fault, ProcessKind, ProcessStatus, RunStatus, TopicEnd};
use crate::host::instance::access;
use driveline::{Context, ContextOptions, Protobuf, PublisherOptions, Value, ValuePublisher};
use driveline_graph::ResolvedGraph;
use driveline_msgs::proto;
use driveline_types::MonotonicNs;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two messages while nothing changes.
const EVERY: Duration = Duration::from_secs(1);
/// Maximum number of snapshots that wait for the thread.
const WAITING: usize = 2;
/// Default length of the longest message, if neither `max_payload` nor a component's type gives it.
const MAX_PAYLOAD: u64 = 256 << 10;
const NODE: &str = "driveline_health";

type Health = Protobuf<proto::RunHealth>;

/// The topic of one run. Dropping it waits until the thread has published the waiting snapshots.
pub(super) struct HealthTopic {
    snapshots: Option<SyncSender<RunStatus>>,
    thread: Option<JoinHandle<()>>,
    next: Instant,
    states: Vec<String>,
}

impl HealthTopic {
    /// Creates the publisher; `None` if the graph has no such topic. Blocks on files. The error is
    /// for people.
    pub(super) fn open(graph: &ResolvedGraph, domain_dir: &Path) -> Result<Option<Self>, String> {
        let named = graph.health_topic.as_ref().and_then(|name| graph.topics.get_key_value(name));
        let Some((name, spec)) = named else { return Ok(None) };
        let options = PublisherOptions {
            reach: spec.reach,
            qos: spec.qos.clone(),
            max_payload: usize::try_from(
                Some(spec.max_payload).filter(|n| *n > 0).unwrap_or(MAX_PAYLOAD),
            )
            .unwrap_or(usize::MAX),
            loans: spec.loans,
            pins: spec.pins,
            access: access(&spec.access),
        };
        let max_payload = options.max_payload;
        let text = |e: &dyn std::fmt::Display| {
            format!(
                "cannot publish the health of the run on the topic '{name}' (`health_topic`): {e}"
            )
        };
        let context = Context::new(ContextOptions {
            name: "driveline run".into(),
            domain_dir: Some(domain_dir.to_owned()),
        })
        .map_err(|e| text(&e))?;
        let node = context.node(NODE).map_err(|e| text(&e))?;
        let publisher =
            node.value_publisher::<Health>(name.as_str(), options).map_err(|e| text(&e))?;
        let (snapshots, waiting) = sync_channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("health".into())
            .spawn(move || publish(publisher, &waiting, max_payload))
            .map_err(|e| text(&e))?;
        Ok(Some(Self {
            snapshots: Some(snapshots),
            thread: Some(thread),
            next: Instant::now(),
            states: Vec::new(),
        }))
    }

    /// Returns true if a message is due: a second is over, or a state has changed.
    pub(super) fn is_due(&mut self, now: Instant, states: Vec<String>) -> bool {
        let changed = self.states != states;
        self.states = states;
        let due = changed || now >= self.next;
        if due {
            self.next = now + EVERY;
        }
        due
    }

    /// Passes a snapshot to the thread. Does not wait.
    pub(super) fn publish(&self, status: RunStatus) {
        if let Some(snapshots) = &self.snapshots {
            // If the queue is full, the thread waits for readers of a reliable topic, and this
            // snapshot is dropped.
            let _ = snapshots.try_send(status);
        }
    }
}

impl Drop for HealthTopic {
    fn drop(&mut self) {
        drop(self.snapshots.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn publish(
    mut publisher: ValuePublisher<Health>,
    snapshots: &Receiver<RunStatus>,
    max_payload: usize,
) {
    for (number, status) in (0..).zip(snapshots) {
        let now = MonotonicNs::now();
        let message = fitting(message(&status, now, number), max_payload);
        if let Err(e) = publisher.publish_measured(message, now) {
            tracing::debug!("the health of the run is not published: {e}");
        }
    }
}

fn length(message: &proto::RunHealth) -> usize {
    Health::encoded_len(message).unwrap_or(usize::MAX)
}

/// Shortens the message to the payload of the topic: first the ends of topics are left out, then
/// components and executors.
fn fitting(mut message: proto::RunHealth, max_payload: usize) -> proto::RunHealth {
    let is_longer = |m: &proto::RunHealth| length(m) > max_payload;
    if is_longer(&message) {
        message.is_shortened = true;
        for component in message.modules.iter_mut().flat_map(|m| &mut m.components) {
            component.ends.clear();
        }
    }
    if is_longer(&message) {
        for module in &mut message.modules {
            module.components.clear();
            module.executors.clear();
        }
    }
    message
}

fn message(run: &RunStatus, now: MonotonicNs, number: u64) -> proto::RunHealth {
    proto::RunHealth {
        header: Some(proto::Header {
            source_time_ns: now.0,
            frame_index: number,
            ..Default::default()
        }),
        graph: run.graph.clone(),
        phase: run.phase.to_string(),
        ready: run.ready == Some(true),
        reason: run.reason.clone().unwrap_or_default(),
        mode: run.mode.as_ref().and_then(|m| m.current.clone()).unwrap_or_default(),
        modules: run.processes.iter().map(module).collect(),
        is_shortened: false,
    }
}

fn fault(fault: Option<&Fault>) -> Option<proto::HealthFault> {
    fault.map(|f| proto::HealthFault { text: f.text.clone(), ago_ms: f.ago_ms })
}

fn module(p: &ProcessStatus) -> proto::ModuleHealth {
    let health = p.health.clone().unwrap_or_default();
    let executors = health.executors.into_iter().map(|e| proto::ExecutorHealth {
        name: e.name,
        state: e.state.to_string(),
        since_ms: e.since_ms,
        threads: e.threads,
        busy: e.busy.unwrap_or_default(),
    });
    proto::ModuleHealth {
        name: p.name.clone(),
        is_gateway: p.kind == ProcessKind::Gateway,
        state: p.state.to_string(),
        since_ms: p.since_ms,
        ready: p.ready == Some(true),
        reason: p.reason.clone().unwrap_or_default(),
        pid: p.pid.unwrap_or_default(),
        restarts: p.restarts,
        suspended: p.suspended,
        last_fault: fault(p.last_fault.as_ref()),
        components: health.components.iter().map(component).collect(),
        executors: executors.collect(),
    }
}

fn component(c: &ComponentHealth) -> proto::ComponentHealth {
    let inputs = c.inputs.iter().map(|e| end(e, false));
    let outputs = c.outputs.iter().map(|e| end(e, true));
    proto::ComponentHealth {
        name: c.name.clone(),
        executor: c.executor.clone(),
        state: c.state.to_string(),
        since_ms: c.since_ms,
        calls: c.calls,
        failed: c.failed,
        overruns: c.overruns,
        last_fault: fault(c.last_fault.as_ref()),
        ends: inputs.chain(outputs).collect(),
    }
}

fn end(e: &TopicEnd, is_output: bool) -> proto::TopicEndHealth {
    proto::TopicEndHealth {
        port: e.port.clone(),
        topic: e.topic.clone(),
        is_output,
        state: e.state.to_string(),
        since_ms: e.since_ms,
        samples: e.samples,
        rate_hz: e.rate_hz,
        min_hz: e.min_hz.unwrap_or_default(),
        max_hz: e.max_hz.unwrap_or_default(),
        missed: e.missed,
        deadlines_missed: e.deadlines_missed,
        last_fault: fault(e.last_fault.as_ref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> proto::RunHealth {
        let end = proto::TopicEndHealth { topic: "camera/image".into(), ..Default::default() };
        let component = proto::ComponentHealth {
            name: "lane".into(),
            ends: vec![end; 10],
            ..Default::default()
        };
        let module = proto::ModuleHealth {
            name: "perception".into(),
            components: vec![component; 2],
            ..Default::default()
        };
        proto::RunHealth { modules: vec![module], ..Default::default() }
    }

    #[test]
    fn a_message_that_is_too_long_loses_ends_and_then_components() {
        let whole = health();
        let len = length(&whole);
        assert_eq!(fitting(whole.clone(), len), whole);
        let short = fitting(whole.clone(), len - 1);
        assert!(short.is_shortened && short.modules[0].components[1].ends.is_empty());
        let shortest = fitting(whole, 30);
        assert!(shortest.is_shortened && shortest.modules[0].components.is_empty());
        assert_eq!(shortest.modules[0].name, "perception");
        assert!(length(&shortest) <= 30);
    }

    #[test]
    fn a_message_is_due_each_second_and_when_a_state_changes() {
        let began = Instant::now();
        let mut topic =
            HealthTopic { snapshots: None, thread: None, next: began, states: Vec::new() };
        let at = |ms| began + Duration::from_millis(ms);
        assert!(topic.is_due(began, vec!["ready".into()]));
        assert!(!topic.is_due(at(900), vec!["ready".into()]));
        assert!(topic.is_due(at(950), vec!["down".into()]));
        assert!(!topic.is_due(at(1900), vec!["down".into()]));
        assert!(topic.is_due(at(1950), vec!["down".into()]));
    }
}
