// SPDX-License-Identifier: Apache-2.0
//! Result of a measurement, as `--json` prints it.

use super::plan::Entry;
use crate::account::Account;
use crate::harness::OwnTool;
use crate::left_out::LeftOut;
use crate::machine::{Disturbance, Machine};
use crate::metric::{Comparison, Metric};
use crate::own_tool::Agreement;
use crate::peers::Description;
use crate::placement::Placement;
use crate::runner::Kind;
use crate::stats::{Interval, Percentiles, Rank, Runs, ratio_interval};
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of this format.
pub(super) const FORMAT: u32 = 1;

/// A measurement.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measurement {
    /// Version of the format.
    pub(super) format: u32,
    /// Version of the program.
    pub(super) version: &'static str,
    /// Commit of the build. `-dirty-` and eight digits identify uncommitted changes; `-debug` means
    /// that it is not optimised.
    pub(super) commit: &'static str,
    /// `true` if it was compiled with optimisation; figures without optimisation have no meaning.
    pub(super) optimised: bool,
    /// The command.
    pub(super) command: Vec<String>,
    /// Seed of order and intervals.
    pub(super) seed: u64,
    /// Requested number of rounds.
    pub(super) rounds: u64,
    /// Rule for invalid runs, declared in advance.
    pub(super) validity_rule: String,
    /// The machine.
    pub(super) machine: Machine,
    /// CPUs of the ends.
    pub(super) placement: Placement,
    /// `true` if everything was measured; an interrupted measurement has fewer runs.
    pub(super) complete: bool,
    /// Other use of the machine over the whole measurement.
    pub(super) disturbance: Disturbance,
    /// Peers that took part, with their settings.
    pub(super) peers: Vec<Description>,
    /// Requested measurements that were not made.
    pub(super) left_out: Vec<LeftOut>,
    /// Measured cases.
    pub(super) cases: Vec<Outcome>,
}

/// An entry with its results.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Outcome {
    /// The entry.
    #[serde(flatten)]
    pub(super) entry: Entry,
    /// Percentiles over all valid runs.
    pub(super) figures: BTreeMap<Metric, Percentiles>,
    /// Comparisons with other entries.
    pub(super) ratios: Vec<Ratio>,
    /// For a peer's ping-pong next to which its own latency tool ran: the agreement of both. If
    /// they differ, the row is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) own_tool: Option<Agreement>,
    /// Each run.
    pub(super) runs: Vec<Pass>,
}

impl Outcome {
    /// Returns true if every run is valid, and the middleware's own tool does not contradict.
    #[must_use]
    pub(super) fn is_valid(&self) -> bool {
        self.runs.iter().all(Pass::is_valid)
            && !self.own_tool.as_ref().is_some_and(Agreement::contradicts)
    }
}

/// A ratio with its intervals.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Ratio {
    /// Compared entries.
    #[serde(flatten)]
    pub(super) comparison: Comparison,
    /// Ratio of the medians; `None` without samples.
    pub(super) p50: Option<Interval>,
    /// Ratio of the 99th percentiles; `None` with fewer than 300 samples.
    pub(super) p99: Option<Interval>,
}

/// One run of an entry.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Pass {
    /// Round.
    pub(super) round: u64,
    /// Place in the round's order.
    pub(super) place: usize,
    /// Duration, start of processes included, in seconds.
    pub(super) seconds: f64,
    /// Other activity of the machine in that time.
    pub(super) disturbance: Disturbance,
    /// The account, or nothing if it failed; `failure` has the cause then.
    #[serde(flatten)]
    pub(super) account: Option<Account>,
    /// Reason why there is no account.
    pub(super) failure: Option<String>,
    /// Percentiles of this run alone.
    pub(super) figures: BTreeMap<Metric, Percentiles>,
}

impl Pass {
    /// Returns true if its samples count.
    #[must_use]
    pub(super) fn is_valid(&self) -> bool {
        self.account.as_ref().is_some_and(|a| a.invalid.is_empty())
    }
}

/// Gathers the runs of all entries; `runs[i]` belong to `entries[i]`.
#[must_use]
pub(super) fn outcomes(
    entries: &[Entry],
    runs: Vec<Vec<Pass>>,
    rounds: u64,
    seed: u64,
) -> Vec<Outcome> {
    // By round, so that comparisons pair the same rounds. An invalid run leaves an empty place.
    let pooled: Vec<BTreeMap<Metric, Runs>> = runs
        .iter()
        .map(|runs| {
            let mut by_round: BTreeMap<Metric, Vec<Vec<u64>>> = BTreeMap::new();
            for run in runs.iter().filter(|r| r.is_valid()) {
                for (metric, samples) in run.account.iter().flat_map(|a| &a.samples) {
                    let places = by_round
                        .entry(*metric)
                        .or_insert_with(|| vec![Vec::new(); rounds as usize]);
                    if let Some(place) = places.get_mut(run.round as usize) {
                        place.extend(samples);
                    }
                }
            }
            by_round.into_iter().map(|(m, r)| (m, Runs::new(r))).collect()
        })
        .collect();
    let said = |runs: &[Pass]| -> Vec<(u64, OwnTool)> {
        runs.iter()
            .filter(|r| r.is_valid())
            .filter_map(|r| Some((r.round, r.account.as_ref()?.own_tool.clone()?)))
            .collect()
    };
    let own_tools: Vec<(&Entry, Vec<(u64, OwnTool)>)> = entries
        .iter()
        .zip(&runs)
        .filter(|(c, _)| c.kind == Kind::OwnTool)
        .map(|(c, r)| (c, said(r)))
        .collect();
    let of = |id: &str, metric| {
        entries.iter().position(|c| c.id == id).and_then(|i| pooled.get(i)?.get(&metric))
    };
    entries
        .iter()
        .zip(runs)
        .zip(&pooled)
        .map(|((entry, runs), figures)| {
            let ratio = |c: &Comparison| {
                let pair = figures.get(&c.metric).zip(of(&c.to, c.of));
                let at = |rank| {
                    pair.and_then(|(system, floor)| ratio_interval(system, floor, rank, seed))
                };
                Ratio { comparison: c.clone(), p50: at(Rank::P50), p99: at(Rank::P99) }
            };
            let ratios = entry.comparisons.iter().map(ratio).collect();
            let beside = own_tools.iter().find(|(tool, _)| is_additional(tool, entry));
            let own_tool =
                beside.and_then(|(_, said)| Agreement::of(&in_order(&runs, rounds), said, seed));
            let figures = figures.iter().map(|(m, r)| (*m, r.percentiles())).collect();
            Outcome { entry: entry.clone(), figures, ratios, own_tool, runs }
        })
        .collect()
}

/// Returns the transport samples of each round in the order of measurement, without invalid ones.
fn in_order(runs: &[Pass], rounds: u64) -> Vec<Vec<u64>> {
    let mut by_round = vec![Vec::new(); rounds as usize];
    for run in runs.iter().filter(|r| r.is_valid()) {
        let samples =
            run.account.iter().filter_map(|a| a.samples.get(&Metric::Transport)).flatten();
        if let Some(place) = by_round.get_mut(run.round as usize) {
            place.extend(samples);
        }
    }
    by_round
}

/// Returns true if one entry is the own tool of the other, a link.
fn is_additional(tool: &Entry, link: &Entry) -> bool {
    link.kind == Kind::Link && tool.job == link.job
}
