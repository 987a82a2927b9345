// SPDX-License-Identifier: Apache-2.0
//! Figures of papers compared with those of this machine. Microseconds of two machines are not
//! comparable; the ratio of two systems is.

use super::case::CaseResult;
use super::figure::Figure;
use crate::archive::Role;
use crate::scenario::Published;
use crate::words::word;
use driveline_bench::harness::{Payload, System};
use serde::Serialize;

/// Published figure and its context.
#[derive(Clone, Debug, Serialize)]
pub struct PublishedRow {
    /// Figure in the scenario.
    pub published: Published,
    /// Ratio to the time of the paper's reference: of medians if both have one, else of
    /// means.
    pub published_ratio: Option<f64>,
    /// Reference system of the ratio in the paper.
    pub published_reference: Option<String>,
    /// Figure measured here.
    pub here: Option<Here>,
}

/// Measurement on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct Here {
    /// Id of the case.
    pub case: String,
    /// Title of the system.
    pub system: String,
    /// Median, in microseconds.
    pub p50_us: Option<f64>,
    /// Mean, in microseconds.
    pub mean_us: Option<f64>,
    /// Standard deviation, in microseconds; none for a single sample.
    pub deviation_us: Option<f64>,
    /// 95th percentile, in microseconds; none if n is too small.
    pub p95_us: Option<f64>,
    /// 99th percentile, in microseconds; none if n is too small.
    pub p99_us: Option<f64>,
    /// Maximum, in microseconds.
    pub max_us: Option<f64>,
    /// Ratio to the time of Driveline here: of medians if the paper has medians, else of means.
    pub ratio: Option<f64>,
}

pub(super) fn rows(published: &[Published], cases: &[CaseResult]) -> Vec<PublishedRow> {
    published.iter().map(|p| row(p, published, cases)).collect()
}

fn row(p: &Published, all: &[Published], cases: &[CaseResult]) -> PublishedRow {
    let same = |q: &&Published| {
        (&q.case, q.size, q.subscribers, q.deployment, &q.figure)
            == (&p.case, p.size, p.subscribers, p.deployment, &p.figure)
    };
    // The reference is the paper's system that corresponds to Driveline; here it is Driveline.
    let reference = all.iter().filter(same).find(|q| q.beside.as_deref() == Some("driveline"));
    let ratio = |q: &Published| match (p.p50_us.zip(q.p50_us), p.mean_us.zip(q.mean_us)) {
        (Some((own, its)), _) | (None, Some((own, its))) if its > 0.0 => Some(own / its),
        _ => None,
    };
    let found = p.beside.as_deref().and_then(|system| find(p, system, cases));
    let same_cell = |c: &CaseResult| {
        cases.iter().find(|d| {
            (d.case.role, &d.case.system) == (Role::Measured, &System::Driveline)
                && d.case.cell == c.case.cell
        })
    };
    let driveline = match reference.filter(|r| r.reach != p.reach) {
        // The paper compares a system between processes with the reference within a process, or the
        // other way around.
        Some(r) => find(r, "driveline", cases).map(|(c, _)| c),
        None => found.and_then(|(c, _)| same_cell(c)),
    };
    // Compares medians with medians, and means with means.
    let middle = |f: &Figure| {
        if p.p50_us.is_some() { f.percentiles.p50.map(|ns| ns as f64) } else { f.percentiles.mean }
    };
    let ours = driveline.and_then(|d| figure(p, d)).and_then(middle);
    let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1000.0);
    PublishedRow {
        published: p.clone(),
        published_ratio: reference.and_then(ratio),
        published_reference: reference.map(|r| r.system.clone()),
        here: found.map(|(c, f)| Here {
            case: c.case.id.clone(),
            system: c.case.system_title.clone(),
            p50_us: us(f.percentiles.p50),
            mean_us: f.percentiles.mean.map(|m| m / 1000.0),
            deviation_us: f.percentiles.standard_deviation.map(|sd| sd / 1000.0),
            p95_us: us(f.percentiles.p95),
            p99_us: us(f.percentiles.p99),
            max_us: us(f.percentiles.max),
            ratio: middle(f).zip(ours.filter(|ns| *ns > 0.0)).map(|(a, b)| a / b),
        }),
    }
}

/// Returns the first case that fits. Cases with untouched payloads come before cases with filled
/// ones, because papers take their stamps when the message already exists.
fn find<'a>(
    p: &Published,
    system: &str,
    cases: &'a [CaseResult],
) -> Option<(&'a CaseResult, &'a Figure)> {
    let fits = |c: &&CaseResult| {
        let link = c.case.links.first();
        c.case.role == Role::Measured
            && c.case.system.to_string() == system
            // A row that the peer's own latency tool contradicts is not compared.
            && !c.is_contradicted()
            && p.case.as_ref().is_none_or(|name| *name == c.case.scenario_case)
            && p.size.is_none_or(|s| link.is_some_and(|l| l.size as u64 == s.0))
            && p.subscribers.is_none_or(|n| link.is_some_and(|l| l.subscribers == n))
            && p.reach.is_none_or(|r| c.case.reach() == Some(r.into()))
            && p.reliability.is_none_or(|r| link.is_some_and(|l| l.reliability == r.into()))
            && p.deployment.is_none_or(|d| c.case.beside.deployment == d.into())
    };
    let with_figure = |c: &'a CaseResult| figure(p, c).map(|f| (c, f));
    let all = || cases.iter().filter(fits);
    let filled = |c: &&CaseResult| c.case.handling() == Some(Payload::Filled);
    all().filter(|c| !filled(c)).find_map(with_figure).or_else(|| all().find_map(with_figure))
}

/// Returns the figure that a published one names: a figure of links, or a subject that a workload
/// or chain observes. If it names none, returns the figure of the case.
fn figure<'a>(p: &Published, c: &'a CaseResult) -> Option<&'a Figure> {
    match &p.figure {
        None => c.figures.get(&c.case.figure).or_else(|| c.headline().map(|(_, f)| f)),
        Some(name) => {
            let metric = c
                .figures
                .iter()
                .find(|(m, _)| m.label() == name || word(m) == *name)
                .map(|(_, f)| f);
            metric.or_else(|| {
                let named = |o: &&super::Observed| {
                    o.subject == *name || format!("{} · {}", o.subject, word(&o.quantity)) == *name
                };
                c.observed.iter().find(named).map(|o| &o.figure)
            })
        }
    }
}
