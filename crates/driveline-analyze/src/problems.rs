// SPDX-License-Identifier: Apache-2.0
//! Work of a graph that was not done although no call failed.

use crate::account::KeptSeries;
use crate::collector::{Collector, InputSeries};
use crate::facts::{InputFacts, StageFacts};
use driveline_runtime::launch::{CutOff, Unconnected};
use serde::Serialize;

/// Kind of a [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// A component held as many samples of an input as permitted, so it received no further
    /// samples.
    SamplesKept,
    /// A reliable input missed samples.
    ReliableLoss,
    /// The publisher of a topic and a component that reads it were never connected, or were not
    /// connected again after a restart.
    NotConnected,
    /// A component still had samples of a finished component to process, but made no progress, so
    /// the run ended without this work.
    CutOff,
    /// A component that samples trigger was never called.
    NeverCalled,
    /// A module was suspended (SIGSTOP) when the run ended.
    ModuleSuspended,
}

/// Work of the graph that was not done. A run with a problem ends with exit code 6, unless it fails
/// in another way. Displays as `what: why`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Its kind.
    pub kind: ProblemKind,
    /// The component; for [`ProblemKind::ModuleSuspended`], the module or gateway.
    pub stage: String,
    /// The topic, where it is about one.
    pub topic: Option<String>,
    /// Work that was not done.
    pub what: String,
    /// The likely reason, and the remedy.
    pub why: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// Returns the problems of a run, causes before their effects: an input that is not connected, for
/// example, before its component that is never called.
pub(crate) fn of(run: &Collector) -> Vec<Problem> {
    let mut problems: Vec<_> =
        run.facts.unconnected.iter().filter(|u| counts(run, u)).map(unconnected).collect();
    problems.extend(
        run.accounts.kept.iter().map(|((stage, input), kept)| samples_kept(stage, input, kept)),
    );
    problems.extend(reliable_losses(run));
    problems.extend(run.facts.suspended.iter().map(|module| suspended(module)));
    problems.extend(run.facts.cut_off.iter().map(cut_off));
    problems.extend(never_called(run));
    problems
}

fn cut_off(work: &CutOff) -> Problem {
    Problem {
        kind: ProblemKind::CutOff,
        stage: work.component.clone(),
        topic: work.unread.first().map(|(topic, _)| topic.clone()),
        what: format!("{} was cut off", work.component),
        why: format!(
            "{work} when the run ended: for 30 s and the longest call of the run, no call that \
             processes the remaining data of its source had ended; look for a call that waits or \
             never returns"
        ),
    }
}

impl Collector {
    /// Returns true if a component may lack samples because a component upstream of it was cut off
    /// before publishing them. True for a component that was itself cut off.
    #[must_use]
    pub fn lacks_what_was_cut_off(&self, stage: &str) -> bool {
        let reads = |reader: &StageFacts, of: &StageFacts| {
            reader.inputs.iter().any(|i| of.outputs.contains(&i.topic))
        };
        let of = |name: &str| self.facts.stages.iter().find(|s| s.name == name);
        let mut reached: Vec<&StageFacts> =
            self.facts.cut_off.iter().filter_map(|c| of(&c.component)).collect();
        let mut next = 0;
        while let Some(source) = reached.get(next).copied() {
            let new = self.facts.stages.iter().filter(|s| reads(s, source));
            let new: Vec<_> = new.filter(|s| !reached.iter().any(|r| r.name == s.name)).collect();
            reached.extend(new);
            next += 1;
        }
        reached.iter().any(|s| s.name == stage)
    }
}

/// Returns true if a missing connection is a problem. It is none if the topic is marked `external`,
/// or if no sample was published before the run was interrupted.
fn counts(run: &Collector, edge: &Unconnected) -> bool {
    let external = run.facts.external.iter().any(|t| t.as_str() == edge.topic);
    let stage = run.facts.stages.iter().find(|s| s.name == edge.publisher);
    let topic = stage.and_then(|s| s.outputs.iter().find(|o| o.as_str() == edge.topic));
    let published = topic.is_some_and(|t| {
        run.topics.get(&t.id()).is_some_and(|series| run.published(t.id(), series) > 0)
    });
    !external && (published || !run.was_interrupted())
}

