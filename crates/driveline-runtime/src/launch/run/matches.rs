// SPDX-License-Identifier: Apache-2.0
//! Connections that did not exist when the graph began, or after a module was restarted.

use super::{Launcher, MATCH_LATER};
use crate::launch::Event;
use crate::launch::child::Child;
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

    /// Handles a module's report of a match, also of a module that uses another domain directory
    /// than the launcher.
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

    /// Forgets the connections that an earlier restart of a module had not restored: it has ended
    /// again, and is reported as such.
    pub(super) fn forget_lost_matches(&mut self, process: usize) {
        let module = self.processes[process].program.name();
        let graph = self.graph;
        self.unconnected.retain(|e| !(e.since_restart && matching::involves(e, graph, module)));
    }

    fn report_lost_matches(&mut self, now: Instant) {
        if !self.rejoining.iter().any(|(_, until)| now >= *until) {
            return;
        }
        let module_of = |component: &str| {
            let mut components = self.graph.components();
            components.find(|(_, c)| c.name.as_str() == component).map(|(m, _)| m.name.as_str())
        };
        let both = |e: &Unconnected, is: &dyn Fn(&str) -> bool| {
            [&e.publisher, &e.subscription].iter().all(|c| module_of(c).is_some_and(is))
        };
        // A module that is down again is reported as such.
        let edges = self.rejoining.iter().map(|(edge, _)| edge.clone());
        let edges = edges.filter(|e| both(e, &|m| self.module_is_ready(m))).collect();
        let survey = matching::survey(&self.options.domain_dir);
        // The connections of a process that does not answer, such as a suspended one, are unknown;
        // those of a process that is being ended do not matter.
        let answers = |module: &str| {
            let process = self.processes.iter().find(|p| p.program.name() == module);
            let child = process.and_then(|p| p.child.as_ref());
            let pid = child.map_or(0, Child::pid);
            let mut silent = survey.silent.iter().chain(&survey.silent_others);
            !silent.any(|silent| [0, pid].contains(silent))
                && !child.is_some_and(|c| c.end_requested)
        };
        let lost = matching::missing(edges, &survey, &self.options.domain_dir);
        let (lost, unknown): (Vec<_>, Vec<_>) = lost.into_iter().partition(|e| both(e, &answers));
        self.rejoining = unknown.into_iter().map(|edge| (edge, now + MATCH_LATER)).collect();
        for edge in &lost {
            self.sink.event(&Event::Unmatched { edge: edge.to_string() });
        }
        self.unconnected.extend(lost);
    }
}
