// SPDX-License-Identifier: Apache-2.0
//! The figures of a run, as written to `summary.json`.

mod lines;

use crate::account::CallSeries;
use crate::backpressure::BlockedOutput;
use crate::collector::{Collector, InputSeries, StageSeries};
use crate::deadlines::DeadlineSummary;
use crate::facts::Ended;
use crate::faults::{Fault, MAX_FAULTS};
use crate::machine::MachineFacts;
use crate::modes::{MAX_SWITCHES, ModeSwitch};
use crate::modules::ModuleFacts;
use crate::problems::{self, Problem};
use crate::quantiles::{Quantiles, Rank, round_us, us};
use crate::series::{AgePart, AgeParts, Ages, EXACT_SAMPLES, HISTOGRAM_ERROR_PERCENT};
use crate::waits::{self, Wait};
use driveline_runtime::account::{CallCounters, CallEnd, CallbackCounters};
use driveline_types::{TopicId, Uncounted};
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of the file's layout; it changes when a key changes its meaning or is removed.
const FORMAT: u32 = 1;

/// Figures of one run. Durations are measured on `CLOCK_MONOTONIC`; the end of a field's name is
/// their unit: `_us`, `_ms` or `_s`. [`Quantiles`] are in microseconds; percentiles are by the
/// nearest rank, and exact unless [`Quantiles::histogram`] says otherwise.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Version of this layout.
    pub format: u32,
    /// Name of the graph.
    pub graph: String,
    /// End of the run; `None` during the run.
    pub ended: Option<Ended>,
    /// Notes of components for readers of the figures.
    pub facts: Vec<Fact>,
    /// Notes of the analysis for readers of the figures.
    pub notes: Vec<String>,
    /// The first failures of components, with topic and sequence number of the sample, if one
    /// triggered the call.
    pub failures: Vec<String>,
    /// Modules and gateways that ended unexpectedly, could not start or were not ready in time, in
    /// the order of these faults.
    pub faults: Vec<Fault>,
    /// Switches between the modes of the graph, and refused requests, in their order.
    pub modes: Vec<ModeSwitch>,
    /// Work of the graph that was not done although no call failed.
    pub problems: Vec<Problem>,
    /// Start of the run, in RFC 3339, if known.
    pub started: Option<String>,
    /// Time from the start of the first callback to the end of the last one, in seconds. If no
    /// callback was called, time that the modules ran.
    pub duration_s: f64,
    /// Machine of the run.
    pub machine: MachineFacts,
    /// Place of each module, and the resources of its container.
    pub modules: Vec<ModuleFacts>,
    /// Samples published on source topics (those of sensors), all together.
    pub frames_published: u64,
    /// Samples published by topic.
    pub published: BTreeMap<String, u64>,
    /// Samples that should have triggered a component and did not, because newer ones had replaced
    /// them: work that was not done. Sum over all subscriptions.
    pub missed_by_triggers: u64,
    /// Samples that should have triggered a component and did not reach this host.
    pub lost_by_triggers: u64,
    /// Samples that should have triggered a component, but that the component had not reported when
    /// its process was killed or crashed. They are not counted as missed.
    pub unread_by_triggers: u64,
    /// Samples that should have triggered a component and could still be read at the end;
    /// `unread_by_triggers` included.
    pub not_read_by_triggers: u64,
    /// Samples that newer ones replaced on inputs that do not trigger, before their component read
    /// the newest.
    pub superseded: u64,
    /// Samples that came while their component was inactive, summed over all inputs.
    pub inactive: u64,
    /// Every input of the components in `stages`.
    pub subscriptions: Vec<SubscriptionSummary>,
    /// Inputs and outputs that missed deadlines of their topics.
    pub deadlines: Vec<DeadlineSummary>,
    /// Reliable outputs that waited for their readers.
    pub backpressure: Vec<BlockedOutput>,
    /// Every service that a component calls or serves.
    pub services: Vec<ServiceSummary>,
    /// Every component that reported a call or a count, or whose process was killed or crashed.
    pub stages: Vec<StageSummary>,
    /// Age of sensor data when a sink's callback ends, for each sink and each source.
    pub end_to_end: Vec<EndToEnd>,
    /// The same age at the end of every other component's callback.
    pub along_the_way: Vec<EndToEnd>,
}

