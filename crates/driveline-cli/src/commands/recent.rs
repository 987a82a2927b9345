// SPDX-License-Identifier: Apache-2.0
//! Activity of a run's components in the last seconds, and the components that need attention.

use super::figures;
use super::live::{Line, TROUBLE};
use driveline_analyze::{StageSummary, Summary};
use driveline_terminal::figures::duration_us;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Time span of the live table.
const WINDOW: Duration = Duration::from_secs(5);
/// Components that a line names where a graph has more than this.
pub(super) const MAX_NAMED: usize = 5;

/// Counts of a component since the start of the run.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    runs: u64,
    failed: u64,
    missed: u64,
    transmission: (f64, f64),
    processing: (f64, f64),
}

/// Activity of a component in the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Activity {
    /// Calls per second.
    pub(super) rate: f64,
    /// Share of the time that one thread spent in its calls.
    pub(super) busy: f64,
    /// Means, in microseconds; none without calls.
    pub(super) transmission_us: Option<f64>,
    pub(super) processing_us: Option<f64>,
    pub(super) failed: u64,
    pub(super) missed: u64,
    /// It was called before, and not in the last seconds.
    pub(super) silent: bool,
}

impl Activity {
    /// Returns true if it needs attention.
    fn is_trouble(&self) -> bool {
        self.failed > 0 || self.missed > 0 || self.silent
    }

    /// Returns the reason why it is listed, the worst first; `None` if it is only slow.
    fn why(&self) -> Option<String> {
        let why = [
            (self.failed > 0).then(|| format!("{} failed", self.failed)),
            (self.missed > 0).then(|| format!("{} missed", self.missed)),
            self.silent.then(|| "no calls".to_owned()),
        ];
        let why: Vec<String> = why.into_iter().flatten().collect();
        (!why.is_empty()).then(|| why.join(", "))
    }

    /// Rank: failures, then missed samples, then silence, then slowness.
    fn badness(&self) -> (u64, u64, bool, f64) {
        (self.failed, self.missed, self.silent, self.processing_us.unwrap_or_default())
    }
}

/// Counts of the last seconds, one set a look.
#[derive(Default)]
pub(super) struct Recent {
    looks: VecDeque<(Duration, BTreeMap<String, Counts>)>,
}

fn counts(s: &StageSummary, summary: &Summary) -> Counts {
    let inputs = summary.subscriptions.iter().filter(|i| i.stage == s.stage && i.triggers);
    let sum = |q: &driveline_analyze::Quantiles| (q.n as f64, q.n as f64 * q.mean);
    Counts {
        runs: s.runs,
        failed: s.failed.saturating_add(s.failed_events),
        missed: inputs.map(|i| i.missed).fold(0, u64::saturating_add),
        transmission: sum(&s.transmission_us),
        processing: sum(&s.processing_us),
    }
}

