// SPDX-License-Identifier: Apache-2.0
//! Topics that have only publishers, or only subscriptions.

use super::{End, Topic, rule_of};
use crate::diagnostic::{Diagnostic, closest};
use driveline::Reach;
use driveline_types::TopicName;
use std::collections::BTreeMap;

impl Topic<'_> {
    pub(super) fn dangling(&mut self, all: &BTreeMap<&TopicName, Vec<&End>>) {
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
}
