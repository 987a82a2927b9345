// SPDX-License-Identifier: Apache-2.0
//! Section `network:`, checked against the graph.

use crate::network::{NetworkSpec, PROCESS};
use driveline::Reach;
use driveline_graph::Diagnostic;
use driveline_graph::model::TopicSpec;
use driveline_graph::resolved::ResolvedTopic;
use driveline_graph::section::{
    GraphTopics, Refused, Section, SectionCheck, SectionSpec, SectionValue,
};
use driveline_types::TopicName;
use schemars::{Schema, SchemaGenerator};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The key `network`.
#[derive(Debug)]
pub(crate) struct NetworkSection;

impl Section for NetworkSection {
    fn key(&self) -> &'static str {
        "network"
    }

    fn process(&self) -> &'static str {
        PROCESS
    }

    fn runs_alone_for(&self) -> &'static str {
        "for topics with `reach: network, external: true`, and as routers"
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        let about = "How this host takes part in the network, for topics with `reach: network`.";
        super::optional::<NetworkSpec>(generator, about)
    }

    fn read(&self, value: &SectionValue<'_>) -> Result<Arc<dyn SectionSpec>, Refused> {
        Ok(Arc::new(value.typed::<NetworkSpec>()?))
    }

    fn missing(&self, topics: &BTreeMap<TopicName, ResolvedTopic>) -> Option<Diagnostic> {
        let (name, _) = topics.iter().find(|(_, t)| t.reach == Reach::Network)?;
        let message = format!(
            "the topic `{name}` has `reach: network`, and nothing says how this host is reached"
        );
        let help = "add `network: {interface: eth0}`, or `network: {listen: [tcp/ADDRESS:7450], \
             connect: [tcp/ADDRESS:7450]}`";
        Some(Diagnostic::warning(message).help(help))
    }
}

impl SectionSpec for NetworkSpec {
    fn takes_part(&self) -> bool {
        true
    }

    fn runs_alone(&self) -> bool {
        self.may_be_router()
    }

    fn check(
        &self,
        at: &mut SectionCheck<'_>,
        graph: Option<&GraphTopics<'_>>,
    ) -> Arc<dyn SectionSpec> {
        if let Some(graph) = graph {
            remarks(self, at, graph);
        }
        Arc::new(by_itself(self, at))
    }
}

/// Reports settings without an effect in this graph.
fn remarks(spec: &NetworkSpec, at: &mut SectionCheck<'_>, graph: &GraphTopics<'_>) {
    let is_reaching = graph.topics.values().any(|t| t.reach == Reach::Network);
    // A declared topic that no component uses has a warning of its own (driveline-graph).
    let is_declared = at.declared_topics().any(|(_, t): (_, &TopicSpec)| t.reach == Reach::Network);
    if !is_reaching && !spec.may_be_router() && !is_declared {
        let d = Diagnostic::warning(
            "`network:` says how this host is reached, and no topic has `reach: network`",
        )
        .at(at.key_place());
        at.report(d.help(
            "give the topics that other hosts need `reach: network`; a router needs none, \
                 and `zenoh:` with its configuration",
        ));
    } else if !spec.reaches_any_host() {
        let d = Diagnostic::warning(
            "`network:` names no interface and no endpoint, so no other host is reached",
        )
        .at(at.key_place());
        at.report(d.help("add `interface: eth0`, or `listen` and `connect`"));
    }
}

/// Checks and resolves the section without the rest of the graph.
fn by_itself(spec: &NetworkSpec, at: &mut SectionCheck<'_>) -> NetworkSpec {
    let mut refused = BTreeSet::new();
    for m in spec.mistakes() {
        refused.extend(m.index.filter(|_| m.key == "listen"));
        let index = m.index.map(|i| i.to_string());
        let path: Vec<&str> = [m.key].into_iter().chain(index.as_deref()).collect();
        let place = at.value_place(&path);
        at.report(Diagnostic::error(m.message).at(place).help(m.help));
    }
    let in_listen = |i: usize| vec!["listen".to_owned(), i.to_string()];
    let whole = spec.missing_interface().map(|name| (vec!["interface".to_owned()], name));
    // A refused endpoint gets no further remark.
    let of_listen = spec
        .missing_listen_interfaces()
        .into_iter()
        .filter(|(i, _)| !refused.contains(i))
        .map(|(i, name)| (in_listen(i), name));
    for (path, name) in whole.into_iter().chain(of_listen) {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let d = Diagnostic::warning(format!("this computer has no network interface `{name}`"))
            .at(at.value_place(&path));
        at.report(d.help(
            "`ip link` lists them; until there is one, the gateway waits for it, and \
             no other host is reached",
        ));
    }
    for (i, address) in spec.missing_addresses().into_iter().filter(|(i, _)| !refused.contains(i)) {
        let d = Diagnostic::warning(format!("`{address}` is no address of this computer now"))
            .at(at.value_place(&["listen", &i.to_string()]));
        at.report(d.help(
            "`ip address` lists them; until it is one, the gateway waits for it, and \
             no other host is reached",
        ));
    }
    let spec = spec.clone().relative_to(&at.directory());
    for (keys, message, help) in spec.unreadable_files() {
        let place = at.value_place(keys);
        at.report(
            Diagnostic::error(message)
                .at(place)
                .help(help.unwrap_or("paths are relative to the graph file")),
        );
    }
    spec
}

#[cfg(test)]
#[path = "network_section_tests.rs"]
mod tests;
