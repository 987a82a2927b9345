// SPDX-License-Identifier: Apache-2.0
//! Activity of a run's components in the last seconds, and the components that need attention.

use super::figures;
use super::live::{Line, TROUBLE};
use crate::text::count;
use driveline_analyze::{StageSummary, Summary};
use driveline_terminal::figures::duration_us;
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Time span of the live table.
const WINDOW: Duration = Duration::from_secs(5);
/// Label of the live table.
const MEANS: &str = "LAST 5 s, MEANS";
/// Number of components that a line names if the graph has more than `MANY`.
pub(super) const MAX_NAMED: usize = 5;
/// Factor of a change: a component has changed if its rate or its processing time in the window is
/// at least twice the value before the window, or at most half of it.
const CHANGED: f64 = 2.0;
/// Minimum number of calls for comparing a rate or a mean. In the window, it is sufficient if this
/// number was expected at the earlier rate.
const COMPARED_CALLS: f64 = 10.0;
/// Minimum difference of mean processing times that counts as a change. Smaller differences come
/// from the machine's scheduler.
const COMPARED_US: f64 = 1000.0;

/// Counts of a component: since the start of the run, or in a time span. `transmission` and
/// `processing` are the number of values and their sum in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    runs: u64,
    failed: u64,
    missed: u64,
    late: u64,
    transmission: (f64, f64),
    processing: (f64, f64),
}

/// Activity of a component in the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Activity {
    /// Calls per second.
    pub(super) rate: f64,
    /// Share of the time spent in calls that did not fail, without conversions.
    pub(super) busy: f64,
    /// Means, in microseconds; none without calls.
    pub(super) transmission_us: Option<f64>,
    pub(super) processing_us: Option<f64>,
    pub(super) failed: u64,
    pub(super) missed: u64,
    /// Deadlines that its inputs and outputs missed.
    pub(super) late: u64,
    /// True if the component was called earlier, but not in the last seconds.
    pub(super) silent: bool,
    /// Change compared with the time before the last seconds.
    pub(super) changed: Option<Change>,
}

/// A figure that differs from that of the time before the window, and both values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    /// Mean processing time, in microseconds.
    Processing(f64, f64),
    /// Calls per second.
    Rate(f64, f64),
}

impl Change {
    /// Returns the ratio of the larger value to the smaller one.
    fn factor(self) -> f64 {
        let (Self::Processing(before, now) | Self::Rate(before, now)) = self;
        before.max(now) / before.min(now)
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Processing(before, now) => {
                write!(f, "{}, before {}", duration_us(now), duration_us(before))
            }
            Self::Rate(before, now) => write!(f, "{now:.1}/s, before {before:.1}/s"),
        }
    }
}

impl Activity {
    /// Returns true if the component needs attention. A change alone may be intended.
    fn is_trouble(&self) -> bool {
        self.failed > 0 || self.missed > 0 || self.late > 0 || self.silent
    }

    /// Returns the signs of trouble and the change, the worst first; `None` if there are none.
    fn why(&self) -> Option<String> {
        let why = [
            (self.failed > 0).then(|| format!("{} failed", self.failed)),
            (self.missed > 0).then(|| format!("{} missed", self.missed)),
            (self.late > 0).then(|| format!("{} missed", count(self.late, "deadline"))),
            self.silent.then(|| "no calls".to_owned()),
            self.changed.map(|change| change.to_string()),
        ];
        let why: Vec<String> = why.into_iter().flatten().collect();
        (!why.is_empty()).then(|| why.join(", "))
    }

    /// Compares two components so that the worse one is sorted first. Failures count first, then
    /// missed samples, missed deadlines, silence, change and slowness.
    fn compare(&self, other: &Self) -> Ordering {
        let counts = |a: &Self| (a.failed, a.missed, a.late, a.silent);
        let change = |a: &Self| a.changed.map_or(0.0, Change::factor);
        let slow = |a: &Self| a.processing_us.unwrap_or_default();
        counts(other)
            .cmp(&counts(self))
            .then(change(other).total_cmp(&change(self)))
            .then(slow(other).total_cmp(&slow(self)))
    }
}

