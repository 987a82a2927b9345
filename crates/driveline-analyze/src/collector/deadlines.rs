// SPDX-License-Identifier: Apache-2.0
//! Missed deadlines, from a run's records.

use super::Collector;
use crate::deadlines::{DeadlineSummary, PortEnd, Series};

/// Returns the ports that missed a deadline, in the order of the graph's components; outputs of a
/// component come before its inputs.
pub(crate) fn summaries(run: &Collector) -> Vec<DeadlineSummary> {
    let of =
        |((stage, end, port), series): (&(String, PortEnd, String), &Series)| DeadlineSummary {
            stage: stage.clone(),
            port: port.clone(),
            end: *end,
            topic: run.topic_name(series.topic),
            missed: series.before_restart.saturating_add(series.since),
        };
    let mut all: Vec<_> = run.accounts.deadlines.0.iter().map(of).collect();
    all.sort_by_key(|d| {
        run.facts.stages.iter().position(|known| known.name == d.stage).unwrap_or(usize::MAX)
    });
    all
}
