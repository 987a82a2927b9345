// SPDX-License-Identifier: Apache-2.0
//! An analysis as text for a terminal: for each experiment its answer, latencies, further tables,
//! and the missing parts.

mod further;

use crate::analysis::{Analysis, CaseResult, ExperimentResult, Figure, Measure};
use crate::archive::Manifest;
use crate::chain;
use crate::further as tables;
use crate::latencies::{Column, Extent, Latencies, nowhere};
use crate::left_out::LeftOutLines;
use crate::table::{about_goodput, not_confirmed, percentile, remarks};
use driveline_terminal::paragraphs::wrapped;
use driveline_terminal::table::Columns;
use std::collections::BTreeSet;
use std::path::Path;

/// Maximum number of links of a case that get a row; the report has all links.
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
    further::write(text, &tables::between_arrivals(e).terminal());
    further::write(text, &tables::own_edges(e).terminal());
    further::transmission(text, e);
    further::key_figures(text, e, width);
    further::observed(text, e, width);
    further::write(text, &tables::floors(e).terminal());
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
    let of = Latencies::of(e, Extent::Links);
    let columns = || of.columns.iter().copied().filter(|column| *column != Column::Runs);
    let label = |column| match column {
        Column::Cpu => "CPU/message".into(),
        Column::Switches => "switches/message".into(),
        _ => of.label(column),
    };
    let head: Vec<String> = std::iter::once(String::new()).chain(columns().map(label)).collect();
    let mut table = Columns::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for cell in e.cells() {
        let figure = e.in_cell(cell).find_map(CaseResult::compared_label);
        table.heading(figure.map_or_else(|| cell.to_owned(), |of| format!("{cell} ({of})")));
        for c in e.in_cell(cell) {
            let name = format!("  {}", c.name_with_doubt());
            if c.headline().is_none() {
                table.row(vec![name, c.without_figures()]);
                continue;
            }
            table.named(name, columns().map(|column| of.value(c, column).text()).collect());
            for l in c.by_link.iter().take(MOST_LINKS) {
                let values = columns().map(|column| Latencies::value_of_link(l, column).text());
                table.named(format!("    {}", l.topic), values.collect());
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
    for line in of.too_few().into_iter().chain(chain::end_to_end(e)) {
        say(&format!("  {line}"));
    }
    if of.has_goodput() {
        say(&format!("  {}", about_goodput()));
    }
    if of.is_to_floor && of.has_ratios() {
        say("  ÷ floor: compared with a bare word passed on without middleware (see the floors)");
    }
    if of.has_copies() {
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

/// Returns the number of samples and the percentiles, which are empty texts without samples.
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
