// SPDX-License-Identifier: Apache-2.0
//! Answer to an experiment's question, as far as the figures give one.

use super::question::percent;
use super::{CaseResult, Criterion, ExperimentResult, Measure, Standing, equal_goodput};
use crate::figure_text::goodput;
use crate::scenario::AnswerSpec;
use crate::table::ratio;
use driveline_bench::Metric;
use driveline_bench::harness::System;
use driveline_bench::observations::Quantity;
use driveline_bench::stats::{ENOUGH_ROUNDS, Interval};
use driveline_terminal::figures::duration_ns;
use std::cmp::Ordering;

/// Maximum number of cells, cases or systems that the answer lists for one fact. Some facts list
/// fewer.
pub(super) const MOST_SHOWN: usize = 6;
/// Number of rounds below which an interval is meaningless, and not shown.
pub(super) const FEWEST_ROUNDS: usize = 3;

/// Largest ratio between two measurements of the same case (A/A control), in either direction, with
/// which comparisons are still meaningful.
const MOST_OFF: f64 = 1.25;

/// Compares a system with Driveline. Returns `Less` if the system is ahead, `Greater` if it is
/// behind, `Equal` if that is unclear. With too few rounds for an interval, the observed values
/// decide; more rounds would only narrow the interval.
fn beside(by: Criterion, i: &Interval) -> Ordering {
    if i.rounds < FEWEST_ROUNDS { by.side_of(i.estimate) } else { by.side(i) }
}

/// Orders systems: first those ahead of Driveline, then the unclear ones; within each group the
/// best first.
fn ahead_first(by: Criterion, a: &Interval, b: &Interval) -> Ordering {
    beside(by, a).cmp(&beside(by, b)).then(by.better(a.estimate, b.estimate))
}

/// Returns the warning about a restless machine, if there is one, the answer to the experiment's
/// question, and the comparisons of all systems: a line for each fact. An indented line belongs to
/// the line above.
pub(super) fn answer(e: &ExperimentResult, about: Option<AnswerSpec>) -> String {
    let mut lines: Vec<String> = restless(e).into_iter().collect();
    lines.extend(super::question::answered(e, about));
    lines.extend(compared(e));
    lines.join("\n")
}

/// Returns a warning if two measurements of the same floor, or of Driveline, differ so much that
/// the machine cannot show smaller differences. It comes before all other facts.
fn restless(e: &ExperimentResult) -> Option<String> {
    let said = e.measured().any(|c| c.headline().is_some());
    let off = |i: &Interval| i.estimate.max(1.0 / i.estimate);
    let controls = crate::table::controls(e)
        .filter_map(|(c, r)| Some((c, r.deciding().filter(|(_, i)| off(i) > MOST_OFF)?)));
    let (case, (by, i)) =
        controls.max_by(|(_, a), (_, b)| off(&a.1).total_cmp(&off(&b.1))).filter(|_| said)?;
    let differs = match by {
        Criterion::Goodput => format!("has {} times the goodput", ratio(i.estimate)),
        Criterion::Latency => format!("takes {} times as long", ratio(i.estimate)),
    };
    if crate::table::is_driveline_again(case) {
        return Some(format!(
            "Two equal things differ by much: Driveline, measured twice, {differs} the second time \
             (A/A control, {}). \
             Smaller differences mean nothing there.",
            case.case.cell
        ));
    }
    Some(format!(
        "The machine was too restless for a verdict: the same floor, measured twice, {differs} the \
         second time (A/A control, {}). \
         Measure on a quiet machine; what follows is what was seen on this one.",
        case.case.cell
    ))
}

fn compared(e: &ExperimentResult) -> Vec<String> {
    let cells = e.cells();
    // Leaves out cells in which Driveline carries only some edges of another system's chain. The
    // chain with Driveline on all edges is in another cell.
    let open: Vec<&str> = cells
        .iter()
        .filter(|cell| !e.in_cell(cell).any(has_edges_of_drivelines))
        .copied()
        .collect();
    let ranked: Vec<Ranked> =
        Criterion::ALL.into_iter().filter_map(|by| Ranked::of(e, by, &cells)).collect();
    let mut lines: Vec<String> = ranked.iter().flat_map(|r| r.words(e, &open)).collect();
    if lines.is_empty() {
        lines.extend(alone(e, &cells));
    }
    lines.extend(without_driveline(e, &open));
    lines.extend(tails(e));
    lines.extend(beside_latency(e));
    lines.extend(losses(e));
    let floors = beside_floors(e);
    let closest = ranked.iter().filter_map(|r| r.closest.first()).map(|(_, i)| i);
    let few = closest.chain(floors.iter().map(|(_, i)| i)).any(|i| i.rounds < ENOUGH_ROUNDS);
    lines.extend(floors.into_iter().map(|(line, _)| line));
    if few {
        lines.push(format!(
            "With fewer than {ENOUGH_ROUNDS} rounds intervals are not to be trusted: measure more \
             rounds before you rely on them."
        ));
    }
    lines
}

