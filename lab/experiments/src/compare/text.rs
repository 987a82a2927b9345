// SPDX-License-Identifier: Apache-2.0
//! Comparison as text for a terminal: differences, rows without a verdict, and the method.

use super::chance::SIGNIFICANCE;
use super::{CostVerdict, Difference, Differences, MACHINE_CHANGED, Verdict, costs};
use crate::analysis::{Criterion, equal_goodput};
use crate::archive::Role;
use crate::table;
use driveline_bench::stats::{ENOUGH_ROUNDS, Rank};
use driveline_terminal::paragraphs::wrapped;
use driveline_terminal::table::Columns;

/// Returns the method that decides which differences are real, for the kinds of rows that exist.
pub(super) fn method(rows: &[Difference], made: usize) -> String {
    let streams = match rows.iter().any(|r| r.by == Criterion::Goodput) {
        true => format!(
            "Of a stream a round has one goodput, of which more is faster; goodputs less than {} \
             apart count as equal. A floor passes no payload on, so it has no \
             goodput. Therefore a difference in goodput is never reported as \
             `{MACHINE_CHANGED}`. ",
            equal_goodput()
        ),
        false => String::new(),
    };
    format!(
        "Ratio B ÷ A with 95 % interval (bootstrap, expanded percentiles, rounds of each drawn on \
         their own). A difference is called real if the interval \
         excludes 1 and Welch's t test of the rounds' percentiles stays below {:.0} % after Holm's \
         correction over all {made} comparisons. The test rests on \
         rounds: each has one percentile of its own. {streams}A percentile of few samples lies \
         nearer to the middle, so p99 is tested only where every round has {} samples, \
         or all rounds of both have about equally many. If the floor with which a row is \
         compared has the same verdict, and the floor's ratio lies in the row's 95 % interval, \
         then the machine changed. {}",
        SIGNIFICANCE * 100.0,
        Rank::P99.needs,
        costs::method()
    )
}

/// Returns the number of rows without a verdict for each reason, with the remedy.
fn without_verdict(c: &Differences) -> Vec<String> {
    let rows = |v: Verdict| c.rows.iter().filter(|r| r.verdict == v).count();
    let costs = c.costs.iter().filter(|cost| cost.verdict == CostVerdict::TooFewRounds).count();
    let all = c.rows.len() + c.costs.len();
    let number = |n: usize| {
        if n == all { format!("all {all} figures") } else { format!("{n} of {all} figures") }
    };
    let mut lines = Vec::new();
    let mut say = |n: usize, why: String| {
        if n > 0 {
            lines.push(format!("No verdict on {}: {why}", number(n)));
        }
    };
    say(
        rows(Verdict::TooFewRounds) + costs,
        format!(
            "there are fewer than {ENOUGH_ROUNDS} rounds. Measure both with --rounds \
             {ENOUGH_ROUNDS} or more."
        ),
    );
    say(
        rows(Verdict::UnequalRounds),
        format!(
            "rounds have fewer than the {} samples of a p99, and not equally many. Measure both \
             longer, or with `messages:` in place of `seconds:`.",
            Rank::P99.needs
        ),
    );
    say(rows(Verdict::TooFewSamples), "n is too small. Measure both longer.".to_owned());
    if !lines.is_empty() {
        lines.push("With --json, these rows are printed, too.".to_owned());
    }
    lines
}

pub(super) fn text(c: &Differences, width: usize) -> String {
    let mut text = String::new();
    for w in &c.warnings {
        text.push_str(&wrapped(&format!("WARNING  {w}"), width));
    }
    for line in without_verdict(c) {
        text.push_str(&wrapped(&line, width));
    }
    let mut last = String::new();
    let mut columns = Columns::new(&["", "A", "B", "B ÷ A", "p, corrected", "verdict"]);
    for (r, verdict) in c.rows.iter().filter_map(|r| Some((r, r.verdict.label()?))) {
        let place = format!("{} · {} ({})", r.experiment, r.cell, r.of.label());
        if place != last {
            columns.row(vec![place.clone()]);
            last = place;
        }
        columns.row(vec![
            format!("  {} {}", r.system, r.rank),
            r.a_bytes_per_s.map_or_else(|| table::percentile(r.a_ns), crate::figure_text::goodput),
            r.b_bytes_per_s.map_or_else(|| table::percentile(r.b_ns), crate::figure_text::goodput),
            table::interval(r.ratio.as_ref()),
            r.p_corrected.map_or_else(String::new, |p| format!("{p:.3}")),
            verdict.into(),
        ]);
    }
    let mut part = |table: &str| {
        text.push_str(if text.is_empty() { "" } else { "\n" });
        text.push_str(table);
    };
    if !columns.is_empty() {
        let mut table = String::new();
        columns.write(&mut table);
        part(&table);
    }
    let costs = costs::text(&c.costs);
    if let Some((table, _)) = &costs {
        part(table);
    }
    if columns.is_empty() && costs.is_none() {
        return text;
    }
    text.push('\n');
    let of =
        |v: Verdict| c.rows.iter().filter(|r| r.verdict == v && r.role == Role::Measured).count();
    let floors = c
        .rows
        .iter()
        .filter(|r| r.role == Role::Floor && matches!(r.verdict, Verdict::Faster | Verdict::Slower))
        .count();
    let (faster, slower, same) =
        (of(Verdict::Faster), of(Verdict::Slower), of(Verdict::NoDifferenceShown));
    text.push_str(&wrapped(
        &format!("{faster} faster, {slower} slower, {same} without a difference shown."),
        width,
    ));
    if let Some((_, line)) = costs {
        text.push_str(&wrapped(&line, width));
    }
    if floors > 0 {
        let figures = if floors == 1 { "figure" } else { "figures" };
        let line = format!(
            "{floors} {figures} of floors changed too: there the machine changed, not (only) the \
             middleware."
        );
        text.push_str(&wrapped(&line, width));
    }
    text + &wrapped(&c.method, width)
}
