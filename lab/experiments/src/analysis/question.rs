// SPDX-License-Identifier: Apache-2.0
//! Answers to questions beyond medians of latency: number of links that are carried, fairness among
//! subscribers, spread of latencies, effects of settings and preferences, growth of throughput.

use super::answer::{FEWEST_ROUNDS, MOST_SHOWN};
use super::{CaseResult, Criterion, ExperimentResult, Standing};
use crate::scenario::AnswerSpec;
use crate::table::{ratio, spread};
use crate::words::cell_without;
use driveline_bench::harness::Payload;
use driveline_bench::stats::Interval;
use driveline_graph::ByteSize;
use driveline_terminal::figures::{digits, duration_ns};

/// One answer, system by system.
pub(crate) struct Answer {
    /// Fact that it states about each system.
    pub(crate) about: String,
    /// Texts that begin with the name of the system, Driveline first.
    pub(crate) systems: Vec<String>,
}

/// Returns the lines that answer the experiment's question; empty without data, or if the question
/// is only about latencies.
pub(super) fn answered(e: &ExperimentResult, about: Option<AnswerSpec>) -> Vec<String> {
    // Variations of settings are few, and the question is about each of them.
    let most = if about == Some(AnswerSpec::Settings) { usize::MAX } else { MOST_SHOWN };
    let mut lines = Vec::new();
    for t in answers(e, about) {
        lines.push(format!("{}:", t.about));
        lines.extend(t.systems.iter().take(most).map(|system| format!("  {system}")));
        let more = t.systems.len().saturating_sub(most);
        lines.extend((more > 0).then(|| format!("  and {more} more below")));
    }
    lines.extend(Some(remark(e, about)).filter(|text| !text.is_empty()));
    lines
}

/// Returns all answers, with every system in each.
pub(crate) fn answers(e: &ExperimentResult, about: Option<AnswerSpec>) -> Vec<Answer> {
    match about {
        None => Vec::new(),
        Some(AnswerSpec::CarriedLinks) => carried_links(e),
        Some(AnswerSpec::Fairness) => fairness(e),
        Some(AnswerSpec::Preferred) => super::preferred::preferred(e),
        Some(AnswerSpec::Jitter) => jitter(e),
        Some(AnswerSpec::Settings) => settings(e),
        Some(AnswerSpec::Throughput) => throughput(e),
    }
}

/// Returns the caveat of an answer of this kind; empty if it has none.
pub(crate) fn remark(e: &ExperimentResult, about: Option<AnswerSpec>) -> String {
    if about == Some(AnswerSpec::Jitter) && !jitter(e).is_empty() {
        return "That is the deviation of all samples of valid runs together, not of their mean."
            .to_owned();
    }
    if about != Some(AnswerSpec::Throughput) || throughput(e).is_empty() {
        return String::new();
    }
    let mut text = "Throughput is the payload's size divided by the median.".to_owned();
    if e.measured().flat_map(|c| &c.case.links).any(|l| l.payload == Payload::Untouched) {
        text += " These payloads are neither written nor read: where they are lent and not copied, \
             no bytes move, and it is no bandwidth.";
    }
    text
}

/// Cases of each system, with Driveline first.
type BySystem<'a> = Vec<Vec<&'a CaseResult>>;

