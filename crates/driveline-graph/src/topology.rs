// SPDX-License-Identifier: Apache-2.0
//! Agreement of a topic's ends, and cycles of triggers between components.

mod one_sided;
mod qos;
mod types;

use super::diagnostic::{Diagnostic, Place, closest};
use super::files::{Files, Part};
use super::model::{TopicNetworkSpec, TopicSpec};
use super::resolved::{ResolvedGraph, ResolvedTopic};
use super::section::{InSection, TopicRule, corrected};
use driveline::Reach;
use driveline_types::limits::{DEFAULT_LOANS, DEFAULT_PINS, MAX_PINS};
use driveline_types::{PayloadKind, Qos, Schema, TopicName};
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of cycles reported.
const MAX_CYCLES: usize = 10;
/// Pins for the gateway to other hosts: `WATCH_PINS` to observe a topic's publishers, and one for
/// each host, for at least `LEAST_HOSTS` hosts. Tools use none of these pins: each publisher has
/// separate pins for tools (`OBSERVER_PINS` of the host transport).
const WATCH_PINS: u32 = 1;
const LEAST_HOSTS: u32 = 3;
/// Pins for a gateway that exchanges topics by rules, such as the gateway to ROS 2. It reads a
/// topic once, however many ROS 2 nodes subscribe to it.
const RULE_PINS: u32 = 1;

/// One end of a topic.
pub(super) struct End {
    pub(super) kind: EndKind,
    pub(super) module: String,
    pub(super) component: String,
    pub(super) port: String,
    pub(super) topic: TopicName,
    /// `None` if the library was not read.
    pub(super) schema: Option<Schema>,
    pub(super) qos: Qos,
    /// Place that names the topic; `None` for outputs that the graph does not connect.
    pub(super) place: Option<Place>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EndKind {
    Publisher,
    Subscription { max_held: u32 },
}

impl End {
    fn name(&self) -> String {
        format!("{}.{}", self.component, self.port)
    }

    fn publishes(&self) -> bool {
        self.kind == EndKind::Publisher
    }

