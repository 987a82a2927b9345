// SPDX-License-Identifier: Apache-2.0
//! The answer to an experiment's question, as far as figures give one.

use super::{CaseResult, Column, Compared, ExperimentResult};
use crate::scenario::AnswerSpec;
use driveline_analyze::text::duration_ns;
use driveline_bench::Metric;
use driveline_bench::harness::System;
use driveline_bench::observations::Quantity;
use driveline_bench::stats::{ENOUGH_ROUNDS, Interval};
use std::cmp::Ordering;

/// Cases that a sentence names.
pub(super) const MOST_TOLD: usize = 6;
/// Rounds below which an interval says nothing at all, and is not told.
pub(super) const FEWEST_ROUNDS: usize = 3;

/// How far an A/A control may be from 1, either way, before what stands beside it says nothing.
const MOST_OFF: f64 = 1.25;

/// How a system stands beside Driveline, by the interval of the ratio of their medians.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It takes longer: the whole interval lies above 1.
    Slower,
    /// It takes less.
    Faster,
    /// The interval contains 1.
    NotShown,
    /// Too few rounds to say.
    TooFewRounds,
}

/// By an interval of a ratio to Driveline.
#[must_use]
pub fn standing(i: &Interval) -> Standing {
    match i {
        i if i.rounds < ENOUGH_ROUNDS => Standing::TooFewRounds,
        i if i.low > 1.0 => Standing::Slower,
        i if i.high < 1.0 => Standing::Faster,
        _ => Standing::NotShown,
    }
}

/// However few rounds there are: of more, it would be narrower.
fn contains_one(i: &Interval) -> bool {
    i.rounds >= FEWEST_ROUNDS && i.low <= 1.0 && i.high >= 1.0
}

/// Whether it takes less than Driveline or more; equal where that cannot be told. Of too few rounds for an interval, by what was seen.
fn beside(i: &Interval) -> Ordering {
    if contains_one(i) { Ordering::Equal } else { i.estimate.total_cmp(&1.0) }
}

/// Who is ahead of Driveline comes first, then who cannot be told from it; of those alike who takes least.
fn ahead_first(a: &(&CaseResult, Interval), b: &(&CaseResult, Interval)) -> Ordering {
    beside(&a.1).cmp(&beside(&b.1)).then(a.1.estimate.total_cmp(&b.1.estimate))
}

/// What the question is about first, then latencies: a line for each thing, and indented what belongs to the line above.
pub(super) fn answer(e: &ExperimentResult, about: Option<AnswerSpec>) -> String {
    let mut lines: Vec<String> = restless(e).into_iter().collect();
    lines.extend(super::question::answered(e, about));
    lines.extend(latencies(e));
    lines.join("\n")
}

/// That a machine on which two equal things differ by so much shows no smaller differences: before anything that it seems to show.
fn restless(e: &ExperimentResult) -> Option<String> {
    let said = e.measured().any(|c| c.headline().is_some());
    let off = |i: &Interval| i.estimate.max(1.0 / i.estimate);
    let controls = crate::table::controls(e).filter_map(|(c, r)| Some((c, r.p50.filter(|i| off(i) > MOST_OFF)?)));
    let (case, i) = controls.max_by(|a, b| off(&a.1).total_cmp(&off(&b.1))).filter(|_| said)?;
    if crate::table::is_driveline_again(case) {
        return Some(format!(
            "Two equal things differ by much: Driveline, measured twice, takes {} times as long the second time (A/A control, {}). \
             Smaller differences mean nothing there.",
            times(i.estimate),
            case.case.cell
        ));
    }
    Some(format!(
        "The machine was too restless to tell: the same floor, measured twice, takes {} times as long the second time (A/A control, {}). \
         Measure on a quiet machine; what follows is what was seen on this one.",
        times(i.estimate),
        case.case.cell
    ))
}

