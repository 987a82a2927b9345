// SPDX-License-Identifier: Apache-2.0
//! Published figures next to figures measured here, for the terminal, the page and Markdown.

use crate::analysis::{CaseResult, ExperimentResult, Here, PublishedRow};
use crate::figure_text::TOO_SMALL;
use crate::rows::{Row, Rows};
use crate::scenario::Published;
use crate::table::{ratio, spread};
use driveline_bench::harness::Reach;

/// Explanation of comparisons between times of a paper's machine and of this one.
pub(crate) const TO_KNOW: &str = "Times of two machines cannot be compared: compare the ratios. A \
     paper's ratios are to the system that corresponds to Driveline, ours to Driveline. Where both \
     payload modes were measured here, the figure is of untouched payloads.";

/// Kind of figure of a distribution in a paper.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Mean,
    P50,
    P95,
    P99,
    Max,
}

const KINDS: [Kind; 5] = [Kind::Mean, Kind::P50, Kind::P95, Kind::P99, Kind::Max];

/// Value in microseconds. A mean has its standard deviation as well.
type Value = (f64, Option<f64>);

impl Kind {
    fn published(self, p: &Published) -> Option<Value> {
        match self {
            Self::Mean => p.mean_us.map(|mean| (mean, p.deviation_us)),
            Self::P50 => p.p50_us.map(|us| (us, None)),
            Self::P95 => p.p95_us.map(|us| (us, None)),
            Self::P99 => p.p99_us.map(|us| (us, None)),
            Self::Max => p.max_us.map(|us| (us, None)),
        }
    }

    fn measured(self, here: &Here) -> Option<Value> {
        match self {
            Self::Mean => here.mean_us.map(|mean| (mean, here.deviation_us)),
            Self::P50 => here.p50_us.map(|us| (us, None)),
            Self::P95 => here.p95_us.map(|us| (us, None)),
            Self::P99 => here.p99_us.map(|us| (us, None)),
            Self::Max => here.max_us.map(|us| (us, None)),
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::Max => "max",
        }
    }
}

fn value((us, deviation): Value) -> String {
    spread(us * 1e3, deviation.map(|us| us * 1e3))
}

/// Published figures of distributions with the figures measured here, line by line; shares of a
/// chain's stages are in another table.
pub(crate) struct Literature {
    pub(crate) rows: Rows,
    /// Number of published figures without a counterpart here.
    pub(crate) alone: usize,
}

