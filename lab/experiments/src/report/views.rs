// SPDX-License-Identifier: Apache-2.0
//! Views of an experiment's explorer, each with a plot for every cell that has data.

use super::look::{Look, Looks};
use super::plots;
use crate::analysis::{CaseResult, Criterion, ExperimentResult, Figure, Measure, Ratio};
use crate::archive::Role;
use crate::further;
use crate::words::cell_without;
use driveline_bench::Metric;
use driveline_bench::harness::Payload;
use driveline_bench::observations::Quantity;
use driveline_bench::stats::Interval;
use driveline_graph::ByteSize;
use plotly::Plot;
use plotly::common::MarkerSymbol;
use serde_json::{Value, json};

/// View with its name, a note for readers, and its plots by cell. In the views by size, a plot
/// shows a group of cells.
pub(super) struct View {
    id: &'static str,
    title: &'static str,
    note: &'static str,
    plots: Vec<(String, Plot)>,
}

impl View {
    fn json(&self) -> Value {
        let plots: Vec<Value> = self
            .plots
            .iter()
            .map(|(cell, plot)| json!({"cell": cell, "plot": figure(plot)}))
            .collect();
        json!({"id": self.id, "title": self.title, "note": self.note, "plots": plots})
    }
}

/// Returns data and layout only; the page decides how to draw them.
pub(super) fn figure(plot: &Plot) -> Value {
    let mut all: Value = serde_json::from_str(&plot.to_json()).unwrap_or_default();
    json!({"data": all["data"].take(), "layout": all["layout"].take()})
}

/// Returns all views with data.
pub(super) fn views(e: &ExperimentResult, looks: &Looks) -> Value {
    let mut all = Vec::new();
    let mut add = |id, title, note, of: &dyn Fn(&str) -> Option<Plot>| {
        let plots: Vec<_> = e
            .cells()
            .into_iter()
            .filter_map(|cell| of(cell).map(|p| (cell.to_owned(), p)))
            .collect();
        if !plots.is_empty() {
            all.push(View { id, title, note, plots }.json());
        }
    };
    add(
        "percentiles",
        "Percentiles",
        "How late the latest are. Right of 99 % every step is ten times rarer; a curve ends at its \
         greatest sample. Grey: the floors, a bare wake-up without middleware, and for payloads \
         that are filled or copied, one copy of them.",
        &|cell| lines(e, cell, looks).map(|l| plots::percentiles(named_times(e, cell), &l)),
    );
    add(
        "histogram",
        "Histogram",
        "Share of samples in bins of equal ratio, 20 for each power of ten.",
        &|cell| lines(e, cell, looks).map(|l| plots::histogram(named_times(e, cell), &l)),
    );
    add("ecdf", "ECDF", "Share of samples that were not later than this.", &|cell| {
        lines(e, cell, looks).map(|l| plots::ecdf(named_times(e, cell), &l))
    });
    add(
        "due",
        "Since due",
        "How late samples are from when they were due: what the sender was late is in it, and a \
         stall hides nothing. Right of 99 % every step is ten times rarer.",
        &|cell| {
            let lines: Vec<_> = e
                .in_cell(cell)
                .filter_map(|c| Some((c.name(), looks.look(c), further::open_loop(c)?.1)))
                .collect();
            (!lines.is_empty()).then(|| plots::percentiles("latency", &lines))
        },
    );
    add(
        "subscribers",
        "Per subscriber",
        "Transport latency of each subscriber: quartiles, whiskers from the first to the 99th \
         percentile, or from the least to the greatest sample where n is too small for those. A \
         fair middleware serves all alike.",
        &|cell| {
            let cases: Vec<_> = e.in_cell(cell).filter(|c| c.subscribers.len() > 1).collect();
            (!cases.is_empty()).then(|| plots::boxes(&cases, looks))
        },
    );
    // The note is about goodput only if all systems of the experiment are compared by goodput.
    let by = if e.measured().all(|c| c.criterion() == Criterion::Goodput) {
        Criterion::Goodput
    } else {
        Criterion::Latency
    };
    add("ratios", "Ratios", ratios_note(by), &|cell| ratios(e, cell, looks));
    add("layers", "Layers", LAYERS, &|cell| {
        let cases: Vec<_> =
            e.in_cell(cell).filter(|c| c.figures.contains_key(&Metric::Transport)).collect();
        (!cases.is_empty()).then(|| plots::layers(&cases))
    });
    add(
        "deliveries",
        "Deliveries",
        "What became of every sample at every subscriber. Late: in hand more than one period after \
         it was due. Lost: never read, lost or replaced by a newer one. Not sent: due, but the \
         sender could not.",
        &|cell| {
            let cases: Vec<_> =
                e.in_cell(cell).filter(|c| plots::is_open(c) && c.totals.scheduled > 0).collect();
            (!cases.is_empty()).then(|| plots::deliveries(&cases))
        },
    );
    add(
        "stages",
        "Idle, communication, computation",
        "Mean of each part of the latency; idle is waiting for a timer or another input.",
        &|cell| {
            let rows: Vec<_> = e.in_cell(cell).flat_map(stage_rows).collect();
            (!rows.is_empty()).then(|| plots::stages(&rows))
        },
    );
    add(
        "observed",
        "Observed",
        "Distribution of each duration that the workload reported, by subject.",
        &|cell| observed(e, cell, looks),
    );
    let timelines = [
        (
            Quantity::Latency,
            "time",
            "Latency over time",
            "One run, the first that counts. Of several subscribers the last; where there are many \
             samples, the latest of each stretch.",
        ),
        (Quantity::Cpu, "cpu", "CPU over time", "Processor time of each process in one run."),
        (
            Quantity::ResidentMemory,
            "memory",
            "Memory over time",
            "Resident memory of each process in one run; what is shared counts in every process \
             that has touched it.",
        ),
        (
            Quantity::Drops,
            "drops",
            "Drops over time",
            "Samples that were lost or replaced, at each subscriber, and that were not sent, in \
             each stretch of one run, the first that counts.",
        ),
    ];
    for (quantity, id, title, note) in timelines {
        add(id, title, note, &|cell| over_time(e, cell, quantity, looks));
    }
    all.extend(
        Criterion::ALL.into_iter().filter_map(|by| sizes(e, by, looks)).map(|view| view.json()),
    );
    json!({"cells": e.cells(), "views": all})
}