fn unconnected(edge: &Unconnected) -> Problem {
    let Unconnected { topic, publisher, subscription, why, since_restart } = edge;
    let what = if *since_restart {
        format!("since a restart, {subscription} received no topic '{topic}' from {publisher}")
    } else {
        format!("{subscription} never received topic '{topic}' from {publisher}")
    };
    Problem {
        kind: ProblemKind::NotConnected,
        stage: subscription.clone(),
        topic: Some(topic.clone()),
        what,
        why: why.clone(),
    }
}

fn samples_kept(stage: &str, input: &str, kept: &KeptSeries) -> Problem {
    let KeptSeries { topic, held, triggers, times, last_end, until_restart } = kept;
    let what = if *triggers { "was not called for" } else { "could not read" };
    let times = if *times > 1 { format!(" {times} times") } else { String::new() };
    let end = match last_end {
        Some(end) => {
            let s = end.lasted_ms as f64 / 1e3;
            format!("for {s:.1} s the last time, in which {} were missed", end.missed)
        }
        None if *until_restart => "until its module ended and was started again".to_owned(),
        None if *triggers && kept.times > 1 => "the last time until the end of the run".to_owned(),
        None if *triggers => "until the end of the run".to_owned(),
        None => "at its last read".to_owned(),
    };
    Problem {
        kind: ProblemKind::SamplesKept,
        stage: stage.to_owned(),
        topic: Some(topic.clone()),
        what: format!("{stage} {what} topic '{topic}'{times} while it kept {held} of its samples"),
        why: format!(
            "its input '{input}' may hold {held} (max_held) and got no others \
             {end}; drop one first, or write in the graph \
             `inputs: {{{input}: {{topic: {topic}, max_held: {}}}}}` \
             (one more than the component keeps)",
            held.saturating_add(1)
        ),
    }
}

/// Returns the reliable inputs that missed samples. Skips inputs whose component held as many
/// samples as permitted: [`ProblemKind::SamplesKept`] reports them.
fn reliable_losses(run: &Collector) -> Vec<Problem> {
    let inputs = run.stages_in_order().into_iter().flat_map(|(stage, series)| {
        series.inputs.iter().map(move |(input, series)| (stage, input, series))
    });
    let lost = inputs.filter(|(stage, input, series)| {
        let kept = run.accounts.kept.contains_key(&((*stage).to_owned(), (*input).clone()));
        !kept && run.is_reliable(stage, input) && series.counters().missed > 0
    });
    lost.map(|(stage, input, series)| reliable_loss(run, stage, input, series)).collect()
}

fn reliable_loss(run: &Collector, stage: &str, input: &str, series: &InputSeries) -> Problem {
    let counters = series.counters();
    let topic = run.topic_name(series.topic);
    let blocked = crate::collector::backpressure::summaries(run);
    let waited = blocked.iter().find(|b| b.topic == topic && b.timeouts > 0);
    let why = match waited {
        Some(b) => format!(
            "{} waited `max_blocking_ms` for its readers {} without success and went on; raise \
             `qos.depth` or `qos.max_blocking_ms` of the topic, make {stage} faster, or publish \
             less often",
            b.stage,
            if b.timeouts == 1 { "1 time".to_owned() } else { format!("{} times", b.timeouts) }
        ),
        None => format!(
            "no publisher reported a time-out: the subscription of input '{input}' was created \
             again, or a publisher ended, before all samples were read; raise `qos.depth` of the \
             topic"
        ),
    };
    Problem {
        kind: ProblemKind::ReliableLoss,
        stage: stage.to_owned(),
        what: format!(
            "{stage} missed {} of {} samples of reliable topic '{topic}'",
            counters.missed,
            counters.accounted()
        ),
        topic: Some(topic),
        why,
    }
}

