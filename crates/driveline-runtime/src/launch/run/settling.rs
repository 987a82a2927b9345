// SPDX-License-Identifier: Apache-2.0
//! End of a run whose source has finished: the modules do the remaining work, and then the run
//! ends.

use super::remaining::{Patience, Remaining, Verdict};
use super::{Launcher, Phase, Process};
use crate::account::{CallbackAccount, ComponentWork, OriginAccount};
use crate::launch::child::Child;
use crate::launch::gateway::is_gateway;
use crate::launch::{End, Event};
use driveline_types::{MonotonicNs, TopicId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Maximum number of pairs of input and origin whose newest data is remembered: far above any
/// graph.
const MAX_SEEN: usize = 10_000;

/// State of a run that waits for its remaining work.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// Components that have finished.
    components: BTreeSet<String>,
    /// Topics that these components publish, each with the time when the last of its finished
    /// publishers has finished. Newer data comes from other publishers.
    topics: BTreeMap<TopicId, MonotonicNs>,
    remaining: Option<Remaining>,
    /// Source time of the newest data of these topics, by component, input and topic.
    newest: BTreeMap<(String, String, TopicId), i64>,
    wake_at: Duration,
}

impl Settling {
    pub(super) fn answer(&mut self, process: usize, round: u64, components: &[ComponentWork]) {
        if let Some(remaining) = &mut self.remaining {
            remaining.answer(process, round, components);
        }
    }

    /// Handles the end of a call. Data that a component reads again, or that returns in a cycle, is
    /// not new.
    pub(super) fn called(&mut self, now: Duration, call: &CallbackAccount) {
        let mut new = false;
        for input in call.inputs.iter().filter(|i| i.triggered || i.fresh) {
            let left = |o: &&OriginAccount| {
                self.topics.get(&o.topic).is_some_and(|until| o.newest_ns <= until.signed())
            };
            for origin in input.origins.iter().filter(left) {
                let key = (call.component.clone(), input.input.clone(), origin.topic);
                let known = self.newest.get(&key).copied();
                new |= known.is_none_or(|known| origin.newest_ns > known);
                if known.is_some() || self.newest.len() < MAX_SEEN {
                    let newest = known.map_or(origin.newest_ns, |k| k.max(origin.newest_ns));
                    self.newest.insert(key, newest);
                }
            }
        }
        if let (Some(remaining), true) = (&mut self.remaining, new) {
            remaining.worked(now);
        }
    }

    /// Returns the time of the next step without an event.
    pub(super) fn next(&self, began: Instant) -> Instant {
        began + self.wake_at
    }
}

impl Launcher<'_> {
    /// Handles the finish of a component: the others do the remaining work, and then the run ends.
    pub(super) fn finished(&mut self, component: &str) {
        self.settling.components.insert(component.to_owned());
        let of = self.graph.components().filter(|(_, c)| c.name.as_str() == component);
        let finished_at = MonotonicNs::now();
        let topics = of.flat_map(|(_, c)| &c.outputs).map(|o| (o.topic.id(), finished_at));
        self.settling.topics.extend(topics);
        let runs = matches!(self.phase, Phase::Running);
        if runs || matches!(self.phase, Phase::Starting | Phase::Matching { .. }) {
            self.end = Some(End::Finished { component: component.to_owned() });
            self.phase = Phase::Settling;
        } else if !matches!(self.phase, Phase::Settling) {
            return;
        }
        if runs {
            let alive = self.processes.iter_mut().filter_map(Process::alive);
            alive.filter(|c| !is_gateway(&c.module)).for_each(Child::drain);
        }
        let (now, before) = (self.began.elapsed(), self.settling.remaining.take());
        let place = |name: &str| self.processes.iter().position(|p| p.program.name() == name);
        self.settling.remaining = Some(Remaining::new(
            now,
            before.as_ref(),
            self.graph,
            &self.settling.components,
            place,
        ));
        self.settling.wake_at = now;
    }

    /// Ends the run once the remaining work is done.
    pub(super) fn settle(&mut self, now: Instant) {
        let Some(mut remaining) = self.settling.remaining.take() else { return };
        let since = now.saturating_duration_since(self.began);
        // A suspended module is reported as such; a module without a process has lost its samples.
        let here: BTreeSet<usize> = (0..self.processes.len())
            .filter(|i| {
                let child = self.processes[*i].child.as_ref();
                child.is_some_and(|c| c.ended.is_none() && c.ready && !c.suspended)
            })
            .collect();
        if let Some((round, asked)) = remaining.ask(since, &here) {
            for i in asked {
                if let Some(child) = self.processes[i].alive() {
                    child.ask_for_work(round);
                }
            }
        }
        let options = self.options;
        let patience = Patience {
            quiet: options.quiet + self.slowest_timer.min(options.settle),
            settle: options.settle,
            stuck: options.stuck + self.slowest,
        };
        match remaining.verdict(since, &here, patience) {
            Verdict::Wait(until) => {
                self.settling.wake_at = until;
                self.settling.remaining = Some(remaining);
            }
            Verdict::Over(cut_off) => {
                for work in &cut_off {
                    self.sink.event(&Event::CutOff { work: work.clone() });
                }
                self.cut_off = cut_off;
                self.stop();
                self.advance_stop(now);
            }
        }
    }
}
