// SPDX-License-Identifier: Apache-2.0
//! The summary of an analysis as Markdown, to be published: a table for each experiment, of the same figures as on the terminal.

use crate::analysis::{Analysis, CaseResult, ExperimentResult, Ratio, columns, ratio_columns};
use crate::archive::{Experiment, Manifest, Role};
use crate::table::{LOSSES, digits, few_rounds, ratio, remarks};
use driveline_bench::Columns;
use driveline_bench::harness::Pace;
use driveline_bench::stats::Interval;
use std::fmt::Write as _;

/// What stands where there are too few samples, or nothing is known.
const NOTHING: &str = "–";

/// The summary.
#[must_use]
pub(crate) fn summary(m: &Manifest, a: &Analysis) -> String {
    let mut text = String::new();
    for (e, planned) in a.experiments.iter().zip(&m.experiments) {
        experiment(&mut text, m, e, planned);
    }
    for line in remarks(m, a) {
        let _ = writeln!(text, "{line}\n");
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn experiment(text: &mut String, m: &Manifest, e: &ExperimentResult, planned: &Experiment) {
    let rounds = if planned.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", planned.rounds) };
    let _ = writeln!(text, "### {} · {}\n", e.id, escaped(&e.title));
    let _ = writeln!(
        text,
        "Microseconds; {rounds}; commit {}, begun {}; {}. Ratios have 95 % intervals over rounds; {NOTHING} stands where there are too few samples.\n",
        escaped(&m.commit),
        escaped(&m.started_at),
        code(&m.command.join(" "))
    );
    let table = table(e);
    if table.is_empty() {
        let _ = writeln!(text, "{}\n", e.answer);
    } else {
        let _ = writeln!(text, "{}", table.markdown());
    }
}

/// The floors first, then every system in every cell.
fn table(e: &ExperimentResult) -> Columns {
    let with_floors = || e.cases.iter().filter(|c| matches!(c.case.role, Role::Floor | Role::Control)).chain(e.measured());
    let ranks = columns(with_floors().filter_map(CaseResult::headline).map(|(_, f)| &f.percentiles));
    let ratios = ratio_columns(e.measured().filter_map(CaseResult::to_driveline));
    // Nobody wonders whether samples were missed: that stands there even of none.
    let losses = || LOSSES.into_iter().filter(|(name, of)| *name == "missed" || e.measured().any(|c| of(&c.totals) > 0));
    let mut labels: Vec<String> = e.measured().filter_map(CaseResult::headline).map(|(of, _)| of.label().to_owned()).collect();
    labels.dedup();
    let mut head = vec![if let [one] = labels.as_slice() { one.clone() } else { String::new() }, "system".into(), "n".into()];
    head.extend(ranks.iter().map(|c| c.label().to_owned()));
    head.extend(ratios.iter().map(|c| format!("{} ÷ Driveline", c.label())));
    head.push(cpu_label(e).into());
    head.extend(losses().map(|(name, _)| name.to_owned()));
    head.extend(["sent".into(), "lost".into(), "runs that count".into()]);
    let mut table = Columns::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for c in with_floors() {
        let measured = c.case.role == Role::Measured;
        let headline = c.headline();
        let place = match &headline {
            _ if c.case.role == Role::Control => format!("floor, {}, again (A/A)", c.case.cell),
            _ if !measured => format!("floor, {}", c.case.cell),
            Some((of, _)) if labels.len() > 1 => format!("{} ({})", c.case.cell, of.label()),
            _ => c.case.cell.clone(),
        };
        let mut row = vec![place, if c.is_contradicted() { format!("{} (INVALID)", c.name()) } else { c.name() }];
        if let Some((_, figure)) = headline {
            row.push(figure.percentiles.n.to_string());
            row.extend(ranks.iter().map(|rank| rank.of(&figure.percentiles).map_or_else(nothing, |ns| microseconds(ns as f64))));
            let other = if measured { c.to_driveline() } else { c.ratios.first() };
            row.extend(ratios.iter().map(|column| match other {
                None if c.is_driveline() => "1".to_owned(),
                None => String::new(),
                Some(r) => interval(r, column.ratio(r)),
            }));
        } else {
            row.push(c.without_figures());
            row.extend(std::iter::repeat_n(String::new(), ranks.len() + ratios.len()));
        }
        let links = !c.case.links.is_empty();
        row.push(if links { c.totals.cpu_ns_per_sample.map_or_else(nothing, microseconds) } else { String::new() });
        row.extend(losses().map(|(_, of)| if links { of(&c.totals).to_string() } else { String::new() }));
        let sent = c.lost().filter(|_| !links);
        row.extend(sent.map_or_else(|| [String::new(), String::new()], |(lost, due)| [due.to_string(), lost.to_string()]));
        row.push(format!("{} of {}", c.valid_runs(), c.runs.len()));
        table.row(row);
    }
    table
}

/// Text in which nothing means anything to Markdown.
fn escaped(text: &str) -> String {
    text.chars().flat_map(|c| "\\`*_[<&".contains(c).then_some('\\').into_iter().chain([c])).collect()
}

/// Text as it is, in more backticks than it has in a row.
fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    if longest == 0 { format!("`{text}`") } else { format!("{fence} {text} {fence}") }
}

fn nothing() -> String {
    NOTHING.to_owned()
}

fn microseconds(ns: f64) -> String {
    digits(ns / 1e3)
}

/// `1.19 (1.06–1.53)`; of a control, which is divided by its floor and not by Driveline, with that.
fn interval(r: &Ratio, i: Option<&Interval>) -> String {
    let to = if r.to_role == Role::Floor { " ÷ floor" } else { "" };
    i.map_or_else(nothing, |i| {
        let bounds = if i.rounds == 1 { String::new() } else { format!(" ({}–{})", ratio(i.low), ratio(i.high)) };
        format!("{}{bounds}{}{to}", ratio(i.estimate), few_rounds(i))
    })
}

/// A ping-pong's processor time is of a whole round.
fn cpu_label(e: &ExperimentResult) -> &'static str {
    let links = || e.measured().flat_map(|c| &c.case.links);
    let is_ping_pong = |l: &crate::archive::Link| l.pace == Pace::PingPong;
    match (links().any(is_ping_pong), links().all(is_ping_pong)) {
        (_, true) => "CPU per round",
        (false, _) => "CPU per message",
        _ => "CPU per message, or round of a ping-pong",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_are_no_markdown() {
        assert_eq!(escaped("a `b` <i>"), "a \\`b\\` \\<i>");
        assert_eq!([code("run S1"), code("run `x`")], ["`run S1`", "`` run `x` ``"]);
    }
}
