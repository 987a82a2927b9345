// SPDX-License-Identifier: Apache-2.0
//! QoS of the ends of a topic: what a publisher offers and a subscription requests.

use super::{End, Topic};
use crate::diagnostic::Diagnostic;
use driveline::Reach;
use driveline_types::Liveliness;

impl Topic<'_> {
    pub(super) fn qos(&mut self) {
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

    /// Reports a lease without effect, because liveliness is automatic, and manual liveliness
    /// without a lease.
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
}
