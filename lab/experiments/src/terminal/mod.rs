// SPDX-License-Identifier: Apache-2.0
//! An analysis as text for a terminal: for each experiment its answer, latencies, further tables,
//! and the missing parts.

mod further;

use crate::analysis::{
    Analysis, CaseResult, ExperimentResult, Figure, Measure, compared_columns, too_few,
};
use crate::archive::Manifest;
use crate::chain;
use crate::left_out::LeftOutLines;
use crate::table::{
    LOSSES, Reference, about_goodput, beside_copy, interval, not_confirmed, nowhere, percentile,
    remarks, with_unseen,
};
use driveline_terminal::figures::{digits, duration_ns};
use driveline_terminal::paragraphs::wrapped;
use driveline_terminal::table::Columns;
use std::collections::BTreeSet;
use std::path::Path;

/// Maximum number of links of a case with their own rows; the report has all.
const MOST_LINKS: usize = 8;

/// Returns the summary, wrapped at `width` characters.
#[must_use]
pub(crate) fn summary(m: &Manifest, a: &Analysis, directory: &Path, width: usize) -> String {
    let mut text = String::new();
    let lists = || a.experiments.iter().map(|e| (e.id.as_str(), e.left_out.as_slice()));
    let left_out = LeftOutLines::of(lists());
    for e in &a.experiments {
        experiment(&mut text, e, &left_out, width);
    }
    for line in left_out.together() {
        text.push_str(&wrapped(&format!("left out  {line}"), width));
    }
    if let Some(place) = left_out.place(lists()) {
        text.push_str(&wrapped(place, width));
    }
    for line in remarks(m, a, Some(directory)) {
        text.push_str(&wrapped(&line, width));
    }
    text
}

fn experiment(text: &mut String, e: &ExperimentResult, left_out: &LeftOutLines, width: usize) {
    text.push_str(&wrapped(&format!("{} · {}", e.id, e.title), width));
    text.push_str(&wrapped(&e.question, width));
    for line in e.answer.lines() {
        text.push_str(&wrapped(line, width));
    }
    text.push('\n');
    compared(text, e, width);
    further::once_per_run(text, e, width);
    further::between_arrivals(text, e);
    further::own_edges(text, e);
    further::transmission(text, e);
    further::key_figures(text, e, width);
    further::observed(text, e, width);
    further::floors(text, e);
    further::published(text, e, width);
    for c in &e.cases {
        for r in c.runs.iter().filter(|r| !r.reasons.is_empty()) {
            let reasons = continued(&r.reasons.join("; "));
            text.push_str(&wrapped(
                &format!("INVALID  {} in round {}: {reasons}", c.case.id, r.round + 1),
                width,
            ));
        }
    }
    for (c, agreement) in e.cases.iter().filter_map(|c| c.own_tool.as_ref().map(|a| (c, a))) {
        let mark = if agreement.contradicts() { "INVALID  " } else { "" };
        text.push_str(&wrapped(&format!("{mark}{}: {agreement}", c.case.id), width));
    }
    for line in not_confirmed(e) {
        text.push_str(&wrapped(&format!("NOT CONFIRMED  {line}"), width));
    }
    let refused: BTreeSet<&str> =
        e.cases.iter().flat_map(|c| &c.runs).flat_map(|r| &r.unset).map(String::as_str).collect();
    for setting in refused {
        text.push_str(&wrapped(&format!("NOT SET  {}", continued(setting)), width));
    }
    for line in left_out.own(&e.left_out) {
        text.push_str(&wrapped(&format!("left out  {line}"), width));
    }
    text.push('\n');
}

/// Indents all lines of a text but the first, so that none of them looks like a line of the report.
fn continued(text: &str) -> String {
    text.replace('\n', "\n    ")
}

