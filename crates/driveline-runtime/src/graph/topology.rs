// SPDX-License-Identifier: Apache-2.0
//! What the ends of a topic must agree about, and how components trigger each other.

use super::diagnostic::{Diagnostic, Place, closest};
use super::files::{Files, Part};
use super::model::TopicSpec;
use super::resolved::{ResolvedGraph, ResolvedTopic};
use super::units::ByteSize;
use crate::network::NetworkSpec;
use driveline::Reach;
use driveline_types::limits::{DEFAULT_LOANS, DEFAULT_PINS, MAX_PAYLOAD, MAX_PINS};
use driveline_types::{PayloadKind, PlainLayout, Qos, Schema, TopicName};
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Payload limit of protobuf topics that do not say otherwise: far more than any list of detections.
const DEFAULT_PROTOBUF_PAYLOAD: u64 = 256 << 10;
/// Payload limit of outputs that lead nowhere; never touched unless the component fills them.
const UNCONNECTED_PAYLOAD: u64 = 16 << 20;
/// Most circles that are told of.
const MAX_CIRCLES: usize = 10;
/// Pins beyond those of the graph's own subscriptions: for a tool that looks on, and one on its way.
const SPARE_PINS: u32 = 2;

/// Pins for the gateway of a topic with network reach: one to watch its publishers, and one for each of three other hosts.
const GATEWAY_PINS: u32 = 4;

/// One end of a topic.
pub(super) struct End {
    pub(super) kind: EndKind,
    pub(super) module: String,
    pub(super) component: String,
    pub(super) port: String,
    pub(super) topic: TopicName,
    /// Unknown if the library was not looked at.
    pub(super) schema: Option<Schema>,
    pub(super) qos: Qos,
    /// Where the topic is named; `None` for outputs that the graph does not connect.
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
}

/// Checks every topic and resolves it.
pub(super) fn check(files: &mut Files, ends: &[End]) -> BTreeMap<TopicName, ResolvedTopic> {
    let mut by_topic: BTreeMap<&TopicName, Vec<&End>> = BTreeMap::new();
    for end in ends {
        by_topic.entry(&end.topic).or_default().push(end);
    }
    let declared: Vec<(String, usize, TopicSpec)> = files.topics.iter().map(|(n, t)| (n.clone(), t.document, t.spec.clone())).collect();
    // What gateways carry for programs outside of the graph has no ends in it.
    let carried: Vec<TopicName> =
        declared.iter().filter(|(n, _, t)| is_carried(files, n, t)).filter_map(|(n, ..)| n.parse().ok()).collect();
    let used = by_topic.clone();
    by_topic.extend(carried.iter().filter(|name| !used.contains_key(name)).map(|name| (name, Vec::new())));
    for (name, document, spec) in &declared {
        declaration(files, name, *document, spec, &by_topic);
    }
    let none = TopicSpec::default();
    let mut topics = BTreeMap::new();
    for (name, ends) in &by_topic {
        let spec = declared.iter().find(|(n, ..)| n == name.as_str());
        let (document, spec) = spec.map_or((None, &none), |(_, d, s)| (Some(*d), s));
        let mut t = Topic { files, name, document, spec, ends };
        t.dangling(&used);
        t.types();
        t.qos();
        t.reach();
        let max_payload = t.max_payload();
        let pins = t.pins();
        let resolved = ResolvedTopic {
            reach: spec.reach,
            schema: ends.iter().find_map(|e| e.schema.clone()),
            max_payload,
            qos: spec.qos.clone(),
            pins,
            loans: spec.loans.unwrap_or(DEFAULT_LOANS),
            access: spec.access.clone(),
            network: spec.network.clone(),
            external: spec.external,
        };
        topics.insert((*name).clone(), resolved);
    }
    topics
}

fn has_rule(files: &Files, name: &TopicName) -> bool {
    files.ros2.as_ref().is_some_and(|ros2| ros2.spec.topics.iter().any(|rule| rule.covers(name, true) || rule.covers(name, false)))
}

/// Whether a gateway carries the topic, whether or not a component uses it.
fn is_carried(files: &Files, name: &str, spec: &TopicSpec) -> bool {
    let by_rule = || name.parse().is_ok_and(|name| has_rule(files, &name));
    spec.external && (spec.reach == Reach::Network || (spec.reach == Reach::Host && by_rule()))
}

