// SPDX-License-Identifier: Apache-2.0
//! Tables after the latencies: start-up and rest of links, transmission of chains, quantities of
//! workloads, published figures.

use super::percentiles;
use crate::analysis::{CaseResult, ExperimentResult, Measure, Observed, columns};
use crate::chain::{self, TRANSMISSION};
use crate::further;
use crate::literature::{self, Literature};
use crate::table::{label, quantity};
use driveline_bench::observations::Quantity;
use driveline_terminal::paragraphs::{listed, wrapped};
use driveline_terminal::table::Columns;

/// Maximum number of subjects of a workload that get a row; the report has all subjects.
const MOST_SUBJECTS: usize = 12;

pub(super) fn write(text: &mut String, table: &Columns) {
    if !table.is_empty() {
        table.write(text);
        text.push('\n');
    }
}

/// Writes start-up times, and processor time of links at rest.
pub(super) fn once_per_run(text: &mut String, e: &ExperimentResult, width: usize) {
    let start_up = further::start_up(e);
    if !start_up.is_empty() {
        start_up.terminal().write(text);
        text.push_str(&wrapped(&format!("  {}", further::START_UP), width));
        text.push('\n');
    }
    write(text, &further::at_rest(e).terminal());
}

/// Writes transmission in percent of processing, at each stage that receives something.
pub(super) fn transmission(text: &mut String, e: &ExperimentResult) {
    let Some(of) = chain::transmission(e) else { return };
    let mut table =
        Columns::new(&std::iter::once(TRANSMISSION).chain(of.columns).collect::<Vec<_>>());
    let mut cell = None;
    for row in of.rows {
        if cell.replace(row.cell) != Some(row.cell) {
            table.heading(row.cell.to_owned());
        }
        table.named(format!("  {}", row.name), row.shares);
    }
    if let Some(missing) = of.missing {
        table.heading(format!("  {missing}"));
    }
    write(text, &table);
}

/// Writes key figures of graphs, resource use of processes, and parts of latencies.
pub(super) fn key_figures(text: &mut String, e: &ExperimentResult, width: usize) {
    let figures = further::key_figures(e);
    if !figures.is_empty() {
        figures.terminal().write(text);
        text.push_str(&wrapped(&format!("  {}", further::explained(e)), width));
        text.push('\n');
    }
    write(text, &further::split(e).terminal());
}

/// Returns durations that a workload observes, without the latency in the first table.
fn durations(c: &CaseResult) -> Vec<&Observed> {
    let whole = c.headline().map(|(of, _)| of.label().to_owned());
    let rendered = |o: &&Observed| match o.quantity {
        Quantity::Latency => whole.as_deref() != Some(o.subject.as_str()),
        Quantity::PeriodDeviation | Quantity::Age | Quantity::Recovery | Quantity::StartUp => true,
        _ => false,
    };
    c.observed.iter().filter(rendered).collect()
}

/// Writes quantities of workloads other than the whole latency, and their counters.
pub(super) fn observed(text: &mut String, e: &ExperimentResult, width: usize) {
    let workloads: Vec<&CaseResult> = e.measured().filter(|c| c.case.workload.is_some()).collect();
    let rows: Vec<_> =
        workloads.iter().map(|c| (*c, durations(c))).filter(|(_, o)| !o.is_empty()).collect();
    let ranks = columns(rows.iter().flat_map(|(_, o)| o).map(|o| &o.figure.percentiles));
    let mut head = vec!["observed", "n"];
    head.extend(ranks.iter().map(|c| c.label()));
    head.extend(["mean", "sd"]);
    let greatest = !ranks.contains(&Measure::Greatest);
    head.extend(Some("greatest").filter(|_| greatest));
    let mut table = Columns::new(&head);
    for (c, observed) in &rows {
        table.heading(format!("{} · {}", c.case.cell, c.name()));
        for o in observed.iter().take(MOST_SUBJECTS) {
            let p = &o.figure.percentiles;
            let value = |x: Option<f64>| x.map_or_else(String::new, |x| quantity(o.quantity, x));
            let mut row = vec![format!("  {}, {}", o.subject, label(o.quantity))];
            row.extend(percentiles(&o.figure, &ranks));
            row.extend([value(p.mean), value(p.standard_deviation)]);
            row.extend(Some(value(p.max.map(|x| x as f64))).filter(|_| greatest));
            table.row(row);
        }
        if observed.len() > MOST_SUBJECTS {
            table.heading(format!(
                "  … and {} more, see the report",
                observed.len() - MOST_SUBJECTS
            ));
        }
    }
    write(text, &table);
    let mut counted = false;
    for c in workloads {
        let words = c.counted();
        if !words.is_empty() {
            text.push_str(&wrapped(
                &format!("  counted in each run, {} · {}:", c.case.cell, c.name()),
                width,
            ));
            text.push_str(&listed(&words, 4, width));
            counted = true;
        }
    }
    if counted {
        text.push('\n');
    }
}

/// Writes published figures that have a counterpart here.
pub(super) fn published(text: &mut String, e: &ExperimentResult, width: usize) {
    let Literature { rows, alone } = Literature::of(e, true);
    if rows.is_empty() {
        return;
    }
    rows.terminal().write(text);
    text.push_str(&wrapped(&format!("  {}", literature::TO_KNOW), width));
    if alone > 0 {
        let figures = if alone == 1 { "figure" } else { "figures" };
        text.push_str(&wrapped(
            &format!("  {alone} published {figures} without a counterpart here: on the page"),
            width,
        ));
    }
    text.push('\n');
}
