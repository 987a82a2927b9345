// SPDX-License-Identifier: Apache-2.0
//! Judges the heartbeats of a module: hangs, overruns, missed deadlines, rates. Has no clock and no
//! I/O: the caller passes the time, and the values of the module's heartbeat words.
//!
//! Only time in which the process worked counts. A process that is suspended (SIGSTOP, a debugger),
//! a machine that is suspended or too busy to run it, and a launcher that is suspended itself cause
//! no reaction. `docs/protocols/heartbeats.md` has the rules.

use crate::heartbeats::{STALL, Snapshot};
use driveline_graph::{Reaction, ResolvedModule, ResolvedRate};
use std::fmt;
use std::time::Duration;

/// Time after which a finding of the same kind is reported again, with the count since.
pub(super) const AGAIN: Duration = Duration::from_secs(10);
/// A finding after a longer time without one of its kind begins a new fault.
const QUIET: Duration = Duration::from_secs(3);
/// A finding this soon after a requested switch can be of the time before it: modules and launcher
/// check every 100 ms.
const BEFORE_SWITCH: Duration = Duration::from_millis(300);
/// Minimum time over which a rate is measured.
const WINDOW: Duration = Duration::from_secs(1);
/// Minimum length of the same window in samples at the declared rate: below 20 Hz, the window is
/// longer than `WINDOW`. One sample more or less then changes the measured rate by 5 %.
const WINDOW_SAMPLES: f64 = 20.0;

/// Violation of a declared limit by a module.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    Hang {
        component: String,
        lasts: Duration,
        limit: Duration,
    },
    Overrun {
        component: String,
        count: u64,
        worst: Duration,
        budget: Duration,
    },
    Deadline {
        component: String,
        input: String,
        topic: String,
        missed: u64,
    },
    Rate {
        component: String,
        output: String,
        topic: String,
        hz: f64,
        min: Option<f64>,
        max: Option<f64>,
    },
}

impl What {
    /// Returns true if it is a call that does not return.
    pub(super) fn hangs(&self) -> bool {
        matches!(self, Self::Hang { .. })
    }