/// A note of a component about the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fact {
    /// The component.
    pub component: String,
    /// Subject of the note.
    pub name: String,
    /// The note, as text for people.
    pub text: String,
}

/// One input of one component.
#[derive(Clone, Debug, Serialize)]
pub struct SubscriptionSummary {
    /// The component.
    pub stage: String,
    /// Its input port.
    pub input: String,
    /// The topic.
    pub topic: String,
    /// True if its samples trigger the component. Then a missed sample is work that was not done;
    /// otherwise only the newest sample counts, and missed samples were superseded.
    pub triggers: bool,
    /// Samples that were read.
    pub received: u64,
    /// Samples that newer ones replaced before they were read.
    pub missed: u64,
    /// Samples that were dropped for their age (lifespan).
    pub expired: u64,
    /// Samples whose header, checksum or index was invalid.
    pub corrupt: u64,
    /// Samples that did not fulfil what their publisher had offered.
    pub refused: u64,
    /// Samples of other hosts that did not reach this one.
    pub lost_on_the_way: u64,
    /// Samples that were still to be read at the end, `unread` included.
    pub not_read: u64,
    /// Samples that came while the component was inactive.
    pub inactive: u64,
    /// Samples of publishers on standby.
    pub standby: u64,
    /// Publishers of other hosts for which the number of samples published after the newest
    /// received one is unknown.
    pub uncounted: u64,
    /// Reason why this number is unknown for one of the publishers in `uncounted`.
    pub uncounted_reason: Option<Uncounted>,
    /// Published samples that the component did not report, because its process was killed or
    /// crashed; 0 otherwise.
    pub unread: u64,
    /// Reason why the number of unread samples is unknown; `None` if all are counted.
    pub unknown: Option<String>,
    /// Remaining published samples, which the input did not count: those before its match, between
    /// two processes of its module, and after its process had stopped. 0 if the process was killed
    /// or crashed: then they are in `unread`.
    pub not_connected: u64,
    /// True if the independent counts of the publishers and of the input agree exactly.
    pub checked: bool,
}

/// One end of a service.
#[derive(Clone, Debug, Serialize)]
pub struct ServiceSummary {
    /// The component.
    pub stage: String,
    /// The service.
    pub service: String,
    /// End of the component: client or server.
    pub end: CallEnd,
    /// Number of calls, and their outcomes; calls without an outcome are in flight.
    #[serde(flatten)]
    pub calls: CallCounters,
}

impl ServiceSummary {
    /// Returns the number of calls that failed for another reason than a time-out: the server
    /// refused them, their other end had ended, or they were not sent.
    #[must_use]
    pub fn failed(&self) -> u64 {
        let CallCounters { refused, peer_gone, not_sent, .. } = self.calls;
        refused.saturating_add(peer_gone).saturating_add(not_sent)
    }
}

/// One component.
#[derive(Clone, Debug, Serialize)]
pub struct StageSummary {
    /// The component.
    pub stage: String,
    /// Calls of its callback and timers.
    pub runs: u64,
    /// Calls that reported an error, threw or panicked.
    pub failed: u64,
    /// Calls with events (`on_event`) that failed; they do not count as runs.
    pub failed_events: u64,
    /// From the triggering sample's publish to the start of the callback, conversions included. `n`
    /// is 0 if only a timer triggers.
    pub transmission_us: Quantiles,
    /// From the start of the callback to its end, without conversions.
    pub processing_us: Quantiles,
    /// Transmission ÷ processing; `None` if there is no transmission.
    pub transmission_to_processing: Option<Ratio>,
    /// Counters of the component's processes: calls, failed calls, and, by reason, calls not made
    /// and samples not used. `None` if they reported none.
    pub counters: Option<CallbackCounters>,
}