    /// Returns the beginning of a sentence about this end, to be followed by the name of its type.
    fn does(&self) -> String {
        let (port, does) =
            if self.publishes() { ("output", "publishes") } else { ("input", "expects") };
        format!("the {port} `{}` {does}", self.name())
    }
}

/// A topic with an entry under `topics:` that no component uses. Its name is nearly that of a used
/// topic without an entry: one of the two names is misspelt.
#[derive(Clone)]
struct Idle {
    name: String,
    place: Place,
    /// Key of the section that has a rule for the used topic's name, if no section has a rule for
    /// `name`. The entry is then probably the one that is misspelt.
    wrong: Option<&'static str>,
}

/// Checks and resolves every topic. Returns all topics, and the names of those that are reported as
/// misspelt.
pub(super) fn check(
    files: &mut Files,
    ends: &[End],
) -> (BTreeMap<TopicName, ResolvedTopic>, BTreeSet<TopicName>) {
    let mut by_topic: BTreeMap<&TopicName, Vec<&End>> = BTreeMap::new();
    for end in ends {
        by_topic.entry(&end.topic).or_default().push(end);
    }
    let declared: Vec<(String, usize, TopicSpec)> =
        files.topics.iter().map(|(n, t)| (n.clone(), t.document, t.spec.clone())).collect();
    // Topics that only gateways or the launcher use have no ends in the graph.
    let carried: Vec<TopicName> = declared
        .iter()
        .filter(|(n, _, t)| is_carried(files, n, t))
        .filter_map(|(n, ..)| n.parse().ok())
        .collect();
    let used = by_topic.clone();
    by_topic.extend(
        carried.iter().filter(|name| !used.contains_key(name)).map(|name| (name, Vec::new())),
    );
    let possible =
        |n: &&str| n.parse::<TopicName>().is_ok() && !used.keys().any(|u| u.as_str() == *n);
    let idle: Vec<&str> = declared.iter().map(|(n, ..)| n.as_str()).filter(possible).collect();
    let (mut reported, mut misspelt) = (BTreeSet::new(), BTreeSet::new());
    let none = TopicSpec::default();
    let mut topics = BTreeMap::new();
    for (name, ends) in &by_topic {
        let spec = declared.iter().find(|(n, ..)| n == name.as_str());
        let (document, spec) = spec.map_or((None, &none), |(_, d, s)| (Some(*d), s));
        let idle =
            if document.is_some() { None } else { closest(name.as_str(), idle.iter().copied()) };
        let idle = idle.and_then(|near| {
            let place = files.place(files.topics.get(near)?.document, &["topics", near], Part::Key);
            let in_rule =
                |n: &str| single_rules(files).find(|(_, r)| r.as_str() == n).map(|(key, _)| key);
            Some(Idle {
                name: near.to_owned(),
                place,
                wrong: in_rule(name.as_str()).filter(|_| in_rule(near).is_none()),
            })
        });
        let mut t = Topic { files, name, document, spec, ends, idle, reported: false };
        t.dangling(&used);
        t.types(&used);
        t.qos();
        t.reach();
        let max_payload = t.max_payload();
        let (pins, hosts) = t.pins();
        let carried = t.is_carried();
        if let Some(idle) = t.idle.filter(|_| t.reported) {
            reported.insert(idle.name);
            misspelt.insert((*name).clone());
        }
        let resolved = ResolvedTopic {
            reach: spec.reach,
            schema: ends.iter().find_map(|e| e.schema.clone()),
            max_payload,
            qos: spec.qos.clone(),
            pins,
            hosts,
            loans: spec.loans.unwrap_or(DEFAULT_LOANS),
            access: spec.access.clone().unwrap_or_default(),
            access_stated: spec.access.is_some(),
            network: spec.network.clone(),
            carried,
            external: spec.external,
        };
        topics.insert((*name).clone(), resolved);
    }
    for (name, document, spec) in declared.iter().filter(|(name, ..)| !reported.contains(name)) {
        declaration(files, name, *document, spec, &by_topic);
    }
    (topics, misspelt)
}

/// Returns the topics that rules name without wildcards, each with the key of the rule's section.
fn single_rules(files: &Files) -> impl Iterator<Item = (&'static str, TopicName)> {
    let of = |s: &'_ InSection| {
        let topics: Vec<TopicName> = s.rules.iter().filter_map(TopicRule::single).collect();
        topics.into_iter().map(|topic| (s.key, topic)).collect::<Vec<_>>()
    };
    files.sections.iter().flat_map(of)
}

/// Returns the rule that would cover the topic if the rule were spelt correctly, with its place and
/// the corrected pattern.
fn misspelt_rule(files: &Files, name: &TopicName) -> Option<(String, Place, String)> {
    files.sections.iter().find_map(|section| {
        let (i, rule, meant) = section
            .rules
            .iter()
            .enumerate()
            .find_map(|(i, rule)| Some((i, rule, corrected(&rule.pattern, name)?)))?;
        let path = [section.key, "topics", &i.to_string(), "topic"];
        Some((rule.pattern.clone(), files.place(section.document, &path, Part::Value), meant))
    })
}

/// Returns the key of the section that has a rule for the topic.
fn rule_of(files: &Files, name: &TopicName) -> Option<&'static str> {
    let section = files.sections.iter().find(|s| s.covers(name, true) || s.covers(name, false));
    section.map(|s| s.key)
}

/// Returns true if a gateway carries the topic, or the launcher publishes it, whether or not a
/// component uses it.
fn is_carried(files: &Files, name: &str, spec: &TopicSpec) -> bool {
    let by_rule = || name.parse().is_ok_and(|name| rule_of(files, &name).is_some());
    let of_launcher = || files.health_topic.as_ref().is_some_and(|h| h.spec == name);
    let on_host = || by_rule() || of_launcher();
    spec.external && (spec.reach == Reach::Network || (spec.reach == Reach::Host && on_host()))
}