/// Counts by component, and the time since the start of the run at which they were read.
type Look = (Duration, BTreeMap<String, Counts>);

/// Counts of the last seconds, one entry for each update of the table.
#[derive(Default)]
pub(super) struct Recent {
    /// The first entry of the run.
    first: Option<Look>,
    looks: VecDeque<Look>,
}

/// Returns the change of a component between two time spans, each with its seconds and counts.
/// Returns `None` if there is no change or if a span has too few calls.
fn change((seconds, old): (f64, Counts), (now_seconds, new): (f64, Counts)) -> Option<Change> {
    let differs = |before: f64, now: f64| before.max(now) >= CHANGED * before.min(now);
    let (calls, now_calls) = (old.runs as f64, new.runs as f64);
    let (rate, now_rate) = (calls / seconds, now_calls / now_seconds);
    // With few calls, rates differ by chance: of a slow timer, a window has one call more or less.
    let enough = calls >= COMPARED_CALLS && now_calls.max(rate * now_seconds) >= COMPARED_CALLS;
    if !enough || now_calls == 0.0 {
        return None;
    }
    let (before, now) = (old.processing.1 / old.processing.0, new.processing.1 / new.processing.0);
    if differs(before, now) && (now - before).abs() >= COMPARED_US && before.min(now) > 0.0 {
        return Some(Change::Processing(before, now));
    }
    differs(rate, now_rate).then_some(Change::Rate(rate, now_rate))
}

fn counts(s: &StageSummary, summary: &Summary) -> Counts {
    let inputs = summary.subscriptions.iter().filter(|i| i.stage == s.stage && i.triggers);
    let sum = |q: &driveline_analyze::Quantiles| (q.n as f64, q.n as f64 * q.mean);
    let late = summary.deadlines.iter().filter(|d| d.stage == s.stage).map(|d| d.missed);
    Counts {
        runs: s.runs,
        failed: s.failed.saturating_add(s.failed_events),
        missed: inputs.map(|i| i.missed).fold(0, u64::saturating_add),
        late: late.fold(0, u64::saturating_add),
        transmission: sum(&s.transmission_us),
        processing: sum(&s.processing_us),
    }
}

impl Counts {
    /// Returns the counts since `old`.
    fn since(self, old: Self) -> Self {
        let sums = |new: (f64, f64), old: (f64, f64)| (new.0 - old.0, new.1 - old.1);
        Self {
            runs: self.runs.saturating_sub(old.runs),
            failed: self.failed.saturating_sub(old.failed),
            missed: self.missed.saturating_sub(old.missed),
            late: self.late.saturating_sub(old.late),
            transmission: sums(self.transmission, old.transmission),
            processing: sums(self.processing, old.processing),
        }
    }
}