/// A ratio of two distributions; negative if the dividend is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Ratio of the medians.
    pub of_p50: f64,
    /// Ratio of the means.
    pub of_mean: f64,
}

impl Ratio {
    /// Returns the ratio; `None` if a median or mean of the divisor is 0 or negative, or if either
    /// has no samples.
    fn of(dividend: &Quantiles, divisor: &Quantiles) -> Option<Self> {
        let usable = dividend.n > 0 && divisor.n > 0 && divisor.p50 > 0.0 && divisor.mean > 0.0;
        let round = |r: f64| (r * 1e6).round() / 1e6;
        usable.then(|| Self {
            of_p50: round(dividend.p50 / divisor.p50),
            of_mean: round(dividend.mean / divisor.mean),
        })
    }
}

/// Age of the data of one source, at the end of one component's callback.
#[derive(Clone, Debug, Serialize)]
pub struct EndToEnd {
    /// The component.
    pub stage: String,
    /// The source topic.
    pub origin: String,
    /// From the source time of the oldest contribution to the end of the callback.
    pub age_us: Quantiles,
    /// The same from the source time of the newest contribution. If it is much lower, the component
    /// joined data of different times: one of its inputs had waited when another triggered it.
    pub newest_age_us: Quantiles,
    /// Mean parts; they add up to the mean age.
    pub mean: Split,
    /// Split of the median sample; its parts add up to the median age.
    pub p50: Split,
    /// Split of the 95th percentile's sample.
    pub p95: Split,
    /// Split of the 99th percentile's sample.
    pub p99: Split,
    /// Split of the oldest sample.
    pub max: Split,
    /// Communication ÷ computation.
    pub communication_to_computation: Option<Ratio>,
    /// Distance that the vehicle travels during the age.
    pub reaction_distance: Option<ReactionDistance>,
    /// Longest wait of the oldest data, if waiting is more than half of the mean age.
    pub longest_wait: Option<Wait>,
}

/// Parts of an age, in microseconds; they may be negative because of the clock error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Split {
    /// Time from each publish to the start of the callback that it triggered, and the time of
    /// conversions.
    pub communication_us: f64,
    /// Time in callbacks without conversions, and in the source from source time to publish.
    pub computation_us: f64,
    /// Time during which the data was available and waited for another trigger.
    pub idle_us: f64,
}

/// Distance that the vehicle travels during the latency: speed × latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReactionDistance {
    /// Speed of the vehicle.
    pub speed_kmh: f64,
    /// Metres at the median age.
    pub p50_m: f64,
    /// Metres at the 99th percentile.
    pub p99_m: f64,
    /// Metres at the largest age.
    pub max_m: f64,
}

impl Collector {
    /// Returns the figures of everything taken so far. It sorts all samples: call it once a second,
    /// not once a frame.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary::of(self)
    }
}

