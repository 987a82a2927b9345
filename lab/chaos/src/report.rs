// SPDX-License-Identifier: Apache-2.0
//! Report of a campaign: its faults and the answers of the graph, as JSON and as text.

use crate::census::Census;
use crate::faults::FaultKind;
use crate::gaps::Gaps;
use crate::verdict::{Answer, Caused, Finding};
use driveline_terminal::table::Columns;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Version of the layout of chaos.json; it changes when a key changes its meaning or is removed.
const FORMAT: u32 = 1;
/// Maximum number of faults in the text; all are in the JSON.
const MAX_LINES: usize = 200;

/// A campaign. Times are in milliseconds or, with `_s`, in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this layout.
    pub format: u32,
    /// Version and commit of the program.
    pub version: String,
    /// Name of the graph.
    pub graph: String,
    /// Seed of the plan.
    pub seed: u64,
    /// True if every invariant holds.
    pub ok: bool,
    /// True if the campaign was interrupted, so that the remaining faults were not caused.
    pub interrupted: bool,
    /// Time of the campaign.
    pub duration_s: f64,
    /// Number of faults caused and answered, by kind.
    pub caused: BTreeMap<FaultKind, u64>,
    /// Answered SIGKILLs of modules.
    pub kills: u64,
    /// Faults whose module was restarted and works again.
    pub restarts: u64,
    /// Samples by which accounts differ from what was published, plus samples not connected or
    /// unread that no outage explains.
    pub unaccounted: u64,
    /// Torn samples.
    pub torn: u64,
    /// Remaining processes, files, descriptors and segments.
    pub leaked: u64,
    /// Each invariant.
    pub invariants: Vec<Finding>,
    /// Recovery of each module, and its cold start.
    pub modules: BTreeMap<String, Recovery>,
    /// Longest silence of each topic, before the first fault and after it.
    pub gaps: BTreeMap<String, Gaps>,
    /// Each run.
    pub runs: Vec<Run>,
    /// Each fault, in its order.
    pub faults: Vec<Caused>,
}

/// A run of the graph.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    /// Directory with its output and report.
    pub directory: String,
    /// Duration of the run.
    pub duration_s: f64,
    /// Time before the first fault, in which [`Gaps::quiet`] was measured.
    pub quiet_s: f64,
    /// Exit code or signal of the launcher, or a text if a fault killed it or it did not end.
    pub ended: String,
    /// Resources of its processes before the first fault.
    pub before: Census,
    /// Resources of its processes after the last fault; a copy of `before` if no fault was caused
    /// or the launcher had ended.
    pub after: Census,
}

/// Times of a module.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Recovery {
    /// Time from the module's first start until it was ready; the longest of all runs.
    pub cold_start_ms: Option<f64>,
    /// Times from the end of a process until its successor was ready.
    pub ready: Option<Times>,
    /// Times from the end of a process until the first sample of its successor.
    pub first_sample: Option<Times>,
    /// `ready.p99_ms` ÷ `cold_start_ms`.
    pub p99_to_cold_start: Option<f64>,
}

/// Distribution, with percentiles by the nearest rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// Number.
    pub n: usize,
    /// Median.
    pub p50_ms: f64,
    /// 99th percentile; for fewer than 100 values, the longest.
    pub p99_ms: f64,
    /// Longest.
    pub max_ms: f64,
}

impl Times {
    /// Returns the distribution of the values; `None` if there are none.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let rank = |p: f64| values.get(((values.len() as f64 * p).ceil() as usize).max(1) - 1);
        Some(Self {
            n: values.len(),
            p50_ms: *rank(0.5)?,
            p99_ms: *rank(0.99)?,
            max_ms: *values.last()?,
        })
    }
}

