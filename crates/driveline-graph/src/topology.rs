// SPDX-License-Identifier: Apache-2.0
//! Agreement of a topic's ends, and cycles of triggers between components.

use super::diagnostic::{Diagnostic, Place, closest};
use super::files::{Files, Part};
use super::model::{TopicNetworkSpec, TopicSpec};
use super::resolved::{ResolvedGraph, ResolvedTopic};
use super::section::{InSection, TopicRule, corrected};
use super::units::ByteSize;
use driveline::Reach;
use driveline_types::limits::{DEFAULT_LOANS, DEFAULT_PINS, MAX_PAYLOAD, MAX_PINS};
use driveline_types::{Liveliness, PayloadKind, PlainLayout, Qos, Schema, TopicName};
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};

/// Default payload limit of protobuf topics: far more than any list of detections.
const DEFAULT_PROTOBUF_PAYLOAD: u64 = 256 << 10;
/// Payload limit of outputs that the graph does not connect and whose type has no fixed size. Their
/// memory is not touched unless the component fills it.
const UNCONNECTED_PAYLOAD: u64 = 16 << 20;
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

    fn dangling(&mut self, all: &BTreeMap<&TopicName, Vec<&End>>) {
        let is_one_sided =
            self.publishers().next().is_none() != self.subscriptions().next().is_none();
        // For a topic with a rule for ROS 2, that is reported already.
        let in_vain = is_one_sided && self.spec.reach == Reach::Process;
        if self.spec.external && in_vain && rule_of(self.files, self.name).is_none() {
            let message = format!(
                "the topic `{}` is `external`, and its samples stay in their process: no program \
                 outside of this graph takes part",
                self.name
            );
            let help = format!(
                "declare `topics: {{{}: {{reach: host, external: true}}}}`, or remove `external`",
                self.name
            );
            let place = self.declared_at("external");
            self.report(Diagnostic::warning(message).help(help), place);
        }
        // A topic that reaches other hosts may have its other end there.
        if self.spec.external || self.spec.reach == Reach::Network {
            return;
        }
        let name = self.name;
        let publishes = |ends: &[&End]| ends.iter().any(|e| e.publishes());
        let listens = |ends: &[&End]| ends.iter().any(|e| !e.publishes());
        let place = self.ends.iter().find_map(|e| e.place.clone());
        let of_idle = |near: &str| self.idle.as_ref().is_some_and(|idle| idle.name == near);
        let idle = || self.idle.iter().map(|idle| idle.name.as_str());
        let is_unpublished = self.publishers().next().is_none();
        let (d, help) = if is_unpublished {
            let elsewhere = |n: &TopicName| {
                self.files
                    .topics
                    .get(n.as_str())
                    .is_some_and(|t| t.spec.external || t.spec.reach == Reach::Network)
            };
            let there = all
                .iter()
                .filter(|(n, ends)| publishes(ends) || elsewhere(n))
                .map(|(n, _)| n.as_str());
            let help = match closest(name.as_str(), there.chain(idle())) {
                Some(near) if of_idle(near) => None,
                Some(near) if all.iter().any(|(n, ends)| n.as_str() == near && listens(ends)) => {
                    Some(format!("did you mean `{near}`?"))
                }
                Some(near) => Some(self.misspelt(near, "is published, but not read")),
                None => Some(format!(
                    "connect an output to it, or declare `topics: {{{name}: {}}}` if it comes from \
                     elsewhere",
                    self.external()
                )),
            };
            (Diagnostic::error(format!("no component publishes the topic `{name}`")), help)
        } else if self.subscriptions().next().is_none() && place.is_some() {
            let there = all.iter().filter(|(_, ends)| !publishes(ends)).map(|(n, _)| n.as_str());
            let help = match closest(name.as_str(), there.chain(idle())) {
                Some(near) if of_idle(near) => None,
                Some(near) => Some(self.misspelt(near, "is read, but not published")),
                None => Some(format!(
                    "remove the output, connect an input to it, or declare `topics: {{{name}: \
                     {}}}` if a program outside of this graph listens",
                    self.external()
                )),
            };
            (Diagnostic::warning(format!("no component reads the topic `{name}`")), help)
        } else {
            return;
        };
        let d = match help {
            Some(help) => d.help(help),
            None => self.meant(d, None),
        };
        self.report(d, place);
    }

    /// Returns the keys that a topic needs if programs outside of this graph use it: its samples
    /// must not stay in one process.
    fn external(&self) -> &'static str {
        if self.spec.reach == Reach::Process {
            "{reach: host, external: true}"
        } else {
            "{external: true}"
        }
    }

    /// Returns the help for two topics of which one has only publishers and the other only
    /// subscriptions. They are probably one topic with two spellings. If only one spelling has an
    /// entry under `topics:`, that spelling is right.
    fn misspelt(&self, near: &str, what: &str) -> String {
        match (self.document.is_some(), self.files.topics.contains_key(near)) {
            (true, false) => format!("`{near}` {what}: did you mean `{}` there?", self.name),
            (false, true) => format!("did you mean `{near}`?"),
            _ => format!("`{near}` {what}: one of the two is probably misspelt"),
        }
    }

    fn types(&mut self, all: &BTreeMap<&TopicName, Vec<&End>>) {
        if let Some(wanted) = &self.spec.type_name {
            for end in self.ends {
                let Some(schema) = end.schema.as_ref().filter(|s| s.name != wanted.as_str()) else {
                    continue;
                };
                let message = format!(
                    "the topic `{}` is declared as `{wanted}`, and {} `{}`",
                    self.name,
                    end.does(),
                    schema.name
                );
                let others = self.others(end, &schema.name, all);
                let help = format!(
                    "connect `{}` to a topic of `{}`{others}; or write `type: {}` if this topic \
                     has it",
                    end.name(),
                    schema.name,
                    schema.name
                );
                let mut d = Diagnostic::error(message).help(help);
                if let Some(place) = &end.place {
                    d = d.related("connected here", place.clone());
                }
                let place = self.declared_at("type");
                self.report(d, place);
                return;
            }
        }
        let first = self.publishers().find(|p| p.schema.is_some());
        for other in self
            .publishers()
            .filter(|p| p.schema.is_some() && p.schema != first.and_then(|f| f.schema.clone()))
        {
            self.mismatch("publisher", first, other);
        }
        let first_subscription = self.subscriptions().find(|s| s.schema.is_some());
        for sub in self.subscriptions() {
            let Some(expected) = &sub.schema else { continue };
            if let Some((publisher, offered)) = first.and_then(|p| Some((p, p.schema.as_ref()?))) {
                if let Err(e) = Schema::check(self.name.as_str(), offered, expected) {
                    let mut d = if offered.name == expected.name {
                        Diagnostic::error(e.to_string())
                    } else {
                        let message = format!(
                            "topic `{}`: {} {} `{}`, and {} {} `{}`",
                            self.name,
                            publisher.does(),
                            offered.kind,
                            offered.name,
                            sub.does(),
                            expected.kind,
                            expected.name
                        );
                        let others = self.others(sub, &expected.name, all);
                        let help = format!(
                            "connect `{}` to a topic of `{}`{others}; or `{}` to another topic",
                            sub.name(),
                            expected.name,
                            publisher.name()
                        );
                        Diagnostic::error(message).help(help)
                    };
                    if let Some(place) = &publisher.place {
                        d = d
                            .related(format!("published by `{}`", publisher.name()), place.clone());
                    }
                    self.report(d, sub.place.clone());
                }
            } else if Some(expected) != first_subscription.and_then(|s| s.schema.as_ref()) {
                self.mismatch("subscription", first_subscription, sub);
            }
        }
    }

    /// Returns a text that names another topic with the type of an end, as an example. Empty if
    /// there is none.
    fn others(&self, end: &End, type_name: &str, all: &BTreeMap<&TopicName, Vec<&End>>) -> String {
        let sends = |e: &End| {
            e.publishes()
                && e.place.is_some()
                && e.schema.as_ref().is_some_and(|s| s.name == type_name)
        };
        let published = all
            .iter()
            .filter(|(_, ends)| !end.publishes() && ends.iter().any(|e| sends(e)))
            .map(|(n, _)| n.as_str());
        let declared = self
            .files
            .topics
            .iter()
            .filter(|(_, t)| t.spec.type_name.as_deref() == Some(type_name))
            .map(|(n, _)| n.as_str());
        let other = declared.chain(published).find(|n| *n != self.name.as_str());
        other.map_or_else(String::new, |n| format!(", such as `{n}`"))
    }

    /// Reports two ends of the same side with different types.
    fn mismatch(&mut self, what: &str, first: Option<&End>, other: &End) {
        let Some(first) = first else { return };
        let type_of = |e: &End| {
            e.schema.as_ref().map_or_else(String::new, |s| format!("{} `{}`", s.kind, s.name))
        };
        let (a, b) = (type_of(first), type_of(other));
        let detail = if a == b {
            format!("both {a}, from different definitions")
        } else {
            format!("{a} and {b}")
        };
        let message = format!(
            "topic `{}`: the {what}s `{}` and `{}` have different types: {detail}",
            self.name,
            first.name(),
            other.name()
        );
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
        self.depths();
        self.leases();
        self.checksums_by_rules();
    }

    /// Reports leases that no publisher can miss, and signs of life for which nobody waits.
    fn leases(&mut self) {
        let is_manual = |e: &&End| e.qos.liveliness == Liveliness::ManualByTopic;
        let manual = self.publishers().find(is_manual);
        let lease = self.ends.iter().copied().find(|e| e.qos.lease_ms.is_some());
        let (what, why, help, end) = match (manual, lease, self.publishers().next()) {
            (None, Some(end), Some(_)) => (
                "lease_ms",
                "its publishers have `liveliness: automatic`",
                "add `liveliness: manual_by_topic` beside it, or remove it",
                end,
            ),
            (Some(end), None, _) => (
                "liveliness: manual_by_topic",
                "neither the publisher nor a subscription has a `lease_ms`",
                "add `lease_ms: N` beside it, or remove it",
                end,
            ),
            _ => return,
        };
        let message = format!("`{what}` of the topic `{}` has no effect: {why}", self.name);
        let place = end.place.clone();
        self.report(Diagnostic::warning(message).help(help), place);
    }

    /// Checks the depths of inputs. Beyond the process, a publisher keeps as many samples as its
    /// own depth says, so an input cannot have more. Within a process, each subscription has a
    /// queue of its own depth.
    fn depths(&mut self) {
        if self.spec.reach == Reach::Process {
            return;
        }
        for sub in self.subscriptions() {
            let shallow = self.publishers().filter(|p| p.qos.depth < sub.qos.depth);
            let Some(publisher) = shallow.min_by_key(|p| p.qos.depth) else { continue };
            let (kept, wanted) = (publisher.qos.depth, sub.qos.depth);
            let message = format!(
                "`{}` has `qos.depth: {wanted}`, and its publisher `{}` keeps {kept}: at most \
                 {kept} of its samples wait for the input",
                sub.name(),
                publisher.name()
            );
            let help = format!(
                "set the depth where the samples are kept, at the topic: `topics: {{{}: {{qos: \
                 {{depth: {wanted}}}}}}}`, or at the output",
                self.name
            );
            let mut d = Diagnostic::warning(message).help(help);
            if let Some(place) = &publisher.place {
                d = d.related("published here", place.clone());
            }
            self.report(d, sub.place.clone());
        }
    }

    /// Reports inputs that request checksums of samples that a gateway carries into the graph by a
    /// rule: the gateway's publishers offer no checksums.
    fn checksums_by_rules(&mut self) {
        let from = self.files.sections.iter().find(|s| s.covers(self.name, true));
        let Some(peer) = from.map(|s| s.spec.peer()) else { return };
        if self.spec.reach != Reach::Host || self.publishers().next().is_some() {
            return;
        }
        for sub in self.subscriptions().filter(|s| s.qos.checksum) {
            let message = format!(
                "`{}` requests checksums of the topic `{}`, and samples from {peer} have none: it \
                 does not receive them",
                sub.name(),
                self.name
            );
            let d = Diagnostic::warning(message).help("set `qos.checksum: false` at the input");
            self.report(d, sub.place.clone());
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

    fn max_payload(&mut self) -> u64 {
        if let Some(ByteSize(n)) = self.spec.max_payload {
            if n > MAX_PAYLOAD as u64 {
                let message = format!(
                    "`max_payload` of the topic `{}` is out of range: {n} bytes",
                    self.name
                );
                let place = self.declared_at("max_payload");
                self.report(
                    Diagnostic::error(message)
                        .help(format!("at most {MAX_PAYLOAD} bytes are possible")),
                    place,
                );
            }
            self.holds_a_sample(n);
            return n;
        }
        if self.ends.is_empty() && self.spec.reach == Reach::Network {
            let message = format!(
                "the topic `{}` needs `max_payload`: no component uses it, so nothing else says \
                 how long samples are",
                self.name
            );
            let help = format!(
                "declare the size of the largest sample: `topics: {{{}: {{max_payload: 2 MiB}}}}`",
                self.name
            );
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
        let Some(place) = self.ends.iter().find_map(|e| e.place.clone()) else {
            return UNCONNECTED_PAYLOAD;
        };
        if self.publishers().next().is_some() || self.spec.reach == Reach::Network {
            let message = format!(
                "the topic `{}` needs `max_payload`: its type `{}` has no fixed size, and memory \
                 is reserved at the start",
                self.name, schema.name
            );
            let help = format!(
                "declare the size of the largest sample: `topics: {{{}: {{max_payload: 2 MiB}}}}`",
                self.name
            );
            let place = self.document.map_or(Some(place), |_| self.declared_at(""));
            self.lacks_entry(Diagnostic::error(message), help, place);
        }
        0
    }

    /// Reports a payload limit that is too small for any sample: each publish would fail, long
    /// after the start.
    fn holds_a_sample(&mut self, max_payload: u64) {
        let Some(schema) = self.ends.iter().find_map(|e| e.schema.clone()) else { return };
        let layout = schema
            .definition
            .parse::<PlainLayout>()
            .ok()
            .filter(|_| schema.kind == PayloadKind::Plain);
        let Some(layout) = layout else { return };
        let (least, what) = match layout.tail {
            None => (layout.size, "a sample"),
            Some(_) => (layout.tail_offset(), "the head of a sample"),
        };
        if max_payload < least as u64 {
            let message = format!(
                "`max_payload` of the topic `{}` is {max_payload} bytes; {what} of its type `{}` \
                 alone takes {least}",
                self.name, schema.name
            );
            let help = format!(
                "declare the size of the largest sample: `topics: {{{}: {{max_payload: 2 MiB}}}}`",
                self.name
            );
            let place = self.declared_at("max_payload");
            self.report(Diagnostic::error(message).help(help), place);
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