impl Summary {
    pub(crate) fn of(run: &Collector) -> Self {
        let (sinks, others): (Vec<_>, Vec<_>) =
            run.stages_in_order().into_iter().partition(|(name, _)| run.is_sink(name));
        let subscriptions: Vec<_> = run
            .stages_in_order()
            .into_iter()
            .flat_map(|(name, stage)| subscriptions_of(run, name, stage))
            .collect();
        let stages: Vec<_> = run
            .stages_in_order()
            .into_iter()
            .map(|(name, stage)| stage_summary(run, name, stage))
            .collect();
        let missed = |triggers| {
            let those =
                subscriptions.iter().filter(|s: &&SubscriptionSummary| s.triggers == triggers);
            those.fold(0u64, |sum, s| sum.saturating_add(s.missed))
        };
        let of_triggers = |of: fn(&SubscriptionSummary) -> u64| {
            subscriptions
                .iter()
                .filter(|s| s.triggers)
                .fold(0u64, |sum, s| sum.saturating_add(of(s)))
        };
        let (unread, not_read, lost) = (
            of_triggers(|s| s.unread),
            of_triggers(|s| s.not_read),
            of_triggers(|s| s.lost_on_the_way),
        );
        let ages = |stages: &[(&str, &StageSeries)]| {
            stages.iter().flat_map(|&(name, stage)| ages_of(run, name, stage)).collect()
        };
        Self {
            format: FORMAT,
            graph: run.facts.graph.clone(),
            ended: run.facts.ended.clone(),
            facts: facts(run),
            notes: notes(run, &subscriptions),
            failures: run.accounts.failures.clone(),
            faults: run.faults.list(),
            modes: run.modes.list(),
            problems: problems::of(run),
            started: run
                .facts
                .started_unix_s
                .and_then(|s| jiff::Timestamp::from_second(s).ok())
                .map(|t| t.to_string()),
            duration_s: run.first.map_or(run.facts.ran_s.unwrap_or_default(), |first| {
                run.last.since(first).as_secs_f64()
            }),
            machine: run.facts.machine.clone(),
            modules: run.facts.modules.clone(),
            frames_published: run
                .topics
                .iter()
                .filter(|(id, t)| run.is_source(**id, t))
                .fold(0, |sum, (&id, t)| sum.saturating_add(run.published(id, t))),
            published: run
                .topics
                .iter()
                .map(|(&id, t)| (run.topic_name(id), run.published(id, t)))
                .collect(),
            missed_by_triggers: missed(true),
            lost_by_triggers: lost,
            unread_by_triggers: unread,
            not_read_by_triggers: not_read,
            superseded: missed(false),
            inactive: subscriptions.iter().fold(0, |sum, s| sum.saturating_add(s.inactive)),
            subscriptions,
            deadlines: crate::collector::deadlines::summaries(run),
            backpressure: crate::collector::backpressure::summaries(run),
            services: services(run),
            stages,
            end_to_end: ages(&sinks),
            along_the_way: ages(&others),
        }
    }

    /// Returns explanations of ages at the sinks that are mostly waiting: a sentence for each of
    /// the three oldest.
    pub fn waits(&self) -> impl Iterator<Item = &str> {
        let mut ends: Vec<&EndToEnd> =
            self.end_to_end.iter().filter(|e| e.longest_wait.is_some()).collect();
        ends.sort_by(|a, b| b.age_us.p50.total_cmp(&a.age_us.p50));
        ends.into_iter().take(3).filter_map(|e| e.longest_wait.as_ref()).map(|w| w.text.as_str())
    }

    /// Returns a sentence about samples that caused no call although their component ran, or that a
    /// call could not read because they were too old; `None` if there were none.
    #[must_use]
    pub fn uncalled(&self) -> Option<String> {
        let counters = self.stages.iter().filter_map(|stage| stage.counters.as_ref());
        let all = counters
            .flat_map(|c| [c.skipped_missing, c.skipped_stale, c.unsynchronised, c.take_errors]);
        let (count, they) = match all.fold(0, u64::saturating_add) {
            0 => return None,
            1 => ("1 sample".to_owned(), "it"),
            n => (format!("{n} samples"), "they"),
        };
        Some(format!(
            "{count} caused no call: another input was missing or too old, or {they} could not be \
             read"
        ))
    }