impl Recent {
    /// Notes a look at `now`, the time since the start of the run. Keeps one look that is older
    /// than the window.
    pub(super) fn push(&mut self, now: Duration, summary: &Summary) {
        let all = summary.stages.iter().map(|s| (s.stage.clone(), counts(s, summary))).collect();
        self.looks.push_back((now, all));
        while self.looks.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) >= WINDOW) {
            self.looks.pop_front();
        }
    }

    /// Activity of a component over the window; `None` before the second look.
    pub(super) fn of(&self, stage: &str) -> Option<Activity> {
        let ((from, old), (to, new)) = (self.looks.front()?, self.looks.back()?);
        let seconds = to.saturating_sub(*from).as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        let (old, new) = (old.get(stage).copied().unwrap_or_default(), *new.get(stage)?);
        let mean = |old: (f64, f64), new: (f64, f64)| {
            let n = new.0 - old.0;
            (n > 0.0).then(|| (new.1 - old.1) / n)
        };
        let runs = new.runs.saturating_sub(old.runs);
        Some(Activity {
            rate: runs as f64 / seconds,
            busy: ((new.processing.1 - old.processing.1) / 1e6 / seconds).max(0.0),
            transmission_us: mean(old.transmission, new.transmission),
            processing_us: mean(old.processing, new.processing),
            failed: new.failed.saturating_sub(old.failed),
            missed: new.missed.saturating_sub(old.missed),
            silent: old.runs > 0 && runs == 0,
        })
    }

    /// The components that call for attention most, the worst first.
    fn worst<'a>(&self, summary: &'a Summary) -> Vec<(&'a str, Activity)> {
        let stages = summary.stages.iter();
        let mut all: Vec<_> =
            stages.filter_map(|s| Some((s.stage.as_str(), self.of(&s.stage)?))).collect();
        let order = |a: &Activity, b: &Activity| {
            let (a, b) = (a.badness(), b.badness());
            (b.0, b.1, b.2).cmp(&(a.0, a.1, a.2)).then(b.3.total_cmp(&a.3))
        };
        all.sort_by(|a, b| order(&a.1, &b.1));
        all
    }

    /// Totals and the few worst components, for the line of a graph with many.
    pub(super) fn line(&self, summary: &Summary) -> String {
        let worst = self.worst(summary);
        let rate: f64 = worst.iter().map(|(_, a)| a.rate).sum();
        let troubled = worst.iter().filter(|(_, a)| a.is_trouble()).count();
        let one = |(stage, a): &(&str, Activity)| match (a.why(), a.processing_us) {
            (Some(why), _) => format!("{stage} ({why})"),
            (None, Some(us)) => format!("{stage} {}", duration_us(us)),
            (None, None) => (*stage).to_owned(),
        };
        let named: Vec<String> = worst.iter().take(MAX_NAMED).map(one).collect();
        let trouble = match troubled {
            0 => "none in trouble".to_owned(),
            n => format!("{n} in trouble"),
        };
        let worst = if named.is_empty() {
            String::new()
        } else {
            format!("; worst or slowest: {}", named.join(", "))
        };
        format!("{} components, {rate:.0} calls/s, {trouble}{worst}", summary.stages.len())
    }

    /// The table of the last seconds, in at most `rows` lines: of many components the worst.
    pub(super) fn table(&self, summary: &Summary, columns: usize, rows: usize) -> Vec<Line> {
        let mut shown = self.worst(summary);
        if shown.is_empty() {
            return Vec::new();
        }
        let all = shown.len();
        // Two lines for the head, one for skipped components.
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
                a.failed.to_string(),
            ]
        });
        let head =
            ["LAST 5 s, MEANS", "RATE", "BUSY", "TRANSMISSION", "PROCESSING", "MISSED", "FAILED"];
        let narrow = ["LAST 5 s, MEANS", "RATE", "BUSY", "TRANSM.", "PROC.", "MISSED", "FAILED"];
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
    use driveline_runtime::account::InputCounters;
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

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn the_figures_are_of_the_last_seconds_and_not_of_the_whole_run() {
        let mut run = run(2);
        calls(&mut run, 0, 100, 1, false);
        misses(&mut run, 0, 50);
        calls(&mut run, 1, 10, 1, false);
        let mut recent = Recent::default();
        recent.push(S, &run.summary());
        assert_eq!(recent.of("stage_000"), None, "one look is no time");
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
        recent.push(2 * S, &run.summary());
        let line = recent.line(&run.summary());
        assert!(line.len() < 300, "{line}");
        assert!(line.starts_with("250 components, 999 calls/s, 3 in trouble; worst"), "{line}");
        let order = [
            "stage_042 (2 failed)",
            "stage_123 (17 missed)",
            "stage_077 (no calls)",
            "stage_009 18.8 ms",
        ];
        let places: Vec<_> = order.iter().map(|part| line.find(part)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {line}");
    }

    #[test]
    fn the_table_fits_the_rows_and_colours_what_is_in_trouble() {
        let mut run = run(250);
        let mut recent = Recent::default();
        recent.push(S, &run.summary());
        (0..250).for_each(|i| calls(&mut run, i, 4, 1, false));
        misses(&mut run, 123, 17);
        recent.push(2 * S, &run.summary());
        let lines = recent.table(&run.summary(), 80, 20);
        assert!(lines.len() <= 20 && lines.iter().all(|l| l.text.chars().count() <= 80));
        assert!(lines[1].text.starts_with("stage_123") && lines[1].style == TROUBLE);
        assert!(lines[2].style.is_empty());
        assert_eq!(lines.last().unwrap().text, "and 233 more, which are better");
    }
}