pub(super) const LAYERS: &str = "Median of each part of a sample's way, from stamps. 'On its way' \
     is what remains of the transport's median; where publish() returns after the sample has \
     arrived, its call is cut at the arrival.";

/// Returns the explanation of ratios.
pub(super) fn ratios_note(by: Criterion) -> &'static str {
    match by {
        Criterion::Goodput => {
            "How many times Driveline's goodput, with the 95 % interval by rounds. Right of the \
             dotted line more gets through than with Driveline; what did not arrive is not in it, \
             and stands in the table."
        }
        Criterion::Latency => {
            "How many times as long as Driveline, with the 95 % interval by rounds. Left of the \
             dotted line is faster than Driveline."
        }
    }
}

/// Returns the name of the times in a cell's distributions.
fn named_times(e: &ExperimentResult, cell: &str) -> &'static str {
    if e.in_cell(cell).any(|c| c.criterion() == Criterion::Goodput) {
        "time between arrivals"
    } else {
        "latency"
    }
}

/// Returns the headline distributions of a cell, and those of its floors.
fn lines<'a>(
    e: &'a ExperimentResult,
    cell: &str,
    looks: &Looks,
) -> Option<Vec<(String, Look, &'a Figure)>> {
    let cases: Vec<&CaseResult> = e.measured().filter(|c| c.case.cell == cell).collect();
    let mut lines: Vec<_> = cases
        .iter()
        .filter_map(|c| c.headline().map(|(_, f)| (c.name(), looks.look(c), f)))
        .filter(|(_, _, f)| f.percentiles.n > 0)
        .collect();
    if lines.is_empty() {
        return None;
    }
    // Adds the floors of a bare word and of a copy. All cases of a cell have the same floors.
    let is_additional = |floor: &&CaseResult| {
        floor.case.role == Role::Floor
            && cases.iter().flat_map(|c| &c.ratios).any(|r| r.to == floor.case.id)
    };
    for floor in e.cases.iter().filter(is_additional) {
        lines.extend(
            floor.headline().map(|(_, f)| {
                (format!("floor: {}", floor.case.system_title), looks.look(floor), f)
            }),
        );
    }
    Some(lines)
}