/// Rank of Driveline in the cells with the same criterion.
struct Ranked<'a> {
    by: Criterion,
    /// For each cell with a comparison: the system furthest ahead of Driveline, or the closest one
    /// if no system is ahead. The first entry is the furthest ahead, or closest, of all cells.
    closest: Vec<(&'a CaseResult, Interval)>,
}

impl<'a> Ranked<'a> {
    /// Returns `None` if no system is compared with Driveline by this criterion.
    fn of(e: &'a ExperimentResult, by: Criterion, cells: &[&'a str]) -> Option<Self> {
        let first_of = |&cell: &&'a str| {
            let compared = e.in_cell(cell).filter(|c| !c.is_contradicted());
            let ratios = compared.filter_map(|c| {
                c.to_driveline()?.deciding().filter(|(of, _)| *of == by).map(|(_, i)| (c, i))
            });
            ratios.min_by(|a, b| ahead_first(by, &a.1, &b.1))
        };
        let mut closest: Vec<(&CaseResult, Interval)> = cells.iter().filter_map(first_of).collect();
        closest.sort_by(|a, b| ahead_first(by, &a.1, &b.1));
        (!closest.is_empty()).then_some(Self { by, closest })
    }

    /// Returns sentences on the number of cells in which Driveline is the best, and on the system
    /// that is ahead of it or closest to it.
    fn words(&self, e: &ExperimentResult, open: &[&str]) -> Vec<String> {
        let Self { by, closest: all } = self;
        let Some((closest, interval)) = all.first() else { return Vec::new() };
        let (best, its) = match by {
            Criterion::Goodput => ("greatest goodput", "Driveline's goodput"),
            Criterion::Latency => ("least median latency", "its median"),
        };
        // One system with an unclear result makes its cell unclear, even if all other systems are
        // behind.
        let standing = |o: Ordering| all.iter().filter(|(_, i)| beside(*by, i) == o).count();
        let cells =
            open.iter().filter(|cell| e.in_cell(cell).any(|c| c.criterion() == *by)).count();
        // A cell without another system, or without a figure of Driveline, has no comparison. If
        // there are such cells, the sentence says that it is only about the compared cells.
        let mut lines = vec![standing_in_cells(
            best,
            (standing(Ordering::Greater), standing(Ordering::Equal), all.len()),
            cells > all.len(),
        )];
        let place =
            if e.cells().len() > 1 { format!(" ({})", closest.case.cell) } else { String::new() };
        let (name, times, bounds) =
            (closest.name(), ratio(interval.estimate), in_brackets(interval));
        let text = match beside(*by, interval) {
            Ordering::Less => {
                format!("Furthest ahead of it is {name}{place}: {times} times {its}{bounds}")
            }
            _ if by.better(interval.estimate, 1.0).is_lt() => {
                let word = best.split(' ').next().unwrap_or_default();
                format!(
                    "The {word} of the others is {name}'s{place}: {times} times Driveline's{bounds}"
                )
            }
            _ => format!("Closest to it comes {name}{place}: {times} times {its}{bounds}"),
        };
        let none_shown = match by {
            _ if interval.rounds < FEWEST_ROUNDS || beside(*by, interval).is_ne() => String::new(),
            Criterion::Latency => ", which shows no difference".to_owned(),
            Criterion::Goodput => {
                format!(", which shows no difference of more than {}", equal_goodput())
            }
        };
        let arrivals = |c: &CaseResult| match by {
            Criterion::Goodput => not_arrived(e, c),
            Criterion::Latency => String::new(),
        };
        lines.push(format!("{text}{none_shown}{}.", arrivals(closest)));
        let ahead = |(c, i): &(&CaseResult, Interval)| {
            beside(*by, i).is_lt().then(|| format!("{} ({}{})", c.name(), c.case.cell, arrivals(c)))
        };
        let faster: Vec<String> = all.iter().skip(1).filter_map(ahead).collect();
        if !faster.is_empty() {
            let more = if faster.len() > 3 {
                format!(" and {} more", faster.len() - 3)
            } else {
                String::new()
            };
            lines.push(format!(
                "Ahead of it also: {}{more}.",
                faster.iter().take(3).cloned().collect::<Vec<_>>().join(", ")
            ));
        }
        lines
    }
}

