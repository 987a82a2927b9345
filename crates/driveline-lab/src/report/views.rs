// SPDX-License-Identifier: Apache-2.0
//! What an experiment's explorer offers: views, each with a plot for every cell that has something to show.

use super::look::{Look, Looks};
use super::plots;
use crate::analysis::{CaseResult, ExperimentResult, Figure, Ratio};
use crate::archive::Role;
use crate::beside;
use crate::words::cell_without;
use driveline_bench::Metric;
use driveline_bench::harness::Payload;
use driveline_bench::observations::Quantity;
use driveline_bench::stats::Interval;
use driveline_runtime::graph::ByteSize;
use plotly::Plot;
use plotly::common::MarkerSymbol;
use serde_json::{Value, json};

/// A view: what it is called, what its reader must know, and its plots by cell. A plot without a cell is of the whole experiment.
pub(super) struct View {
    id: &'static str,
    title: &'static str,
    note: &'static str,
    plots: Vec<(String, Plot)>,
}

impl View {
    fn json(&self) -> Value {
        let plots: Vec<Value> = self.plots.iter().map(|(cell, plot)| json!({"cell": cell, "plot": figure(plot)})).collect();
        json!({"id": self.id, "title": self.title, "note": self.note, "plots": plots})
    }
}

/// Data and layout only: what the page does with them is its own affair.
pub(super) fn figure(plot: &Plot) -> Value {
    let mut all: Value = serde_json::from_str(&plot.to_json()).unwrap_or_default();
    json!({"data": all["data"].take(), "layout": all["layout"].take()})
}