/// Inputs of a report.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Name of the graph.
    pub graph: String,
    /// Seed.
    pub seed: u64,
    /// True if the campaign was interrupted.
    pub interrupted: bool,
    /// Time of the campaign, in seconds.
    pub duration_s: f64,
    /// Findings of all runs together.
    pub findings: Vec<Finding>,
    /// Cold starts by module, in milliseconds.
    pub cold_starts: BTreeMap<String, f64>,
    /// Gaps by topic.
    pub gaps: BTreeMap<String, Gaps>,
    /// Runs.
    pub runs: Vec<Run>,
    /// Faults.
    pub faults: Vec<Caused>,
}

impl Report {
    /// Computes the figures.
    #[must_use]
    pub fn of(parts: Parts) -> Self {
        use crate::verdict::Invariant;
        let count = |which: Invariant| {
            parts.findings.iter().filter(|f| f.invariant == which).map(|f| f.count).sum()
        };
        let happened = || parts.faults.iter().filter(|f| !matches!(f.answer, Answer::Missing(_)));
        let mut caused = BTreeMap::new();
        happened().for_each(|f| *caused.entry(f.kind).or_insert(0) += 1);
        let recovered = |f: &&Caused| matches!(f.answer, Answer::Recovered(_));
        let version = driveline_terminal::version::VERSION;
        Self {
            format: FORMAT,
            version: format!("{version} ({})", driveline_terminal::version::COMMIT),
            ok: parts.findings.iter().all(|f| f.count == 0),
            kills: caused.get(&FaultKind::Kill).copied().unwrap_or_default(),
            restarts: happened().filter(recovered).count() as u64,
            caused,
            unaccounted: count(Invariant::Unaccounted),
            torn: count(Invariant::Torn),
            leaked: count(Invariant::Leaked),
            modules: recoveries(&parts),
            graph: parts.graph,
            seed: parts.seed,
            interrupted: parts.interrupted,
            duration_s: parts.duration_s,
            invariants: parts.findings,
            gaps: parts.gaps,
            runs: parts.runs,
            faults: parts.faults,
        }
    }

    /// Returns the report as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let kinds: Vec<String> = self.caused.iter().map(|(k, n)| format!("{n} × {k}")).collect();
        let kinds = if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") };
        let _ = writeln!(
            text,
            "graph '{}', seed {}, {:.0} s: {kinds}{}\n",
            self.graph,
            self.seed,
            self.duration_s,
            if self.interrupted { " (interrupted)" } else { "" }
        );
        self.invariants_text(&mut text);
        self.modules_text(&mut text);
        self.gaps_text(&mut text);
        text
    }

    /// Returns a table of the faults, with at most 200 lines.
    #[must_use]
    pub fn fault_lines(&self) -> String {
        let mut table = Columns::new(&["FAULT", "AT", "KIND", "MODULE", "PROCESS", "ANSWER"]);
        for fault in self.faults.iter().take(MAX_LINES) {
            let dash = || "-".to_owned();
            table.row(vec![
                fault.number.to_string(),
                format!("{:.1} s", fault.at_s),
                fault.kind.to_string(),
                fault.module.clone().unwrap_or_else(dash),
                fault.pid.map_or_else(dash, |pid| pid.to_string()),
                fault.answer.to_string(),
            ]);
        }
        let mut text = String::new();
        table.write(&mut text);
        if self.faults.len() > MAX_LINES {
            let _ = writeln!(text, "… {} more in chaos.json", self.faults.len() - MAX_LINES);
        }
        text
    }

    fn invariants_text(&self, text: &mut String) {
        for finding in &self.invariants {
            let mark = if finding.count == 0 { "ok    " } else { "BROKEN" };
            let _ = writeln!(text, "{mark}  {:>8} {}", finding.count, finding.invariant);
            finding.details.iter().for_each(|d| {
                let _ = writeln!(text, "                 {d}");
            });
        }
    }

    fn modules_text(&self, text: &mut String) {
        let mut table = Columns::new(&[
            "MODULE",
            "COLD START",
            "RESTARTS",
            "READY p50",
            "p99",
            "MAX",
            "p99/COLD",
            "FIRST SAMPLE p99",
        ]);
        let ms = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0} ms"));
        for (module, times) in self.modules.iter().filter(|(_, m)| m.ready.is_some()) {
            let ready = times.ready;
            table.row(vec![
                module.clone(),
                ms(times.cold_start_ms),
                ready.map_or(0, |t| t.n).to_string(),
                ms(ready.map(|t| t.p50_ms)),
                ms(ready.map(|t| t.p99_ms)),
                ms(ready.map(|t| t.max_ms)),
                times.p99_to_cold_start.map_or_else(|| "-".to_owned(), |r| format!("{r:.2}")),
                ms(times.first_sample.map(|t| t.p99_ms)),
            ]);
        }
        if !table.is_empty() {
            text.push('\n');
            table.write(text);
        }
    }

    fn gaps_text(&self, text: &mut String) {
        let mut table =
            Columns::new(&["TOPIC", "SAMPLES", "LONGEST GAP", "AT MOST", "WITHOUT FAULTS"]);
        for (topic, gaps) in self.gaps.iter().filter(|(_, g)| g.faults.samples > 0) {
            table.row(vec![
                topic.clone(),
                gaps.faults.samples.to_string(),
                format!("{:.0} ms", gaps.faults.longest_ms),
                format!("{:.0} ms", gaps.faults.at_most_ms),
                format!("{:.0} ms", gaps.quiet.longest_ms),
            ]);
        }
        if !table.is_empty() {
            text.push('\n');
            table.write(text);
        }
    }
}

