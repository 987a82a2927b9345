// SPDX-License-Identifier: Apache-2.0
//! What an archive says: distributions, ratios, sums of accounts. Reports, tables and CSV only show
//! what is computed here.
//!
//! Samples of valid runs are pooled, never averaged; what is compared is compared round by round.
//! An experiment at a time is held in memory.

mod answer;
mod case;
mod criterion;
mod fairness;
mod figure;
mod measure;
mod pooled;
mod preferred;
mod published;
mod question;
mod timeline;

pub use case::{
    CaseResult, Compared, LinkResult, Observed, Ratio, RunResult, SubscriberResult, Totals,
};
pub(crate) use criterion::{Criterion, Standing, equal_goodput};
pub use fairness::Fairness;
pub use figure::{Bin, Figure};
pub(crate) use measure::{Measure, columns, compared_columns, ratio_columns, too_few};
pub use published::{Here, PublishedRow};
pub use timeline::Timeline;

use crate::archive::{Archive, Experiment, Role};
use crate::scenario::Published;
use anyhow::Result;
use driveline_bench::{LeftOut, MAX_OTHERS};
use pooled::Pooled;
use serde::Serialize;

/// Version of `summary.json`.
pub const FORMAT: u32 = 1;

/// Everything that is computed from an archive.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    /// [`FORMAT`].
    pub format: u32,
    /// Whether every run was made.
    pub complete: bool,
    /// Runs that were planned.
    pub planned: u64,
    /// Runs that are there, valid or not.
    pub made: u64,
    /// Of those: that count.
    pub valid: u64,
    /// Of those: during which other processes used more of the machine than is called undisturbed.
    pub disturbed: u64,
    /// Share of the machine that other processes used, in the worst run.
    pub worst_others: f64,
    /// Share of the machine that the hypervisor took, in the worst run.
    pub worst_stolen: f64,
    /// In the manifest's order.
    pub experiments: Vec<ExperimentResult>,
}

impl Analysis {
    /// Whether every run counts, and no middleware's own tool contradicts its row.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.valid == self.made
            && self.experiments.iter().flat_map(|e| &e.cases).all(|c| !c.is_contradicted())
    }
}

/// What an experiment says.
#[derive(Clone, Debug, Serialize)]
pub struct ExperimentResult {
    /// Id.
    pub id: String,
    /// What it is.
    pub title: String,
    /// What it asks.
    pub question: String,
    /// Where it comes from.
    pub source: String,
    /// What its reader must know.
    pub notes: Vec<String>,
    /// What the figures say, in a sentence or two.
    pub answer: String,
    /// In the order of the plan.
    pub cases: Vec<CaseResult>,
    /// What was published, beside what was measured here.
    pub published: Vec<PublishedRow>,
    /// What was asked for and is not measured.
    pub left_out: Vec<LeftOut>,
}

impl ExperimentResult {
    /// Cells of what is measured, in the order of the plan.
    #[must_use]
    pub fn cells(&self) -> Vec<&str> {
        let mut cells: Vec<&str> = Vec::new();
        for c in self.measured() {
            if !cells.contains(&c.case.cell.as_str()) {
                cells.push(&c.case.cell);
            }
        }
        cells
    }

    /// Systems under test in a cell.
    pub fn in_cell<'a>(&'a self, cell: &'a str) -> impl Iterator<Item = &'a CaseResult> {
        self.measured().filter(move |c| c.case.cell == cell)
    }

    /// Stages of its chain that receive something; nothing if it has no chain.
    #[must_use]
    pub fn receiving_stages(&self) -> Option<Vec<&str>> {
        let chain = self.measured().find_map(|c| c.case.chain.as_ref())?;
        Some(
            chain.stages.iter().filter(|s| !s.inputs.is_empty()).map(|s| s.name.as_str()).collect(),
        )
    }

    /// A stage that is a neural network where figures were published was something plainer here:
    /// its work counted `network` 0.
    #[must_use]
    pub fn network_is_missing(&self) -> bool {
        let without = |c: &CaseResult| {
            c.counters
                .iter()
                .any(|(name, counts)| name.ends_with(": network") && counts.contains(&0))
        };
        !self.published.is_empty() && self.measured().any(without)
    }

    /// What was published of transmission where the stages are as in this case; nothing if they did
    /// less here.
    pub fn transmission_published<'a>(
        &'a self,
        case: &'a CaseResult,
    ) -> impl Iterator<Item = &'a Published> {
        let comparable = !self.network_is_missing();
        let here = move |p: &&Published| {
            comparable
                && !p.transmission_percent.is_empty()
                && p.reach.is_none_or(|r| Some(r.into()) == case.case.reach())
        };
        self.published.iter().map(|row| &row.published).filter(here)
    }

    /// All systems under test.
    pub fn measured(&self) -> impl Iterator<Item = &CaseResult> {
        self.cases.iter().filter(|c| c.case.role == Role::Measured)
    }
}

/// Computes everything. Reads all samples of the archive; takes seconds for millions.
///
/// # Errors
/// If something in the archive is damaged.
pub fn analyse(archive: &Archive) -> Result<Analysis> {
    let m = &archive.manifest;
    let experiments =
        m.experiments.iter().map(|e| experiment(archive, e)).collect::<Result<Vec<_>>>()?;
    let runs = || experiments.iter().flat_map(|e| &e.cases).flat_map(|c| &c.runs);
    let most = |of: fn(&RunResult) -> f64| runs().map(of).fold(0.0, f64::max);
    let (planned, made) = (
        m.experiments.iter().map(|e| e.rounds * e.cases.len() as u64).sum(),
        runs().count() as u64,
    );
    Ok(Analysis {
        format: FORMAT,
        complete: m.finished_at.is_some() && made == planned,
        planned,
        made,
        valid: runs().filter(|r| r.reasons.is_empty()).count() as u64,
        disturbed: runs().filter(|r| r.disturbance.other_processes > MAX_OTHERS).count() as u64,
        worst_others: most(|r| r.disturbance.other_processes),
        worst_stolen: most(|r| r.disturbance.stolen),
        experiments,
    })
}

/// Of counts that others told: the sum, or more than can be.
pub(crate) fn total(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

fn experiment(archive: &Archive, e: &Experiment) -> Result<ExperimentResult> {
    let mut pooled =
        e.cases.iter().map(|c| Pooled::read(archive, e, c)).collect::<Result<Vec<_>>>()?;
    let cases: Vec<CaseResult> =
        pooled.iter().map(|p| p.result(&pooled, archive.manifest.seed)).collect();
    pooled.clear();
    let mut result = ExperimentResult {
        id: e.scenario.id.clone(),
        title: e.scenario.title.clone(),
        question: e.scenario.question.clone(),
        source: e.scenario.source.clone(),
        notes: e.scenario.notes.clone(),
        answer: String::new(),
        published: published::rows(&e.scenario.published, &cases),
        cases,
        left_out: e.left_out.clone(),
    };
    result.answer = answer::answer(&result, e.scenario.answer);
    Ok(result)
}

pub(crate) use pooled::{Lost, RunCost, contradiction, goodput, pooled_headline, run_costs};
pub(crate) use question::{answers, remark};
