// SPDX-License-Identifier: Apache-2.0
//! Path of samples through a chain, from its source to a sink.

use driveline_bench::chain::StageSpec;

/// Returns the source of a sink's samples, along first inputs: the name of the stage without
/// inputs.
pub(crate) fn source_of<'a>(stages: &'a [StageSpec], sink: &'a StageSpec) -> Option<&'a str> {
    way_to(stages, sink).last().filter(|s| s.inputs.is_empty()).map(|s| s.name.as_str())
}

/// Returns the sink and the stages before it up to the source, along first inputs, which trigger.
pub(crate) fn way_to<'a>(stages: &'a [StageSpec], sink: &'a StageSpec) -> Vec<&'a StageSpec> {
    let before = |s: &&StageSpec| {
        stages
            .iter()
            .find(|w| w.output.as_ref().is_some_and(|topic| Some(topic) == s.inputs.first()))
    };
    // A chain has no cycles; the limit ends a cycle in a forged archive.
    std::iter::successors(Some(sink), before).take(stages.len()).collect()
}
