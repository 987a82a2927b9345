// SPDX-License-Identifier: Apache-2.0
//! Connections that did not exist when the graph began, or after a module was restarted.

use super::{Launcher, MATCH_LATER};
use crate::launch::Event;
use crate::launch::matching::{self, Unconnected};
use std::time::Instant;

impl Launcher<'_> {
    /// Checks for connections that exist by now, and for connections that a restarted module has
    /// not restored in time.
    pub(super) fn look_for_late_matches(&mut self, now: Instant) {
        let found = if self.unconnected.is_empty() {
            Vec::new()
        } else {
            matching::found(&mut self.unconnected, &self.options.domain_dir)
        };
        self.report_matches(found);
        self.report_lost_matches(now);
        self.match_at = now + MATCH_LATER;
    }

    /// Handles the report of a match, also from a directory that is not the launcher's.
    pub(super) fn matched(&mut self, component: &str, port: &str, peer: &str) {
        let found = matching::reported(&mut self.unconnected, self.graph, component, port, peer);
        self.report_matches(found);
    }

    /// Handles the restart of a module, whose connections must be restored.
    pub(super) fn matches_again(&mut self, process: usize) {
        let module = self.processes[process].program.name();
        let edges = matching::of_module(self.graph, module, |m| self.module_is_ready(m));
        let until = Instant::now() + self.options.matched_within;
        self.rejoining.retain(|(known, _)| !edges.iter().any(|e| e.is_same(known)));
        let new = edges.into_iter().filter(|e| !self.unconnected.iter().any(|u| u.is_same(e)));
        self.rejoining.extend(new.map(|edge| (edge, until)));
    }

    fn module_is_ready(&self, module: &str) -> bool {
        let process = self.processes.iter().find(|p| p.program.name() == module);
        let child = process.and_then(|p| p.child.as_ref());
        child.is_some_and(|c| c.ended.is_none() && c.ready)
    }

    fn report_matches(&mut self, found: Vec<Unconnected>) {
        for Unconnected { topic, publisher, subscription, .. } in found {
            self.sink.event(&Event::Matched { topic, publisher, subscription });
        }
    }

    fn report_lost_matches(&mut self, now: Instant) {
        if !self.rejoining.iter().any(|(_, until)| now >= *until) {
            return;
        }
        let ready = |component: &str| {
            let module = self.graph.components().find(|(_, c)| c.name.as_str() == component);
            module.is_some_and(|(m, _)| self.module_is_ready(m.name.as_str()))
        };
        // A module that is down again is reported as such.
        let edges: Vec<Unconnected> = self.rejoining.iter().map(|(edge, _)| edge.clone()).collect();
        let both = edges.into_iter().filter(|e| ready(&e.publisher) && ready(&e.subscription));
        let lost = matching::missing(both.collect(), &self.options.domain_dir);
        self.rejoining.clear();
        for edge in &lost {
            self.sink.event(&Event::Unmatched { edge: edge.to_string() });
        }
        self.unconnected.extend(lost);
    }
}
