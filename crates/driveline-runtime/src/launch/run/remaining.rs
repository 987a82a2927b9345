// SPDX-License-Identifier: Apache-2.0
//! Decides when a run ends after its source has finished: a pure state machine
//! (`docs/protocols/account.md`, End of a run).
//!
//! The launcher asks the modules in rounds for their remaining work. If no component has work in
//! two consecutive rounds, and none was called in between, there was a moment at which no call ran
//! and no sample waited.

use crate::account::ComponentWork;
use crate::launch::CutOff;
use driveline::Reach;
use driveline_graph::{ResolvedComponent, ResolvedGraph, ResolvedTrigger};
use driveline_types::TopicName;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Pause between two rounds.
const PAUSE: Duration = Duration::from_millis(20);
/// A module that has not responded for this long is silent.
const SILENT: Duration = Duration::from_secs(2);

/// Times of a run that ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// The run ends if no data that descends from the finished component was worked on for this
    /// long.
    pub(super) quiet: Duration,
    /// This time counts instead of `quiet`, if it is longer, when other sources keep the readers
    /// busy. Ticks that are due later than this are not waited for.
    pub(super) settle: Duration,
    /// The remaining work is cut off if none of its calls has ended for this long.
    pub(super) stuck: Duration,
}

/// A component that works on data of the finished one.
#[derive(Debug)]
struct Stage {
    process: usize,
    name: String,
    /// True if all its data comes from finished components, directly or through others, so that
    /// its work ends.
    ends: bool,
    /// True if a timer triggers it.
    timer: bool,
    /// Topic of each input port.
    topics: BTreeMap<String, String>,
}

impl Stage {
    /// Returns true if it has work that the run waits for.
    fn is_busy(&self, work: &ComponentWork, settle: Duration) -> bool {
        let soon = work.tick_ms.is_some_and(|ms| Duration::from_millis(ms) <= settle);
        work.running > 0 || soon || !self.timer && !work.unread.is_empty()
    }

    fn cut_off(&self, work: &ComponentWork) -> CutOff {
        let topic = |input: &String| self.topics.get(input).unwrap_or(input).clone();
        CutOff {
            component: self.name.clone(),
            running: work.running,
            unread: work.unread.iter().map(|u| (topic(&u.input), u.samples)).collect(),
            silent: false,
        }
    }
}

/// Responses of the modules in one round.
#[derive(Debug, Default)]
struct Round {
    number: u64,
    missing: BTreeSet<usize>,
    answers: BTreeMap<usize, BTreeMap<String, ComponentWork>>,
}

impl Round {
    fn of(&self, stage: &Stage) -> Option<&ComponentWork> {
        self.answers.get(&stage.process)?.get(&stage.name)
    }
}

/// Next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Wait for an answer or another event, at most until then.
    Wait(Duration),
    /// The run is over; this work was cut off.
    Over(Vec<CutOff>),
}

/// Remaining work of a run whose source has finished.
#[derive(Debug)]
pub(super) struct Remaining {
    stages: Vec<Stage>,
    /// The current or next round, and the one before.
    round: Round,
    before: Option<Round>,
    in_flight: bool,
    /// Start of the round in flight, or of the next one.
    round_at: Duration,
    /// Last time that data of a finished component was worked on.
    active: Duration,
    /// Last time that a round saw the end of a call of a stage that [`Stage::ends`].
    progress: Duration,
    /// The last two rounds saw no work at all.
    idle: bool,
    /// The last two rounds saw no work of stages that [`Stage::ends`].
    idle_but_others: bool,
}

impl Remaining {
    /// Creates the state. `finished`: names of components. `place`: process of a module of this
    /// launcher. `after`: the state that this one replaces.
    pub(super) fn new(
        now: Duration,
        after: Option<&Self>,
        graph: &ResolvedGraph,
        finished: &BTreeSet<String>,
        place: impl Fn(&str) -> Option<usize>,
    ) -> Self {
        Self {
            stages: stages(graph, finished, place),
            // The new number makes late responses to earlier requests invalid.
            round: Round { number: after.map_or(1, |a| a.round.number + 1), ..Round::default() },
            before: None,
            in_flight: false,
            round_at: now,
            active: now,
            progress: now,
            idle: false,
            idle_but_others: false,
        }
    }

    /// Begins a round if one is due, and returns its number. `here`: processes that can respond.
    pub(super) fn ask(
        &mut self,
        now: Duration,
        here: &BTreeSet<usize>,
    ) -> Option<(u64, Vec<usize>)> {
        if self.in_flight || now < self.round_at {
            return None;
        }
        let asked: BTreeSet<usize> = self.stages.iter().map(|s| s.process).collect();
        self.round.missing = asked.intersection(here).copied().collect();
        self.round.answers.clear();
        (self.in_flight, self.round_at) = (true, now);
        Some((self.round.number, self.round.missing.iter().copied().collect()))
    }

    pub(super) fn answer(&mut self, process: usize, round: u64, components: &[ComponentWork]) {
        if round == self.round.number && self.round.missing.remove(&process) {
            let by_name = components.iter().map(|c| (c.component.clone(), c.clone()));
            self.round.answers.insert(process, by_name.collect());
        }
    }

    /// Notes that data that descends from a finished component was worked on.
    pub(super) fn worked(&mut self, now: Duration) {
        self.active = now;
    }