    /// Returns `71 of 100 calls of lane failed`, `2 calls of lane with events failed`, for each
    /// component with failed calls.
    #[must_use]
    pub fn failed_of(&self) -> Vec<String> {
        let runs = |s: &StageSummary| {
            (s.failed > 0)
                .then(|| format!("{} of {} calls of {} failed", s.failed, s.runs, s.stage))
        };
        let events = |s: &StageSummary| {
            let calls = if s.failed_events == 1 { "call" } else { "calls" };
            (s.failed_events > 0)
                .then(|| format!("{} {calls} of {} with events failed", s.failed_events, s.stage))
        };
        self.stages.iter().flat_map(|s| [runs(s), events(s)]).flatten().collect()
    }

    /// Returns `calls with events (on_event) failed: 2 of lane`; `None` if none failed.
    #[must_use]
    pub fn failed_with_events(&self) -> Option<String> {
        let some = self.stages.iter().filter(|s| s.failed_events > 0);
        let all: Vec<_> = some.map(|s| format!("{} of {}", s.failed_events, s.stage)).collect();
        (!all.is_empty())
            .then(|| format!("calls with events (on_event) failed: {}", all.join(", ")))
    }

    /// Returns the number of failed calls of all components, calls with events included.
    #[must_use]
    pub fn failed(&self) -> u64 {
        let failed = |s: &StageSummary| s.failed.saturating_add(s.failed_events);
        self.stages.iter().fold(0, |sum, s| sum.saturating_add(failed(s)))
    }
}

fn facts(run: &Collector) -> Vec<Fact> {
    let fact = |((component, name), text): (&(String, String), &String)| Fact {
        component: component.clone(),
        name: name.clone(),
        text: text.clone(),
    };
    run.accounts.facts.iter().map(fact).collect()
}

/// Returns the services, in the order of the graph's components.
fn services(run: &Collector) -> Vec<ServiceSummary> {
    let of = |((stage, service, end), series): (&(String, String, CallEnd), &CallSeries)| {
        ServiceSummary {
            stage: stage.clone(),
            service: service.clone(),
            end: *end,
            calls: series.total(),
        }
    };
    let mut services: Vec<_> = run.accounts.services.iter().map(of).collect();
    services.sort_by_key(|s| {
        run.facts.stages.iter().position(|known| known.name == s.stage).unwrap_or(usize::MAX)
    });
    services
}

