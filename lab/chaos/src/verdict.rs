// SPDX-License-Identifier: Apache-2.0
//! Verdict on the invariants of a run: pure functions of the caused faults, the run's reports and
//! its remains.

use crate::census::Growth;
use crate::faults::FaultKind;
use crate::graph::GraphFacts;
use crate::summary::{Edge, RunSummary};
use driveline_analyze::MAX_FAILURES;
use driveline_runtime::host::INJECTED;
use driveline_shm::limits::MAX_ENDED;
use serde::Serialize;
use std::fmt;

/// Maximum number of details that an invariant lists; all are counted.
const MAX_DETAILS: usize = 20;
/// Allowance, in samples of an edge, for each time that the process of its publisher or reader ends
/// or is stopped. It is added to the samples that the length of the outages explains.
const PER_END: u64 = 8;
/// Time in which an input need not be connected at the start and at the end of a run, both
/// together, in seconds.
const AT_BOTH_ENDS_S: f64 = 5.0;
/// Descriptors and mappings that an input holds to keep the unread samples of one ended publisher.
const DESCRIPTORS_OF_ENDED: u64 = 1;
const SEGMENTS_OF_ENDED: u64 = 3;
/// Factor for varying rates: an outage may cost this many times the samples that the mean rate
/// implies.
const RATE_FACTOR: f64 = 2.0;

/// Answer of the graph to a fault.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The module works again, this long after the fault, in milliseconds.
    Recovered(f64),
    /// The module stays down, as the graph declares.
    Down,
    /// The process continued after it was stopped.
    Resumed,
    /// The call failed, and the module continues.
    Failed,
    /// The run is in its directory again, this long after the directory was lost, in milliseconds.
    Rejoined(f64),
    /// All processes of the run have ended, this long after the launcher's end, in milliseconds.
    Ended(f64),
    /// The modules continue without the launcher, as the graph declares.
    GoesOn,
    /// The fault could not be caused, or the answer of the graph is missing or wrong, with the
    /// reason.
    Missing(String),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recovered(ms) => write!(f, "works again after {ms:.0} ms"),
            Self::Down => f.write_str("stays down"),
            Self::Resumed => f.write_str("goes on"),
            Self::Failed => f.write_str("call failed, goes on"),
            Self::Rejoined(ms) => write!(f, "directory joined again after {ms:.0} ms"),
            Self::Ended(ms) => write!(f, "all processes ended after {ms:.0} ms"),
            Self::GoesOn => f.write_str("modules go on without the launcher"),
            Self::Missing(why) => write!(f, "NO ANSWER: {why}"),
        }
    }
}

/// A fault that was caused or could not be caused, with the answer of the graph.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Caused {
    /// Its number in the campaign, from 1.
    pub number: usize,
    /// Kind.
    pub kind: FaultKind,
    /// Module; none for faults of the whole run.
    pub module: Option<String>,
    /// Process that it hit, if it hit one.
    pub pid: Option<u32>,
    /// Time since the start of its run, in seconds.
    pub at_s: f64,
    /// Answer of the graph.
    pub answer: Answer,
    /// Cause in the report of the run.
    pub reported: Option<String>,
    /// Time from the end of the process until the new one was ready, as the run reports it.
    pub ready_after_ms: Option<f64>,
    /// Time from the end of the process until the first sample of the new one.
    pub first_sample_after_ms: Option<f64>,
}

/// Remains of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Left {
    /// Processes that live after the end of the run.
    pub processes: Vec<u32>,
    /// Entries of the domain's directory after the end of the run.
    pub files: Vec<String>,
    /// Growth of the processes' resources from before the first fault until after the last one.
    pub growth: Growth,
}

/// Facts about a run with faults.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// Faults, in their order.
    pub caused: Vec<Caused>,
    /// The run's own figures; none if its launcher was killed or they cannot be read.
    pub summary: Option<RunSummary>,
    /// Remains.
    pub left: Left,
    /// Modules whose announced restart had not ended after the last fault, with their state.
    pub unfinished: Vec<String>,
    /// Exit code of the launcher, or the reason why it or the report of the run is missing. `None`
    /// if a fault killed the launcher.
    pub ended: Option<Result<i32, String>>,
}