/// What is wrong with an entry under `topics:` by itself.
fn declaration(files: &mut Files, name: &str, document: usize, spec: &TopicSpec, used: &BTreeMap<&TopicName, Vec<&End>>) {
    let place = files.place(document, &["topics", name], Part::Key);
    let Ok(parsed) = name.parse::<TopicName>() else {
        if let Err(e) = name.parse::<TopicName>() {
            files.error(Diagnostic::error(format!("topic {e}")).at(place));
        }
        return;
    };
    // A file with topics only is there to be included.
    let alone = files.modules.is_empty() && files.network.is_none() && !files.ros2.as_ref().is_some_and(|r| r.spec.has_rules());
    if !used.contains_key(&parsed) && !alone {
        let near = closest(name, used.keys().map(|k| k.as_str()));
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if has_rule(files, &parsed) && spec.external => "give it `reach: host`: a rule under `ros2:` covers it".into(),
            None if has_rule(files, &parsed) || spec.reach == Reach::Network => {
                "add `external: true` if programs outside of this graph publish or read it; else remove it, or connect a port to it".into()
            }
            None => "remove it, or connect a port to it".into(),
        };
        files.error(Diagnostic::warning(format!("no component uses the topic `{name}`")).at(place).help(help));
    }
}

struct Topic<'a> {
    files: &'a mut Files,
    name: &'a TopicName,
    document: Option<usize>,
    spec: &'a TopicSpec,
    ends: &'a [&'a End],
}

impl<'a> Topic<'a> {
    fn publishers(&self) -> impl Iterator<Item = &'a End> + use<'a> {
        self.ends.iter().copied().filter(|e| e.publishes())
    }

    fn subscriptions(&self) -> impl Iterator<Item = &'a End> + use<'a> {
        self.ends.iter().copied().filter(|e| !e.publishes())
    }

