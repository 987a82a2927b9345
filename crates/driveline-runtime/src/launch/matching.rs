// SPDX-License-Identifier: Apache-2.0
//! Detection of missing connections between modules.

use driveline::Reach;
use driveline_graph::ResolvedGraph;
use driveline_shm::{ParticipantInfo, Survey};
use driveline_types::PayloadKind;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Time of one round of requests to all processes. A process that has not responded by then is
/// queried again in the next round.
const ASK: Duration = Duration::from_millis(100);

/// A connection that the graph wants and that does not exist. Displays for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unconnected {
    /// The topic.
    pub topic: String,
    /// Component that publishes.
    pub publisher: String,
    /// Component that subscribes.
    pub subscription: String,
    /// The likely reason.
    pub why: String,
    /// True if it existed before one of both modules was restarted.
    pub since_restart: bool,
}

impl Unconnected {
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.topic, &self.publisher, &self.subscription)
            == (&other.topic, &other.publisher, &other.subscription)
    }
}

impl fmt::Display for Unconnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, publisher, subscription, why, since_restart } = self;
        let since = if *since_restart { ", since a restart" } else { "" };
        write!(
            f,
            "topic '{topic}': '{subscription}' does not receive from '{publisher}'{since}: {why}"
        )
    }
}

/// Returns the missing connections between modules that run `here`.
pub(super) fn unmatched(
    graph: &ResolvedGraph,
    here: impl Fn(&str) -> bool,
    domain_dir: &Path,
) -> Vec<Unconnected> {
    missing(wanted(graph, here), &survey(domain_dir), domain_dir)
}

/// Queries the processes of the domain. Blocks until all have responded, at most for [`ASK`].
pub(super) fn survey(domain_dir: &Path) -> Survey {
    driveline_shm::survey(domain_dir, ASK).unwrap_or_default()
}

/// Returns the connections of a restarted module with modules that run `here`.
pub(super) fn of_module(
    graph: &ResolvedGraph,
    module: &str,
    here: impl Fn(&str) -> bool,
) -> Vec<Unconnected> {
    let mut edges = wanted(graph, here);
    edges.retain(|e| involves(e, graph, module));
    edges.iter_mut().for_each(|e| e.since_restart = true);
    edges
}

/// Returns true if the publisher or the subscription is of the module.
pub(super) fn involves(edge: &Unconnected, graph: &ResolvedGraph, module: &str) -> bool {
    let mut own = graph.components().filter(|(m, _)| m.name.as_str() == module);
    own.any(|(_, c)| [edge.publisher.as_str(), &edge.subscription].contains(&c.name.as_str()))
}

/// Removes the connections that exist now from `unconnected`, and returns them.
pub(super) fn found(unconnected: &mut Vec<Unconnected>, domain_dir: &Path) -> Vec<Unconnected> {
    let before = std::mem::take(unconnected);
    *unconnected = missing(before.clone(), &survey(domain_dir), domain_dir);
    before.into_iter().filter(|e| !unconnected.iter().any(|u| u.is_same(e))).collect()
}

/// Removes from `unconnected` the connection that a component's port has reported, and returns it.
pub(super) fn reported(
    unconnected: &mut Vec<Unconnected>,
    graph: &ResolvedGraph,
    component: &str,
    port: &str,
    peer: &str,
) -> Vec<Unconnected> {
    if unconnected.is_empty() {
        return Vec::new();
    }
    let Some((_, c)) = graph.components().find(|(_, c)| c.name.as_str() == component) else {
        return Vec::new();
    };
    let input =
        c.inputs.iter().find(|i| i.port == port).map(|i| (i.topic.as_str(), peer, component));
    let output =
        c.outputs.iter().find(|o| o.port == port).map(|o| (o.topic.as_str(), component, peer));
    let is = |e: &Unconnected| {
        let edge = (e.topic.as_str(), e.publisher.as_str(), e.subscription.as_str());
        input == Some(edge) || output == Some(edge)
    };
    let (found, rest) = std::mem::take(unconnected).into_iter().partition(is);
    *unconnected = rest;
    found
}

fn wanted(graph: &ResolvedGraph, here: impl Fn(&str) -> bool) -> Vec<Unconnected> {
    let mut edges = Vec::new();
    for (topic, resolved) in graph.topics.iter().filter(|(_, t)| t.reach >= Reach::Host) {
        let components = || graph.components().filter(|(m, _)| here(m.name.as_str()));
        for (from, publisher) in
            components().filter(|(_, c)| c.outputs.iter().any(|o| o.topic == *topic))
        {
            for (to, subscription) in
                components().filter(|(_, c)| c.inputs.iter().any(|i| i.topic == *topic))
            {
                // Within a process, protobuf messages pass as pointers, and ends need no discovery.
                let by_pointer =
                    resolved.schema.as_ref().is_some_and(|s| s.kind == PayloadKind::Protobuf);
                if !by_pointer || from.name != to.name {
                    let (topic, publisher, subscription) = (
                        topic.to_string(),
                        publisher.name.to_string(),
                        subscription.name.to_string(),
                    );
                    edges.push(Unconnected {
                        topic,
                        publisher,
                        subscription,
                        why: String::new(),
                        since_restart: false,
                    });
                }
            }
        }
    }
    edges
}