/// Groups the cases of cells whose names differ only in the word that `word` returns. A group's
/// name is the cell's name without this word.
fn groups<'a>(
    cases: impl Iterator<Item = &'a CaseResult>,
    word: impl Fn(&CaseResult) -> String,
) -> Vec<(String, BySystem<'a>)> {
    let mut groups: Vec<(String, BySystem<'a>)> = Vec::new();
    for c in cases {
        let own = word(c);
        let name = cell_without(&c.case.cell, |w| w == own);
        if groups.iter().all(|(other, _)| *other != name) {
            groups.push((name.clone(), Vec::new()));
        }
        let Some((_, systems)) = groups.iter_mut().find(|(other, _)| *other == name) else {
            continue;
        };
        match systems
            .iter_mut()
            .find(|of| of.iter().any(|first| first.case.system == c.case.system))
        {
            Some(of) => of.push(c),
            None if c.is_driveline() => systems.insert(0, vec![c]),
            None => systems.push(vec![c]),
        }
    }
    groups
}

/// Returns the cases of links; workloads and chains are left out.
fn links(e: &ExperimentResult) -> impl Iterator<Item = &CaseResult> {
    e.measured().filter(|c| !c.case.links.is_empty())
}

/// Returns ` (best effort)`, if there are several groups.
fn place(groups: usize, name: &str) -> String {
    if groups > 1 { format!(" ({name})") } else { String::new() }
}

fn carried_links(e: &ExperimentResult) -> Vec<Answer> {
    let groups = groups(links(e), |c| format!("{} links", c.case.links.len()));
    let mut answers = Vec::new();
    for (name, systems) in &groups {
        let mut rendered: Vec<Carried> = systems.iter().map(|cases| Carried::of(cases)).collect();
        // Driveline comes first, then the others, those that carry most links first.
        if let Some(others) = rendered.get_mut(
            usize::from(systems.first().is_some_and(|s| s.iter().any(|c| c.is_driveline())))..,
        ) {
            others.sort_by_key(|c| std::cmp::Reverse(c.links));
        }
        let most = systems.iter().flatten().map(|c| c.case.links.len()).max().unwrap_or(0);
        answers.push(Answer {
            about: format!(
                "Links carried at the same time without a sample lost, late or not sent{}",
                place(groups.len(), name)
            ),
            systems: rendered.iter().map(|c| c.words(most)).collect(),
        });
    }
    answers
}

/// Number of links that a system carries.
struct Carried {
    name: String,
    /// Largest measured number for which, as for all smaller ones, every sample arrived in time.
    links: usize,
    /// Next larger measured number, and the problem that occurred with it; `None` if there was no
    /// problem.
    beyond: Option<(usize, String)>,
}

impl Carried {
    fn of(cases: &[&CaseResult]) -> Self {
        let mut cases = cases.to_vec();
        cases.sort_by_key(|c| c.case.links.len());
        let mut carried = Self {
            name: cases.first().map_or_else(String::new, |c| c.name()),
            links: 0,
            beyond: None,
        };
        for c in cases {
            match wrong(c) {
                None => carried.links = c.case.links.len(),
                Some(what) => {
                    carried.beyond = Some((c.case.links.len(), what));
                    break;
                }
            }
        }
        carried
    }

    /// `most`: largest measured number of links of any system.
    fn words(&self, most: usize) -> String {
        let Self { name, links, beyond } = self;
        match beyond {
            Some((next, what)) if *links == 0 => format!("{name} none (at {next}: {what})"),
            Some((next, what)) => format!("{name} {links} (at {next}: {what})"),
            None if *links < most => format!("{name} {links}, and more were not measured"),
            None => format!("{name} all {links}"),
        }
    }
}

/// Returns the problem with samples of a case; `None` if all samples arrived in time.
fn wrong(c: &CaseResult) -> Option<String> {
    if c.valid_runs() == 0 {
        return Some(c.without_figures());
    }
    let [in_time, ..] = c.totals.shares();
    let t = &c.totals;
    let is_whole = t.received > 0 && t.late == 0 && t.missed == 0 && t.sent == t.scheduled;
    (!is_whole).then(|| format!("{} not in time", percent(1.0 - in_time)))
}

/// Formats a share, with enough digits to differ from 0.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p < 0.01 => "less than 0.01 %".into(),
        p => format!("{} %", digits(p)),
    }
}