fn latencies(e: &ExperimentResult) -> Vec<String> {
    let cells = e.cells();
    // Of a chain with some edges of Driveline's, Driveline on all of them is another cell.
    let open: Vec<&str> = cells.iter().filter(|cell| !e.in_cell(cell).any(has_edges_of_drivelines)).copied().collect();
    let (mut compared, mut least, mut undecided) = (0, 0, 0);
    let mut closest: Option<(&CaseResult, Interval)> = None;
    let mut faster: Vec<(&CaseResult, Interval)> = Vec::new();
    for cell in &cells {
        let ratios: Vec<(&CaseResult, Interval)> =
            e.in_cell(cell).filter(|c| !c.is_contradicted()).filter_map(|c| c.to_driveline().and_then(|r| r.p50).map(|i| (c, i))).collect();
        let Some(first) = ratios.iter().min_by(|a, b| ahead_first(a, b)) else { continue };
        compared += 1;
        // One who cannot be told from it is enough, however many others take longer.
        match beside(&first.1) {
            Ordering::Less => faster.push(*first),
            Ordering::Equal => undecided += 1,
            Ordering::Greater => least += 1,
        }
        if closest.is_none_or(|c| ahead_first(first, &c).is_lt()) {
            closest = Some(*first);
        }
    }
    let mut lines = Vec::new();
    if let Some((closest, interval)) = closest {
        // Of a stream it is what passes between two arrivals.
        let streams = e.measured().filter_map(CaseResult::headline).any(|(of, _)| of == Compared::Metric(Metric::BetweenArrivals));
        let what = if streams { "median time" } else { "median latency" };
        // Where there is nothing beside it, or nothing of its own, it is not the least.
        lines.push(standing_in_cells(what, (least, undecided, compared), open.len() > compared));
        let place = if cells.len() > 1 { format!(" ({})", closest.case.cell) } else { String::new() };
        let (name, ratio, bounds) = (closest.name(), times(interval.estimate), in_brackets(&interval));
        let text = match beside(&interval) {
            Ordering::Less => format!("Furthest ahead of it is {name}{place}: {ratio} times its median{bounds}"),
            _ if interval.estimate < 1.0 => format!("The least of the others is {name}'s{place}: {ratio} times Driveline's{bounds}"),
            _ => format!("Closest to it comes {name}{place}: {ratio} times its median{bounds}"),
        };
        let none_shown = if contains_one(&interval) { ", which shows no difference" } else { "" };
        lines.push(format!("{text}{none_shown}."));
        faster.retain(|(c, _)| c.case.id != closest.case.id);
        if !faster.is_empty() {
            let names: Vec<String> = faster.iter().take(3).map(|(c, _)| format!("{} ({})", c.name(), c.case.cell)).collect();
            let more = if faster.len() > 3 { format!(" and {} more", faster.len() - 3) } else { String::new() };
            lines.push(format!("Ahead of it also: {}{more}.", names.join(", ")));
        }
    } else {
        lines.extend(alone(e, &cells));
    }
    lines.extend(without_driveline(e, &open));
    lines.extend(tails(e));
    lines.extend(beside_latency(e));
    lines.extend(losses(e));
    let floors = beside_floors(e);
    let few = closest.iter().map(|(_, i)| i).chain(floors.iter().map(|(_, i)| i)).any(|i| i.rounds < ENOUGH_ROUNDS);
    lines.extend(floors.into_iter().map(|(line, _)| line));
    if few {
        lines.push(format!(
            "With fewer than {ENOUGH_ROUNDS} rounds intervals are not to be trusted: measure more rounds before you rely on them."
        ));
    }
    lines
}

/// In how many cells Driveline has the least, and in how many that cannot be told, of those in which it is compared: all, or some only.
fn standing_in_cells(what: &str, (least, undecided, compared): (usize, usize, usize), some_only: bool) -> String {
    let one = if some_only { " in the one cell in which it is compared" } else { "" };
    let cells = if some_only { format!("the {compared} cells in which it is compared") } else { format!("{compared} cells") };
    match (least, undecided, compared) {
        (1, _, 1) => format!("Driveline has the least {what}{one}."),
        (_, 1, 1) => format!("It cannot be told whether Driveline has the least {what}{one}."),
        (_, _, 1) => format!("Driveline does not have the least {what}{one}."),
        (2, _, 2) if !some_only => format!("Driveline has the least {what} in both cells."),
        (_, 2, 2) if !some_only => format!("In both cells it cannot be told whether Driveline has the least {what}."),
        (l, _, n) if l == n && !some_only => format!("Driveline has the least {what} in all {cells}."),
        (_, u, n) if u == n => format!("In none of {cells} can it be told whether Driveline has the least {what}."),
        (l, u, _) => {
            let least = if l == 0 { "none".to_owned() } else { l.to_string() };
            let rest = if u == 0 { String::new() } else { format!("; in {u} it cannot be told") };
            format!("Driveline has the least {what} in {least} of {cells}{rest}.")
        }
    }
}