/// Returns the connections that did not exist at the time of the survey, with the likely reasons.
pub(super) fn missing(
    wanted: Vec<Unconnected>,
    survey: &Survey,
    domain_dir: &Path,
) -> Vec<Unconnected> {
    let participants = &survey.participants;
    let matched = |e: &Unconnected| {
        let mut publishers = participants
            .iter()
            .flat_map(|p| &p.publishers)
            .filter(|p| p.topic == e.topic && p.node == e.publisher);
        publishers.any(|p| p.matches.iter().any(|m| m.node == e.subscription))
    };
    let mut missing: Vec<Unconnected> = wanted.into_iter().filter(|e| !matched(e)).collect();
    for e in &mut missing {
        let of_topic =
            |p: &&driveline_shm::SubscriptionInfo| p.topic == e.topic && p.node == e.subscription;
        let refusal = participants
            .iter()
            .flat_map(|p| &p.subscriptions)
            .filter(of_topic)
            .find_map(|s| s.refusals.first());
        if let Some(text) = refusal {
            text.strip_prefix(&format!("topic '{}': ", e.topic))
                .unwrap_or(text)
                .clone_into(&mut e.why);
        } else if e.why.is_empty() {
            // Determined only once: later, one of the two modules may have ended, which is not the
            // reason.
            e.why = likely(e, participants, domain_dir);
        }
    }
    missing
}

/// Returns the likely reason why a connection does not exist, if no end reports one.
fn likely(e: &Unconnected, participants: &[ParticipantInfo], domain_dir: &Path) -> String {
    let Unconnected { topic, publisher, subscription, .. } = e;
    let publishes = participants
        .iter()
        .flat_map(|p| &p.publishers)
        .any(|p| p.topic == *topic && p.node == *publisher);
    let subscribes = participants
        .iter()
        .flat_map(|p| &p.subscriptions)
        .any(|s| s.topic == *topic && s.node == *subscription);
    let missing = match (publishes, subscribes) {
        (true, true) => {
            return format!(
                "both ends exist, and neither reports a reason; `driveline topic info {topic}` \
                 shows QoS, held samples and access while they run"
            );
        }
        (false, _) => publisher,
        (true, false) => subscription,
    };
    format!(
        "'{missing}' is not seen in {}; its module uses another directory (`environment:`, a \
         private /tmp or /run), or does not answer",
        domain_dir.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline::{Context, ContextOptions, PublisherOptions, SubscriptionOptions};
    use std::time::Instant;

    /// Only a failing test reaches this time-out.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Queries until the first connection has this reason.
    fn reason(edges: &[Unconnected], domain_dir: &Path, part: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let missing = missing(edges.to_vec(), &survey(domain_dir), domain_dir);
            if missing.first().is_some_and(|e| e.why.contains(part)) {
                return;
            }
            assert!(Instant::now() < end, "{part:?} is no reason of {missing:?}");
        }
    }

    #[test]
    fn a_missing_connection_has_a_likely_reason_and_is_found_when_it_comes_late() {
        let dir = tempfile::tempdir().unwrap();
        let domain_dir = dir.path().join("domain");
        let context = |name: &str| {
            Context::new(ContextOptions { name: name.into(), domain_dir: Some(domain_dir.clone()) })
                .unwrap()
        };
        let edge = Unconnected {
            topic: "a".into(),
            publisher: "counter".into(),
            subscription: "relay".into(),
            why: String::new(),
            since_restart: false,
        };
        let mut edges = vec![edge];

        let (one, two) = (context("one"), context("two"));
        reason(&edges, &domain_dir, "'counter' is not seen in");
        let options = || PublisherOptions { reach: Reach::Host, ..PublisherOptions::default() };
        let publisher =
            one.node("counter").unwrap().bytes_publisher("a", "raw", options()).unwrap();
        reason(&edges, &domain_dir, "'relay' is not seen in");
        let node = two.node("relay").unwrap();
        let wants = |encoding| {
            let options =
                SubscriptionOptions { reach: Reach::Host, ..SubscriptionOptions::default() };
            node.bytes_subscription("a", encoding, options).unwrap()
        };
        let of_another_type = wants("another");
        reason(&edges, &domain_dir, "raw");
        assert_eq!(found(&mut edges, &domain_dir), []);
        drop(of_another_type);

        let subscription = wants("raw");
        let end = Instant::now() + PATIENCE;
        while found(&mut edges, &domain_dir).is_empty() {
            assert!(Instant::now() < end, "{edges:?}");
        }
        assert_eq!(edges, []);
        drop((publisher, subscription));
    }
}
