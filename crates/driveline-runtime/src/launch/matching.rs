// SPDX-License-Identifier: Apache-2.0
//! Whether the modules have found each other.

use crate::graph::ResolvedGraph;
use driveline::Reach;
use driveline_shm::ParticipantInfo;
use driveline_types::PayloadKind;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Time for one round of asking everybody; who is slower is asked again in the next.
const ASK: Duration = Duration::from_millis(100);

/// A connection that the graph wants and that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    topic: String,
    publisher: String,
    subscription: String,
    /// What the subscription says about publishers that do not match.
    reason: Option<String>,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, publisher, subscription, reason } = self;
        write!(f, "topic '{topic}': '{subscription}' does not receive from '{publisher}'")?;
        match reason {
            Some(reason) => write!(f, ": {reason}"),
            None => write!(f, "; see `driveline topic info {topic}`"),
        }
    }
}

/// The connections between modules that run `here` and do not exist yet.
pub(super) fn unmatched(graph: &ResolvedGraph, here: impl Fn(&str) -> bool, domain_dir: &Path) -> Vec<Edge> {
    let wanted = wanted(graph, here);
    if wanted.is_empty() {
        return wanted;
    }
    let participants = driveline_shm::list(domain_dir, ASK).unwrap_or_default();
    missing(wanted, &participants)
}

fn wanted(graph: &ResolvedGraph, here: impl Fn(&str) -> bool) -> Vec<Edge> {
    let mut edges = Vec::new();
    for (topic, resolved) in graph.topics.iter().filter(|(_, t)| t.reach >= Reach::Host) {
        let components = || graph.components().filter(|(m, _)| here(m.name.as_str()));
        for (from, publisher) in components().filter(|(_, c)| c.outputs.iter().any(|o| o.topic == *topic)) {
            for (to, subscription) in components().filter(|(_, c)| c.inputs.iter().any(|i| i.topic == *topic)) {
                // Within a process, protobuf messages are handed over as pointers and nothing has to be found.
                let by_pointer = resolved.schema.as_ref().is_some_and(|s| s.kind == PayloadKind::Protobuf);
                if !by_pointer || from.name != to.name {
                    let (topic, publisher, subscription) = (topic.to_string(), publisher.name.to_string(), subscription.name.to_string());
                    edges.push(Edge { topic, publisher, subscription, reason: None });
                }
            }
        }
    }
    edges
}

fn missing(wanted: Vec<Edge>, participants: &[ParticipantInfo]) -> Vec<Edge> {
    let matched = |e: &Edge| {
        let mut publishers = participants.iter().flat_map(|p| &p.publishers).filter(|p| p.topic == e.topic && p.node == e.publisher);
        publishers.any(|p| p.matches.iter().any(|m| m.node == e.subscription))
    };
    let mut missing: Vec<Edge> = wanted.into_iter().filter(|e| !matched(e)).collect();
    for e in &mut missing {
        let mut subscriptions =
            participants.iter().flat_map(|p| &p.subscriptions).filter(|s| s.topic == e.topic && s.node == e.subscription);
        e.reason = subscriptions.find_map(|s| s.refusals.first().cloned());
    }
    missing
}