fn recoveries(parts: &Parts) -> BTreeMap<String, Recovery> {
    let mut modules: BTreeMap<String, Recovery> = BTreeMap::new();
    for (module, ms) in &parts.cold_starts {
        modules.entry(module.clone()).or_default().cold_start_ms = Some(*ms);
    }
    for (module, recovery) in &mut modules {
        let own = || parts.faults.iter().filter(|f| f.module.as_ref() == Some(module));
        recovery.ready = Times::of(own().filter_map(|f| f.ready_after_ms).collect());
        recovery.first_sample = Times::of(own().filter_map(|f| f.first_sample_after_ms).collect());
        let cold = recovery.cold_start_ms.filter(|ms| *ms > 0.0);
        recovery.p99_to_cold_start =
            recovery.ready.zip(cold).map(|(ready, cold)| ready.p99_ms / cold);
    }
    modules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Invariant;

    #[test]
    fn percentiles_are_by_the_nearest_rank() {
        let times = Times::of((1..=50).map(f64::from).collect()).unwrap();
        assert_eq!((times.n, times.p50_ms, times.p99_ms, times.max_ms), (50, 25.0, 50.0, 50.0));
        assert_eq!(Times::of(Vec::new()), None);
    }

    #[test]
    fn figures_and_text_say_what_was_caused_and_what_broke() {
        let fault = |answer| Caused {
            number: 1,
            kind: FaultKind::Kill,
            module: Some("lane".into()),
            pid: Some(7),
            at_s: 1.0,
            answer,
            reported: None,
            ready_after_ms: Some(120.0),
            first_sample_after_ms: Some(140.0),
        };
        let findings = vec![
            Finding { invariant: Invariant::Torn, count: 2, details: vec!["2 of 'image'".into()] },
            Finding { invariant: Invariant::Leaked, count: 0, details: Vec::new() },
        ];
        let report = Report::of(Parts {
            graph: "demo".into(),
            findings,
            cold_starts: [("lane".to_owned(), 100.0)].into(),
            faults: vec![fault(Answer::Recovered(121.0)), fault(Answer::Down)],
            ..Parts::default()
        });
        assert_eq!((report.ok, report.kills, report.restarts, report.torn), (false, 2, 1, 2));
        assert_eq!(report.modules["lane"].p99_to_cold_start, Some(1.2));
        let text = report.text();
        for part in ["2 × kill", "BROKEN", "2 of 'image'", "ok", "100 ms", "1.20"] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(report.fault_lines().contains("works again after 121 ms"));
    }
}
