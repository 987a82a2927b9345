// SPDX-License-Identifier: Apache-2.0
//! An analysis as text for a terminal, and how figures are written everywhere.

use crate::analysis::{Analysis, CaseResult, ExperimentResult, Ratio};
use crate::archive::{Manifest, Role};
use driveline_bench::observations::Quantity;
use driveline_bench::stats::{Interval, Percentiles};
use std::fmt::Write as _;

/// What is written where there are too few samples for a percentile.
pub(crate) const TOO_SMALL: &str = "n too small";

/// A duration with its unit and three digits: `12.3 µs`.
pub(crate) fn duration(ns: u64) -> String {
    span(ns as f64)
}

pub(crate) fn span(ns: f64) -> String {
    match ns {
        ns if ns < 999.5 => format!("{ns:.0} ns"),
        ns if ns < 999.5e3 => format!("{} µs", digits(ns / 1e3)),
        ns if ns < 999.5e6 => format!("{} ms", digits(ns / 1e6)),
        ns => format!("{} s", digits(ns / 1e9)),
    }
}

/// Three significant digits of a number from 1 up; two decimals below.
pub(crate) fn digits(x: f64) -> String {
    match x.abs() {
        a if a < 9.995 => format!("{x:.2}"),
        a if a < 99.95 => format!("{x:.1}"),
        _ => format!("{x:.0}"),
    }
}

pub(crate) fn ratio(x: f64) -> String {
    if x < 0.0995 { format!("{x:.3}") } else { digits(x) }
}

/// A value of an observed quantity, with its unit.
pub(crate) fn quantity(q: Quantity, value: f64) -> String {
    match q {
        Quantity::ResidentMemory => format!("{} MiB", digits(value / f64::from(1 << 20))),
        Quantity::Switches | Quantity::Drops if value.fract() == 0.0 => format!("{value:.0}"),
        Quantity::Switches | Quantity::Drops => digits(value),
        _ => span(value),
    }
}

pub(crate) fn interval(i: Option<&Interval>) -> String {
    i.map_or_else(String::new, |i| format!("{} [{}, {}]", ratio(i.estimate), ratio(i.low), ratio(i.high)))
}

/// A percentile, or that there are too few samples.
pub(crate) fn percentile(p: Option<u64>) -> String {
    p.map_or_else(|| TOO_SMALL.to_owned(), duration)
}

/// Columns, the first one to the left, the others to the right.
pub(crate) struct Columns {
    rows: Vec<Vec<String>>,
}

impl Columns {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|h| (*h).to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn write(&self, into: &mut String) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        // A row of one cell is a heading, and may be as long as it likes.
        let wide = || self.rows.iter().filter(|r| r.len() > 1);
        let width = |c: usize| wide().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (i, (text, width)) in row.iter().zip(&widths).enumerate() {
                let gap = " ".repeat(width.saturating_sub(text.chars().count()));
                let _ = if i == 0 { write!(line, "  {text}{gap}") } else { write!(line, "  {gap}{text}") };
            }
            let _ = writeln!(into, "{}", line.trim_end());
        }
    }
}

/// The summary.
#[must_use]
pub(crate) fn summary(m: &Manifest, a: &Analysis) -> String {
    let mut text = String::new();
    for e in &a.experiments {
        experiment(&mut text, e);
    }
    for line in remarks(m, a) {
        let _ = writeln!(text, "{line}");
    }
    text
}

fn experiment(text: &mut String, e: &ExperimentResult) {
    let _ = writeln!(text, "{} · {}\n{}\n{}\n", e.id, e.title, e.question, e.answer);
    for cell in e.cells() {
        let cases: Vec<&CaseResult> = e.in_cell(cell).collect();
        let of = cases.iter().find_map(|c| c.headline()).map(|(of, _)| of.label().to_owned()).unwrap_or_default();
        let title = if of.is_empty() { cell.to_owned() } else { format!("{cell} ({of})") };
        let mut head = vec![title.as_str(), "n", "p50", "p99", "p99.9", "÷ Driveline, p50", "÷ Driveline, p99"];
        if cases.iter().any(|c| !c.case.links.is_empty()) {
            head.extend(["CPU/message", "missed", "not sent", "torn"]);
        }
        let mut columns = Columns::new(&head);
        columns.rows.extend(cases.iter().map(|c| row(c)));
        columns.write(text);
        text.push('\n');
    }
    let controls: Vec<(&CaseResult, &Ratio)> = controls(e).collect();
    if !controls.is_empty() {
        let mut columns = Columns::new(&["A/A control: the floor ÷ the same once more", "p50", "p99"]);
        for (c, r) in controls {
            columns.rows.push(vec![c.case.cell.clone(), interval(r.p50.as_ref()), interval(r.p99.as_ref())]);
        }
        columns.write(text);
        text.push('\n');
    }
    for c in &e.cases {
        for r in c.runs.iter().filter(|r| !r.reasons.is_empty()) {
            let _ = writeln!(text, "INVALID  {} in round {}: {}", c.case.id, r.round + 1, r.reasons.join("; "));
        }
    }
    for (c, agreement) in e.cases.iter().filter_map(|c| c.own_tool.as_ref().map(|a| (c, a))) {
        let _ = writeln!(text, "{}{}: {agreement}", if agreement.agrees { "" } else { "INVALID  " }, c.case.id);
    }
    for l in &e.left_out {
        let _ = writeln!(text, "left out  {}: {}", l.what, l.reason);
    }
    text.push('\n');
}