/// Invariant of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Invariant {
    /// Every published sample is in the account of every input, and outages explain the samples
    /// that are not connected or unread.
    Unaccounted,
    /// No sample was torn.
    Torn,
    /// No process, file, descriptor or segment remains.
    Leaked,
    /// Every announced restart ended: the module works again, or stays down as declared.
    Restarts,
    /// Every kill, hang, memory fault and descriptor fault is in the report of its run with the
    /// right cause, and every exception as a failed call.
    Reported,
    /// The report has no other fault, so no restart happened without a cause.
    Unexpected,
    /// Every fault that was due was caused, and the answer of the graph was right.
    Answered,
    /// The run ended in order.
    Ended,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unaccounted => "unaccounted samples",
            Self::Torn => "torn samples",
            Self::Leaked => "leaked processes, files, descriptors, segments",
            Self::Restarts => "restarts without an end",
            Self::Reported => "faults missing in the report",
            Self::Unexpected => "faults that were not caused",
            Self::Answered => "faults without an answer",
            Self::Ended => "runs that did not end in order",
        })
    }
}

/// Number of violations of an invariant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The invariant.
    pub invariant: Invariant,
    /// Number of breaches: samples, processes, faults and so on. 0 if it holds.
    pub count: u64,
    /// The first breaches, as text.
    pub details: Vec<String>,
}

impl Finding {
    fn new(invariant: Invariant) -> Self {
        Self { invariant, count: 0, details: Vec::new() }
    }

    fn add(&mut self, count: u64, detail: String) {
        self.count = self.count.saturating_add(count);
        if self.details.len() < MAX_DETAILS {
            self.details.push(detail);
        }
    }

    /// Adds the breaches of another run.
    pub fn merge(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        let room = MAX_DETAILS.saturating_sub(self.details.len());
        self.details.extend(other.details.into_iter().take(room));
    }
}

/// Checks all invariants of a run, and adds the run's report to each caused fault.
pub fn judge(graph: &GraphFacts, run: &mut RunFacts) -> Vec<Finding> {
    let (reported, unexpected) = match &run.summary {
        Some(summary) => reports(graph, summary, &mut run.caused),
        None => (Finding::new(Invariant::Reported), Finding::new(Invariant::Unexpected)),
    };
    vec![
        unaccounted(graph, run),
        torn(run),
        leaked(graph, run),
        restarts(run),
        reported,
        unexpected,
        answered(run),
        ended(run),
    ]
}

/// Compares the faults in the report with the caused faults, by process.
fn reports(graph: &GraphFacts, summary: &RunSummary, caused: &mut [Caused]) -> (Finding, Finding) {
    let mut reported = Finding::new(Invariant::Reported);
    let mut unexpected = Finding::new(Invariant::Unexpected);
    let mut used = vec![false; summary.faults.len()];
    let happened = |c: &&mut Caused| !matches!(c.answer, Answer::Missing(_));
    for fault in caused.iter_mut().filter(happened) {
        let Some(cause) = fault.kind.cause() else { continue };
        let found = summary.faults.iter().enumerate().find(|(i, f)| {
            !used[*i] && Some(f.pid) == fault.pid && Some(&f.module) == fault.module.as_ref()
        });
        let Some((i, found)) = found else {
            reported.add(1, format!("{} is not in the report", named(fault)));
            continue;
        };
        used[i] = true;
        fault.reported = Some(found.cause.clone());
        fault.ready_after_ms = found.ready_after_ms;
        fault.first_sample_after_ms = found.first_sample_after_ms;
        if !found.cause.contains(cause) {
            reported.add(1, format!("{} is reported as: {}", named(fault), found.cause));
        }
    }
    for (fault, _) in summary.faults.iter().zip(&used).filter(|(_, used)| !**used) {
        unexpected.add(1, format!("at {:.1} s: {}", fault.at_s, fault.cause));
    }
    exceptions(graph, summary, caused, &mut reported);
    (reported, unexpected)
}