impl Recent {
    /// Adds the counts at `now`, the time since the start of the run. Keeps one entry that is older
    /// than the window.
    pub(super) fn push(&mut self, now: Duration, summary: &Summary) {
        let all = summary.stages.iter().map(|s| (s.stage.clone(), counts(s, summary))).collect();
        let all: Look = (now, all);
        self.first.get_or_insert_with(|| all.clone());
        self.looks.push_back(all);
        while self.looks.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) >= WINDOW) {
            self.looks.pop_front();
        }
    }

    /// Returns the activity of a component over the window; `None` before the second entry.
    pub(super) fn of(&self, stage: &str) -> Option<Activity> {
        let ((from, old), (to, new)) = (self.looks.front()?, self.looks.back()?);
        let seconds = to.saturating_sub(*from).as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        let (old, new) = (old.get(stage).copied().unwrap_or_default(), *new.get(stage)?);
        let recent = new.since(old);
        let mean = |(n, sum): (f64, f64)| (n > 0.0).then(|| sum / n);
        Some(Activity {
            rate: recent.runs as f64 / seconds,
            busy: (recent.processing.1 / 1e6 / seconds).max(0.0),
            transmission_us: mean(recent.transmission),
            processing_us: mean(recent.processing),
            failed: recent.failed,
            missed: recent.missed,
            late: recent.late,
            silent: old.runs > 0 && recent.runs == 0,
            changed: self.before(stage).and_then(|before| change(before, (seconds, recent))),
        })
    }

    /// Returns the seconds of the run before the window, and the counts of a component in that
    /// time. Returns `None` while that time is shorter than the window.
    fn before(&self, stage: &str) -> Option<(f64, Counts)> {
        let ((from, first), (to, old)) = (self.first.as_ref()?, self.looks.front()?);
        let span = to.saturating_sub(*from);
        let first = first.get(stage).copied().unwrap_or_default();
        (span >= WINDOW).then_some((span.as_secs_f64(), old.get(stage)?.since(first)))
    }

    /// Returns all components, the worst first.
    fn worst<'a>(&self, summary: &'a Summary) -> Vec<(&'a str, Activity)> {
        let stages = summary.stages.iter();
        let mut all: Vec<_> =
            stages.filter_map(|s| Some((s.stage.as_str(), self.of(&s.stage)?))).collect();
        all.sort_by(|a, b| a.1.compare(&b.1));
        all
    }

    /// Returns totals and the worst components, for the line of a graph with many components.
    pub(super) fn line(&self, summary: &Summary) -> String {
        let worst = self.worst(summary);
        // A rate needs two entries.
        let rate = (!worst.is_empty()).then(|| {
            let sum: f64 = worst.iter().map(|(_, a)| a.rate).sum();
            format!(", {sum:.0} calls/s")
        });
        let troubled = worst.iter().filter(|(_, a)| a.is_trouble()).count();
        let one = |(stage, a): &(&str, Activity)| match (a.why(), a.processing_us) {
            (Some(why), _) => format!("{stage} ({why})"),
            (None, Some(us)) => format!("{stage} {}", duration_us(us)),
            (None, None) => (*stage).to_owned(),
        };
        // The last place is for the slowest component, even if many components are in trouble.
        let (first, rest) = worst.split_at(worst.len().min(MAX_NAMED - 1));
        let slow = |a: &Activity| a.processing_us.unwrap_or_default();
        let slowest = rest.iter().max_by(|a, b| slow(&a.1).total_cmp(&slow(&b.1)));
        let named: Vec<String> = first.iter().chain(slowest).map(one).collect();
        let trouble = match troubled {
            0 => "none in trouble".to_owned(),
            n => format!("{n} in trouble"),
        };
        let worst = if named.is_empty() {
            String::new()
        } else {
            format!("; worst, changed or slowest: {}", named.join(", "))
        };
        // If lines are printed at longer intervals than the window, they cover the whole interval.
        let ends = self.looks.front().zip(self.looks.back());
        let span = ends.map_or(WINDOW, |(from, to)| to.0.saturating_sub(from.0));
        let seconds = span.max(WINDOW).as_secs_f64();
        format!(
            "last {seconds:.0} s, means: {} components{}, {trouble}{worst}",
            summary.stages.len(),
            rate.unwrap_or_default()
        )
    }

    /// Returns the table of the last seconds, in at most `rows` lines; if there are too many
    /// components, only the worst.
    pub(super) fn table(&self, summary: &Summary, columns: usize, rows: usize) -> Vec<Line> {
        let mut shown = self.worst(summary);
        if shown.is_empty() {
            return Vec::new();
        }
        let all = shown.len();
        // Two lines for the heads, one for the number of skipped components.
        let room = rows.saturating_sub(3).max(1);
        if all > room {
            shown.truncate(room);
        } else {
            let place = |stage: &str| summary.stages.iter().position(|s| s.stage == stage);
            shown.sort_by_key(|(stage, _)| place(stage));
        }
        let us = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), duration_us);
        let cells = shown.iter().map(|(stage, a)| {
            vec![
                (*stage).to_owned(),
                format!("{:.1}/s", a.rate),
                format!("{:.0} %", a.busy * 100.0),
                us(a.transmission_us),
                us(a.processing_us),
                a.missed.to_string(),
                a.late.to_string(),
                a.failed.to_string(),
            ]
        });
        let head =
            [MEANS, "RATE", "BUSY", "TRANSMISSION", "PROCESSING", "MISSED", "LATE", "FAILED"];
        let narrow = [MEANS, "RATE", "BUSY", "TRANSM.", "PROC.", "MISSED", "LATE", "FAILED"];
        let mut lines = figures::table(&head, &narrow, &[], cells.collect(), columns);
        let heads = lines.len().saturating_sub(shown.len());
        for (line, (_, activity)) in lines.iter_mut().skip(heads).zip(&shown) {
            if activity.is_trouble() {
                line.style = TROUBLE;
            }
        }
        if all > shown.len() {
            let text = format!("and {} more, which are better", all - shown.len());
            lines.push(Line { text, style: "" });
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_analyze::{Collector, InputFacts, RunFacts, StageFacts, StageRecord};
    use driveline_runtime::account::{InputCounters, Record};
    use driveline_types::{MonotonicNs, TopicName};

    fn topic() -> TopicName {
        "a".parse().unwrap()
    }

    fn run(stages: usize) -> Collector {
        let stage = |i: usize| StageFacts {
            name: format!("stage_{i:03}"),
            inputs: vec![InputFacts { name: "in".into(), topic: topic(), triggers: true }],
            outputs: Vec::new(),
        };
        let stages = (0..stages).map(stage).collect();
        Collector::new(RunFacts { graph: "big".into(), stages, ..RunFacts::default() })
    }

    /// Calls of stage `i`, each of so many milliseconds.
    fn calls(run: &mut Collector, i: usize, n: u64, ms: u64, failed: bool) {
        for k in 0..n {
            let start = MonotonicNs(1_000_000_000 + k * 1_000_000_000);
            let end = MonotonicNs(start.0 + ms * 1_000_000);
            let stage = format!("stage_{i:03}");
            run.add(&StageRecord { stage: &stage, start, end, failed, ..StageRecord::default() });
        }
    }

    fn misses(run: &mut Collector, i: usize, missed: u64) {
        let counters = InputCounters { received: 1, missed, ..InputCounters::default() };
        run.set_subscription(&format!("stage_{i:03}"), "in", topic().id(), counters);
    }

    fn late(run: &mut Collector, i: usize, deadlines_missed: u64) {
        let stats = InputCounters { received: 1, deadlines_missed, ..InputCounters::default() };
        let (component, input) = (format!("stage_{i:03}"), "in".to_owned());
        run.take("m", &Record::Input { component, input, topic: topic().id(), stats });
    }

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn the_figures_are_of_the_last_seconds_and_not_of_the_whole_run() {
        let mut run = run(2);
        calls(&mut run, 0, 100, 1, false);
        misses(&mut run, 0, 50);
        calls(&mut run, 1, 10, 1, false);
        let mut recent = Recent::default();
        recent.push(S, &run.summary());
        assert_eq!(recent.of("stage_000"), None, "one entry covers no time");
        calls(&mut run, 0, 20, 30, false);
        recent.push(3 * S, &run.summary());
        let a = recent.of("stage_000").unwrap();
        assert_eq!((a.rate, a.missed, a.failed, a.silent), (10.0, 0, 0, false));
        assert!((a.busy - 0.3).abs() < 1e-3, "{a:?}");
        assert!((a.processing_us.unwrap() - 30_000.0).abs() < 1.0, "{a:?}");
        let b = recent.of("stage_001").unwrap();
        assert!(b.silent && b.processing_us.is_none(), "{b:?}");
        // What is older than the window is forgotten.
        recent.push(9 * S, &run.summary());
        assert_eq!(recent.of("stage_000").unwrap().rate, 0.0);
        assert_eq!(recent.looks.len(), 2);
    }

    #[test]
    fn of_250_components_the_line_is_short_and_names_the_worst() {
        let mut run = run(250);
        (0..250).for_each(|i| calls(&mut run, i, 1, 1, false));
        let mut recent = Recent::default();
        recent.push(S, &run.summary());
        (0..250).filter(|i| *i != 77).for_each(|i| calls(&mut run, i, 4, 1, false));
        calls(&mut run, 9, 1, 90, false);
        calls(&mut run, 42, 2, 1, true);
        misses(&mut run, 123, 17);
        late(&mut run, 200, 3);
        recent.push(2 * S, &run.summary());
        let line = recent.line(&run.summary());
        assert!(line.len() < 300, "{line}");
        let totals = "last 5 s, means: 250 components, 999 calls/s, 4 in trouble; worst";
        assert!(line.starts_with(totals), "{line}");
        let order = [
            "stage_042 (2 failed)",
            "stage_123 (17 missed)",
            "stage_200 (3 deadlines missed)",
            "stage_077 (no calls)",
            "stage_009 18.8 ms",
        ];
        let places: Vec<_> = order.iter().map(|part| line.find(part)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {line}");
        // Many others in trouble do not hide the slowest one.
        (100..120).for_each(|i| misses(&mut run, i, 5));
        recent.push(3 * S, &run.summary());
        let line = recent.line(&run.summary());
        assert!(line.len() < 300 && line.ends_with(", stage_009 18.8 ms"), "{line}");
    }

    #[test]
    fn a_component_that_became_slower_or_rarer_is_named_with_both_values() {
        let mut run = run(20);
        let mut recent = Recent::default();
        recent.push(S, &run.summary());
        let all = |run: &mut Collector, but: &[usize]| {
            (0..20).filter(|i| !but.contains(i)).for_each(|i| calls(run, i, 60, 1, false));
        };
        all(&mut run, &[7]);
        calls(&mut run, 7, 5, 1, false);
        recent.push(7 * S, &run.summary());
        let changed = |recent: &Recent, i| recent.of(&format!("stage_{i:03}")).unwrap().changed;
        assert!((0..20).all(|i| changed(&recent, i).is_none()), "no time before the window");
        all(&mut run, &[3, 4, 5, 7]);
        calls(&mut run, 3, 60, 5, false);
        calls(&mut run, 4, 20, 1, false);
        calls(&mut run, 5, 50, 1, false);
        calls(&mut run, 7, 2, 1, false);
        recent.push(13 * S, &run.summary());
        let line = recent.line(&run.summary());
        let named = "last 6 s, means: 20 components, 182 calls/s, none in trouble; \
                     worst, changed or slowest: \
                     stage_003 (5.00 ms, before 1.00 ms), stage_004 (3.3/s, before 10.0/s), ";
        assert!(line.contains(named), "{line}");
        assert_eq!(changed(&recent, 5), None, "10/s and 8.3/s are much the same");
        assert_eq!(changed(&recent, 7), None, "five calls are too few to compare");
        assert_eq!(line.matches("before").count(), 2, "{line}");
    }

    #[test]
    fn the_table_fits_the_rows_and_colours_what_is_in_trouble() {
        let mut run = run(250);
        let mut recent = Recent::default();
        recent.push(S, &run.summary());
        (0..250).for_each(|i| calls(&mut run, i, 4, 1, false));
        misses(&mut run, 123, 17);
        recent.push(2 * S, &run.summary());
        late(&mut run, 9, 1);
        recent.push(3 * S, &run.summary());
        let lines = recent.table(&run.summary(), 80, 20);
        assert!(lines.len() <= 20 && lines.iter().all(|l| l.text.chars().count() <= 80));
        let words = |i: usize| lines[i].text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            words(0),
            "LAST 5 s, MEANS RATE BUSY TRANSMISSION PROCESSING MISSED LATE FAILED"
        );
        assert_eq!(words(1), "stage_123 2.0/s 0 % - 1.00 ms 17 0 0");
        assert_eq!(words(2), "stage_009 2.0/s 0 % - 1.00 ms 0 1 0");
        assert!(lines[1].text.starts_with("stage_123") && lines[1].style == TROUBLE);
        assert!(lines[2].style == TROUBLE && lines[3].style.is_empty());
        assert_eq!(lines.last().unwrap().text, "and 233 more, which are better");
    }
}