    /// Decides whether the run is over. `here` as in [`Self::ask`]: suspended or ended processes
    /// are not waited for.
    pub(super) fn verdict(
        &mut self,
        now: Duration,
        here: &BTreeSet<usize>,
        patience: Patience,
    ) -> Verdict {
        self.round.missing.retain(|process| here.contains(process));
        if self.in_flight && self.round.missing.is_empty() {
            self.end_round(now, patience.settle);
        }
        let quiet_at = self.active + patience.quiet;
        let others_at = self.active + patience.settle.max(patience.quiet);
        let stuck_at = self.active.max(self.progress) + patience.stuck;
        if self.idle && now >= quiet_at || self.idle_but_others && now >= others_at {
            return Verdict::Over(Vec::new());
        }
        if now >= stuck_at && !self.idle_but_others {
            return Verdict::Over(self.cut_off(now, patience.settle));
        }
        let round_at = if self.in_flight { stuck_at } else { self.round_at };
        let times = [quiet_at, others_at, stuck_at, round_at];
        let next = times.into_iter().filter(|at| *at > now).min();
        Verdict::Wait(next.unwrap_or(now + PAUSE))
    }

    fn end_round(&mut self, now: Duration, settle: Duration) {
        let calls = |round: &Round, stage: &Stage| round.of(stage).map(|work| work.calls);
        let busy = |round: &Round, s: &Stage| round.of(s).is_some_and(|w| s.is_busy(w, settle));
        (self.idle, self.idle_but_others) = (false, false);
        if let Some(before) = &self.before {
            let changed = |s: &&Stage| calls(before, s) != calls(&self.round, s);
            let still = |s: &&Stage| !changed(s) && !busy(before, s) && !busy(&self.round, s);
            self.idle = self.stages.iter().all(|s| still(&s));
            self.idle_but_others = self.stages.iter().filter(|s| s.ends).all(|s| still(&s));
            if self.stages.iter().filter(|s| s.ends).any(|s| changed(&s)) {
                self.progress = now;
            }
        }
        let next = Round { number: self.round.number + 1, ..Round::default() };
        self.before = Some(std::mem::replace(&mut self.round, next));
        (self.in_flight, self.round_at) = (false, now + PAUSE);
    }

    /// Returns the work of stages that [`Stage::ends`], as it was seen last, and components of
    /// modules that did not respond.
    fn cut_off(&self, now: Duration, settle: Duration) -> Vec<CutOff> {
        let late = self.in_flight && now >= self.round_at + SILENT;
        let one = |stage: &Stage| {
            if late && self.round.missing.contains(&stage.process) {
                let silent = ComponentWork::default();
                return Some(CutOff { silent: true, ..stage.cut_off(&silent) });
            }
            let newest = if self.in_flight { self.round.of(stage) } else { None };
            let work = newest.or_else(|| self.before.as_ref()?.of(stage))?;
            (stage.ends && stage.is_busy(work, settle)).then(|| stage.cut_off(work))
        };
        self.stages.iter().filter_map(one).collect()
    }
}

/// Returns the finished components and all that read from them, directly or not. Leaves out a
/// finished component that others still feed, unless a component reads its topics: samples that it
/// still receives are no work of the run.
fn stages(
    graph: &ResolvedGraph,
    finished: &BTreeSet<String>,
    place: impl Fn(&str) -> Option<usize>,
) -> Vec<Stage> {
    let all: Vec<(Option<usize>, &ResolvedComponent)> =
        graph.components().map(|(m, c)| (place(m.name.as_str()), c)).collect();
    let is_finished = |c: &ResolvedComponent| finished.contains(c.name.as_str());
    let publishes = |c: &ResolvedComponent, t: &TopicName| c.outputs.iter().any(|o| o.topic == *t);
    // Adds readers until there are no more.
    let mut reached: BTreeSet<usize> = (0..all.len()).filter(|i| is_finished(all[*i].1)).collect();
    let mut ends: BTreeSet<usize> =
        reached.iter().copied().filter(|i| all[*i].1.inputs.is_empty()).collect();
    loop {
        let read_by = |c: &ResolvedComponent| {
            c.inputs.iter().any(|i| reached.iter().any(|r| publishes(all[*r].1, &i.topic)))
        };
        let more: Vec<usize> =
            (0..all.len()).filter(|i| !reached.contains(i) && read_by(all[*i].1)).collect();
        if more.is_empty() {
            break;
        }
        reached.extend(more);
    }
    // True if components that have not finished may publish on the topic.
    let open = |t: &TopicName| {
        graph.topics.get(t).is_none_or(|topic| topic.external || topic.reach == Reach::Network)
    };
    loop {
        let topic_ends = |t: &TopicName| {
            let of = |i: &usize| publishes(all[*i].1, t);
            !open(t) && (0..all.len()).filter(of).all(|i| ends.contains(&i) && all[i].0.is_some())
        };
        let component_ends = |c: &ResolvedComponent| {
            !c.inputs.is_empty() && c.inputs.iter().all(|i| topic_ends(&i.topic))
        };
        let more: Vec<usize> = reached
            .iter()
            .copied()
            .filter(|i| !ends.contains(i) && component_ends(all[*i].1))
            .collect();
        if more.is_empty() {
            break;
        }
        ends.extend(more);
    }
    let is_read = |c: &ResolvedComponent| {
        all.iter().any(|(_, r)| r.inputs.iter().any(|i| publishes(c, &i.topic)))
    };
    let stage = |i: usize| {
        let (process, component) = all[i];
        if is_finished(component) && !ends.contains(&i) && !is_read(component) {
            return None;
        }
        let topics = component.inputs.iter().map(|i| (i.port.clone(), i.topic.to_string()));
        Some(Stage {
            process: process?,
            name: component.name.to_string(),
            ends: ends.contains(&i),
            timer: matches!(component.trigger, ResolvedTrigger::Timer { .. }),
            topics: topics.collect(),
        })
    };
    reached.iter().filter_map(|i| stage(*i)).collect()
}

#[cfg(test)]
#[path = "remaining_tests.rs"]
mod tests;