/// Checks an entry under `topics:` by itself.
fn declaration(
    files: &mut Files,
    name: &str,
    document: usize,
    spec: &TopicSpec,
    used: &BTreeMap<&TopicName, Vec<&End>>,
) {
    let place = files.place(document, &["topics", name], Part::Key);
    let Ok(parsed) = name.parse::<TopicName>() else {
        if let Err(e) = name.parse::<TopicName>() {
            let help = closest(name, undeclared(files, used))
                .map(|near| format!("did you mean `{near}`?"));
            files.error(Diagnostic::error(e.to_string()).at(place).maybe_help(help));
        }
        return;
    };
    if spec.reach < Reach::Network && spec.network != TopicNetworkSpec::default() {
        let place = files.place(document, &["topics", name, "network"], Part::Key);
        let message =
            format!("`network` of the topic `{name}` has no effect: it does not leave this host");
        files.error(
            Diagnostic::warning(message)
                .at(place)
                .help("give it `reach: network`, or remove `network`"),
        );
    }
    // A file with topics only is meant to be included.
    let alone = files.modules.is_empty() && !files.sections.iter().any(|s| s.spec.takes_part());
    if !used.contains_key(&parsed) && !alone {
        let mut d = Diagnostic::warning(format!("no component uses the topic `{name}`")).at(place);
        let covered = rule_of(files, &parsed);
        let rule = misspelt_rule(files, &parsed).filter(|_| spec.external && covered.is_none());
        d = match (closest(name, undeclared(files, used)), rule) {
            (Some(near), _) => d.help(format!("did you mean `{near}`?")),
            (None, Some((rule, place, meant))) => d
                .related(
                    "no rule covers \
                     it",
                    place,
                )
                .help(format!(
                    "the rule for `{rule}` nearly \
                     does: did you mean `{meant}` there?"
                )),
            (None, None) if let Some(key) = covered.filter(|_| spec.external) => {
                d.help(format!("give it `reach: host`: a rule under `{key}:` covers it"))
            }
            (None, None) if covered.is_some() || spec.reach == Reach::Network => d.help(
                "add `external: true` if programs outside of this graph publish or read it; \
                     else remove it, or connect a port to it",
            ),
            (None, None) => d.help("remove it, or connect a port to it"),
        };
        files.error(d);
    }
}

/// Returns topics that components use and that have no entry under `topics:`. One of them may be
/// what an unused entry means. A used topic with an entry of its own is not.
fn undeclared<'a>(files: &Files, used: &BTreeMap<&'a TopicName, Vec<&End>>) -> Vec<&'a str> {
    used.keys().map(|k| k.as_str()).filter(|n| !files.topics.contains_key(*n)).collect()
}

struct Topic<'a> {
    files: &'a mut Files,
    name: &'a TopicName,
    document: Option<usize>,
    spec: &'a TopicSpec,
    ends: &'a [&'a End],
    idle: Option<Idle>,
    /// True if a finding names the idle topic.
    reported: bool,
}

impl<'a> Topic<'a> {
    /// Adds help to a finding about a topic without an entry: the entry that was probably intended,
    /// or else `otherwise`.
    fn meant(&mut self, d: Diagnostic, otherwise: Option<String>) -> Diagnostic {
        let (name, Some(idle)) = (self.name, self.idle.clone()) else {
            return d.maybe_help(otherwise);
        };
        self.reported = true;
        let help = if let Some(key) = idle.wrong {
            format!(
                "a rule under `{key}:` names `{name}`, too: did you mean it where `{}` is \
                 declared?",
                idle.name
            )
        } else {
            format!(
                "did you mean `{}`? If `{name}` is right, correct it where `{}` is declared",
                idle.name, idle.name
            )
        };
        d.related(format!("`{}` is declared here, and no component uses it", idle.name), idle.place)
            .help(help)
    }

    fn publishers(&self) -> impl Iterator<Item = &'a End> + use<'a> {
        self.ends.iter().copied().filter(|e| e.publishes())
    }

    fn subscriptions(&self) -> impl Iterator<Item = &'a End> + use<'a> {
        self.ends.iter().copied().filter(|e| !e.publishes())
    }

