// SPDX-License-Identifier: Apache-2.0
//! Waits of reliable outputs, from a run's records.

use super::Collector;
use crate::backpressure::{BlockedOutput, Series};
use driveline_types::TopicId;

/// Returns the outputs that had to wait, in the order of the graph's components.
pub(crate) fn summaries(run: &Collector) -> Vec<BlockedOutput> {
    let of = |((stage, output), series): (&(String, String), &Series)| {
        let blocked = series.before_restart.and(series.since);
        BlockedOutput {
            stage: stage.clone(),
            output: output.clone(),
            topic: run.topic_name(series.topic),
            waits: blocked.waits,
            timeouts: blocked.timeouts,
            blocked_ms: blocked.blocked_ns as f64 / 1e6,
            readers: reliable_readers(run, series.topic),
            external: run.facts.external.iter().any(|t| t.id() == series.topic),
        }
    };
    let mut all: Vec<_> = run.accounts.backpressure.0.iter().map(of).collect();
    all.sort_by_key(|b| {
        run.facts.stages.iter().position(|known| known.name == b.stage).unwrap_or(usize::MAX)
    });
    all
}

fn reliable_readers(run: &Collector, topic: TopicId) -> Vec<String> {
    let reads = |stage: &&crate::StageFacts| {
        let mut inputs = stage.inputs.iter().filter(|i| i.topic.id() == topic);
        inputs.any(|i| run.is_reliable(&stage.name, &i.name))
    };
    run.facts.stages.iter().filter(reads).map(|s| s.name.clone()).collect()
}
