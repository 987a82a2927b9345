// SPDX-License-Identifier: Apache-2.0
//! Analysis of an archive: distributions, ratios, sums of accounts. Reports, tables and CSV only
//! show its results.
//!
//! Samples of valid runs are pooled, never averaged. Comparisons pair the same rounds. Only one
//! experiment at a time is in memory.

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
mod result;
mod timeline;

pub use case::{
    CaseResult, Compared, LinkResult, Observed, Ratio, RunResult, SubscriberResult, Totals,
};
pub(crate) use criterion::{Criterion, Standing, equal_goodput};
pub use fairness::Fairness;
pub use figure::{Bin, Figure};
pub(crate) use measure::{Measure, columns, compared_columns, ratio_columns, too_few};
pub use published::{Here, PublishedRow};
pub use result::{Analysis, ExperimentResult, FORMAT};
pub use timeline::Timeline;

use crate::archive::{Archive, Experiment};
use anyhow::Result;
use driveline_bench::MAX_OTHERS;
use pooled::Pooled;

/// Computes all results. Reads all samples of the archive; takes seconds for millions.
///
/// # Errors
/// If a part of the archive is damaged.
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

pub(crate) use case::total;
pub(crate) use pooled::{Lost, RunCost, contradiction, goodput, pooled_headline, run_costs};
pub(crate) use question::{answers, remark};
