// SPDX-License-Identifier: Apache-2.0
//! Texts about the end of a run: its reason, and the work that was not done.

use crate::exit;
use driveline_analyze::{Ended, Summary};
use driveline_runtime::launch::{Death, Down, End, Outcome};
use driveline_types::TopicName;

/// Maximum number of problems printed at the end of a run; the report has all problems.
pub(super) const MAX_PROBLEMS: usize = 8;

/// Returns the reason why an interrupted run has ended. `read`: true if the output of this command
/// still has a reader.
pub(super) fn as_asked(read: bool) -> &'static str {
    if read { "as asked" } else { "because its output has no reader any more" }
}

/// Returns how a run ended, in a form for programs. `read`: true if the output of this command
/// still has a reader.
pub(super) fn ended(outcome: &Outcome, read: bool) -> Ended {
    let killed = killed(outcome).map(|text| format!("; {text}")).unwrap_or_default();
    let plain = |reason, ok, text: String| Ended {
        reason,
        ok,
        module: None,
        exit_code: None,
        signal: None,
        text: text + &killed,
        help: None,
    };
    let died = |death: &Death, text: String| Ended {
        module: Some(death.module.clone()),
        exit_code: death.exit_code,
        signal: death.signal,
        help: death.help.clone(),
        ..plain("module_died", false, text)
    };
    let down = down(outcome).map(|text| match outcome.down.iter().find_map(|d| d.death.as_ref()) {
        Some(death) => died(death, text),
        None => plain("module_died", false, text),
    });
    match (&outcome.end, down) {
        (End::Finished { .. } | End::Interrupted, Some(down)) => down,
        (end, _) => match end {
            End::Finished { component } => {
                plain("finished", outcome.killed.is_empty(), format!("'{component}' has finished"))
            }
            End::Interrupted => {
                plain("interrupted", outcome.killed.is_empty(), as_asked(read).to_owned())
            }
            End::NotReady { modules } => {
                plain("not_ready", false, format!("not ready in time: {}", modules.join(", ")))
            }
            End::Died(death) => died(death, death.to_string()),
        },
    }
}

/// Lists the modules that had to be killed; `None` if there are none.
fn killed(outcome: &Outcome) -> Option<String> {
    let killed = outcome.killed.join(", ");
    (!killed.is_empty()).then(|| format!("killed because they had not stopped: {killed}"))
}

/// Returns the last line of a run, and its error if there is one. `end`: how the run ended; if it
/// failed, this is the error.
pub(super) fn last_words(
    code: u8,
    end: &str,
    outcome: &Outcome,
    undone: &str,
) -> (Option<String>, Option<String>) {
    let undone = undone.strip_prefix("; ").unwrap_or(undone);
    let killed = killed(outcome);
    let end = match &killed {
        Some(killed) => end.strip_suffix(&format!("; {killed}")).unwrap_or(end),
        None => end,
    };
    let work = |prefix: &str| match undone {
        "" => prefix.to_owned(),
        undone if prefix.is_empty() => format!("work was not done: {undone}"),
        undone => format!("{prefix}; work was not done: {undone}"),
    };
    match code {
        exit::DONE => (Some(end.to_owned()), None),
        exit::WORK_NOT_DONE => (Some(end.to_owned()), Some(work(""))),
        exit::KILLED => (Some(end.to_owned()), Some(work(&killed.unwrap_or_default()))),
        _ => {
            let all = [Some(end.to_owned()), killed].into_iter().flatten().collect::<Vec<_>>();
            (None, Some(work(&all.join("; "))))
        }
    }
}

/// Lists the modules that stayed down, or were never started, until the end; `None` if there are
/// none.
pub(super) fn down(outcome: &Outcome) -> Option<String> {
    let one = |d: &Down| match &d.death {
        Some(death) => death.to_string(),
        None => format!("module '{}' was not started: {}", d.module, d.why),
    };
    let all: Vec<_> = outcome.down.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Returns the number of failed calls by component, and the first reason; empty if there are none.
pub(super) fn failed_calls(summary: &Summary) -> String {
    if summary.failed() == 0 {
        return String::new();
    }
    let first = summary.failures.first().map(|f| format!("; first {f}")).unwrap_or_default();
    format!("; {}{first}", summary.failed_of().join(", "))
}

/// Returns a summary of undone work other than failed calls; empty if there is none.
pub(super) fn not_done(summary: &Summary) -> String {
    let mut text: String =
        summary.problems.iter().take(MAX_PROBLEMS).map(|f| format!("; {}", f.what)).collect();
    if let Some(more) = summary.problems.len().checked_sub(MAX_PROBLEMS).filter(|more| *more > 0) {
        text += &format!("; {more} more");
    }
    text
}

/// Returns the reason why a component was never called. `refused`: one of its connections was
/// refused, as a note reports; `failed`: calls of other components failed, so its input may be
/// missing; `cut_off`: work of this component, or of one upstream of it, was cut off; `inactive`:
/// samples came only while it was inactive.
pub(super) fn never(
    component: &str,
    topics: &[&TopicName],
    refused: bool,
    failed: bool,
    cut_off: bool,
    inactive: bool,
) -> String {
    if inactive {
        return format!("{component} was never called: it was inactive while samples came");
    }
    if topics.is_empty() {
        return format!(
            "{component} was never called: samples came, and none of them triggered it (`trigger:` \
             and its limits in the graph file)"
        );
    }
    let topics: Vec<_> = topics.iter().map(|t| format!("'{t}'")).collect();
    let why = match (refused, failed || cut_off) {
        (true, _) => ", and a connection of its was refused",
        (false, true) if cut_off => " before the work of other components was cut off",
        (false, true) => ", and calls of other components failed",
        (false, false) => {
            "; while a run goes on, `driveline topic list` shows who publishes here, and \
             `driveline gateway list --explain` what other hosts send"
        }
    };
    format!("{component} was never called: nothing came on topic {}{why}", topics.join(" and "))
}