    /// Returns the place of `key` in the topic's entry under `topics:`, or of a port that names the
    /// topic.
    fn declared_at(&self, key: &str) -> Option<Place> {
        match self.document {
            Some(document) => {
                let name = self.name.as_str();
                let path =
                    if key.is_empty() { vec!["topics", name] } else { vec!["topics", name, key] };
                Some(self.files.place(
                    document,
                    &path,
                    if key.is_empty() { Part::Key } else { Part::Value },
                ))
            }
            None => self.ends.iter().find_map(|e| e.place.clone()),
        }
    }

    fn report(&mut self, d: Diagnostic, place: Option<Place>) {
        self.files.error(match place {
            Some(p) => d.at(p),
            None => d,
        });
    }

    /// Reports a finding that an entry under `topics:` would solve. If there is an entry with
    /// nearly this name, only the first such finding is reported, and it names the entry.
    fn lacks_entry(&mut self, d: Diagnostic, help: String, place: Option<Place>) {
        if !self.reported {
            let d = self.meant(d, Some(help));
            self.report(d, place);
        }
    }

    fn reach(&mut self) {
        let name = self.name;
        if self.spec.reach >= Reach::Host {
            if let Some(end) = self
                .ends
                .iter()
                .find(|e| e.schema.as_ref().is_some_and(|s| s.kind == PayloadKind::Object))
            {
                let message = format!(
                    "the topic `{name}` carries objects (`{}`), which cannot leave their process",
                    end.name()
                );
                let reach = if self.spec.reach == Reach::Host { "host" } else { "network" };
                let help = format!(
                    "remove `reach: {reach}` and put its components into one module, or use a \
                     plain or protobuf type"
                );
                let d = Diagnostic::error(message).help(help);
                let place = self.declared_at("reach");
                self.report(d, place);
            }
            return;
        }
        let modules: BTreeSet<&str> = self.ends.iter().map(|e| e.module.as_str()).collect();
        if modules.len() > 1 {
            let list = modules.into_iter().map(|m| format!("`{m}`")).collect::<Vec<_>>().join(", ");
            let message = format!(
                "the topic `{name}` has ends in the modules {list}, but reaches only its own \
                 process"
            );
            let help = format!(
                "declare `topics: {{{name}: {{reach: host}}}}`, or put its components into one \
                 module"
            );
            let place = self.subscriptions().chain(self.publishers()).find_map(|e| e.place.clone());
            self.lacks_entry(Diagnostic::error(message), help, place);
        }
    }

    /// Returns true if a gateway reads the topic by a rule, or may read it.
    fn is_carried(&self) -> bool {
        let by_sections = self.files.sections.iter().any(|s| s.covers(self.name, false));
        by_sections || self.files.is_carried_elsewhere(self.name, self.spec.reach)
    }

    /// Returns the number of pins, and the number of hosts for which they suffice. The pins that
    /// the graph's subscriptions and the gateways need are not available for hosts.
    fn pins(&mut self) -> (u32, u32) {
        let held = self.subscriptions().fold(0u32, |sum, e| match e.kind {
            EndKind::Subscription { max_held } => sum.saturating_add(max_held),
            EndKind::Publisher => sum,
        });
        let to_hosts = self.spec.reach == Reach::Network;
        let by_rules = if self.is_carried() { RULE_PINS } else { 0 };
        let of_gateways = if to_hosts { WATCH_PINS } else { 0 } + by_rules;
        let beside_hosts = held.saturating_add(of_gateways);
        let needed = beside_hosts.saturating_add(if to_hosts { LEAST_HOSTS } else { 0 });
        if needed > MAX_PINS {
            let message = format!(
                "the subscriptions of the topic `{}` hold up to {held} samples; at most {} are \
                 possible",
                self.name,
                MAX_PINS - (needed - held)
            );
            let help = "lower `max_held` of its inputs, or the queues of their triggers".to_owned();
            let place = self.ends.iter().find_map(|e| e.place.clone());
            self.report(Diagnostic::error(message).help(help), place);
        }
        if let Some(declared) = self.spec.pins
            && declared < needed
            && self.spec.reach >= Reach::Host
        {
            let of_hosts = if to_hosts { WATCH_PINS + LEAST_HOSTS } else { 0 };
            let peer = self.files.sections.iter().find(|s| s.covers(self.name, false));
            let peer = peer.map_or("others", |s| s.spec.peer());
            let holders: Vec<String> = [
                (held, format!("its subscriptions hold up to {held} samples")),
                (of_hosts, format!("the gateway to other hosts needs {of_hosts}")),
                (by_rules, format!("the gateway to {peer} needs {by_rules}")),
            ]
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(_, words)| words)
            .collect();
            let message = format!(
                "`pins` of the topic `{}` is raised from {declared} to {needed}: {}",
                self.name,
                holders.join(", ")
            );
            let d = Diagnostic::warning(message)
                .help(format!("write `pins: {needed}`, or leave it out"));
            let place = self.declared_at("pins");
            self.report(d, place);
        }
        let pins = self.spec.pins.unwrap_or(DEFAULT_PINS).max(needed);
        let hosts = if to_hosts { pins.saturating_sub(beside_hosts) } else { 0 };
        (pins, hosts)
    }
}