/// Writes every system in every cell, and every link of cases with several.
fn compared(text: &mut String, e: &ExperimentResult, width: usize) {
    let of_links = || e.measured().flat_map(|c| &c.by_link).map(|l| &l.figure.percentiles);
    let of_rows = || e.measured().filter_map(CaseResult::latencies).chain(of_links());
    let ranks = compared_columns(e.measured(), of_rows());
    let beside = Reference::of(e);
    let lossy: Vec<_> =
        LOSSES.into_iter().filter(|(_, of)| e.measured().any(|c| of(&c.totals) > 0)).collect();
    let mut head = vec![String::new(), "n".into()];
    head.extend(ranks.iter().map(|c| c.label().to_owned()));
    head.extend(beside.columns.iter().map(|c| format!("÷ {}, {}", beside.to, c.label())));
    let copy = beside_copy(e);
    head.extend(copy.iter().map(|c| format!("÷ memcpy, {}", c.label())));
    head.extend(["CPU/message".into(), "switches/message".into()]);
    head.extend(lossy.iter().map(|(name, _)| (*name).to_owned()));
    head.extend(["sent".into(), "lost".into()]);
    let mut table = Columns::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for cell in e.cells() {
        let of = e.in_cell(cell).find_map(CaseResult::compared_label);
        table.heading(of.map_or_else(|| cell.to_owned(), |of| format!("{cell} ({of})")));
        for c in e.in_cell(cell) {
            let name = format!("  {}", c.name_with_doubt());
            let Some((_, figure)) = c.headline() else {
                table.row(vec![name, c.without_figures()]);
                continue;
            };
            let mut row = vec![name];
            row.push(figure.percentiles.n.to_string());
            row.extend(ranks.iter().map(|column| column.cell(c, percentile)));
            row.extend(beside.columns.iter().map(|column| interval(beside.ratio(c, *column))));
            row.extend(
                copy.iter().map(|column| interval(c.to_memcpy().and_then(|r| column.ratio(r)))),
            );
            if !c.has_deliveries() {
                row.extend(std::iter::repeat_n(String::new(), 2 + lossy.len()));
                row.extend(
                    c.lost()
                        .into_iter()
                        .flat_map(|(lost, due)| [due.to_string(), lost.to_string()]),
                );
            } else {
                row.push(c.cpu_per_message(duration_ns).unwrap_or_default());
                row.push(c.switches_per_sample().map_or_else(String::new, digits));
                row.extend(lossy.iter().map(|loss| with_unseen(loss, &c.totals)));
            }
            table.row(row);
            for l in c.by_link.iter().take(MOST_LINKS) {
                let mut row = vec![format!("    {}", l.topic)];
                row.extend(percentiles(&l.figure, &ranks));
                row.extend(beside.columns.iter().chain(&copy).map(|_| String::new()));
                row.extend([
                    l.totals.cpu_ns_per_sample.map_or_else(String::new, duration_ns),
                    String::new(),
                ]);
                row.extend(lossy.iter().map(|loss| with_unseen(loss, &l.totals)));
                table.row(row);
            }
            if c.by_link.len() > MOST_LINKS {
                table.heading(format!(
                    "    … and {} more links, see the report",
                    c.by_link.len() - MOST_LINKS
                ));
            }
        }
    }
    if table.is_empty() {
        return;
    }
    table.write(text);
    let mut say = |line: &str| text.push_str(&wrapped(line, width));
    for line in too_few(of_rows()).into_iter().chain(chain::end_to_end(e)) {
        say(&format!("  {line}"));
    }
    if ranks.contains(&Measure::Goodput) {
        say(&format!("  {}", about_goodput()));
    }
    if beside.is_floor() && !beside.columns.is_empty() {
        say("  ÷ floor: compared with a bare word passed on without middleware (see the floors)");
    }
    if copy.is_some() {
        say("  ÷ memcpy: compared with one copy of as many bytes (see the floors)");
    }
    if e.measured().any(|c| c.case.has_samples() && c.headline().is_some()) {
        let nowhere = nowhere(e);
        if !nowhere.names.is_empty() {
            say(&format!("  {}: none", nowhere.names.join(", ")));
        }
        if nowhere.not_torn_where_verified {
            say("  torn: none where payloads are filled and verified");
        }
        say("  CPU/message: of all ends together, a ping-pong's round is two; without a \
             middleware's own daemon or gateway");
    }
    text.push('\n');
}

/// Returns the number of samples and percentiles; nothing without samples.
fn percentiles(f: &Figure, ranks: &[Measure]) -> Vec<String> {
    let p = &f.percentiles;
    let of = |column: &Measure| {
        if p.n == 0 || *column == Measure::Goodput {
            String::new()
        } else {
            percentile(column.of(p))
        }
    };
    std::iter::once(p.n.to_string()).chain(ranks.iter().map(of)).collect()
}