/// Compares injected exceptions with failed calls of the modules' components. More failed calls
/// than exceptions are no breach: a component may refuse samples of a failing neighbour.
fn exceptions(
    graph: &GraphFacts,
    summary: &RunSummary,
    caused: &mut [Caused],
    reported: &mut Finding,
) {
    for module in &graph.modules {
        let of_module = |c: &&mut Caused| {
            c.kind == FaultKind::Exception
                && c.answer == Answer::Failed
                && c.module.as_ref() == Some(&module.name)
        };
        let stages = summary.stages.iter().filter(|s| module.components.contains(&s.stage));
        let failed: u64 = stages.map(|s| s.failed).sum();
        let of_its_component = |failure: &str| {
            module.components.iter().any(|component| {
                let rest = failure.strip_prefix(component.as_str());
                rest.is_some_and(|rest| rest.starts_with(':') || rest.starts_with(" at "))
            })
        };
        let texts =
            || summary.failures.iter().filter(|f| f.contains(INJECTED) && of_its_component(f));
        let mut wanted = 0;
        for fault in caused.iter_mut().filter(of_module) {
            wanted += 1;
            fault.reported = texts().next().cloned();
        }
        if failed < wanted {
            let text =
                format!("module '{}': {wanted} exceptions, {failed} failed calls", module.name);
            reported.add(wanted - failed, text);
        }
        // With a full list, the texts of this module may be missing.
        let is_full = summary.failures.len() >= MAX_FAILURES;
        if wanted > 0 && texts().next().is_none() && !is_full {
            reported.add(1, format!("no failure of module '{}' names its cause", module.name));
        }
    }
}

fn unaccounted(graph: &GraphFacts, run: &RunFacts) -> Finding {
    let mut finding = Finding::new(Invariant::Unaccounted);
    let Some(summary) = &run.summary else { return finding };
    for edge in &summary.subscriptions {
        let name = format!("'{}' by {}.{}", edge.topic, edge.stage, edge.input);
        let published = summary.published.get(&edge.topic).copied().unwrap_or_default();
        let named = edge.named();
        if named != published && edge.unknown.is_none() {
            let text = format!("{name}: {published} published, {named} in the account");
            finding.add(named.abs_diff(published), text);
        }
        let silent = edge.not_connected.saturating_add(edge.unread);
        let allowed = outages(graph, run, summary, edge, published);
        if silent > allowed {
            let text = format!(
                "{name}: {silent} samples passed while it was not connected; its outages explain \
                 {allowed} at most"
            );
            finding.add(silent - allowed, text);
        }
    }
    finding
}

/// Returns the number of samples of an edge that outages of its publishers and its reader may cost:
/// samples published while it was not connected, and samples that stay unread.
fn outages(
    graph: &GraphFacts,
    run: &RunFacts,
    summary: &RunSummary,
    edge: &Edge,
    published: u64,
) -> u64 {
    let ends = graph
        .modules
        .iter()
        .filter(|m| m.components.contains(&edge.stage) || m.publishes.contains(&edge.topic));
    let (mut seconds, mut count) = (AT_BOTH_ENDS_S, 1);
    for module in ends {
        for fault in summary.faults.iter().filter(|f| f.module == module.name) {
            let back = fault.first_sample_after_ms.or(fault.ready_after_ms).map(|ms| ms / 1e3);
            seconds += back.unwrap_or(summary.duration_s - fault.at_s).max(0.0);
            count += 1;
        }
        // Each stop of the module may also leave a few samples unread.
        let stopped =
            |c: &&Caused| c.kind == FaultKind::Stop && c.module.as_ref() == Some(&module.name);
        count += run.caused.iter().filter(stopped).count() as u64;
    }
    let rate = published as f64 / summary.duration_s.max(0.1);
    (rate * seconds * RATE_FACTOR).ceil() as u64 + count * PER_END
}