fn dot(at: String, i: &Interval) -> plots::Dot {
    let round = |x: f64| (x * 1e4).round() / 1e4;
    (at, round(i.estimate), round(i.low), round(i.high))
}

/// Plots the ratios of p50, p95, p99 and p99.9, or of goodput, of every system of a cell.
fn ratios(e: &ExperimentResult, cell: &str, looks: &Looks) -> Option<Plot> {
    let of: Vec<(&CaseResult, &Ratio)> = e
        .measured()
        .filter(|c| c.case.cell == cell)
        .filter_map(|c| c.to_driveline().map(|r| (c, r)))
        .collect();
    let ours = e.measured().find(|c| c.is_driveline())?;
    let mut series = Vec::new();
    let columns = [
        (Measure::Goodput, MarkerSymbol::Circle),
        (Measure::P50, MarkerSymbol::Circle),
        (Measure::P95, MarkerSymbol::Square),
        (Measure::P99, MarkerSymbol::Diamond),
        (Measure::P999, MarkerSymbol::TriangleUp),
    ];
    for (column, symbol) in columns {
        let dots: Vec<_> =
            of.iter().filter_map(|(c, r)| column.ratio(r).map(|i| dot(c.name(), i))).collect();
        if !dots.is_empty() {
            series.push((
                column.label().to_owned(),
                looks.look(ours).nth(series.len()),
                Some(symbol),
                dots,
            ));
        }
    }
    let (by, _) = of.iter().find_map(|(_, r)| r.deciding())?;
    let rows: Vec<String> = of.iter().map(|(c, _)| c.name()).collect();
    // A single series has only the deciding figure, which the overview of all cells already shows.
    let is_shown = series.len() == 1 && e.cells().len() > 1;
    (!series.is_empty() && !is_shown).then(|| plots::dots(by, &series, &rows))
}

/// Plots the ratios of medians, or of goodput, of all cells. Returns `None` if there is nothing to
/// compare, and for a single cell, because its view of ratios has the same content.
pub(super) fn overview(e: &ExperimentResult, by: Criterion, looks: &Looks) -> Option<Plot> {
    if e.cells().len() < 2 {
        return None;
    }
    let decided =
        |c: &CaseResult| c.to_driveline()?.deciding().filter(|(of, _)| *of == by).map(|(_, i)| i);
    let mut systems: Vec<&CaseResult> = Vec::new();
    for c in e.measured().filter(|c| decided(c).is_some()) {
        if systems.iter().all(|s| s.case.system != c.case.system) {
            systems.push(c);
        }
    }
    let series: Vec<_> = systems
        .iter()
        .map(|system| {
            let of = e.measured().filter(|c| c.case.system == system.case.system);
            let dots = of.filter_map(|c| Some(dot(c.case.cell.clone(), &decided(c)?))).collect();
            (system.name(), looks.look(system), None, dots)
        })
        .collect();
    let of_it = |cell: &&str| e.in_cell(cell).any(|c| c.criterion() == by);
    let rows: Vec<String> = e.cells().into_iter().filter(of_it).map(str::to_owned).collect();
    (!series.is_empty()).then(|| plots::dots(by, &series, &rows))
}

fn stage_rows(c: &CaseResult) -> Vec<(String, [f64; 3])> {
    let row = |(subject, parts): (&str, [Option<f64>; 3])| {
        (format!("{} · {subject}", c.name()), parts.map(|p| p.unwrap_or(0.0)))
    };
    further::parts(c).into_iter().map(row).collect()
}

/// Maximum number of subjects in one plot: more are unreadable, and are in the table.
const MAX_SUBJECTS: usize = 24;