fn notes(run: &Collector, subscriptions: &[SubscriptionSummary]) -> Vec<String> {
    let mut notes = run.facts.notes.clone();
    notes.extend(run.faults.breaches());
    for s in subscriptions.iter().filter(|s| s.triggers && s.unread > 0 && s.unknown.is_none()) {
        let parts = [s.missed, s.expired, s.corrupt, s.refused, s.lost_on_the_way, s.not_read];
        let known = s.received.saturating_add(s.inactive).saturating_add(s.standby);
        let all = parts.into_iter().fold(known, u64::saturating_add);
        notes.push(format!(
            "{} of {} samples of '{}' were not read by {}: its process was killed or ended out of \
             turn. They are not among the missed.",
            s.unread, all, s.topic, s.stage
        ));
    }
    for s in subscriptions {
        if let Some(why) = &s.unknown {
            let least =
                if s.unread > 0 { format!(" (at least {})", s.unread) } else { String::new() };
            notes.push(format!(
                "How many samples of '{}' were not read by {} is not known{least}: {why}.",
                s.topic, s.stage
            ));
        }
        let series = run.stages.get(&s.stage).and_then(|stage| stage.inputs.get(&s.input));
        if series.is_some_and(|series| run.gets_again(&s.stage, &s.input, series)) {
            notes.push(format!(
                "{} may have received samples of '{}' a second time: its process was restarted, \
                 and the input is transient-local. They are counted again.",
                s.stage, s.topic
            ));
        }
        let Some(why) = s.uncounted_reason else { continue };
        let publishers = if s.uncounted == 1 {
            "1 publisher".to_owned()
        } else {
            format!("{} publishers", s.uncounted)
        };
        notes.push(format!(
            "{} of '{}': count unknown: {why}. {publishers} on other hosts may have published more \
             than is counted.",
            s.stage, s.topic
        ));
    }
    let apart: Vec<_> = subscriptions
        .iter()
        .filter(|s| s.not_connected > 0)
        .map(|s| format!("{} of '{}' by {}", s.not_connected, s.topic, s.stage))
        .collect();
    if !apart.is_empty() {
        notes.push(format!(
            "Published while their reader was not connected, before its start, during a restart, \
             or after it had stopped (modules stop in the reverse order of the graph file): {}. \
             They are not among the missed.",
            apart.join(", ")
        ));
    }
    for (component, port, text) in &run.accounts.refused {
        notes.push(format!(
            "The port '{port}' of {component} reports a connection problem: {text}."
        ));
    }
    if run.faults.beyond() > 0 {
        notes.push(format!(
            "{} more faults are not listed: only the first {MAX_FAULTS} are kept.",
            run.faults.beyond()
        ));
    }
    if run.modes.beyond() > 0 {
        notes.push(format!(
            "{} more switches of modes are not listed: only the first {MAX_SWITCHES} are kept.",
            run.modes.beyond()
        ));
    }
    if run.not_kept > 0 {
        notes.push(format!(
            "{} callbacks are in no figure: there are more components than are kept.",
            run.not_kept
        ));
    }
    let estimated: Vec<&str> = run
        .stages_in_order()
        .into_iter()
        .filter(|(_, s)| !s.processing.is_exact() || s.ages.values().any(|a| !a.is_exact()))
        .map(|(name, _)| name)
        .collect();
    if !estimated.is_empty() {
        notes.push(format!(
            "Percentiles of {} are from histograms, at most {HISTOGRAM_ERROR_PERCENT} % off: more \
             than {EXACT_SAMPLES} calls were made. Numbers, minimum, maximum and mean are exact, \
             as are all percentiles of the others.",
            estimated.join(", ")
        ));
    }
    if run.accounts.lost() > 0 {
        notes.push(format!(
            "{} callbacks are missing from all figures: the launcher read their records too \
             slowly, or was suspended.",
            run.accounts.lost()
        ));
    }
    if run.accounts.lost_others() > 0 {
        notes.push(format!(
            "{} other records of modules are missing: the launcher read them too slowly, or was \
             suspended. Counts and failures may be incomplete.",
            run.accounts.lost_others()
        ));
    }
    if run.contradictions > 0 {
        notes.push(format!(
            "{} callbacks are left out of the percentiles because their times contradict each \
             other (clocks, or a damaged header).",
            run.contradictions
        ));
    }
    if let (calls @ 1.., least_ns) = run.below_zero {
        notes.push(format!(
            "In {calls} callbacks, ages of data or parts of them are negative (the lowest: {:.3} \
             ms), because the clock of the data's source is ahead, or its offset is not known \
             more exactly. The figures contain them unchanged.",
            least_ns as f64 / 1e6
        ));
    }
    if run.clock_error_ns > 0 {
        notes.push(format!(
            "Ages of data from other hosts have an error of at most {:.3} ms: the offsets \
             between the hosts' clocks are not known more exactly.",
            run.clock_error_ns as f64 / 1e6
        ));
    }
    notes
}

/// Returns one entry for each input, also for those on which no sample came.
fn subscriptions_of(run: &Collector, name: &str, stage: &StageSeries) -> Vec<SubscriptionSummary> {
    let known = run.facts.stages.iter().find(|s| s.name == name);
    let silent = known.into_iter().flat_map(|s| &s.inputs);
    let silent = silent
        .filter(|i| !stage.inputs.contains_key(&i.name))
        .map(|i| subscription(run, name, &i.name, &InputSeries::silent(i.topic.id())));
    let seen = stage.inputs.iter().map(|(input, series)| subscription(run, name, input, series));
    seen.chain(silent).collect()
}