fn torn(run: &RunFacts) -> Finding {
    let mut finding = Finding::new(Invariant::Torn);
    for edge in run.summary.iter().flat_map(|s| &s.subscriptions).filter(|e| e.corrupt > 0) {
        let text = format!("{} of '{}' by {}.{}", edge.corrupt, edge.topic, edge.stage, edge.input);
        finding.add(edge.corrupt, text);
    }
    finding
}

fn leaked(graph: &GraphFacts, run: &RunFacts) -> Finding {
    let mut finding = Finding::new(Invariant::Leaked);
    let Left { processes, files, growth } = &run.left;
    processes.iter().for_each(|pid| finding.add(1, format!("process {pid} lives")));
    files.iter().for_each(|f| finding.add(1, format!("file '{f}' in the domain's directory")));
    for (what, growth, each) in [
        ("descriptors", &growth.descriptors, DESCRIPTORS_OF_ENDED),
        ("segments", &growth.segments, SEGMENTS_OF_ENDED),
    ] {
        for (process, n) in growth {
            let kept = each.saturating_mul(kept_of_ended(graph, run, process));
            if *n > kept {
                let text = format!(
                    "{n} more {what} in {process} than before the faults; unread samples of ended \
                     publishers explain {kept} at most"
                );
                finding.add(n - kept, text);
            }
        }
    }
    if growth.files > 0 {
        let text = format!("{} more files in the domain than before the faults", growth.files);
        finding.add(growth.files, text);
    }
    finding
}

/// Returns the number of ended publishers whose unread samples the inputs of a module may keep.
/// Each input keeps samples of at most [`MAX_ENDED`] ended publishers.
fn kept_of_ended(graph: &GraphFacts, run: &RunFacts, module: &str) -> u64 {
    let Some(module) = graph.module(module) else { return 0 };
    let faults = || run.summary.iter().flat_map(|s| &s.faults);
    let ended = |topic: &String| {
        let publishers = graph.modules.iter().filter(|m| m.publishes.contains(topic));
        publishers.map(|m| faults().filter(|f| f.module == m.name).count()).sum::<usize>()
    };
    module.reads.iter().map(|topic| ended(topic).min(MAX_ENDED) as u64).sum()
}

fn restarts(run: &RunFacts) -> Finding {
    let mut finding = Finding::new(Invariant::Restarts);
    run.unfinished.iter().for_each(|text| finding.add(1, text.clone()));
    let open = |f: &&crate::summary::ReportedFault| !f.down && f.ready_after_ms.is_none();
    for fault in run.summary.iter().flat_map(|s| &s.faults).filter(open) {
        let text = format!("{}: neither ready again nor down", fault.cause);
        finding.add(1, text);
    }
    finding
}

fn answered(run: &RunFacts) -> Finding {
    let mut finding = Finding::new(Invariant::Answered);
    for fault in &run.caused {
        if let Answer::Missing(why) = &fault.answer {
            finding.add(1, format!("{}: {why}", named(fault)));
        }
    }
    finding
}

/// Checks that the run ended in order. Faults explain two exit codes: 4 for modules that are down,
/// 6 for work that was not done.
fn ended(run: &RunFacts) -> Finding {
    let mut finding = Finding::new(Invariant::Ended);
    match &run.ended {
        None => {}
        Some(Err(text)) => finding.add(1, text.clone()),
        Some(Ok(code)) => {
            let down = run.caused.iter().any(|c| c.answer == Answer::Down);
            // A run ends with 6 if calls fail, if a killed process did not do its work, or if a
            // stopped reader of a reliable topic did not take samples.
            let broken = !run.caused.is_empty();
            let explained = *code == 0 || *code == 4 && down || *code == 6 && broken;
            if !explained {
                finding.add(1, format!("`driveline run` ended with exit code {code}"));
            }
        }
    }
    finding
}

fn named(fault: &Caused) -> String {
    let module = fault.module.as_ref().map_or(String::new(), |m| format!(" of module '{m}'"));
    format!("fault {} ({}{module}, at {:.1} s)", fault.number, fault.kind, fault.at_s)
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