/// Answers with the cases with the largest number of subscribers of any system, because the
/// differences are largest there.
fn fairness(e: &ExperimentResult) -> Vec<Answer> {
    let groups = groups(links(e), |c| {
        c.case.links.first().map_or_else(String::new, |l| format!("1→{}", l.subscribers))
    });
    let mut answers = Vec::new();
    for (name, systems) in &groups {
        let fair = |c: &&CaseResult| c.fairness().map(|f| (f.subscribers, f, c.name()));
        let most = systems.iter().flatten().filter_map(fair).map(|(n, ..)| n).max().unwrap_or(0);
        let of_most = systems
            .iter()
            .filter_map(|cases| cases.iter().filter_map(fair).find(|(n, ..)| *n == most));
        let words: Vec<String> = of_most
            .map(|(_, f, name)| {
                let Some((first, last)) = f.medians else {
                    return format!("{name} serves none of them");
                };
                let share = f
                    .most_often_last
                    .map_or_else(String::new, |(share, _)| format!(" ({:.0} %)", share * 100.0));
                match (f.served, duration_ns(first as f64), duration_ns(last as f64)) {
                    (1, only, _) => format!("{name} {only}, 1 of them served"),
                    (n, first, last) if n < f.subscribers => {
                        format!("{name} {first} and {last}{share}, {n} of them served")
                    }
                    (_, first, last) => format!("{name} {first} and {last}{share}"),
                }
            })
            .collect();
        if !words.is_empty() {
            let about = format!(
                "Medians of the first and of the last of {most} subscribers, and the \
                 share of samples for which the subscriber that is most often the last was the \
                 last{}",
                place(groups.len(), name)
            );
            answers.push(Answer { about, systems: words });
        }
    }
    answers
}

/// Answers with mean and standard deviation of the headline figure.
fn jitter(e: &ExperimentResult) -> Vec<Answer> {
    let size = |c: &CaseResult| match c.case.links.as_slice() {
        [link] => Some(ByteSize(link.size as u64)),
        _ => None,
    };
    let groups =
        groups(e.measured(), |c| size(c).map_or_else(String::new, |size| size.to_string()));
    let one = |cases: &Vec<&CaseResult>| {
        let mut cases = cases.clone();
        cases.sort_by_key(|c| size(c).map(|size| size.0));
        let rendered = |c: &&CaseResult| {
            let (_, f) = c.headline()?;
            let spread = spread(f.percentiles.mean?, f.percentiles.standard_deviation);
            Some(
                size(c)
                    .filter(|_| cases.len() > 1)
                    .map_or_else(|| spread.clone(), |size| format!("{spread} at {size}")),
            )
        };
        let words: Vec<String> = cases.iter().filter_map(rendered).collect();
        let name = cases.first()?.name();
        (!words.is_empty()).then(|| format!("{name} {}", words.join(", ")))
    };
    let rendered = |(name, systems): &(String, BySystem<'_>)| {
        let mut figures: Vec<String> = systems
            .iter()
            .flatten()
            .filter_map(|c| c.headline())
            .map(|(of, _)| of.label().to_owned())
            .collect();
        figures.dedup();
        Answer {
            about: format!(
                "Mean ± standard deviation of {}{}",
                figures.join(" and "),
                place(groups.len(), name)
            ),
            systems: systems.iter().filter_map(one).collect(),
        }
    };
    groups.iter().map(rendered).filter(|t| !t.systems.is_empty()).collect()
}

fn settings(e: &ExperimentResult) -> Vec<Answer> {
    let mut systems: Vec<Changed> = Vec::new();
    for c in e.measured() {
        let Some((r, (by, i))) = c.to_usual().and_then(|r| Some((r, r.deciding()?))) else {
            continue;
        };
        let cell = (c.case.cell.as_str(), i);
        match systems.iter_mut().find(|s| s.name == c.name() && s.by == by) {
            Some(system) => system.cells.push(cell),
            None => systems.push(Changed {
                name: c.name(),
                usual: r.to_system.to_string(),
                by,
                cells: vec![cell],
            }),
        }
    }
    let by = if systems.iter().any(|s| s.by == Criterion::Goodput) {
        "medians and goodput"
    } else {
        "medians"
    };
    let systems: Vec<String> = systems.iter().map(Changed::words).collect();
    if systems.is_empty() {
        Vec::new()
    } else {
        vec![Answer { about: format!("What settings change, by {by}"), systems }]
    }
}