fn subscription(
    run: &Collector,
    name: &str,
    input: &str,
    series: &InputSeries,
) -> SubscriptionSummary {
    let c = series.counters();
    let (topic, triggers) = (run.topic_name(series.topic), run.triggers(name, input));
    let unread = run.unread(name, series);
    SubscriptionSummary {
        stage: name.to_owned(),
        input: input.to_owned(),
        topic,
        triggers,
        received: c.received,
        missed: c.replaced(),
        expired: c.expired,
        corrupt: c.corrupt,
        refused: c.refused,
        lost_on_the_way: c.lost_on_the_way,
        not_read: c.not_read.saturating_add(unread),
        inactive: c.inactive,
        standby: c.standby,
        uncounted: c.uncounted,
        uncounted_reason: c.uncounted_reason,
        unread,
        unknown: run.unknown(name, series),
        not_connected: run.not_connected(name, series),
        checked: run.is_checked(name, series),
    }
}

fn stage_summary(run: &Collector, name: &str, stage: &StageSeries) -> StageSummary {
    let (transmission_us, processing_us) =
        (stage.transmission.quantiles(), stage.processing.quantiles());
    // The component's process also counted the calls whose records were lost.
    let counters = run.accounts.counters(name);
    StageSummary {
        stage: name.to_owned(),
        runs: counters.map_or(stage.runs, |c| c.invocations.max(stage.runs)),
        failed: counters.map_or(stage.failed, |c| c.failed.max(stage.failed)),
        failed_events: counters.map_or(0, |c| c.failed_events),
        transmission_us,
        processing_us,
        transmission_to_processing: Ratio::of(&transmission_us, &processing_us),
        counters,
    }
}

fn ages_of<'a>(
    run: &'a Collector,
    name: &'a str,
    stage: &'a StageSeries,
) -> impl Iterator<Item = EndToEnd> + 'a {
    stage.ages.iter().map(move |(&origin, ages)| end_to_end(run, name, origin, ages))
}

fn end_to_end(run: &Collector, stage: &str, origin: TopicId, ages: &Ages) -> EndToEnd {
    let age_us = ages.quantiles(AgePart::Age);
    let (communication, computation, idle) = (
        ages.quantiles(AgePart::Communication),
        ages.quantiles(AgePart::Computation),
        ages.quantiles(AgePart::Idle),
    );
    let [p50, p95, p99] = ages.splits([Rank::P50, Rank::P95, Rank::P99]).map(Split::of);
    let mut figures = EndToEnd {
        stage: stage.to_owned(),
        origin: run.topic_name(origin),
        age_us,
        newest_age_us: ages.quantiles(AgePart::Newest),
        mean: Split {
            communication_us: communication.mean,
            computation_us: computation.mean,
            idle_us: idle.mean,
        },
        p50,
        p95,
        p99,
        max: Split::of(ages.max()),
        communication_to_computation: Ratio::of(&communication, &computation),
        reaction_distance: run
            .facts
            .speed_kmh
            .map(|speed_kmh| ReactionDistance::of(speed_kmh, &age_us)),
        longest_wait: None,
    };
    figures.longest_wait = waits::longest(run, stage, origin, &figures);
    figures
}

impl Split {
    fn of(parts: AgeParts) -> Self {
        Self {
            communication_us: us(parts.communication_ns),
            computation_us: us(parts.computation_ns),
            idle_us: us(parts.idle_ns),
        }
    }

    /// Returns the sum of the parts, in microseconds.
    #[must_use]
    pub fn total_us(&self) -> f64 {
        round_us(self.communication_us + self.computation_us + self.idle_us)
    }
}

impl ReactionDistance {
    fn of(speed_kmh: f64, age: &Quantiles) -> Self {
        let metres = |us: f64| (speed_kmh / 3.6 * us / 1e6 * 1e4).round() / 1e4;
        Self { speed_kmh, p50_m: metres(age.p50), p99_m: metres(age.p99), max_m: metres(age.max) }
    }
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