/// A chain of another system that has Driveline on some of its edges.
fn has_edges_of_drivelines(c: &CaseResult) -> bool {
    !c.is_driveline() && c.case.chain.iter().flat_map(|chain| chain.edges.values()).any(|edge| edge.system == System::Driveline)
}

/// Cells in which others have a figure and Driveline, which takes part, has none: what is said above says nothing of them.
fn without_driveline(e: &ExperimentResult, cells: &[&str]) -> Option<String> {
    e.measured().find(|c| c.is_driveline())?;
    let has_figure = |cell: &str, of: fn(&CaseResult) -> bool| e.in_cell(cell).any(|c| of(c) && c.headline().is_some());
    let lacks =
        |cell: &&&str| has_figure(cell, |c| !c.is_driveline() && !c.is_contradicted()) && !has_figure(cell, CaseResult::is_driveline);
    let without: Vec<&str> = cells.iter().filter(lacks).copied().collect();
    if without.is_empty() {
        return None;
    }
    if cells.len() == 1 {
        return Some("Driveline has no figure, and others have.".to_owned());
    }
    let more = if without.len() > 3 { format!("; and {} more", without.len() - 3) } else { String::new() };
    let named = without.iter().take(3).copied().collect::<Vec<_>>().join("; ");
    Some(format!("In {} of {} cells Driveline has no figure, and others have ({named}{more}).", without.len(), cells.len()))
}

/// ` (95 % 1.02 to 1.31)`, where there are enough rounds to say that.
fn in_brackets(i: &Interval) -> String {
    if i.rounds < FEWEST_ROUNDS { String::new() } else { format!(" ({})", bounds_of(i)) }
}

fn bounds_of(i: &Interval) -> String {
    format!("95 % {} to {}", times(i.low), times(i.high))
}

/// How Driveline's medians stand beside what the machine itself does: the nearest cell, and the furthest one with its interval.
fn beside_floors(e: &ExperimentResult) -> Vec<(String, Interval)> {
    type Floor = fn(&CaseResult) -> Option<&crate::analysis::Ratio>;
    let floors: [(&str, Floor); 2] = [("its floor, a bare word", CaseResult::to_floor), ("one copy of its payload", CaseResult::to_memcpy)];
    let own = || e.measured().filter(|c| c.is_driveline());
    let line = |(what, of): (&str, Floor)| {
        let mut all: Vec<(&CaseResult, Interval)> = own().filter_map(|c| Some((c, of(c)?.p50?))).collect();
        all.sort_by(|a, b| a.1.estimate.total_cmp(&b.1.estimate));
        let (first, last) = (all.first()?, all.last()?);
        // `2.64 (1→10, 95 % 2.61 to 2.69)`
        let told = |(c, i): &(&CaseResult, Interval), bounds: bool| {
            let cell = (e.cells().len() > 1).then(|| c.case.cell.clone());
            let bounds = (bounds && i.rounds >= FEWEST_ROUNDS).then(|| bounds_of(i));
            let words: Vec<String> = cell.into_iter().chain(bounds).collect();
            if words.is_empty() { times(i.estimate) } else { format!("{} ({})", times(i.estimate), words.join(", ")) }
        };
        let from = if all.len() > 1 { format!("{} to ", told(first, false)) } else { String::new() };
        Some((format!("By medians, Driveline takes {from}{} times as long as {what}.", told(last, true)), last.1))
    };
    floors.into_iter().filter_map(line).collect()
}

/// Where somebody is shown to be ahead in the tail: a median says nothing of the latest samples.
fn tails(e: &ExperimentResult) -> Option<String> {
    let ahead = |c: &&CaseResult| {
        let of_tail = |r: &crate::analysis::Ratio| r.p99.or(r.p95);
        !c.is_contradicted() && c.to_driveline().and_then(of_tail).is_some_and(|i| standing(&i) == Standing::Faster)
    };
    let cases: Vec<&CaseResult> = e.cells().iter().flat_map(|cell| e.in_cell(cell)).filter(ahead).collect();
    if cases.is_empty() {
        return None;
    }
    let named: Vec<String> = cases.iter().take(3).map(|c| format!("{} ({})", c.name(), c.case.cell)).collect();
    let more = if cases.len() > 3 { format!(" and {} more", cases.len() - 3) } else { String::new() };
    Some(format!("In the tail (p99, or p95 where n is too small for it) ahead of Driveline: {}{more}.", named.join(", ")))
}

