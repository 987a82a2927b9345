// SPDX-License-Identifier: Apache-2.0
//! Texts about chains for all outputs: transmission compared with processing, and the stages' work.

use crate::analysis::{CaseResult, ExperimentResult};
use crate::chain_path::way_to;
use crate::table::output_hz;
use crate::words::NETWORK_IS_MISSING;
use driveline_bench::chain::{ChainJob, StageSpec};
use driveline_terminal::figures::digits;
use std::collections::BTreeMap;

/// Definition of the shares.
pub(crate) const TRANSMISSION: &str = "transmission ÷ processing, means";

/// Name of the column with the rate at which the last stage finishes.
pub(crate) const OUTPUT: &str = "output, Hz";

/// Transmission in percent of processing, at each stage that receives something, measured and
/// published; and the rate of the last stage.
pub(crate) struct Transmission<'a> {
    /// The stages that receive something, and [`OUTPUT`] if a rate is known.
    pub(crate) columns: Vec<&'a str>,
    pub(crate) rows: Vec<Shares<'a>>,
    /// Reason why it has no published shares.
    pub(crate) missing: Option<&'static str>,
}

/// Shares of one system or paper in a cell, one for each column; empty where there is none.
pub(crate) struct Shares<'a> {
    pub(crate) cell: &'a str,
    pub(crate) name: String,
    pub(crate) shares: Vec<String>,
}

/// Returns `None` if there is no chain, or no figure of a chain.
pub(crate) fn transmission(e: &ExperimentResult) -> Option<Transmission<'_>> {
    let stages = e.receiving_stages()?;
    let percent = |x: Option<f64>| x.map_or_else(String::new, |x| format!("{} %", digits(x)));
    let has_output = e.measured().any(|c| output_hz(c).is_some());
    let mut rows = Vec::new();
    for cell in e.cells() {
        for c in e.in_cell(cell).filter(|c| c.headline().is_some()) {
            let mut shares: Vec<String> =
                stages.iter().map(|stage| percent(c.transmission_percent(stage))).collect();
            shares.extend(has_output.then(|| output_hz(c).unwrap_or_default()));
            rows.push(Shares { cell, name: c.name(), shares });
        }
        for p in e.in_cell(cell).next().into_iter().flat_map(|c| e.transmission_published(c)) {
            let mut shares: Vec<String> = stages
                .iter()
                .map(|stage| percent(p.transmission_percent.get(*stage).copied()))
                .collect();
            shares.extend(has_output.then(String::new));
            rows.push(Shares { cell, name: format!("{} (published, {})", p.system, p.on), shares });
        }
    }
    let missing = e.network_is_missing().then_some(NETWORK_IS_MISSING);
    let columns = stages.into_iter().chain(has_output.then_some(OUTPUT)).collect();
    (!rows.is_empty()).then_some(Transmission { columns, rows, missing })
}

/// Returns the path of the end-to-end latency for each sink of the chain; nothing if there is no
/// chain.
pub(crate) fn end_to_end(e: &ExperimentResult) -> Vec<String> {
    let Some(chain) = e.measured().find_map(|c| c.case.chain.as_ref()) else { return Vec::new() };
    chain
        .stages
        .iter()
        .filter(|s| s.output.is_none())
        .map(|sink| whole_way(&chain.stages, sink))
        .collect()
}

/// Returns a sentence on the end-to-end path of a sink. The path follows first inputs, because the
/// first input triggers a stage.
fn whole_way(stages: &[StageSpec], sink: &StageSpec) -> String {
    let way = way_to(stages, sink);
    let source = way.last().map_or("", |s| s.name.as_str());
    let names: Vec<&str> = way.iter().rev().map(|s| s.name.as_str()).collect();
    let mut text = format!(
        "End to end is from just before {source} publishes a sample until {} has worked on what \
         came of it, along the inputs that trigger: {}. What {source} does to make the sample is \
         not in it",
        sink.name,
        names.join(" → ")
    );
    let mut others: Vec<&str> = Vec::new();
    for topic in way.iter().flat_map(|s| s.inputs.iter().skip(1)) {
        if !others.contains(&topic.as_str()) {
            others.push(topic);
        }
    }
    if !others.is_empty() {
        text += &format!(
            ", nor how old the newest of the other inputs ({}) are then",
            others.join(", ")
        );
    }
    text + "."
}

/// Returns the work and the CPUs of the stages, by name.
pub(crate) fn works(e: &ExperimentResult) -> Vec<(&str, String)> {
    let chains: Vec<(&CaseResult, &ChainJob)> =
        e.measured().filter_map(|c| c.case.chain.as_ref().map(|chain| (c, chain))).collect();
    let stages = chains.first().into_iter().flat_map(|(_, chain)| &chain.stages);
    let rendered = stages.map(|stage| {
        let rendered: Vec<String> = stage
            .parameters
            .iter()
            .map(|(name, value)| {
                format!(
                    "{name} = {}",
                    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
                )
            })
            .collect();
        let parameters = if rendered.is_empty() {
            "as it is by default".to_owned()
        } else {
            rendered.join(", ")
        };
        let cpu = stage
            .cpu
            .map_or_else(|| "the kernel chooses its CPU".to_owned(), |cpu| format!("on CPU {cpu}"));
        (
            stage.name.as_str(),
            format!("{} ({parameters}); {cpu}{}", stage.work, counted(&chains, &stage.name)),
        )
    });
    rendered.collect()
}

/// Returns the counters of a stage's work: one value if it is the same in all runs, else minimum
/// and maximum.
fn counted(chains: &[(&CaseResult, &ChainJob)], stage: &str) -> String {
    let mut all: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (name, values) in chains.iter().flat_map(|(c, _)| &c.counters) {
        let Some(what) = name.strip_prefix(stage).and_then(|rest| rest.strip_prefix(": ")) else {
            continue;
        };
        for value in values {
            let (low, high) = all.entry(what).or_insert((u64::MAX, 0));
            (*low, *high) = ((*low).min(*value), (*high).max(*value));
        }
    }
    let words: Vec<String> =
        all.iter()
            .map(|(what, (low, high))| {
                if low == high { format!("{what} {low}") } else { format!("{what} {low}–{high}") }
            })
            .collect();
    if words.is_empty() {
        String::new()
    } else {
        format!("; counted in each run: {}", words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    /// Returns the text for a built-in experiment, with its only sink.
    fn rendered(id: &str) -> String {
        let chain = scenario::load(id).unwrap().chain.unwrap();
        let stage = |(name, s): (&String, &scenario::StageSpec)| StageSpec {
            name: name.clone(),
            inputs: s.inputs.clone(),
            output: s.output.clone(),
            work: s.work.clone(),
            parameters: serde_json::Map::new(),
            cpu: None,
        };
        let stages: Vec<StageSpec> = chain.stages.iter().map(stage).collect();
        let sinks: Vec<&StageSpec> = stages.iter().filter(|s| s.output.is_none()).collect();
        assert_eq!(sinks.len(), 1, "{id}");
        whole_way(&stages, sinks[0])
    }

    #[test]
    fn the_whole_way_goes_along_the_inputs_that_trigger() {
        assert_eq!(
            rendered("W9"),
            "End to end is from just before camera publishes a sample until fusion has worked on \
             what came of it, along the inputs that trigger: \
             camera → mosse → fusion. What camera does to make the sample is not in it, nor how \
             old the newest of the other inputs (lanes, detections) are then."
        );
        let s7 = rendered("S7");
        assert!(
            s7.contains("lidar → preprocessing → localization → perception → planning.")
                && s7.ends_with("is not in it."),
            "{s7}"
        );
    }
}