/// Returns the share of due samples that did not arrive, for a case and for Driveline, because
/// goodput alone does not show losses. Empty if all samples arrived.
fn not_arrived(e: &ExperimentResult, c: &CaseResult) -> String {
    let own = e.in_cell(&c.case.cell).find(|c| c.is_driveline()).and_then(lost_share);
    let rendered = |share: Option<String>| share.unwrap_or_else(|| "none".to_owned());
    match (lost_share(c), own) {
        (None, None) => String::new(),
        (its, own) => {
            format!(
                "; not arrived: {} of its samples, {} of Driveline's",
                rendered(its),
                rendered(own)
            )
        }
    }
}

/// Returns the share of due deliveries that failed, in percent; `None` if all succeeded.
fn lost_share(c: &CaseResult) -> Option<String> {
    c.lost().filter(|(lost, _)| *lost > 0).map(|(lost, due)| percent(lost as f64 / due as f64))
}

/// Returns a sentence on the number of cells in which Driveline is the best, and in which this is
/// unclear, out of all cells in which Driveline is compared.
fn standing_in_cells(
    best: &str,
    (first, undecided, compared): (usize, usize, usize),
    some_only: bool,
) -> String {
    let one = if some_only { " in the one cell in which it is compared" } else { "" };
    let cells = if some_only {
        format!("the {compared} cells in which it is compared")
    } else {
        format!("{compared} cells")
    };
    match (first, undecided, compared) {
        (1, _, 1) => format!("Driveline has the {best}{one}."),
        (_, 1, 1) => format!("It is unclear whether Driveline has the {best}{one}."),
        (_, _, 1) => format!("Driveline does not have the {best}{one}."),
        (2, _, 2) if !some_only => format!("Driveline has the {best} in both cells."),
        (_, 2, 2) if !some_only => {
            format!("In both cells it is unclear whether Driveline has the {best}.")
        }
        (l, _, n) if l == n && !some_only => format!("Driveline has the {best} in all {cells}."),
        (_, u, n) if u == n => {
            format!("In none of {cells} is it clear whether Driveline has the {best}.")
        }
        (l, u, _) => {
            let first = if l == 0 { "none".to_owned() } else { l.to_string() };
            let rest = if u == 0 { String::new() } else { format!("; in {u} it is unclear") };
            format!("Driveline has the {best} in {first} of {cells}{rest}.")
        }
    }
}

/// Returns true for a chain of another system with Driveline on some of its edges.
fn has_edges_of_drivelines(c: &CaseResult) -> bool {
    !c.is_driveline()
        && c.case
            .chain
            .iter()
            .flat_map(|chain| chain.edges.values())
            .any(|edge| edge.system == System::Driveline)
}

/// Returns a note about cells in which other systems have a figure, but Driveline has none. The
/// other sentences of the answer do not include these cells.
fn without_driveline(e: &ExperimentResult, cells: &[&str]) -> Option<String> {
    e.measured().find(|c| c.is_driveline())?;
    let has_figure = |cell: &str, of: fn(&CaseResult) -> bool| {
        e.in_cell(cell).any(|c| of(c) && c.headline().is_some())
    };
    let lacks = |cell: &&&str| {
        has_figure(cell, |c| !c.is_driveline() && !c.is_contradicted())
            && !has_figure(cell, CaseResult::is_driveline)
    };
    let without: Vec<&str> = cells.iter().filter(lacks).copied().collect();
    if without.is_empty() {
        return None;
    }
    if cells.len() == 1 {
        return Some("Driveline has no figure, and others have.".to_owned());
    }
    let more =
        if without.len() > 3 { format!("; and {} more", without.len() - 3) } else { String::new() };
    let named = without.iter().take(3).copied().collect::<Vec<_>>().join("; ");
    Some(format!(
        "In {} of {} cells Driveline has no figure, and others have ({named}{more}).",
        without.len(),
        cells.len()
    ))
}

/// Returns ` (95 % 1.02 to 1.31)`, if there are enough rounds for an interval.
fn in_brackets(i: &Interval) -> String {
    if i.rounds < FEWEST_ROUNDS { String::new() } else { format!(" ({})", bounds_of(i)) }
}