/// Effect of a variation.
struct Changed<'a> {
    name: String,
    /// The variant with the usual settings.
    usual: String,
    by: Criterion,
    /// Ratio of this variant's figure to the figure of the usual variant, by cell.
    cells: Vec<(&'a str, Interval)>,
}

impl Changed<'_> {
    fn words(&self) -> String {
        let Self { name, usual, by, cells } = self;
        let all = || cells.iter().map(|(_, i)| i.estimate);
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
        let range = if ratio(low) == ratio(high) {
            ratio(low)
        } else {
            format!("{} to {}", ratio(low), ratio(high))
        };
        let mut text = match by {
            Criterion::Goodput => format!("{name} has {range} times the goodput of {usual}"),
            Criterion::Latency => format!("{name} takes {range} times what {usual} takes"),
        };
        let far = |i: &Interval| i.estimate.max(f64::MIN_POSITIVE).ln().abs();
        let furthest = cells.iter().max_by(|a, b| far(&a.1).total_cmp(&far(&b.1)));
        if let Some((cell, i)) = furthest.filter(|(_, i)| i.rounds >= FEWEST_ROUNDS) {
            let place =
                if cells.len() > 1 { format!("furthest in {cell}: ") } else { String::new() };
            text += &format!(" ({place}95 % {} to {})", ratio(i.low), ratio(i.high));
        }
        let standings = || cells.iter().map(|(_, i)| by.standing(i));
        let shown =
            standings().filter(|s| matches!(s, Standing::Slower | Standing::Faster)).count();
        if standings().any(|s| s != Standing::TooFewRounds) {
            text += &match (shown, cells.len()) {
                (0, _) => ", which shows no difference".to_owned(),
                (a, n) if a < n => format!(", a difference is shown in {a} of {n} cells"),
                _ => String::new(),
            };
        }
        text
    }
}

fn throughput(e: &ExperimentResult) -> Vec<Answer> {
    let groups = groups(links(e), |c| {
        c.case.links.first().map_or_else(String::new, |l| ByteSize(l.size as u64).to_string())
    });
    let mut answers = Vec::new();
    for (name, systems) in &groups {
        let systems: Vec<String> = systems.iter().filter_map(|cases| grown(cases)).collect();
        if !systems.is_empty() {
            answers.push(Answer {
                about: format!("Median and greatest throughput{}", place(groups.len(), name)),
                systems,
            });
        }
    }
    answers
}

/// Returns the growth of a system's median and throughput from its smallest to its largest payload;
/// `None` with only one size.
fn grown(cases: &[&CaseResult]) -> Option<String> {
    // Leaves out streams, which have no latencies here: `answer.rs` compares their goodput.
    let point = |c: &&CaseResult| Some((c.case.links.first()?.size, c.latencies()?.p50?));
    let mut points: Vec<(usize, u64)> =
        cases.iter().filter(|c| c.case.links.len() == 1).filter_map(point).collect();
    points.sort_unstable();
    let ((least, from), (greatest, to)) = (points.first()?, points.last()?);
    if least == greatest {
        return None;
    }
    // Bytes per nanosecond are gigabytes per second.
    let best = points
        .iter()
        .map(|(size, ns)| (*size as f64 / (*ns).max(1) as f64, *size))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    let name = cases.first()?.name();
    Some(format!(
        "{name} {} at {} to {} at {}, {} GB/s (at {})",
        duration_ns(*from as f64),
        ByteSize(*least as u64),
        duration_ns(*to as f64),
        ByteSize(*greatest as u64),
        digits(best.0),
        ByteSize(best.1 as u64)
    ))
}