/// How much two equal things differ.
pub(crate) fn controls(e: &ExperimentResult) -> impl Iterator<Item = (&CaseResult, &Ratio)> {
    e.cases.iter().filter(|c| c.case.role == Role::Control).flat_map(|c| c.ratios.iter().map(move |r| (c, r)))
}

fn row(c: &CaseResult) -> Vec<String> {
    let mut row = vec![if c.is_contradicted() { format!("{} (INVALID)", c.name()) } else { c.name() }];
    let Some((_, f)) = c.headline() else {
        row.push("no valid run".into());
        return row;
    };
    let Percentiles { n, p50, p99, p999, .. } = f.percentiles;
    let r = c.to_driveline();
    let t = &c.totals;
    row.extend([
        n.to_string(),
        percentile(p50),
        percentile(p99),
        percentile(p999),
        interval(r.and_then(|r| r.p50.as_ref())),
        interval(r.and_then(|r| r.p99.as_ref())),
    ]);
    if !c.case.links.is_empty() {
        row.push(t.cpu_ns_per_sample.map_or_else(String::new, span));
        row.extend([t.missed.to_string(), t.not_sent.values().sum::<u64>().to_string(), t.torn.to_string()]);
    }
    row
}

/// What a reader must know before believing anything.
pub(crate) fn remarks(m: &Manifest, a: &Analysis) -> Vec<String> {
    let mut lines = Vec::new();
    if !a.complete {
        lines.push(format!("PARTIAL: {} of {} runs were made; `driveline bench run --resume` goes on.", a.made, a.planned));
    }
    if !m.optimised {
        lines.push("NOT OPTIMISED: this is a debug build, its figures say nothing about speed.".into());
    }
    if a.valid < a.made {
        lines.push(format!("{} of {} runs do not count; their reasons are listed.", a.made - a.valid, a.made));
    }
    if a.disturbed > 0 {
        lines.push(format!(
            "DISTURBED: during {} of {} runs other processes used more than {:.0} % of the machine ({:.0} % in the worst). Measure on a quiet machine.",
            a.disturbed,
            a.made,
            driveline_bench::MAX_OTHERS * 100.0,
            a.worst_others * 100.0
        ));
    }
    let least = m.experiments.iter().map(|e| e.rounds).min().unwrap_or(0);
    if least < crate::analysis::ENOUGH_ROUNDS as u64 {
        lines.push(format!("With {least} rounds intervals are not to be trusted; {} make a start.", crate::analysis::ENOUGH_ROUNDS));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let all = [0, 7, 999, 1_234, 12_345, 123_456, 999_499, 999_600, 12_345_678, 3_210_000_000].map(duration);
        assert_eq!(all, ["0 ns", "7 ns", "999 ns", "1.23 µs", "12.3 µs", "123 µs", "999 µs", "1.00 ms", "12.3 ms", "3.21 s"]);
        assert_eq!([0.0123, 0.987, 1.0, 12.345, 123.4].map(ratio), ["0.012", "0.99", "1.00", "12.3", "123"]);
        assert_eq!(quantity(Quantity::ResidentMemory, 3.0 * 1048576.0), "3.00 MiB");
    }

    #[test]
    fn columns_line_up_though_letters_have_several_bytes() {
        let mut c = Columns::new(&["a", "µs"]);
        c.rows.push(vec!["ÄÖ".into(), "10.0".into()]);
        let mut text = String::new();
        c.write(&mut text);
        assert_eq!(text, "  a     µs\n  ÄÖ  10.0\n");
    }
}