    /// Where the topic's entry under `topics:` has `key`, or where a port names the topic.
    fn declared_at(&self, key: &str) -> Option<Place> {
        match self.document {
            Some(document) => {
                let name = self.name.as_str();
                let path = if key.is_empty() { vec!["topics", name] } else { vec!["topics", name, key] };
                Some(self.files.place(document, &path, if key.is_empty() { Part::Key } else { Part::Value }))
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

    fn dangling(&mut self, all: &BTreeMap<&TopicName, Vec<&End>>) {
        // What reaches other hosts may have its other end there.
        if self.spec.external || self.spec.reach == Reach::Network {
            return;
        }
        let name = self.name;
        let publishes = |ends: &[&End]| ends.iter().any(|e| e.publishes());
        let listens = |ends: &[&End]| ends.iter().any(|e| !e.publishes());
        let place = self.ends.iter().find_map(|e| e.place.clone());
        if self.publishers().next().is_none() {
            let near = closest(name.as_str(), all.iter().filter(|(_, ends)| publishes(ends)).map(|(n, _)| n.as_str()));
            let help = match near {
                Some(near) if all.iter().any(|(n, ends)| n.as_str() == near && listens(ends)) => format!("did you mean `{near}`?"),
                Some(near) => self.misspelt(near, "is published, and nobody listens to it"),
                None => format!("connect an output to it, or declare `topics: {{{name}: {{external: true}}}}` if it comes from elsewhere"),
            };
            self.report(Diagnostic::error(format!("nobody publishes the topic `{name}`")).help(help), place);
        } else if self.subscriptions().next().is_none()
            && let Some(place) = place
        {
            let near = closest(name.as_str(), all.iter().filter(|(_, ends)| !publishes(ends)).map(|(n, _)| n.as_str()));
            let help = match near {
                Some(near) => self.misspelt(near, "is listened to, and nobody publishes it"),
                None => format!("remove the output, or declare `topics: {{{name}: {{external: true}}}}` if somebody else listens"),
            };
            self.report(Diagnostic::warning(format!("nobody listens to the topic `{name}`")).help(help), Some(place));
        }
    }

    /// Two topics with one side each are one topic with two spellings; that under `topics:` is the right one.
    fn misspelt(&self, near: &str, what: &str) -> String {
        match (self.document.is_some(), self.files.topics.contains_key(near)) {
            (true, false) => format!("`{near}` {what}: did you mean `{}` there?", self.name),
            (false, true) => format!("did you mean `{near}`?"),
            _ => format!("`{near}` {what}: one of the two is probably misspelt"),
        }
    }

    fn types(&mut self) {
        if let Some(wanted) = &self.spec.type_name {
            for end in self.ends {
                let Some(schema) = end.schema.as_ref().filter(|s| s.name != wanted.as_str()) else { continue };
                let message = format!("the topic `{}` is declared as `{wanted}`, and `{}` has `{}`", self.name, end.name(), schema.name);
                let mut d = Diagnostic::error(message).help("correct `type:`, or connect the port to another topic");
                if let Some(place) = &end.place {
                    d = d.related("connected here", place.clone());
                }
                let place = self.declared_at("type");
                self.report(d, place);
                return;
            }
        }
        let first = self.publishers().find(|p| p.schema.is_some());
        for other in self.publishers().filter(|p| p.schema.is_some() && p.schema != first.and_then(|f| f.schema.clone())) {
            self.mismatch("publisher", first, other);
        }
        let first_subscription = self.subscriptions().find(|s| s.schema.is_some());
        for sub in self.subscriptions() {
            let Some(expected) = &sub.schema else { continue };
            if let Some((publisher, offered)) = first.and_then(|p| Some((p, p.schema.as_ref()?))) {
                if let Err(e) = Schema::check(self.name.as_str(), offered, expected) {
                    let mut d = Diagnostic::error(e.to_string());
                    if let Some(place) = &publisher.place {
                        d = d.related(format!("published by `{}`", publisher.name()), place.clone());
                    }
                    self.report(d, sub.place.clone());
                }
            } else if Some(expected) != first_subscription.and_then(|s| s.schema.as_ref()) {
                self.mismatch("subscription", first_subscription, sub);
            }
        }
    }

    /// Two ends of the same side with different types.
    fn mismatch(&mut self, what: &str, first: Option<&End>, other: &End) {
        let Some(first) = first else { return };
        let type_of = |e: &End| e.schema.as_ref().map_or_else(String::new, |s| format!("{} `{}`", s.kind, s.name));
        let (a, b) = (type_of(first), type_of(other));
        let detail = if a == b { format!("both {a}, from different definitions") } else { format!("{a} and {b}") };
        let message =
            format!("topic `{}`: the {what}s `{}` and `{}` have different types: {detail}", self.name, first.name(), other.name());
        let mut d = Diagnostic::error(message).help("use a topic of its own for each type");
        if let Some(place) = &first.place {
            d = d.related("the other one", place.clone());
        }
        self.report(d, other.place.clone());
    }

    fn qos(&mut self) {
        for sub in self.subscriptions() {
            for publisher in self.publishers() {
                if let Err(e) = publisher.qos.satisfies(&sub.qos, self.name.as_str()) {
                    let message = format!(
                        "`{}` cannot receive from `{}`: QoS {}: {} is offered, {} requested",
                        sub.name(),
                        publisher.name(),
                        e.policy,
                        e.offered,
                        e.requested
                    );
                    let mut d = Diagnostic::error(message).help(e.remedy);
                    if let Some(place) = &publisher.place {
                        d = d.related("offered here", place.clone());
                    }
                    self.report(d, sub.place.clone());
                }
            }
        }
    }

    fn reach(&mut self) {
        let name = self.name;
        if self.spec.reach >= Reach::Host {
            if let Some(end) = self.ends.iter().find(|e| e.schema.as_ref().is_some_and(|s| s.kind == PayloadKind::Object)) {
                let message = format!("the topic `{name}` carries objects (`{}`), which cannot leave their process", end.name());
                let reach = if self.spec.reach == Reach::Host { "host" } else { "network" };
                let help = format!("remove `reach: {reach}` and put its components into one module, or use a plain or protobuf type");
                let d = Diagnostic::error(message).help(help);
                let place = self.declared_at("reach");
                self.report(d, place);
            }
            return;
        }
        let modules: BTreeSet<&str> = self.ends.iter().map(|e| e.module.as_str()).collect();
        if modules.len() > 1 {
            let list = modules.into_iter().map(|m| format!("`{m}`")).collect::<Vec<_>>().join(", ");
            let message = format!("the topic `{name}` has ends in the modules {list}, but reaches only its own process");
            let help = format!("declare `topics: {{{name}: {{reach: host}}}}`, or put its components into one module");
            let place = self.subscriptions().chain(self.publishers()).find_map(|e| e.place.clone());
            self.report(Diagnostic::error(message).help(help), place);
        }
    }

    fn max_payload(&mut self) -> u64 {
        if let Some(ByteSize(n)) = self.spec.max_payload {
            if n > MAX_PAYLOAD as u64 {
                let message = format!("`max_payload` of the topic `{}` is out of range: {n} bytes", self.name);
                let place = self.declared_at("max_payload");
                self.report(Diagnostic::error(message).help(format!("at most {MAX_PAYLOAD} bytes are possible")), place);
            }
            return n;
        }
        if self.ends.is_empty() && self.spec.reach == Reach::Network {
            let message =
                format!("the topic `{}` needs `max_payload`: no component uses it, so nothing else says how long samples are", self.name);
            let help = format!("declare the size of the largest sample: `topics: {{{}: {{max_payload: 2 MiB}}}}`", self.name);
            let place = self.declared_at("");
            self.report(Diagnostic::error(message).help(help), place);
        }
        let Some(end) = self.ends.iter().find(|e| e.schema.is_some()) else { return 0 };
        let Some(schema) = &end.schema else { return 0 };
        let fixed = match schema.kind {
            PayloadKind::Protobuf => Some(DEFAULT_PROTOBUF_PAYLOAD),
            PayloadKind::Object => Some(0),
            PayloadKind::Bytes => None,
            PayloadKind::Plain => match schema.definition.parse::<PlainLayout>() {
                Ok(layout) if layout.tail.is_none() => Some(layout.size as u64),
                _ => None,
            },
        };
        if let Some(n) = fixed {
            return n;
        }
        let Some(place) = self.ends.iter().find_map(|e| e.place.clone()) else { return UNCONNECTED_PAYLOAD };
        if self.publishers().next().is_some() || self.spec.reach == Reach::Network {
            let message = format!(
                "the topic `{}` needs `max_payload`: its type `{}` has no fixed size, and memory is reserved at the start",
                self.name, schema.name
            );
            let help = format!("declare the size of the largest sample: `topics: {{{}: {{max_payload: 2 MiB}}}}`", self.name);
            let place = self.document.map_or(Some(place), |_| self.declared_at(""));
            self.report(Diagnostic::error(message).help(help), place);
        }
        0
    }

    fn pins(&mut self) -> u32 {
        let held = self.subscriptions().fold(0u32, |sum, e| match e.kind {
            EndKind::Subscription { max_held } => sum.saturating_add(max_held),
            EndKind::Publisher => sum,
        });
        let of_gateway = if self.spec.reach == Reach::Network { GATEWAY_PINS } else { 0 };
        let needed = held.saturating_add(SPARE_PINS).saturating_add(of_gateway);
        if needed > MAX_PINS {
            let message = format!(
                "the subscriptions of the topic `{}` hold up to {held} samples; at most {} are possible",
                self.name,
                MAX_PINS - SPARE_PINS
            );
            let help = "lower `max_held` of its inputs, or the queues of their triggers".to_owned();
            let place = self.ends.iter().find_map(|e| e.place.clone());
            self.report(Diagnostic::error(message).help(help), place);
        }
        if let Some(declared) = self.spec.pins
            && declared < needed
            && self.spec.reach >= Reach::Host
        {
            let message = format!(
                "`pins` of the topic `{}` is raised from {declared} to {needed}: its subscriptions hold up to {held} samples",
                self.name
            );
            let d = Diagnostic::warning(message).help(format!("write `pins: {needed}`, or leave it out"));
            let place = self.declared_at("pins");
            self.report(d, place);
        }
        self.spec.pins.unwrap_or(DEFAULT_PINS).max(needed)
    }
}

/// Checks how the graph takes part in the network, and resolves it.
pub(super) fn network(files: &mut Files, topics: &BTreeMap<TopicName, ResolvedTopic>) -> Option<NetworkSpec> {
    let reaching = topics.iter().find(|(_, t)| t.reach == Reach::Network).map(|(name, _)| name.to_string());
    let Some((document, spec)) = files.network.as_ref().map(|n| (n.document, n.spec.clone())) else {
        if let Some(name) = reaching {
            let message = format!("the topic `{name}` has `reach: network`, and nothing says how this host is reached");
            let help = "add `network: {interface: eth0}`, or `network: {listen: [tcp/ADDRESS:7450], connect: [tcp/ADDRESS:7450]}`";
            files.error(Diagnostic::warning(message).help(help));
        }
        return None;
    };
    for m in spec.mistakes() {
        let place = files.place(document, &["network", m.key], Part::Value);
        files.error(Diagnostic::error(m.message).at(place).help(m.help));
    }
    let place = files.place(document, &["network"], Part::Key);
    // Of one that is declared and has no end, its declaration is told.
    if reaching.is_none() && !files.topics.values().any(|t| t.spec.reach == Reach::Network) {
        let d = Diagnostic::warning("`network:` says how this host is reached, and no topic has `reach: network`").at(place.clone());
        files.error(d.help("give the topics that other hosts need `reach: network`"));
    } else if !spec.reaches_anybody() {
        let d = Diagnostic::warning("`network:` names no interface and no endpoint, so no other host is reached").at(place.clone());
        files.error(d.help("add `interface: eth0`, or `listen` and `connect`"));
    }
    let spec = spec.relative_to(place.file.parent().unwrap_or(Path::new("")));
    let tls = spec.tls.iter().flat_map(|t| [&t.authority, &t.certificate, &t.private_key]).map(|p| ("tls", p));
    let needed: Vec<_> = tls.chain(spec.zenoh.iter().map(|p| ("zenoh", p))).collect();
    for (key, path) in needed {
        if let Err(e) = std::fs::File::open(path) {
            let d = Diagnostic::error(format!("cannot read {}: {e}", path.display()));
            files.error(d.at(files.place(document, &["network", key], Part::Value)).help("paths are relative to the graph file"));
        }
    }
    Some(spec)
}

/// Reports components that trigger each other in a circle: once started, nothing paces them, and nothing starts them.
pub(super) fn cycles(files: &mut Files, graph: &ResolvedGraph, places: &IndexMap<String, (String, usize)>) {
    let components: Vec<_> = graph.components().map(|(_, c)| c).collect();
    let mut publishers: BTreeMap<&TopicName, Vec<usize>> = BTreeMap::new();
    for (i, c) in components.iter().enumerate() {
        for o in &c.outputs {
            publishers.entry(&o.topic).or_default().push(i);
        }
    }
    // edges[i]: who can start component i, and through which topic.
    let mut edges: Vec<BTreeMap<usize, &TopicName>> = components
        .iter()
        .map(|c| {
            let inputs = c.inputs.iter().enumerate().filter(|(i, _)| c.trigger.fires_on(*i));
            inputs.flat_map(|(_, input)| publishers.get(&input.topic).into_iter().flatten().map(move |p| (*p, &input.topic))).collect()
        })
        .collect();
    for _ in 0..MAX_CIRCLES {
        // Whoever is started by nobody that is left cannot be part of a circle.
        loop {
            let done: BTreeSet<usize> = (0..edges.len()).filter(|i| edges[*i].is_empty()).collect();
            let before: usize = edges.iter().map(BTreeMap::len).sum();
            edges.iter_mut().for_each(|e| e.retain(|from, _| !done.contains(from)));
            if edges.iter().map(BTreeMap::len).sum::<usize>() == before {
                break;
            }
        }
        let Some(start) = edges.iter().position(|e| !e.is_empty()) else { return };
        // Every component left is started by one that is left, so walking against the arrows ends in a circle.
        let mut walk = vec![start];
        let circle = loop {
            let Some((&from, _)) = walk.last().and_then(|at| edges[*at].first_key_value()) else { return };
            match walk.iter().position(|w| *w == from) {
                Some(at) => break walk[at..].to_vec(),
                None => walk.push(from),
            }
        };
        let mut names: Vec<String> = circle.iter().rev().map(|i| components[*i].name.to_string()).collect();
        names.extend(names.first().cloned());
        let message = format!("these components start each other in a circle without a timer: {}", names.join(" → "));
        let help = "give one of them `trigger: {kind: timer, …}`, or `all_latest` `on` an input from outside the circle";
        let mut d = Diagnostic::error(message).help(help);
        let first = components[circle[circle.len() - 1]].name.as_str();
        if let Some((module, document)) = places.get(first) {
            d = d.at(files.place(*document, &["modules", module, "components", first], Part::Key));
        }
        files.error(d);
        // One arrow of it removed, the search goes on for others.
        if let (Some(&at), Some(&from)) = (circle.first(), circle.get(1).or(circle.first())) {
            edges[at].remove(&from);
        }
    }
}