/// All views that have anything to show.
pub(super) fn views(e: &ExperimentResult, looks: &Looks) -> Value {
    let mut all = Vec::new();
    let mut add = |id, title, note, of: &dyn Fn(&str) -> Option<Plot>| {
        let plots: Vec<_> = e.cells().into_iter().filter_map(|cell| of(cell).map(|p| (cell.to_owned(), p))).collect();
        if !plots.is_empty() {
            all.push(View { id, title, note, plots }.json());
        }
    };
    add(
        "percentiles",
        "Percentiles",
        "How late the latest are. Right of 99 % every step is ten times rarer; a curve ends at its greatest sample. Grey: the floors, a bare wake-up without middleware, and beside payloads that are filled or copied one copy of them.",
        &|cell| lines(e, cell, looks).map(|l| plots::percentiles(&l)),
    );
    add("histogram", "Histogram", "Share of samples in bins of equal ratio, 20 for each power of ten.", &|cell| {
        lines(e, cell, looks).map(|l| plots::histogram(&l))
    });
    add("ecdf", "ECDF", "Share of samples that were not later than this.", &|cell| lines(e, cell, looks).map(|l| plots::ecdf(&l)));
    add(
        "due",
        "Since due",
        "How late samples are from when they were due: what the sender was late is in it, and a stall hides nothing. Right of 99 % every step is ten times rarer.",
        &|cell| {
            let lines: Vec<_> = e.in_cell(cell).filter_map(|c| Some((c.name(), looks.look(c), beside::open_loop(c)?.1))).collect();
            (!lines.is_empty()).then(|| plots::percentiles(&lines))
        },
    );
    add(
        "subscribers",
        "Per subscriber",
        "Transport latency of each subscriber: quartiles, whiskers from the first to the 99th percentile, or from the least to the greatest sample where n is too small for those. A fair middleware serves all alike.",
        &|cell| {
            let cases: Vec<_> = e.in_cell(cell).filter(|c| c.subscribers.len() > 1).collect();
            (!cases.is_empty()).then(|| plots::boxes(&cases, looks))
        },
    );
    add("ratios", "Ratios", RATIOS, &|cell| ratios(e, cell, looks));
    add("layers", "Layers", LAYERS, &|cell| {
        let cases: Vec<_> = e.in_cell(cell).filter(|c| c.figures.contains_key(&Metric::Transport)).collect();
        (!cases.is_empty()).then(|| plots::layers(&cases))
    });
    add(
        "deliveries",
        "Deliveries",
        "What became of every sample at every subscriber. Late: in hand more than one period after it was due. Lost: never read, lost or replaced by a newer one. Not sent: due, but the sender could not.",
        &|cell| {
            let cases: Vec<_> = e.in_cell(cell).filter(|c| plots::is_open(c) && c.totals.scheduled > 0).collect();
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
    add("observed", "Observed", "Distribution of each duration that the workload told, by subject.", &|cell| observed(e, cell, looks));
    let timelines = [
        (
            Quantity::Latency,
            "time",
            "Latency over time",
            "One run, the first that counts. Of several subscribers the last; where there are many samples, the latest of each stretch.",
        ),
        (Quantity::Cpu, "cpu", "CPU over time", "Processor time of each process in one run."),
        (
            Quantity::ResidentMemory,
            "memory",
            "Memory over time",
            "Resident memory of each process in one run; what is shared counts in every process that has touched it.",
        ),
        (
            Quantity::Drops,
            "drops",
            "Drops over time",
            "Samples that were lost or replaced, at each subscriber, and that were not sent, in each stretch of one run, the first that counts.",
        ),
    ];
    for (quantity, id, title, note) in timelines {
        add(id, title, note, &|cell| over_time(e, cell, quantity, looks));
    }
    if let Some(view) = sizes(e, looks) {
        all.push(view.json());
    }
    json!({"cells": e.cells(), "views": all})
}

pub(super) const LAYERS: &str = "Median of each part of a sample's way, from stamps. 'On its way' is what remains of the transport's median; where publish() returns after the sample has arrived, its call is cut at the arrival.";

const RATIOS: &str =
    "How many times as long as Driveline, with the 95 % interval by rounds. Left of the dotted line is faster than Driveline.";

/// The distributions of a cell that count most, and of its floor.
fn lines<'a>(e: &'a ExperimentResult, cell: &str, looks: &Looks) -> Option<Vec<(String, Look, &'a Figure)>> {
    let cases: Vec<&CaseResult> = e.measured().filter(|c| c.case.cell == cell).collect();
    let mut lines: Vec<_> = cases
        .iter()
        .filter_map(|c| c.headline().map(|(_, f)| (c.name(), looks.look(c), f)))
        .filter(|(_, _, f)| f.percentiles.n > 0)
        .collect();
    if lines.is_empty() {
        return None;
    }
    // A word and a copy; of the same cell all have the same.
    let is_beside =
        |floor: &&CaseResult| floor.case.role == Role::Floor && cases.iter().flat_map(|c| &c.ratios).any(|r| r.to == floor.case.id);
    for floor in e.cases.iter().filter(is_beside) {
        lines.extend(floor.headline().map(|(_, f)| (format!("floor: {}", floor.case.system_title), looks.look(floor), f)));
    }
    Some(lines)
}

fn dot(at: String, i: &Interval) -> plots::Dot {
    let round = |x: f64| (x * 1e4).round() / 1e4;
    (at, round(i.estimate), round(i.low), round(i.high))
}

/// p50, p95, p99 and p99.9 of every system of a cell.
fn ratios(e: &ExperimentResult, cell: &str, looks: &Looks) -> Option<Plot> {
    let of: Vec<(&CaseResult, &Ratio)> =
        e.measured().filter(|c| c.case.cell == cell).filter_map(|c| c.to_driveline().map(|r| (c, r))).collect();
    let ours = e.measured().find(|c| c.is_driveline())?;
    let mut series = Vec::new();
    type Rank = fn(&Ratio) -> Option<&Interval>;
    let ranks: [(&str, MarkerSymbol, Rank); 4] = [
        ("p50", MarkerSymbol::Circle, |r| r.p50.as_ref()),
        ("p95", MarkerSymbol::Square, |r| r.p95.as_ref()),
        ("p99", MarkerSymbol::Diamond, |r| r.p99.as_ref()),
        ("p99.9", MarkerSymbol::TriangleUp, |r| r.p999.as_ref()),
    ];
    for (label, symbol, pick) in ranks {
        let dots: Vec<_> = of.iter().filter_map(|(c, r)| pick(r).map(|i| dot(c.name(), i))).collect();
        if !dots.is_empty() {
            series.push((label.to_owned(), looks.look(ours).nth(series.len()), Some(symbol), dots));
        }
    }
    let rows: Vec<String> = of.iter().map(|(c, _)| c.name()).collect();
    // Medians alone stand in the overview of all cells.
    let told = series.len() == 1 && e.cells().len() > 1;
    (!series.is_empty() && !told).then(|| plots::dots(&series, &rows))
}

/// Medians of all cells at a glance; nothing if there is nothing to compare, or a single cell, whose view of ratios says it all.
pub(super) fn overview(e: &ExperimentResult, looks: &Looks) -> Option<Plot> {
    if e.cells().len() < 2 {
        return None;
    }
    let mut systems: Vec<&CaseResult> = Vec::new();
    for c in e.measured().filter(|c| c.to_driveline().is_some_and(|r| r.p50.is_some())) {
        if systems.iter().all(|s| s.case.system != c.case.system) {
            systems.push(c);
        }
    }
    let series: Vec<_> = systems
        .iter()
        .map(|system| {
            let of = e.measured().filter(|c| c.case.system == system.case.system);
            let dots = of.filter_map(|c| Some(dot(c.case.cell.clone(), c.to_driveline()?.p50.as_ref()?))).collect();
            (system.name(), looks.look(system), None, dots)
        })
        .collect();
    let rows: Vec<String> = e.cells().into_iter().map(str::to_owned).collect();
    (!series.is_empty()).then(|| plots::dots(&series, &rows))
}

fn stage_rows(c: &CaseResult) -> Vec<(String, [f64; 3])> {
    let row = |(subject, parts): (&str, [Option<f64>; 3])| (format!("{} · {subject}", c.name()), parts.map(|p| p.unwrap_or(0.0)));
    beside::parts(c).into_iter().map(row).collect()
}

/// Subjects of one plot: more make no picture, and stand in the table.
const MAX_SUBJECTS: usize = 24;

fn observed(e: &ExperimentResult, cell: &str, looks: &Looks) -> Option<Plot> {
    let mut lines = Vec::new();
    for c in e.measured().filter(|c| c.case.cell == cell && c.case.links.is_empty()) {
        let durations = c.observed.iter().filter(|o| {
            matches!(o.quantity, Quantity::Latency | Quantity::Age | Quantity::PeriodDeviation | Quantity::Recovery | Quantity::StartUp)
        });
        for o in durations {
            let what = if o.quantity == Quantity::Latency { String::new() } else { format!(", {}", crate::table::label(o.quantity)) };
            lines.push((format!("{} · {}{what}", c.name(), o.subject), looks.look(c).nth(lines.len()), &o.figure));
        }
    }
    lines.truncate(MAX_SUBJECTS);
    (lines.len() > 1).then(|| plots::ecdf(&lines))
}

fn over_time(e: &ExperimentResult, cell: &str, quantity: Quantity, looks: &Looks) -> Option<Plot> {
    let mut lines = Vec::new();
    for c in e.measured().filter(|c| c.case.cell == cell) {
        let of_case = c.timelines.iter().filter(|t| t.quantity == quantity);
        for (nth, t) in of_case.take(MAX_SUBJECTS).enumerate() {
            let subject =
                if c.case.links.is_empty() || quantity != Quantity::Latency { format!(" · {}", t.subject) } else { String::new() };
            lines.push((format!("{}{subject}", c.name()), looks.look(c), nth, t.points.clone()));
        }
    }
    // A picture of nothing says no more than the tables do.
    let nothing = quantity == Quantity::Drops && lines.iter().all(|(.., points)| points.iter().all(|(_, n)| *n == 0.0));
    (!lines.is_empty() && !nothing).then(|| plots::timeline(&lines, quantity))
}

/// Latency against size: a plot for each group of cells that differ by size only.
fn sizes(e: &ExperimentResult, looks: &Looks) -> Option<View> {
    let rest = |c: &CaseResult| -> String {
        let size = c.case.links.first().map(|l| ByteSize(l.size as u64).to_string()).unwrap_or_default();
        cell_without(&c.case.cell, |word| word == size || (word == c.case.scenario_case && names_a_size(e, word)))
    };
    let single = |c: &&CaseResult| c.case.links.len() == 1 && c.headline().is_some();
    let mut groups: Vec<String> = Vec::new();
    for c in e.measured().filter(single) {
        if !groups.contains(&rest(c)) {
            groups.push(rest(c));
        }
    }
    let mut all = Vec::new();
    for group in groups {
        let mut lines: Vec<(&CaseResult, Vec<(usize, &Figure)>)> = Vec::new();
        for c in e.measured().filter(single).filter(|c| rest(c) == group) {
            let (Some(link), Some((_, f))) = (c.case.links.first(), c.headline()) else { continue };
            match lines.iter_mut().find(|(first, _)| first.case.system == c.case.system) {
                Some((_, points)) => points.push((link.size, f)),
                None => lines.push((c, vec![(link.size, f)])),
            }
        }
        for (_, points) in &mut lines {
            points.sort_by_key(|(size, _)| *size);
            points.dedup_by_key(|(size, _)| *size);
        }
        if lines.iter().any(|(_, points)| points.len() > 1) {
            all.push((group, plots::sizes(&lines, looks)));
        }
    }
    let note = "Median latency by size of the payload, thin lines p99. Cases may differ in rate as well; the table says which.";
    (!all.is_empty()).then_some(View { id: "sizes", title: "By size", note, plots: all })
}

/// Whether cases of that name always have the same size, so that the name stands for it.
fn names_a_size(e: &ExperimentResult, case: &str) -> bool {
    let mut sizes: Vec<usize> =
        e.measured().filter(|c| c.case.scenario_case == case).filter_map(|c| c.case.links.first().map(|l| l.size)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.len() == 1
}

/// Whether a figure is of filled payloads, for headings.
pub(super) fn is_filled(c: &CaseResult) -> bool {
    c.case.handling() == Some(Payload::Filled)
}
