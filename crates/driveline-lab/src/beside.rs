// SPDX-License-Identifier: Apache-2.0
//! What stands beside the table of latencies in every rendering.

use crate::analysis::{CaseResult, Column, ExperimentResult, Figure, columns};
use crate::rows::{Row, Rows};
use crate::table::percentile;
use driveline_bench::Metric;

/// Transport and schedule-relative latency of an open loop; of a stream whose goodput counts none, because it may be due faster than its way can
/// carry.
pub(crate) fn open_loop(c: &CaseResult) -> Option<(&Figure, &Figure)> {
    let of = |m| c.figures.get(&m).filter(|f| f.percentiles.n > 0 && c.case.figure != Metric::BetweenArrivals);
    of(Metric::Transport).zip(of(Metric::ScheduleRelative))
}

/// What links with a rate take from publishing, and from when samples were due: the same samples, at all subscribers.
pub(crate) fn since_due(e: &ExperimentResult) -> Rows {
    let all = || e.cells().into_iter().flat_map(|cell| e.in_cell(cell)).filter_map(|c| Some((c, open_loop(c)?)));
    let ranks: Vec<Column> = columns(all().flat_map(|(_, (sent, due))| [&sent.percentiles, &due.percentiles]))
        .into_iter()
        .filter(|c| matches!(c, Column::P50 | Column::P95 | Column::P99))
        .collect();
    let heads = |of: &str| ranks.iter().map(|c| format!("{of}, {}", c.label())).collect::<Vec<_>>();
    let head = [vec!["n".to_owned()], heads("transport"), heads("since due")].concat();
    let row = |(c, (sent, due)): (&CaseResult, (&Figure, &Figure))| {
        let told = |f: &Figure| ranks.iter().map(|c| percentile(c.of(&f.percentiles))).collect::<Vec<_>>();
        let cells = [vec![due.percentiles.n.to_string()], told(sent), told(due)].concat();
        Row { cell: c.case.cell.clone(), name: c.name(), cells }
    };
    Rows::new("from when samples were due", &head.iter().map(String::as_str).collect::<Vec<_>>(), all().map(row).collect())
}
