// SPDX-License-Identifier: Apache-2.0
//! The result of a measurement, as `--json` prints it.

use crate::account::Account;
use crate::harness::OwnTool;
use crate::left_out::LeftOut;
use crate::machine::{Disturbance, Machine};
use crate::metric::Metric;
use crate::own_tool::Agreement;
use crate::peers::Description;
use crate::plan::{Case, Comparison, Kind, Placement};
use crate::stats::{ENOUGH_ROUNDS, Interval, Percentiles, Rank, Runs, ratio_interval};
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of this format.
pub(crate) const FORMAT: u32 = 1;

/// Share of a run's processor time taken by the hypervisor from which the run is invalid. Declared before measuring.
pub(crate) const MAX_STOLEN: f64 = 0.05;
/// Clock ticks below which that share is only the resolution of the kernel's account.
pub(crate) const MIN_STOLEN_TICKS: u64 = 5;
/// Share of the machine used by other processes from which a run is called disturbed; it still counts.
pub const MAX_OTHERS: f64 = 0.05;

/// A measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// Version of the format.
    pub format: u32,
    /// Version of the program.
    pub version: &'static str,
    /// Commit that it was built from; `-dirty` means that there were changes beyond it.
    pub commit: &'static str,
    /// Whether it was compiled with optimisation; figures of one that was not say nothing.
    pub optimised: bool,
    /// The command.
    pub command: Vec<String>,
    /// Seed of order and intervals.
    pub seed: u64,
    /// Rounds asked for.
    pub rounds: u64,
    /// When a run does not count, declared beforehand.
    pub validity_rule: String,
    /// The machine.
    pub machine: Machine,
    /// CPUs of the ends.
    pub placement: Placement,
    /// Whether everything was measured; an interrupted measurement has fewer runs.
    pub complete: bool,
    /// Other use of the machine over the whole measurement.
    pub disturbance: Disturbance,
    /// Peers that took part, with their settings.
    pub peers: Vec<Description>,
    /// What was asked for and not measured.
    pub left_out: Vec<LeftOut>,
    /// What was measured.
    pub cases: Vec<Outcome>,
}

/// A case with everything that came out of it.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// Percentiles over all valid runs.
    pub figures: BTreeMap<Metric, Percentiles>,
    /// Comparisons with other cases.
    pub ratios: Vec<Ratio>,
    /// Of a peer's ping-pong beside which its own latency tool ran: whether both say the same. If they differ, the row is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_tool: Option<Agreement>,
    /// Each run.
    pub runs: Vec<Run>,
}

impl Outcome {
    /// Whether every run counts, and a middleware's own tool does not contradict.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.runs.iter().all(Run::is_valid) && !self.own_tool.as_ref().is_some_and(Agreement::contradicts)
    }
}

/// A ratio with its intervals.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// What is compared.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Ratio of the medians; `None` without samples.
    pub p50: Option<Interval>,
    /// Ratio of the 99th percentiles; `None` with fewer than 300 samples.
    pub p99: Option<Interval>,
}

/// One run of a case.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Round.
    pub round: u64,
    /// Place in the round's order.
    pub place: usize,
    /// How long it took, start of processes included, in seconds.
    pub seconds: f64,
    /// What else happened meanwhile.
    pub disturbance: Disturbance,
    /// The account, or nothing if it failed; then `failure` tells.
    #[serde(flatten)]
    pub account: Option<Account>,
    /// Why there is no account.
    pub failure: Option<String>,
    /// Percentiles of this run alone.
    pub figures: BTreeMap<Metric, Percentiles>,
}

impl Run {
    /// Whether its samples count.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.account.as_ref().is_some_and(|a| a.invalid.is_empty())
    }
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every run is valid.
    Valid,
    /// Some runs are not, which the result shows.
    Invalid,
    /// Interrupted; what was measured until then is reported.
    Interrupted,
}

impl Ending {
    /// 0, 1, or 130 as shells have it.
    #[must_use]
    pub fn exit_code(self) -> std::process::ExitCode {
        std::process::ExitCode::from(match self {
            Self::Valid => 0,
            Self::Invalid => 1,
            Self::Interrupted => 130,
        })
    }
}