fn bounds_of(i: &Interval) -> String {
    format!("95 % {} to {}", ratio(i.low), ratio(i.high))
}

/// Compares Driveline's medians with the machine's own floors. Names the cell nearest to its floor,
/// and the cell furthest from its floor, with its interval.
fn beside_floors(e: &ExperimentResult) -> Vec<(String, Interval)> {
    type Floor = fn(&CaseResult) -> Option<&crate::analysis::Ratio>;
    let floors: [(&str, Floor); 2] = [
        ("its floor, a bare word", CaseResult::to_floor),
        ("one copy of its payload", CaseResult::to_memcpy),
    ];
    let own = || e.measured().filter(|c| c.is_driveline());
    let line = |(what, of): (&str, Floor)| {
        let mut all: Vec<(&CaseResult, Interval)> =
            own().filter_map(|c| Some((c, of(c)?.p50?))).collect();
        all.sort_by(|a, b| a.1.estimate.total_cmp(&b.1.estimate));
        let (first, last) = (all.first()?, all.last()?);
        // Returns text such as `2.64 (1→10, 95 % 2.61 to 2.69)`.
        let rendered = |(c, i): &(&CaseResult, Interval), bounds: bool| {
            let cell = (e.cells().len() > 1).then(|| c.case.cell.clone());
            let bounds = (bounds && i.rounds >= FEWEST_ROUNDS).then(|| bounds_of(i));
            let words: Vec<String> = cell.into_iter().chain(bounds).collect();
            if words.is_empty() {
                ratio(i.estimate)
            } else {
                format!("{} ({})", ratio(i.estimate), words.join(", "))
            }
        };
        let from =
            if all.len() > 1 { format!("{} to ", rendered(first, false)) } else { String::new() };
        Some((
            format!(
                "By medians, Driveline takes {from}{} times as long as {what}.",
                rendered(last, true)
            ),
            last.1,
        ))
    };
    floors.into_iter().filter_map(line).collect()
}

/// Returns the systems that are ahead of Driveline in the tail, because a median does not show the
/// slowest samples.
fn tails(e: &ExperimentResult) -> Option<String> {
    let ahead = |c: &&CaseResult| {
        let of_tail = |r: &crate::analysis::Ratio| r.p99.or(r.p95);
        !c.is_contradicted()
            && c.to_driveline()
                .and_then(of_tail)
                .is_some_and(|i| Criterion::Latency.standing(&i) == Standing::Faster)
    };
    let cases: Vec<&CaseResult> =
        e.cells().iter().flat_map(|cell| e.in_cell(cell)).filter(ahead).collect();
    if cases.is_empty() {
        return None;
    }
    let named: Vec<String> =
        cases.iter().take(3).map(|c| format!("{} ({})", c.name(), c.case.cell)).collect();
    let more =
        if cases.len() > 3 { format!(" and {} more", cases.len() - 3) } else { String::new() };
    Some(format!(
        "In the tail (p99, or p95 where n is too small for it) ahead of Driveline: {}{more}.",
        named.join(", ")
    ))
}

/// Returns other quantities of workloads that a question may be about: recovery, ages, periods.
/// Each case contributes the subject with the largest median. Also returns the torn payloads of all
/// cases.
fn beside_latency(e: &ExperimentResult) -> Vec<String> {
    let asked = [
        (Quantity::Recovery, "Until samples flow again"),
        (Quantity::Age, "Age of what is worked on"),
        (Quantity::PeriodDeviation, "Off the period"),
    ];
    let mut lines = Vec::new();
    for (quantity, words) in asked {
        let of = |c: &CaseResult| {
            let medians = c
                .observed
                .iter()
                .filter(|o| o.quantity == quantity)
                .filter_map(|o| o.figure.percentiles.p50);
            medians.max().map(|p50| (c.name(), duration_ns(p50 as f64)))
        };
        let in_cell = |cell: &&str| {
            let rendered: Vec<_> = e.in_cell(cell).filter_map(of).collect();
            match rendered.as_slice() {
                [] => None,
                [(_, p50)] => Some(format!("{cell} {p50}")),
                several => {
                    let named: Vec<_> =
                        several.iter().map(|(n, p50)| format!("{p50} {n}")).collect();
                    Some(format!("{cell} {}", named.join(", ")))
                }
            }
        };
        let cells = e.cells();
        let mut rendered: Vec<String> = cells.iter().filter_map(in_cell).collect();
        let more = rendered.len().saturating_sub(MOST_SHOWN);
        rendered.truncate(MOST_SHOWN);
        rendered.extend((more > 0).then(|| format!("and {more} more below")));
        if !rendered.is_empty() {
            lines.push(format!("{words} (p50 of the slowest): {}.", rendered.join("; ")));
        }
    }
    let torn: Vec<String> = e
        .measured()
        .filter(|c| c.totals.torn > 0)
        .map(|c| format!("{} by {} ({})", c.totals.torn, c.name(), c.case.cell))
        .take(MOST_SHOWN)
        .collect();
    if !torn.is_empty() {
        lines.push(format!("Torn payloads: {}.", torn.join(", ")));
    }
    lines
}