fn suspended(module: &str) -> Problem {
    Problem {
        kind: ProblemKind::ModuleSuspended,
        stage: module.to_owned(),
        topic: None,
        what: format!("'{module}' was suspended when the run ended"),
        why:
            "SIGSTOP or a debugger had suspended its process, which did nothing from then on; the \
             end of the run has ended it"
                .to_owned(),
    }
}

/// Duration, in seconds, from which a run counts as long enough for each component to be called.
const LONG_S: f64 = 3.0;

fn never_called(run: &Collector) -> Vec<Problem> {
    if !run.facts.ended.as_ref().is_some_and(|e| matches!(e.reason, "finished" | "interrupted")) {
        // During the run, the call may still come; if a module died, that is the reason.
        return Vec::new();
    }
    let waits = run.never_triggered().into_iter();
    let waits = waits.filter(|(name, _)| {
        // Cut-off components are reported already.
        !run.lacks_what_was_cut_off(name)
            && run.facts.stages.iter().any(|s| s.name == *name && should_have_been_called(run, s))
    });
    let problem = |(stage, topics): (&str, Vec<&driveline_types::TopicName>)| {
        let names: Vec<_> = topics.iter().map(|t| format!("'{t}'")).collect();
        let why = match (names.is_empty(), run.was_refused(stage)) {
            (true, _) => "samples came, and none of them triggered it (`trigger:` and its limits \
                          in the graph file)"
                .to_owned(),
            (false, true) => format!(
                "nothing came on topic {}, and a connection of its was refused",
                names.join(" and ")
            ),
            (false, false) => format!("nothing came on topic {}", names.join(" and ")),
        };
        let (what, topic) =
            (format!("{stage} was never called"), topics.first().map(ToString::to_string));
        Problem { kind: ProblemKind::NeverCalled, stage: stage.to_owned(), topic, what, why }
    };
    // A component that is active in some modes only may have waited for its mode.
    let always = |(stage, _): &(&str, _)| !run.facts.modal.iter().any(|m| m == stage);
    waits.filter(always).map(problem).collect()
}

/// Returns true if a component that was never called should have been called. Returns false if its
/// missing input comes from outside of the run, or if the run was interrupted before a sample could
/// arrive.
fn should_have_been_called(run: &Collector, stage: &StageFacts) -> bool {
    let series = |i: &InputFacts| run.stages.get(&stage.name).and_then(|s| s.inputs.get(&i.name));
    let silent: Vec<&InputFacts> =
        stage.inputs.iter().filter(|i| series(i).is_none_or(|x| x.heard_of() == 0)).collect();
    let inside = |i: &&&InputFacts| {
        let marked = run.facts.external.contains(&i.topic);
        !marked && run.facts.stages.iter().any(|s| s.outputs.contains(&i.topic))
    };
    let (triggers, reads): (Vec<&InputFacts>, Vec<&InputFacts>) =
        silent.iter().partition(|i| i.triggers);
    // Inputs other than the trigger may be the missing ones.
    let lacks = if triggers.is_empty() { &reads } else { &triggers };
    if !lacks.is_empty() && !lacks.iter().any(|i| inside(&i)) {
        return false;
    }
    let used = |x: &InputSeries| x.heard_of() > x.counters().not_read;
    let came = || stage.inputs.iter().filter(|i| i.triggers).filter_map(series).any(used);
    // A sample of another input shows that there was time for one of this input, unless the run
    // was short.
    let long = run.facts.ran_s.is_some_and(|s| s >= LONG_S);
    !run.was_interrupted() || came() && (lacks.is_empty() || long)
}

impl Collector {
    pub(crate) fn was_interrupted(&self) -> bool {
        self.facts.ended.as_ref().is_some_and(|e| e.reason == "interrupted")
    }
}

#[cfg(test)]
#[path = "problems_tests.rs"]
mod tests;
