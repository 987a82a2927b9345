// SPDX-License-Identifier: Apache-2.0
//! Effect of a preference (`favour`) on the preferred subscriber and on the others, compared with
//! the same case without it.

use super::question::Answer;
use super::{CaseResult, ExperimentResult, Figure, Measure, SubscriberResult};
use crate::archive::Case;
use driveline_bench::{Beside, Favour};
use driveline_terminal::figures::duration_ns;

/// Returns an answer for each cell with a preference.
pub(super) fn preferred(e: &ExperimentResult) -> Vec<Answer> {
    let mut answers: Vec<Answer> = Vec::new();
    for cell in e.cells() {
        let of_cell =
            e.in_cell(cell).filter_map(|c| c.case.beside.favour.as_ref().map(|favour| (c, favour)));
        let systems: Vec<String> = of_cell
            .filter(|(c, _)| c.valid_runs() > 0)
            .map(|(c, favour)| words(e, c, favour))
            .collect();
        if !systems.is_empty() {
            let about = format!(
                "The preferred subscriber and the slowest other one, and what both take without \
                 preference ({cell})"
            );
            answers.push(Answer { about, systems });
        }
    }
    answers
}

/// Returns the same system in the same case without a preference.
fn without<'a>(e: &'a ExperimentResult, c: &CaseResult) -> Option<&'a CaseResult> {
    let without_favour = Beside { favour: None, ..c.case.beside.clone() };
    let is_same = |other: &Case| {
        (&other.system, &other.links, &other.beside)
            == (&c.case.system, &c.case.links, &without_favour)
    };
    e.measured().find(|other| is_same(&other.case) && other.valid_runs() > 0)
}

fn words(e: &ExperimentResult, c: &CaseResult, favour: &Favour) -> String {
    let usual = without(e, c);
    let part = |name: String, is_one: &dyn Fn(&SubscriberResult) -> bool| {
        let rendered = |c: &CaseResult| {
            slowest(c, is_one).map_or_else(|| "got nothing".to_owned(), |s| figure(&s.transport))
        };
        let usual =
            usual.map_or_else(String::new, |usual| format!(", without {}", rendered(usual)));
        format!("{name} {}{usual}", rendered(c))
    };
    let (is_it, is_other) = (
        |s: &SubscriberResult| is_preferred(s, favour),
        |s: &SubscriberResult| !is_preferred(s, favour),
    );
    let mut parts = vec![part(format!("subscriber {}", favour.subscriber), &is_it)];
    if let Some(other) = slowest(c, &is_other) {
        // Compares with the same subscriber in the case without the preference, even if another
        // subscriber is the slowest there.
        parts.push(part(format!("the slowest other ({})", other.name), &|s: &SubscriberResult| {
            s.name == other.name
        }));
    }
    match usual {
        None => parts.push("without preference it was not measured".to_owned()),
        // The scenario names the preferred subscriber before the measurement. Without the
        // preference, another subscriber may be the slowest.
        Some(usual) => {
            parts.extend(
                slowest(usual, &|_| true)
                    .filter(|s| !is_preferred(s, favour))
                    .map(|s| format!("the slowest without was {}", s.name)),
            );
        }
    }
    format!("{} {}", c.name(), parts.join("; "))
}

/// Returns true if this is the preferred subscriber of its link.
fn is_preferred(s: &SubscriberResult, favour: &Favour) -> bool {
    let name = format!("subscriber {}", favour.subscriber);
    s.name == name || s.name.ends_with(&format!(" · {name}"))
}

/// Returns the subscriber with the largest median.
fn slowest<'a>(
    c: &'a CaseResult,
    which: &dyn Fn(&SubscriberResult) -> bool,
) -> Option<&'a SubscriberResult> {
    c.subscribers.iter().filter(|s| which(s)).max_by_key(|s| s.transport.percentiles.p50)
}

/// Formats a figure: `1.20 ms (p99 4.10 ms)`.
fn figure(f: &Figure) -> String {
    let p50 =
        f.percentiles.p50.map_or_else(|| "got nothing".to_owned(), |ns| duration_ns(ns as f64));
    let tail = [Measure::P99, Measure::P95]
        .into_iter()
        .find_map(|c| Some((c.label(), c.of(&f.percentiles)?)));
    let tail = tail.map_or_else(
        || "n too small for more".to_owned(),
        |(rank, ns)| format!("{rank} {}", duration_ns(ns as f64)),
    );
    format!("{p50} ({tail})")
}
