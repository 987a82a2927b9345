// SPDX-License-Identifier: Apache-2.0
//! Types of the ends of a topic, and the size of its samples.

use super::{End, Topic};
use crate::diagnostic::Diagnostic;
use crate::units::ByteSize;
use driveline::Reach;
use driveline_types::limits::MAX_PAYLOAD;
use driveline_types::{PayloadKind, PlainLayout, Schema, TopicName};
use std::collections::BTreeMap;

/// Default payload limit of protobuf topics: far more than any list of detections.
const DEFAULT_PROTOBUF_PAYLOAD: u64 = 256 << 10;
/// Payload limit of outputs that the graph does not connect and whose type has no fixed size. Their
/// memory is not touched unless the component fills it.
const UNCONNECTED_PAYLOAD: u64 = 16 << 20;

impl Topic<'_> {
    pub(super) fn types(&mut self, all: &BTreeMap<&TopicName, Vec<&End>>) {
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
    pub(super) fn mismatch(&mut self, what: &str, first: Option<&End>, other: &End) {
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

    pub(super) fn max_payload(&mut self) -> u64 {
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
}
