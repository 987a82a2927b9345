// SPDX-License-Identifier: Apache-2.0
//! Other runs of the same domain that use topics of a graph.

use super::control::{ASK, NAME};
use crate::text::cut;
use driveline_graph::ResolvedGraph;
use driveline_graph::model::Reach;
use driveline_runtime::launch::control::{RunStatus, Verb, find};
use std::collections::BTreeSet;
use std::path::Path;

/// Returns one sentence for each other run in the domain that uses topics of this graph, unless one
/// of both graphs marks these topics `external`. Asks all runs of the domain, and waits at most 2 s
/// for each answer.
pub(super) fn with_topics_of(graph: &ResolvedGraph, domain_dir: &Path) -> Vec<String> {
    let runs = find(domain_dir).unwrap_or_default();
    let runs = runs.iter().filter_map(|run| run.ask(Verb::Status, ASK).ok());
    runs.filter_map(|run| text(graph, &run)).collect()
}

fn text(graph: &ResolvedGraph, other: &RunStatus) -> Option<String> {
    // Several launchers may each run some modules of one graph.
    if other.graph == graph.name {
        return None;
    }
    let inputs = graph.components().flat_map(|(_, c)| c.inputs.iter().map(|i| &i.topic));
    let outputs = graph.components().flat_map(|(_, c)| c.outputs.iter().map(|o| &o.topic));
    let own: BTreeSet<&str> = inputs
        .chain(outputs)
        .filter(|name| {
            graph.topics.get(*name).is_some_and(|t| t.reach > Reach::Process && !t.external)
        })
        .map(|name| name.as_str())
        .collect();
    let theirs = other.processes.iter().flat_map(|p| &p.topics);
    let shared: BTreeSet<&str> = theirs
        .filter(|t| !t.inside && !t.external && own.contains(t.name.as_str()))
        .map(|t| t.name.as_str())
        .collect();
    let first = shared.first()?;
    let (topics, them) = match shared.len() {
        1 => (format!("topic '{first}'"), "it"),
        n => (format!("topic '{first}' and {} more", n - 1), "them"),
    };
    Some(format!(
        "{topics}: run '{}' (process {}) uses {them} as well in this domain, and each run \
         receives what the other one publishes; give one of them another domain \
         (`--domain NAME`), or write `external: true` at the topic in one of the graphs if that \
         is meant",
        cut(&other.graph, NAME),
        other.pid
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_graph::{LoadOptions, load};
    use driveline_runtime::launch::control::ModuleTopic;

    fn graph(topic: &str) -> ResolvedGraph {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g.yaml");
        let text = format!(
            "driveline: 1\nname: own\ntopics: {{a: {{max_payload: 8, {topic}}}}}\n\
             modules: {{m: {{components: {{c: {{library: x, class: X, inputs: {{x: a}}}}, \
             d: {{library: x, class: X, outputs: {{x: a}}}}}}}}}}\n"
        );
        std::fs::write(&path, text).unwrap();
        let nothing = |_: &Path| Ok(Vec::new());
        let options = LoadOptions { modules: Some(Vec::new()), ..LoadOptions::new(&nothing) };
        load(&path, &options).graph.unwrap()
    }

    fn run(graph: &str, topic: ModuleTopic) -> RunStatus {
        let module = serde_json::json!({
            "name": "m", "kind": "module", "state": "ready", "since_ms": 1, "restarts": 0,
            "topics": [topic]
        });
        let run = serde_json::json!({
            "id": "5f", "graph": graph, "domain": "default", "pid": 42, "phase": "running",
            "since_ms": 1, "age_ms": 1, "processes": [module]
        });
        serde_json::from_value(run).unwrap()
    }

    #[test]
    fn a_topic_that_two_graphs_use_without_saying_so_is_named() {
        let topic = |name: &str| ModuleTopic { name: name.into(), ..ModuleTopic::default() };
        let own = graph("reach: host");
        let said = text(&own, &run("other", topic("a"))).unwrap();
        assert!(said.starts_with("topic 'a': run 'other' (process 42)"), "{said}");
        let inside = ModuleTopic { inside: true, ..topic("a") };
        let external = ModuleTopic { external: true, ..topic("a") };
        for silent in [
            text(&own, &run("own", topic("a"))),
            text(&own, &run("other", topic("b"))),
            text(&own, &run("other", inside)),
            text(&own, &run("other", external)),
            text(&graph("reach: host, external: true"), &run("other", topic("a"))),
            text(&graph("reach: process"), &run("other", topic("a"))),
        ] {
            assert_eq!(silent, None);
        }
    }
}