/// What workloads observe that their question may be about: recovery, ages, periods. Of each case the subject with the greatest median.
fn beside_latency(e: &ExperimentResult) -> Vec<String> {
    let asked = [
        (Quantity::Recovery, "Until samples flow again"),
        (Quantity::Age, "Age of what is worked on"),
        (Quantity::PeriodDeviation, "Off the period"),
    ];
    let mut lines = Vec::new();
    for (quantity, words) in asked {
        let of = |c: &CaseResult| {
            let medians = c.observed.iter().filter(|o| o.quantity == quantity).filter_map(|o| o.figure.percentiles.p50);
            medians.max().map(|p50| format!("{} {}", c.case.cell, duration_ns(p50 as f64)))
        };
        let told: Vec<String> = e.measured().filter_map(of).take(MOST_TOLD).collect();
        if !told.is_empty() {
            lines.push(format!("{words} (p50 of the slowest): {}.", told.join(", ")));
        }
    }
    let torn: Vec<String> = e
        .measured()
        .filter(|c| c.totals.torn > 0)
        .map(|c| format!("{} by {} ({})", c.totals.torn, c.name(), c.case.cell))
        .take(MOST_TOLD)
        .collect();
    if !torn.is_empty() {
        lines.push(format!("Torn payloads: {}.", torn.join(", ")));
    }
    lines
}

/// Who lost samples, most first: a median says nothing of what did not arrive.
fn losses(e: &ExperimentResult) -> Option<String> {
    let mut losers: Vec<(&CaseResult, u64, u64)> =
        e.measured().filter_map(|c| c.lost().map(|(lost, due)| (c, lost, due))).filter(|(_, lost, _)| *lost > 0).collect();
    let share = |lost: u64, due: u64| lost as f64 / due.max(1) as f64;
    losers.sort_by(|a, b| share(b.1, b.2).total_cmp(&share(a.1, a.2)));
    if losers.is_empty() {
        return None;
    }
    let named: Vec<String> =
        losers.iter().take(3).map(|(c, lost, due)| format!("{lost} of {due} by {} ({})", c.name(), c.case.cell)).collect();
    let more = if losers.len() > 3 { format!(", and some in {} more", losers.len() - 3) } else { String::new() };
    Some(format!("Not arrived, which no percentile shows: {}{more}.", named.join(", ")))
}

/// Without anything to compare with.
fn alone(e: &ExperimentResult, cells: &[&str]) -> Vec<String> {
    let mut parts = Vec::new();
    for cell in cells {
        for c in e.in_cell(cell) {
            let Some((of, f)) = c.headline() else { continue };
            let (Some(p50), n) = (f.percentiles.p50, f.percentiles.n) else { continue };
            let tail = [Column::P99, Column::P95].into_iter().find_map(|c| Some((c.label(), c.of(&f.percentiles)?)));
            let tail = tail.map_or_else(|| "n too small for more".to_owned(), |(rank, ns)| format!("{rank} {}", duration_ns(ns as f64)));
            parts.push(format!("{} ({}): {} p50 {}, {tail}, n = {n}.", c.case.cell, c.name(), of.label(), duration_ns(p50 as f64)));
        }
    }
    let more = parts.len().saturating_sub(4);
    parts.truncate(4);
    if more > 0 {
        parts.push(format!("And {more} more below."));
    }
    if parts.is_empty() {
        let why = match () {
            () if e.measured().next().is_none() => "Nothing can be measured here: see what is left out.",
            () if e.cases.iter().all(|c| c.runs.is_empty()) => "Not run yet.",
            () if e.measured().all(|c| c.runs.is_empty()) => "Only floors were measured: there is nothing to say of any system yet.",
            () => "No valid run: there is nothing to say yet.",
        };
        parts.push(why.to_owned());
    }
    parts
}

fn times(x: f64) -> String {
    crate::table::ratio(x)
}
