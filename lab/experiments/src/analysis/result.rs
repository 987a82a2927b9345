// SPDX-License-Identifier: Apache-2.0
//! Results of an archive.

use super::case::CaseResult;
use super::published::PublishedRow;
use crate::archive::Role;
use crate::scenario::Published;
use driveline_bench::LeftOut;
use serde::Serialize;

/// Version of `summary.json`.
pub const FORMAT: u32 = 1;

/// All results of an archive.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    /// [`FORMAT`].
    pub format: u32,
    /// True if every planned run was made.
    pub complete: bool,
    /// Runs that were planned.
    pub planned: u64,
    /// Number of runs in the archive, valid or not.
    pub made: u64,
    /// Number of valid runs.
    pub valid: u64,
    /// Number of runs, valid or not, in which other processes used more of the machine than
    /// permitted for an undisturbed run.
    pub disturbed: u64,
    /// Share of the machine that other processes used, in the worst run.
    pub worst_others: f64,
    /// Share of the machine that the hypervisor took, in the worst run.
    pub worst_stolen: f64,
    /// Results in the manifest's order.
    pub experiments: Vec<ExperimentResult>,
}

impl Analysis {
    /// Returns true if every run is valid, and no middleware's own tool contradicts its row.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.valid == self.made
            && self.experiments.iter().flat_map(|e| &e.cases).all(|c| !c.is_contradicted())
    }
}

/// Results of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct ExperimentResult {
    /// Id.
    pub id: String,
    /// Title.
    pub title: String,
    /// Question.
    pub question: String,
    /// Source.
    pub source: String,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Answer from the figures: a line for each fact.
    pub answer: String,
    /// Cases in the order of the plan.
    pub cases: Vec<CaseResult>,
    /// Published figures, with figures measured here.
    pub published: Vec<PublishedRow>,
    /// Requested parts that are not measured.
    pub left_out: Vec<LeftOut>,
}

impl ExperimentResult {
    /// Returns the measured cells, in the order of the plan.
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

    /// Returns the systems under test in a cell.
    pub fn in_cell<'a>(&'a self, cell: &'a str) -> impl Iterator<Item = &'a CaseResult> {
        self.measured().filter(move |c| c.case.cell == cell)
    }

    /// Returns the stages of its chain that receive something; nothing without a chain.
    #[must_use]
    pub fn receiving_stages(&self) -> Option<Vec<&str>> {
        let chain = self.measured().find_map(|c| c.case.chain.as_ref())?;
        Some(
            chain.stages.iter().filter(|s| !s.inputs.is_empty()).map(|s| s.name.as_str()).collect(),
        )
    }

    /// Returns true if a stage that is a neural network in the paper was a simpler work here: its
    /// counter `network` was 0.
    #[must_use]
    pub fn network_is_missing(&self) -> bool {
        let without = |c: &CaseResult| {
            c.counters
                .iter()
                .any(|(name, counts)| name.ends_with(": network") && counts.contains(&0))
        };
        !self.published.is_empty() && self.measured().any(without)
    }

    /// Returns the published figures of transmission at the reach of this case; empty if a stage
    /// was a simpler work here: [`Self::network_is_missing`].
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

    /// Returns all systems under test.
    pub fn measured(&self) -> impl Iterator<Item = &CaseResult> {
        self.cases.iter().filter(|c| c.case.role == Role::Measured)
    }
}