    /// Returns the component that violated the limit.
    pub(super) fn component(&self) -> &str {
        match self {
            Self::Hang { component, .. }
            | Self::Overrun { component, .. }
            | Self::Deadline { component, .. }
            | Self::Rate { component, .. } => component,
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |d: &Duration| d.as_secs_f64() * 1e3;
        match self {
            Self::Hang { component, lasts, limit } => write!(
                f,
                "component '{component}' hangs: a call has not ended for {:.1} s (`hang_ms: {}`)",
                lasts.as_secs_f64(),
                ms(limit)
            ),
            Self::Overrun { component, count, worst, budget } => {
                let calls = if *count == 1 { "a call".into() } else { format!("{count} calls") };
                write!(
                    f,
                    "component '{component}': {calls} took longer than `budget_ms: {}` (longest \
                     call since the start: {:.1} ms)",
                    ms(budget),
                    ms(worst)
                )
            }
            Self::Deadline { component, input, topic, missed } => {
                let times = if *missed == 1 { "once".into() } else { format!("{missed} times") };
                write!(
                    f,
                    "input '{input}' of component '{component}' missed its deadline {times} (topic \
                     '{topic}', `deadline_ms`)"
                )
            }
            Self::Rate { component, output, topic, hz, min, max } => {
                write!(
                    f,
                    "output '{output}' of component '{component}' publishes at {hz:.1} Hz (topic \
                     '{topic}', `rate_hz: {{"
                )?;
                let bounds = [("min", min), ("max", max)];
                let bounds: Vec<_> = bounds
                    .into_iter()
                    .filter_map(|(name, bound)| bound.map(|hz| format!("{name}: {hz}")))
                    .collect();
                write!(f, "{}}}`)", bounds.join(", "))
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) what: What,
    pub(super) reaction: Reaction,
}

/// State of the process and of the run on which findings and reactions depend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions<'a> {
    /// True if the process is suspended by SIGSTOP. A debugger that holds it shows only in missing
    /// beats.
    pub(super) suspended: bool,
    /// True if sources may have finished: rates are not judged.
    pub(super) ending: bool,
    /// The mode of the run, or the mode that is being entered.
    pub(super) mode: Option<&'a str>,
    /// Time when the last switch that a command or a component has requested began or ended.
    pub(super) asked_at: Duration,
    /// True while the graph runs, so that modes can be requested.
    pub(super) runs: bool,
    /// True if the launcher has not checked for a long time before this check: it is unknown
    /// whether a fault of that time lasts.
    pub(super) stood_still: bool,
}

/// Reports and reactions of one counter of findings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastReport {
    /// Time of the last report that contained a finding beyond `excused`.
    at: Option<Duration>,
    /// Count at the last report.
    count: u64,
    /// Count at the last check, and the time when it last grew.
    seen: u64,
    grew_at: Option<Duration>,
    /// Count at the end of the latest time that does not count. Findings up to this count cause no
    /// reaction.
    excused: u64,
    /// Time of the last request of a mode, and `asked_at` at that time.
    reacted: Option<(Duration, Duration)>,
}

impl LastReport {
    /// Returns the increase of a counter and the reaction to it, if a report is due now.
    ///
    /// A fault that is over causes no reaction, nor does a finding of a time that does not count
    /// (`on.stood_still`). Reports are at least [`AGAIN`] apart, with two exceptions:
    /// - A mode is requested earlier if the run is in another mode, the counter has just grown, and
    ///   one of these holds: a new fault begins; or a command or a component has requested a mode
    ///   since the last request of this counter. So reactions of several faults do not replace each
    ///   other's modes all the time.
    /// - If the last report contained only findings of a time that does not count, the next finding
    ///   is reported at once, with its reaction.
    pub(super) fn due(
        &mut self,
        now: Duration,
        count: u64,
        reaction: &Reaction,
        on: Conditions<'_>,
    ) -> Option<(u64, Reaction)> {
        // The count can fall: a call that runs too long counts while it runs. At its end its module
        // decides whether it was too long.
        (self.count, self.seen) = (self.count.min(count), self.seen.min(count));
        if on.stood_still {
            (self.seen, self.excused) = (count, count);
        }
        let excused = count <= self.excused;
        let for_long = |at: Duration, time: Duration| now.saturating_sub(at) >= time;
        let grown = count > self.seen;
        let begins = grown && self.grew_at.is_none_or(|at| for_long(at, QUIET));
        if grown {
            (self.seen, self.grew_at) = (count, Some(now));
        }
        let report = self.at.is_none_or(|at| for_long(at, AGAIN));
        let reaction = match reaction {
            Reaction::Mode(mode) => {
                let request = grown
                    && on.runs
                    && on.mode != Some(mode)
                    && for_long(on.asked_at, BEFORE_SWITCH)
                    && (begins
                        || self.reacted.is_none_or(|(at, asked_at)| {
                            asked_at != on.asked_at || for_long(at, AGAIN)
                        }));
                if request {
                    self.reacted = Some((now, on.asked_at));
                }
                if request { reaction.clone() } else { Reaction::Event }
            }
            _ if excused => Reaction::Event,
            _ => reaction.clone(),
        };
        let new = count - self.count;
        if new == 0 || !report && !matches!(reaction, Reaction::Mode(_)) {
            return None;
        }
        self.count = count;
        if !excused {
            self.at = Some(now);
        }
        Some((new, reaction))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct CallState {
    since: u64,
    /// Working time of the process since the call was seen first.
    lasts: Duration,
    /// Number of checks that found the call hanging, and its reports.
    hangs: u64,
    hang: LastReport,
    /// Number of ended overruns at the time when this running call was first counted as an overrun.
    early: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct RateState {
    /// Beat and counter at the beginning of this window.
    window: Option<(u64, u64)>,
    /// Windows out of range.
    bad: u64,
    report: LastReport,
}

#[derive(Clone, Debug, Default)]
struct ComponentState {
    call: CallState,
    overruns: LastReport,
    deadlines: Vec<LastReport>,
    rates: Vec<RateState>,
    /// True if the mode makes its component inactive: it publishes nothing.
    inactive: bool,
}

/// Judges one process from its start to its end.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    module: &'a ResolvedModule,
    components: Vec<ComponentState>,
    /// Time of the last check; the last beat; and the time when that beat was seen first or, after
    /// a time that does not count, the time of the check after it.
    last: Option<(Duration, u64, Duration)>,
    /// True after a time that does not count, until the next beat arrives: the last known beat is
    /// older than that time.
    waits_for_beat: bool,
}

impl<'a> Judge<'a> {
    pub(super) fn new(module: &'a ResolvedModule) -> Self {
        let component = |c: &driveline_graph::ResolvedComponent| ComponentState {
            deadlines: vec![LastReport::default(); c.inputs.len()],
            rates: vec![RateState::default(); c.outputs.len()],
            ..ComponentState::default()
        };
        let components = module.components.iter().map(component).collect();
        Self { module, components, last: None, waits_for_beat: false }
    }

    /// Notes which components are inactive: their rates are not judged.
    pub(super) fn note_inactive(&mut self, inactive: impl Fn(&str) -> bool) {
        for (spec, state) in self.module.components.iter().zip(&mut self.components) {
            state.inactive = inactive(spec.name.as_str());
        }
    }

    /// Judges the heartbeat words that were read at `now`.
    pub(super) fn look(
        &mut self,
        now: Duration,
        seen: &Snapshot,
        on: Conditions<'_>,
    ) -> Vec<Finding> {
        let stood_still = self.last.is_some_and(|(looked, ..)| stood_still(looked, now));
        let on = Conditions { stood_still, ..on };
        let (is_first, waited) = (self.last.is_none(), self.waits_for_beat);
        let worked = self.worked(now, seen.beat, on.suspended);
        let mut found = Vec::new();
        for ((spec, words), state) in
            self.module.components.iter().zip(&seen.components).zip(&mut self.components)
        {
            let component = spec.name.to_string();
            state.call.advance(words.since, worked.unwrap_or_default());
            let call = &mut state.call;
            if let Some((limit, reaction)) = &self.module.watch.hang
                && call.lasts > *limit
            {
                call.hangs += 1;
                // Only the request of a mode is repeated. Otherwise a call is reported once.
                let reported = call.hangs > 1 && !matches!(reaction, Reaction::Mode(_));
                let due = call.hang.due(now, call.hangs, reaction, on).filter(|_| !reported);
                if let Some((_, reaction)) = due {
                    let (lasts, limit) = (call.lasts, *limit);
                    let what = What::Hang { component: component.clone(), lasts, limit };
                    found.push(Finding { what, reaction });
                }
            }
            if let Some(budget) = &spec.budget {
                if call.since != 0 && call.lasts > budget.time && call.early.is_none() {
                    call.early = Some(words.overruns);
                }
                // At its end the call is counted at once. `since` changes later, at the next beat.
                let running = u64::from(call.since != 0 && call.early == Some(words.overruns));
                let count = words.overruns + running;
                let worst = Duration::from_nanos(words.worst_ns);
                let worst = if running == 1 { worst.max(call.lasts) } else { worst };
                if let Some((count, reaction)) =
                    state.overruns.due(now, count, &budget.reaction, on)
                {
                    let (component, budget) = (component.clone(), budget.time);
                    let what = What::Overrun { component, count, worst, budget };
                    found.push(Finding { what, reaction });
                }
            }
            // While a module is suspended, inputs miss the deadlines of its own publishers.
            let stood_still = !is_first && (on.stood_still || waited || worked.is_none());
            let on_deadline = Conditions { stood_still, ..on };
            for ((input, total), report) in
                spec.inputs.iter().zip(&words.inputs).zip(&mut state.deadlines)
            {
                let Some(reaction) = &input.on_deadline else { continue };
                if let Some((missed, reaction)) = report.due(now, *total, reaction, on_deadline) {
                    let (input, topic) = (input.port.clone(), input.topic.to_string());
                    let what =
                        What::Deadline { component: component.clone(), input, topic, missed };
                    found.push(Finding { what, reaction });
                }
            }
            let judged = worked.filter(|_| !on.ending && !state.inactive);
            for ((output, total), state) in
                spec.outputs.iter().zip(&words.outputs).zip(&mut state.rates)
            {
                let Some(rate) = &output.rate else { continue };
                let beat = judged.map(|_| seen.beat);
                if let Some((hz, reaction)) = state.look(now, beat, *total, rate, on) {
                    let (output, topic) = (output.port.clone(), output.topic.to_string());
                    let component = component.clone();
                    let (min, max) = (rate.min, rate.max);
                    let what = What::Rate { component, output, topic, hz, min, max };
                    found.push(Finding { what, reaction });
                }
            }
        }
        found
    }

    /// Returns the working time of the process since the last check that saw a beat. `None`: it did
    /// not work, or it is unknown how long it worked.
    fn worked(&mut self, now: Duration, beat: u64, suspended: bool) -> Option<Duration> {
        let Some((looked, known, since)) = self.last else {
            self.last = Some((now, beat, now));
            return None;
        };
        if suspended {
            self.last = Some((now, beat, now));
            self.waits_for_beat = true;
            return None;
        }
        let stood_still = stood_still(looked, now);
        self.waits_for_beat = beat == known && (self.waits_for_beat || stood_still);
        if beat == known {
            // No new beat: only the next one shows whether the process has worked since the last.
            let since = if stood_still { now } else { since };
            self.last = Some((now, known, since));
            return if now.saturating_sub(since) > STALL || self.waits_for_beat {
                None
            } else {
                Some(Duration::ZERO)
            };
        }
        self.last = Some((now, beat, now));
        let gap = now.saturating_sub(since);
        (!stood_still && gap <= STALL).then_some(gap)
    }
}

/// Returns true if the launcher did not run between two checks.
fn stood_still(looked: Duration, now: Duration) -> bool {
    now.saturating_sub(looked) > STALL
}

impl CallState {
    fn advance(&mut self, since: u64, worked: Duration) {
        if since == 0 || since != self.since {
            *self = Self { since, ..Self::default() };
        } else {
            self.lasts += worked;
        }
    }
}

impl RateState {
    /// Returns the rate and the reaction, if it is out of range and a report is due. `total` was
    /// counted at `beat`, on the module's clock; without a beat, a new window begins.
    fn look(
        &mut self,
        now: Duration,
        beat: Option<u64>,
        total: u64,
        rate: &ResolvedRate,
        on: Conditions<'_>,
    ) -> Option<(f64, Reaction)> {
        let Some(beat) = beat else {
            self.window = None;
            return None;
        };
        let (began, first) = *self.window.get_or_insert((beat, total));
        let (Some(time), Some(samples)) = (beat.checked_sub(began), total.checked_sub(first))
        else {
            self.window = None;
            return None;
        };
        let slowest = rate.min.or(rate.max).unwrap_or(1.0).max(1e-3);
        let length = WINDOW.max(Duration::from_secs_f64(WINDOW_SAMPLES / slowest));
        if u128::from(time) < length.as_nanos() {
            return None;
        }
        self.window = Some((beat, total));
        let (samples, seconds) = (samples as f64, time as f64 / 1e9);
        // One sample more or less depends on when the window begins.
        let low = rate.min.is_some_and(|min| samples + 1.0 < min * seconds);
        let high = rate.max.is_some_and(|max| samples - 1.0 > max * seconds);
        self.bad += u64::from(low || high);
        let (_, reaction) = self.report.due(now, self.bad, &rate.reaction, on)?;
        Some((samples / seconds, reaction))
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
pub(crate) mod tests;