/// Gathers the runs of all cases; `runs[i]` belong to `cases[i]`.
#[must_use]
pub(crate) fn outcomes(cases: &[Case], runs: Vec<Vec<Run>>, rounds: u64, seed: u64) -> Vec<Outcome> {
    // By round, so that what is compared is compared round by round. A run that does not count leaves an empty place.
    let pooled: Vec<BTreeMap<Metric, Runs>> = runs
        .iter()
        .map(|runs| {
            let mut by_round: BTreeMap<Metric, Vec<Vec<u64>>> = BTreeMap::new();
            for run in runs.iter().filter(|r| r.is_valid()) {
                for (metric, samples) in run.account.iter().flat_map(|a| &a.samples) {
                    let places = by_round.entry(*metric).or_insert_with(|| vec![Vec::new(); rounds as usize]);
                    if let Some(place) = places.get_mut(run.round as usize) {
                        place.extend(samples);
                    }
                }
            }
            by_round.into_iter().map(|(m, r)| (m, Runs::new(r))).collect()
        })
        .collect();
    let said = |runs: &[Run]| -> Vec<(u64, OwnTool)> {
        runs.iter().filter(|r| r.is_valid()).filter_map(|r| Some((r.round, r.account.as_ref()?.own_tool.clone()?))).collect()
    };
    let own_tools: Vec<(&Case, Vec<(u64, OwnTool)>)> =
        cases.iter().zip(&runs).filter(|(c, _)| c.kind == Kind::OwnTool).map(|(c, r)| (c, said(r))).collect();
    let of = |id: &str, metric| cases.iter().position(|c| c.id == id).and_then(|i| pooled.get(i)?.get(&metric));
    cases
        .iter()
        .zip(runs)
        .zip(&pooled)
        .map(|((case, runs), figures)| {
            let ratio = |c: &Comparison| {
                let pair = figures.get(&c.metric).zip(of(&c.to, c.of));
                let at = |rank| pair.and_then(|(system, floor)| ratio_interval(system, floor, rank, seed));
                Ratio { comparison: c.clone(), p50: at(Rank::P50), p99: at(Rank::P99) }
            };
            let ratios = case.comparisons.iter().map(ratio).collect();
            let beside = own_tools.iter().find(|(tool, _)| is_beside(tool, case));
            let own_tool = beside.and_then(|(_, said)| Agreement::of(figures.get(&Metric::Transport)?, said, seed));
            let figures = figures.iter().map(|(m, r)| (*m, r.percentiles())).collect();
            Outcome { case: case.clone(), figures, ratios, own_tool, runs }
        })
        .collect()
}

/// Why a run with so much taken from it does not count; nothing if it counts.
#[must_use]
pub fn taken_away(d: &Disturbance) -> Option<String> {
    (d.stolen > MAX_STOLEN && d.stolen_ticks >= MIN_STOLEN_TICKS)
        .then(|| format!("the hypervisor took {:.0} % of the processor time", d.stolen * 100.0))
}

/// Whether one case is the own tool of the other, a link.
fn is_beside(tool: &Case, link: &Case) -> bool {
    link.kind == Kind::Link && tool.job == link.job
}

/// The rule, in words.
#[must_use]
pub fn validity_rule() -> String {
    format!(
        "A run is invalid, shown, and left out of the percentiles if a process of it fails, its account does not close \
         (scheduled = sent + not sent; sent = received + missed), a payload does not verify, or the hypervisor takes more than \
         {:.0} % of its processor time (and at least {MIN_STOLEN_TICKS} clock ticks). A row of a peer is invalid if the latency tool that the \
         middleware brings was run beside it and the 95 % interval of the ratio of their medians lies beyond {:.0} % off; of fewer than \
         {ENOUGH_ROUNDS} rounds that is not said. A run during which other processes used more than {:.0} % of the machine is called disturbed, \
         and counts.",
        MAX_STOLEN * 100.0,
        crate::own_tool::TOLERANCE * 100.0,
        MAX_OTHERS * 100.0
    )
}

/// The command that a result belongs to.
#[must_use]
pub fn command() -> Vec<String> {
    let mut words: Vec<String> = std::env::args_os().map(|w| w.to_string_lossy().into_owned()).collect();
    // The place of the program says nothing about the measurement, and is nobody's business.
    if let Some(first) = words.first_mut() {
        *first = std::path::Path::new(first.as_str()).file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    }
    words
}