impl Literature {
    /// Collects the lines. `brief` leaves out figures without a counterpart.
    pub(crate) fn of(e: &ExperimentResult, brief: bool) -> Self {
        let all: Vec<&PublishedRow> = e
            .published
            .iter()
            .filter(|row| row.published.transmission_percent.is_empty())
            .collect();
        let here = || all.iter().filter_map(|row| row.here.as_ref());
        // Lists what a paper has; median and p99 also if a case here has enough samples for them.
        let always = |k: Kind| matches!(k, Kind::P50 | Kind::P99);
        let is_listed = |k: &Kind| {
            let there = all.iter().any(|row| k.published(&row.published).is_some());
            there || (always(*k) && here().any(|h| k.measured(h).is_some()))
        };
        let kinds: Vec<Kind> = KINDS.into_iter().filter(is_listed).collect();
        let enough = |k: Kind| here().any(|h| k.measured(h).is_some());
        let mut groups: Vec<String> = Vec::new();
        for row in &all {
            let what = conditions(&row.published);
            if !groups.contains(&what) {
                groups.push(what);
            }
        }
        let (mut rows, mut alone) = (Vec::new(), 0);
        for cell in groups {
            let of_group: Vec<&&PublishedRow> =
                all.iter().filter(|row| conditions(&row.published) == cell).collect();
            let mut listed: Vec<Published> = Vec::new();
            for row in &of_group {
                // A figure with several counterparts is shown once.
                let figure = without_pairing(&row.published);
                if listed.contains(&figure) {
                    continue;
                }
                let besides =
                    || of_group.iter().filter(|other| without_pairing(&other.published) == figure);
                let nothing = besides().all(|row| row.here.is_none());
                alone += usize::from(nothing);
                if !(brief && nothing) {
                    // Omits the ratio of a system to itself.
                    let ratio = row
                        .published_ratio
                        .filter(|_| row.published_reference.as_ref() != Some(&figure.system));
                    let on = if figure.on.is_empty() {
                        String::new()
                    } else {
                        format!(", {}", figure.on)
                    };
                    let cells = kinds
                        .iter()
                        .map(|k| k.published(&figure).map_or_else(String::new, value))
                        .chain([factor(ratio)]);
                    rows.push(Row {
                        cell: cell.clone(),
                        name: format!("{} (published{on})", figure.system),
                        cells: cells.collect(),
                    });
                    for beside in besides() {
                        rows.extend(
                            measured(e, beside, &cell, &kinds, &enough)
                                .filter(|_| !brief || beside.here.is_some()),
                        );
                    }
                }
                listed.push(figure);
            }
        }
        let mean = |k: &Kind| match k {
            Kind::Mean
                if all.iter().any(|row| {
                    row.published.deviation_us.is_some()
                        || row.here.as_ref().is_some_and(|h| h.deviation_us.is_some())
                }) =>
            {
                "mean ± sd"
            }
            k => k.label(),
        };
        let head: Vec<&str> = kinds.iter().map(mean).chain(["ratio"]).collect();
        Self { rows: Rows::new("published, and measured here", &head, rows), alone }
    }
}

/// Returns the row of the system here that a published figure is compared with, even if this system
/// was not measured. `None` if the figure names no such system.
fn measured(
    e: &ExperimentResult,
    row: &PublishedRow,
    cell: &str,
    kinds: &[Kind],
    enough: &impl Fn(Kind) -> bool,
) -> Option<Row> {
    let system = row.published.beside.as_ref()?;
    let Some(h) = &row.here else {
        return Some(Row {
            cell: cell.to_owned(),
            name: format!(
                "{} was not measured",
                if system == "driveline" { "Driveline" } else { system }
            ),
            cells: Vec::new(),
        });
    };
    let none = |k: Kind| if enough(k) { TOO_SMALL.to_owned() } else { String::new() };
    // Omits Driveline's ratio to itself, which is exactly 1. Keeps its ratio to Driveline at
    // another reach.
    let ratio = factor(h.ratio.filter(|r| system != "driveline" || *r != 1.0));
    let case = e.cases.iter().find(|c| c.case.id == h.case);
    let name = case.map_or_else(|| h.system.clone(), CaseResult::name);
    Some(Row {
        cell: cell.to_owned(),
        name: match &row.published.here {
            Some(difference) => format!("{name} ({difference})"),
            None => name,
        },
        cells: kinds
            .iter()
            .map(|k| k.measured(h).map_or_else(|| none(*k), value))
            .chain([ratio])
            .collect(),
    })
}

/// Returns the published figure without its counterpart here. It is listed once, above all systems
/// that are compared with it.
fn without_pairing(published: &Published) -> Published {
    Published { beside: None, here: None, ..published.clone() }
}

fn factor(r: Option<f64>) -> String {
    r.map_or_else(String::new, |r| format!("{}×", ratio(r)))
}

fn conditions(p: &Published) -> String {
    let reach = |r| match Reach::from(r) {
        Reach::Process => "threads",
        Reach::Host => "processes",
        Reach::Network => "hosts",
    };
    let words = [
        p.case.clone(),
        p.size.map(|s| s.to_string()),
        p.subscribers.map(|n| format!("1→{n}")),
        p.reach.map(|r| reach(r).to_owned()),
        p.deployment.map(|d| d.label().to_owned()),
        p.figure.clone(),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}