fn observed(e: &ExperimentResult, cell: &str, looks: &Looks) -> Option<Plot> {
    let mut lines = Vec::new();
    for c in e.measured().filter(|c| c.case.cell == cell && c.case.links.is_empty()) {
        let durations = c.observed.iter().filter(|o| {
            matches!(
                o.quantity,
                Quantity::Latency
                    | Quantity::Age
                    | Quantity::PeriodDeviation
                    | Quantity::Recovery
                    | Quantity::StartUp
            )
        });
        for o in durations {
            let what = if o.quantity == Quantity::Latency {
                String::new()
            } else {
                format!(", {}", crate::table::label(o.quantity))
            };
            lines.push((
                format!("{} · {}{what}", c.name(), o.subject),
                looks.look(c).nth(lines.len()),
                &o.figure,
            ));
        }
    }
    lines.truncate(MAX_SUBJECTS);
    (lines.len() > 1).then(|| plots::ecdf("latency", &lines))
}

fn over_time(e: &ExperimentResult, cell: &str, quantity: Quantity, looks: &Looks) -> Option<Plot> {
    let mut lines = Vec::new();
    for c in e.measured().filter(|c| c.case.cell == cell) {
        let of_case = c.timelines.iter().filter(|t| t.quantity == quantity);
        for (nth, t) in of_case.take(MAX_SUBJECTS).enumerate() {
            let subject = if c.case.links.is_empty() || quantity != Quantity::Latency {
                format!(" · {}", t.subject)
            } else {
                String::new()
            };
            lines.push((format!("{}{subject}", c.name()), looks.look(c), nth, t.points.clone()));
        }
    }
    // Omits a plot of drops without any drop: the tables already show that there were none.
    let nothing = quantity == Quantity::Drops
        && lines.iter().all(|(.., points)| points.iter().all(|(_, n)| *n == 0.0));
    (!lines.is_empty() && !nothing).then(|| plots::timeline(&lines, quantity))
}

/// Plots latency, or goodput, against size: a plot for each group of cells that differ only by
/// size.
fn sizes(e: &ExperimentResult, by: Criterion, looks: &Looks) -> Option<View> {
    let rest = |c: &CaseResult| -> String {
        let size =
            c.case.links.first().map(|l| ByteSize(l.size as u64).to_string()).unwrap_or_default();
        cell_without(&c.case.cell, |word| {
            word == size || (word == c.case.scenario_case && names_a_size(e, word))
        })
    };
    let single =
        |c: &&CaseResult| c.case.links.len() == 1 && c.headline().is_some() && c.criterion() == by;
    let mut groups: Vec<String> = Vec::new();
    for c in e.measured().filter(single) {
        if !groups.contains(&rest(c)) {
            groups.push(rest(c));
        }
    }
    let mut all = Vec::new();
    for group in groups {
        let mut lines: Vec<(&CaseResult, Vec<(usize, &CaseResult)>)> = Vec::new();
        for c in e.measured().filter(single).filter(|c| rest(c) == group) {
            let Some(link) = c.case.links.first() else { continue };
            match lines.iter_mut().find(|(first, _)| first.case.system == c.case.system) {
                Some((_, points)) => points.push((link.size, c)),
                None => lines.push((c, vec![(link.size, c)])),
            }
        }
        for (_, points) in &mut lines {
            points.sort_by_key(|(size, _)| *size);
            points.dedup_by_key(|(size, _)| *size);
        }
        if lines.iter().any(|(_, points)| points.len() > 1) {
            all.push((group, plots::sizes(by, &lines, looks)));
        }
    }
    let (id, title, note) = match by {
        Criterion::Goodput => (
            "goodput",
            "Goodput by size",
            "Goodput by size of the payload. Cases may differ in rate as well, and what did not \
             arrive is not in it; the table says which.",
        ),
        Criterion::Latency => (
            "sizes",
            "By size",
            "Median latency by size of the payload, thin lines p99. Cases may differ in rate as \
             well; the table says which.",
        ),
    };
    (!all.is_empty()).then_some(View { id, title, note, plots: all })
}

/// Returns true if cases of that name always have the same size, so that the name implies it.
fn names_a_size(e: &ExperimentResult, case: &str) -> bool {
    let mut sizes: Vec<usize> = e
        .measured()
        .filter(|c| c.case.scenario_case == case)
        .filter_map(|c| c.case.links.first().map(|l| l.size))
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.len() == 1
}

/// Returns true if the figure of a case is for filled payloads; headings use it.
pub(super) fn is_filled(c: &CaseResult) -> bool {
    c.case.handling() == Some(Payload::Filled)
}
