// SPDX-License-Identifier: Apache-2.0
//! Costs of transmission, compared with the work of a chain's stages, here and in papers.

use super::experiment::small;
use super::html::{Table, escape, sentence};
use crate::analysis::{CaseResult, ExperimentResult, Figure};
use crate::chain::OUTPUT;
use crate::table::output_hz;
use crate::words::NETWORK_IS_MISSING;
use driveline_bench::chain::ChainJob;
use driveline_bench::harness::Reach;
use driveline_terminal::figures::{digits, duration_ns};

/// Renders transmission in percent of processing, a column for each stage that receives something.
pub(super) fn transmission(e: &ExperimentResult) -> String {
    let chains: Vec<(&CaseResult, &ChainJob)> =
        e.measured().filter_map(|c| c.case.chain.as_ref().map(|chain| (c, chain))).collect();
    let Some(stages) = e.receiving_stages() else { return String::new() };
    let has_output = e.measured().any(|c| output_hz(c).is_some());
    let columns = stages.iter().copied().chain(has_output.then_some(OUTPUT));
    let head: Vec<String> = std::iter::once("transmission ÷ processing".to_owned())
        .chain(columns.map(escape))
        .collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let mut table = Table::new("", &head, true);
    for cell in e.cells() {
        let of_cell: Vec<_> = chains.iter().filter(|(c, _)| c.case.cell == cell).collect();
        let Some((first, chain)) = of_cell.first() else { continue };
        let where_to = if chain.reach == Reach::Process {
            "all stages in one process"
        } else {
            "a process for each stage"
        };
        table.group(&format!("{cell} · {where_to}"), head.len());
        for (c, _) in &of_cell {
            let mut cells: Vec<String> = stages.iter().map(|stage| share(c, stage)).collect();
            cells.extend(has_output.then(|| output_hz(c).unwrap_or_default()));
            table.row(&escape(&c.name()), &cells);
        }
        for p in e.transmission_published(first) {
            let percent = |stage: &&str| {
                p.transmission_percent.get(*stage).map_or_else(String::new, |x| format!("{x} %"))
            };
            let cells: Vec<String> =
                stages.iter().map(percent).chain(has_output.then(String::new)).collect();
            table.row(
                &format!("{} {}", escape(&p.system), small(&format!("published · {}", p.on))),
                &cells,
            );
        }
    }
    let missing = if e.network_is_missing() {
        format!("<p class=bad>{}</p>", escape(NETWORK_IS_MISSING))
    } else {
        String::new()
    };
    format!(
        "<h3>Transmission compared with processing</h3>{missing}{}<p class=legend>Mean of \
         communication in percent of the mean of computation; below, the same of the medians, and \
         the means of both. Communication lasts from \
         publishing until all inputs are in hand: a message that waits for a stage that is still \
         busy, and conversions, count as transmission.</p>{}",
        table.finish(),
        works(e)
    )
}

fn share(c: &CaseResult, stage: &str) -> String {
    let percent = |of: fn(&Figure) -> Option<f64>| {
        let (communication, computation) = c.transmission(stage)?;
        let (a, b) = of(communication).zip(of(computation)).filter(|(_, b)| *b > 0.0)?;
        Some((digits(100.0 * a / b), duration_ns(a), duration_ns(b)))
    };
    let Some((mean, communication, computation)) = percent(|f| f.percentiles.mean) else {
        return String::new();
    };
    let median = percent(|f| f.percentiles.p50.map(|ns| ns as f64))
        .map_or_else(String::new, |(p50, _, _)| format!("p50 {p50} %"));
    format!(
        "{mean} %<br>{}<br>{}",
        small(&median),
        small(&format!("{communication} / {computation}"))
    )
}

/// Renders the work of the stages and their CPUs.
fn works(e: &ExperimentResult) -> String {
    let rendered = crate::chain::works(e).into_iter();
    let items: String = rendered
        .map(|(stage, what)| format!("<li><b>{}</b>: {}</li>", escape(stage), sentence(&what)))
        .collect();
    format!("<details><summary>What the stages do</summary><ul>{items}</ul></details>\n")
}