/// Returns the systems that lost samples, most losses first: neither a median nor goodput shows a
/// loss.
fn losses(e: &ExperimentResult) -> Option<String> {
    let mut losers: Vec<(&CaseResult, u64, u64)> = e
        .measured()
        .filter_map(|c| c.lost().map(|(lost, due)| (c, lost, due)))
        .filter(|(_, lost, _)| *lost > 0)
        .collect();
    let share = |lost: u64, due: u64| lost as f64 / due.max(1) as f64;
    losers.sort_by(|a, b| share(b.1, b.2).total_cmp(&share(a.1, a.2)));
    if losers.is_empty() {
        return None;
    }
    let named: Vec<String> = losers
        .iter()
        .take(3)
        .map(|(c, lost, due)| format!("{lost} of {due} by {} ({})", c.name(), c.case.cell))
        .collect();
    let more = if losers.len() > 3 {
        format!(", and some in {} more", losers.len() - 3)
    } else {
        String::new()
    };
    let streams = || e.measured().map(|c| c.criterion() == Criterion::Goodput);
    let silent = match (streams().any(|is| is), streams().all(|is| is)) {
        (_, true) => "goodput does not show",
        (false, _) => "no percentile shows",
        _ => "neither percentiles nor goodput show",
    };
    Some(format!("Not arrived, which {silent}: {}{more}.", named.join(", ")))
}

/// Returns the mean processor time of a link at rest.
fn at_rest(c: &CaseResult) -> Option<String> {
    let mean = |metric| c.figures.get(&metric)?.percentiles.mean.map(duration_ns);
    let (publisher, subscriber) =
        mean(Metric::IdlePublisherCpu).zip(mean(Metric::IdleSubscriberCpu))?;
    Some(format!(
        "{} ({}): in each second at rest, the publisher's process uses {publisher} of processor \
         time and the subscriber's {subscriber} (means).",
        c.case.cell,
        c.name()
    ))
}

/// Returns the answer for an experiment in which no system is compared with Driveline.
fn alone(e: &ExperimentResult, cells: &[&str]) -> Vec<String> {
    let mut parts = Vec::new();
    for cell in cells {
        for c in e.in_cell(cell) {
            parts.extend(at_rest(c));
            let Some((of, f)) = c.headline() else { continue };
            let (Some(p50), n) = (f.percentiles.p50, f.percentiles.n) else { continue };
            if let Some(bytes_per_s) = c.goodput_bytes_per_s {
                parts.push(format!(
                    "{} ({}): goodput {}, n = {n}.",
                    c.case.cell,
                    c.name(),
                    goodput(bytes_per_s)
                ));
                continue;
            }
            let tail = [Measure::P99, Measure::P95]
                .into_iter()
                .find_map(|c| Some((c.label(), c.of(&f.percentiles)?)));
            let tail = tail.map_or_else(
                || "n too small for more".to_owned(),
                |(rank, ns)| format!("{rank} {}", duration_ns(ns as f64)),
            );
            parts.push(format!(
                "{} ({}): {} p50 {}, {tail}, n = {n}.",
                c.case.cell,
                c.name(),
                of.label(),
                duration_ns(p50 as f64)
            ));
        }
    }
    let more = parts.len().saturating_sub(4);
    parts.truncate(4);
    if more > 0 {
        parts.push(format!("And {more} more below."));
    }
    if parts.is_empty() {
        let why = match () {
            () if e.measured().next().is_none() => {
                "Nothing can be measured here: see the parts left out."
            }
            () if e.cases.iter().all(|c| c.runs.is_empty()) => "Not run yet.",
            () if e.measured().all(|c| c.runs.is_empty()) => {
                "Only floors were measured: there is nothing to say of any system yet."
            }
            () => "No valid run: there is nothing to say yet.",
        };
        parts.push(why.to_owned());
    }
    parts
}