/// Reports components that trigger each other in a cycle: nothing starts them, and once started,
/// nothing limits their rate.
pub(super) fn cycles(
    files: &mut Files,
    graph: &ResolvedGraph,
    places: &IndexMap<String, (String, usize)>,
) {
    let components: Vec<_> = graph.components().map(|(_, c)| c).collect();
    let mut publishers: BTreeMap<&TopicName, Vec<usize>> = BTreeMap::new();
    for (i, c) in components.iter().enumerate() {
        for o in &c.outputs {
            publishers.entry(&o.topic).or_default().push(i);
        }
    }
    // edges[i]: the components that can start component i, each with the topic between them.
    let mut edges: Vec<BTreeMap<usize, &TopicName>> = components
        .iter()
        .map(|c| {
            let inputs = c.inputs.iter().enumerate().filter(|(i, _)| c.trigger.fires_on(*i));
            inputs
                .flat_map(|(_, input)| {
                    publishers
                        .get(&input.topic)
                        .into_iter()
                        .flatten()
                        .map(move |p| (*p, &input.topic))
                })
                .collect()
        })
        .collect();
    for _ in 0..MAX_CYCLES {
        // A component without a remaining predecessor cannot be part of a cycle.
        loop {
            let done: BTreeSet<usize> = (0..edges.len()).filter(|i| edges[*i].is_empty()).collect();
            let before: usize = edges.iter().map(BTreeMap::len).sum();
            edges.iter_mut().for_each(|e| e.retain(|from, _| !done.contains(from)));
            if edges.iter().map(BTreeMap::len).sum::<usize>() == before {
                break;
            }
        }
        let Some(start) = edges.iter().position(|e| !e.is_empty()) else { return };
        // Every remaining component is started by a remaining one, so following the edges backwards
        // ends in a cycle.
        let mut walk = vec![start];
        let circle = loop {
            let Some((&from, _)) = walk.last().and_then(|at| edges[*at].first_key_value()) else {
                return;
            };
            match walk.iter().position(|w| *w == from) {
                Some(at) => break walk[at..].to_vec(),
                None => walk.push(from),
            }
        };
        let mut names: Vec<String> =
            circle.iter().rev().map(|i| components[*i].name.to_string()).collect();
        names.extend(names.first().cloned());
        let message = format!(
            "these components start each other in a circle without a timer: {}",
            names.join(" → ")
        );
        let help = "give one of them `trigger: {kind: timer, …}`, or `all_latest` `on` an input \
             from outside the circle";
        let mut d = Diagnostic::error(message).help(help);
        let first = components[circle[circle.len() - 1]].name.as_str();
        if let Some((module, document)) = places.get(first) {
            d = d.at(files.place(*document, &["modules", module, "components", first], Part::Key));
        }
        files.error(d);
        // One edge of the cycle is removed, and the search continues for others.
        if let (Some(&at), Some(&from)) = (circle.first(), circle.get(1).or(circle.first())) {
            edges[at].remove(&from);
        }
    }
}
