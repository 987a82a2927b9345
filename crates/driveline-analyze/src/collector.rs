// SPDX-License-Identifier: Apache-2.0
//! Takes records and keeps the data that the figures need, in constant memory.

mod account;
pub(crate) mod backpressure;
mod carriers;
pub(crate) mod deadlines;
mod faults;
mod modes;

pub use account::MAX_FAILURES;

use crate::account::Accounts;
use crate::facts::{InputFacts, RunFacts, StageFacts};
use crate::faults::Faults;
use crate::modes::ModeSwitches;
use crate::records::{AgeSample, Carrier, StageInput, StageRecord};
use crate::series::{Ages, Growth, Series};
use driveline_runtime::account::InputCounters;
use driveline_types::header::Arrival;
use driveline_types::{Lineage, MonotonicNs, SampleHeader, TopicId, TopicName};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of stages, of inputs of a stage, of topics and of origins of a stage: far more
/// than any graph has, and far too few to exhaust memory.
const MAX_STAGES: usize = 2_000;
const MAX_INPUTS: usize = 200;
const MAX_TOPICS: usize = 4_000;
const MAX_ORIGINS_OF_STAGE: usize = 32;

/// Takes records and counters, and creates summaries and reports of everything so far.
#[derive(Debug, Default)]
pub struct Collector {
    pub(crate) facts: RunFacts,
    pub(crate) accounts: Accounts,
    pub(crate) stages: BTreeMap<String, StageSeries>,
    pub(crate) topics: BTreeMap<TopicId, TopicSeries>,
    pub(crate) first: Option<MonotonicNs>,
    pub(crate) last: MonotonicNs,
    /// Records of callbacks that were discarded because their stage is beyond [`MAX_STAGES`].
    pub(crate) not_kept: u64,
    /// Records of callbacks whose times contradict each other or are in the future.
    pub(crate) contradictions: u64,
    /// Largest bound of the error in times of data from other hosts.
    pub(crate) clock_error_ns: u64,
    /// Stages whose process was killed or crashed. Samples that the process had not read by then
    /// were not counted as missed.
    pub(crate) cut_off: BTreeSet<String>,
    /// Number of callbacks with a negative age or part of an age, and the lowest of these values.
    pub(crate) below_zero: (u64, i64),
    /// Faults of modules and gateways, and cases in which a module exceeded a declared limit.
    pub(crate) faults: Faults,
    /// Switches between modes.
    pub(crate) modes: ModeSwitches,
}

/// Data of one stage.
#[derive(Debug, Default)]
pub(crate) struct StageSeries {
    pub(crate) runs: u64,
    pub(crate) failed: u64,
    /// Time from publish to the start of the callback, conversions included. Empty for a stage that
    /// only timers trigger.
    pub(crate) transmission: Series,
    pub(crate) processing: Series,
    pub(crate) inputs: BTreeMap<String, InputSeries>,
    /// Age at the end of the callback, by origin.
    pub(crate) ages: BTreeMap<TopicId, Ages>,
    /// Carriers of the oldest data, by origin and input.
    pub(crate) carriers: BTreeMap<(TopicId, String), Carrier>,
}

#[derive(Debug, Default)]
pub(crate) struct InputSeries {
    pub(crate) topic: TopicId,
    pub(crate) received: u64,
    pub(crate) missed: u64,
    /// The transport's own counters, if reported: they include samples that no callback saw.
    pub(crate) counted: Option<InputCounters>,
    /// The same counters from earlier processes of a restarted module.
    before_restart: InputCounters,
    /// `received` and `missed` at the time when counters were last added to `before_restart`.
    banked: (u64, u64),
    /// Sequence number of the newest sample that a callback saw.
    pub(crate) last_sequence: Option<u64>,
    /// Times of missed samples, with the count until then.
    pub(crate) misses: Growth,
}

#[derive(Debug, Default)]
pub(crate) struct TopicSeries {
    /// The newest known sequence number of the publisher's newest process.
    newest: u64,
    /// Start of that process, if it is not the first.
    restarted: MonotonicNs,
    /// Sum of the counters of processes that were replaced.
    ended: u64,
    /// The publishers' own counters, if reported, by component and output.
    publishers: BTreeMap<(String, String), PublisherSeries>,
    /// True if readers saw samples that were their own origin. `descends` is true if readers saw
    /// samples that descended from other samples.
    own_origin: bool,
    descends: bool,
}

/// Counter of a publisher. After a restart it begins at 0 again.
#[derive(Debug, Default)]
struct PublisherSeries {
    before_restart: u64,
    since: u64,
}

impl Collector {
    /// Returns an empty collector.
    #[must_use]
    pub fn new(facts: RunFacts) -> Self {
        Self { facts, ..Self::default() }
    }

    /// Returns the facts, so that the caller can add facts known only during the run, such as a
    /// remark.
    pub fn facts_mut(&mut self) -> &mut RunFacts {
        &mut self.facts
    }

    /// Takes one record. Allocates, but memory stays constant for any number of records: see
    /// [`crate::EXACT_SAMPLES`].
    pub fn add(&mut self, record: &StageRecord<'_>) {
        self.first = Some(self.first.map_or(record.start, |f| f.min(record.start)));
        self.last = self.last.max(record.end);
        self.faults.observe(record);
        if !self.stages.contains_key(record.stage) && self.stages.len() >= MAX_STAGES {
            self.not_kept += 1;
            return;
        }
        let stage = self.stages.entry(record.stage.to_owned()).or_default();
        stage.runs += 1;
        stage.failed += u64::from(record.failed);

        for input in record.inputs {
            if self.topics.len() >= MAX_TOPICS && !self.topics.contains_key(&input.topic) {
                continue;
            }
            self.clock_error_ns = self.clock_error_ns.max(input.header.clock_error_ns);
            let topic = self.topics.entry(input.topic).or_default();
            if input.header.publish_time > topic.restarted {
                topic.newest = topic.newest.max(input.header.sequence);
            }
            if input.header.origins.as_slice().iter().any(|o| o.topic == input.topic) {
                topic.own_origin = true;
            } else {
                topic.descends = true;
            }
            if stage.inputs.len() < MAX_INPUTS || stage.inputs.contains_key(input.input) {
                stage.inputs.entry(input.input.to_owned()).or_default().count(input, record.start);
            }
        }

        if record.failed {
            // A failed call has no result that could have an age, and its duration does not show
            // how long a successful call takes.
            return;
        }
        let trigger = record
            .inputs
            .iter()
            .filter(|i| i.arrival == Arrival::Triggered)
            .map(|i| i.header.publish_time)
            .max();
        let converted = record.conversion_ns.checked_add(record.encoding_ns);
        let processing_ns = record
            .end
            .0
            .checked_sub(record.start.0)
            .zip(converted)
            .and_then(|(whole, part)| whole.checked_sub(part));
        let (Some(processing_ns), true) =
            (processing_ns, trigger.is_none_or(|t| t <= record.start))
        else {
            self.contradictions += 1;
            return;
        };
        // A conversion fits between start and end, so the sum does not overflow.
        let transmission_ns =
            trigger.map(|t| (record.start.0 - t.0).saturating_add(record.conversion_ns));
        if let Some(ns) = transmission_ns {
            stage.transmission.push(ns);
        }
        stage.processing.push(processing_ns);
        let (consistent, least_ns) = stage.add_ages(record);
        if let Some(least_ns) = least_ns {
            let (calls, least) = self.below_zero;
            self.below_zero = (calls + 1, least.min(least_ns));
        }
        if consistent {
            stage.note_carriers(record);
        } else {
            self.contradictions += 1;
        }
    }

    /// Sets the number of samples that an output has published, from its own counter. A counter
    /// that falls belongs to a restarted component and is added to the earlier count. Ignored for a
    /// stage or topic beyond the bounds.
    pub fn set_published(&mut self, stage: &str, output: &str, topic: TopicId, published: u64) {
        let bounded = self.topics.len() < MAX_TOPICS || self.topics.contains_key(&topic);
        let Some(series) = bounded.then(|| self.topics.entry(topic).or_default()) else { return };
        let key = (stage.to_owned(), output.to_owned());
        if series.publishers.len() < MAX_STAGES || series.publishers.contains_key(&key) {
            let publisher = series.publishers.entry(key).or_default();
            let begins_anew = published < publisher.since;
            if begins_anew {
                publisher.before_restart = publisher.before_restart.saturating_add(publisher.since);
            }
            publisher.since = published;
            if begins_anew && series.publishers.len() == 1 {
                series.newest = 0;
            }
        }
    }

    /// Notes that a stage's process was started again at `now`: the samples of the new process are
    /// added to those of its predecessor.
    pub(crate) fn publishers_restart(&mut self, stage: &str, now: MonotonicNs) {
        let stages = &self.facts.stages;
        let publishes = |s: &StageFacts, id: TopicId| s.outputs.iter().any(|o| o.id() == id);
        for (id, topic) in &mut self.topics {
            let own = stages.iter().any(|s| s.name == stage && publishes(s, *id));
            let mut counted = topic
                .publishers
                .iter_mut()
                .filter(|((of, _), _)| of == stage)
                .map(|(_, p)| p)
                .peekable();
            if !own && counted.peek().is_none() {
                continue;
            }
            // The last counter of the old process, if any, is up to a second old; sequence numbers
            // in received samples may be newer.
            let since =
                counted.fold(0u64, |sum, p| sum.saturating_add(std::mem::take(&mut p.since)));
            let single = stages.iter().filter(|s| publishes(s, *id)).count() <= 1
                && topic.publishers.len() <= 1;
            let proven = if single { std::mem::take(&mut topic.newest) } else { 0 };
            topic.ended = topic.ended.saturating_add(since.max(proven));
            topic.restarted = now;
        }
    }

    /// Adds a stage, which is shown even if no record of a call comes.
    pub(crate) fn keep_stage(&mut self, stage: &str) {
        if self.stages.len() < MAX_STAGES {
            self.stages.entry(stage.to_owned()).or_default();
        }
    }

    /// Sets a subscription's own counters. Ignored for a stage beyond the bounds.
    pub fn set_subscription(
        &mut self,
        stage: &str,
        input: &str,
        topic: TopicId,
        counters: InputCounters,
    ) {
        if !self.stages.contains_key(stage) && self.stages.len() >= MAX_STAGES {
            return;
        }
        let stage = self.stages.entry(stage.to_owned()).or_default();
        if stage.inputs.len() < MAX_INPUTS || stage.inputs.contains_key(input) {
            let series = stage.inputs.entry(input.to_owned()).or_default();
            (series.topic, series.counted) = (topic, Some(counters));
        }
    }

    /// Notes that the process of a stage was killed or crashed, so that published samples that the
    /// process had not read are reported. Ignored for a stage that the graph does not have.
    pub fn cut_off(&mut self, stage: &str) {
        let Some(facts) = self.facts.stages.iter().find(|s| s.name == stage) else { return };
        let inputs: Vec<_> = facts.inputs.iter().map(|i| (i.name.clone(), i.topic.id())).collect();
        if self.stages.len() >= MAX_STAGES && !self.stages.contains_key(stage) {
            return;
        }
        let series = self.stages.entry(stage.to_owned()).or_default();
        for (input, topic) in inputs {
            series.inputs.entry(input).or_default().topic = topic;
        }
        self.cut_off.insert(stage.to_owned());
    }

    /// Returns the number of samples published for an input that its stage did not report in any
    /// counter, because its process was cut off; 0 if the process was not cut off.
    pub(crate) fn unread(&self, stage: &str, input: &InputSeries) -> u64 {
        let published =
            self.topics.get(&input.topic).map_or(0, |topic| self.published(input.topic, topic));
        if self.cut_off.contains(stage) { published.saturating_sub(input.heard_of()) } else { 0 }
    }

    /// Returns the number of samples that were published while an input was not connected: before
    /// its match, between two processes of its module, and after its process had stopped, if its
    /// publishers stopped later. 0 until the run has ended, and if no publisher of the run reported
    /// its count. If the input's process was cut off, the result is 0 as well: [`Self::unread`]
    /// includes these samples.
    pub(crate) fn not_connected(&self, stage: &str, input: &InputSeries) -> u64 {
        let counted = self.topics.get(&input.topic).filter(|topic| topic.is_counted());
        let known = self.facts.ended.is_some() && !self.cut_off.contains(stage);
        let published = counted.filter(|_| known).map_or(0, |t| self.published(input.topic, t));
        published.saturating_sub(input.heard_of())
    }

    /// Returns true if the publishers counted as many samples as the input, and both counts are
    /// complete. [`Self::not_connected`] does not count here: it is computed as the difference of
    /// the two counts, so with it they would always agree.
    pub(crate) fn is_checked(&self, stage: &str, input: &InputSeries) -> bool {
        let Some(topic) = self.topics.get(&input.topic) else { return false };
        let counters = input.counters();
        let known = topic.is_counted() && counters.uncounted == 0 && input.counted.is_some();
        let whole = |s: &StageFacts| {
            !s.outputs.iter().any(|o| o.id() == input.topic) || !self.cut_off.contains(&s.name)
        };
        known
            && self.facts.ended.is_some()
            && !self.cut_off.contains(stage)
            && self.facts.stages.iter().all(whole)
            && topic.counted() == counters.accounted()
    }

    /// Returns the reason why the number of unread samples of an input is unknown; `None` if it is
    /// known.
    pub(crate) fn unknown(&self, stage: &str, input: &InputSeries) -> Option<String> {
        if !self.cut_off.contains(stage) {
            return None;
        }
        let publishers =
            || self.facts.stages.iter().filter(|s| s.outputs.iter().any(|o| o.id() == input.topic));
        if publishers().next().is_none()
            || self.facts.external.iter().any(|t| t.id() == input.topic)
        {
            return Some(
                "the topic is published from outside of the run as well, by programs whose counts \
                 are not known here"
                    .to_owned(),
            );
        }
        let also = publishers().find(|s| s.name != stage && self.cut_off.contains(&s.name))?;
        Some(format!(
            "the process of {}, which publishes on the topic, was killed or ended unexpectedly, \
             too; its last count may be a second older than its end",
            also.name
        ))
    }

    /// Returns true if samples came for a component, all of them while it was inactive.
    #[must_use]
    pub fn was_inactive(&self, stage: &str) -> bool {
        let inputs = self.stages.get(stage).into_iter().flat_map(|s| s.inputs.values());
        let counters: Vec<_> = inputs.map(InputSeries::counters).collect();
        counters.iter().any(|c| c.inactive > 0) && counters.iter().all(|c| c.received == 0)
    }

    /// Returns the components that samples trigger and that were never called, in the order of the
    /// graph. Each comes with its topics on which no sample came, possibly none. Only topics that
    /// trigger it count, or all if calls were skipped because an input had no sample. A component
    /// whose module stays down is left out: the end of the module is the reason, and is reported by
    /// itself.
    #[must_use]
    pub fn never_triggered(&self) -> Vec<(&str, Vec<&TopicName>)> {
        let called = |s: &StageFacts| {
            let counted = self.accounts.counters(&s.name).is_some_and(|c| c.invocations > 0);
            counted
                || self.stages.get(&s.name).is_some_and(|x| x.runs > 0)
                || self.accounts.in_call.contains_key(&s.name)
        };
        let came = |s: &StageFacts, i: &InputFacts| {
            self.stages
                .get(&s.name)
                .and_then(|x| x.inputs.get(&i.name))
                .is_some_and(|x| x.heard_of() > 0)
        };
        let waits = self.facts.stages.iter().filter(|s| {
            !called(s) && s.inputs.iter().any(|i| i.triggers) && !self.faults.stays_down(&s.name)
        });
        waits
            .map(|s| {
                // If calls were skipped because another input had no sample, that input is the
                // missing one.
                let lacks = self.accounts.counters(&s.name).is_some_and(|c| c.skipped_missing > 0);
                let silent = s.inputs.iter().filter(|i| (i.triggers || lacks) && !came(s, i));
                (s.name.as_str(), silent.map(|i| &i.topic).collect())
            })
            .collect()
    }

    /// Returns the components whose first call was in progress at the end, in the order of the
    /// graph, each with the place in the call: `on_trigger on sample 1 of 'camera/image'`. Only
    /// calls that were reported as long, or during which the process ended, are known.
    #[must_use]
    pub fn never_returned(&self) -> Vec<(&str, &str)> {
        let returned = |s: &StageFacts| self.stages.get(&s.name).is_some_and(|x| x.runs > 0);
        let stages = self.facts.stages.iter().filter(|s| !returned(s));
        stages
            .filter_map(|s| {
                self.accounts.in_call.get(&s.name).map(|inside| (s.name.as_str(), inside.as_str()))
            })
            .collect()
    }

    /// Returns a topic's name if the graph has it, else its id.
    pub(crate) fn topic_name(&self, id: TopicId) -> String {
        let ports = self
            .facts
            .stages
            .iter()
            .flat_map(|s| s.inputs.iter().map(|i| &i.topic).chain(&s.outputs));
        ports
            .into_iter()
            .find(|t| t.id() == id)
            .map_or_else(|| format!("topic {id}"), ToString::to_string)
    }

    /// Returns the stages in the order of the graph, then the other stages, sorted by name.
    pub(crate) fn stages_in_order(&self) -> Vec<(&str, &StageSeries)> {
        let known = self.facts.stages.iter().filter_map(|s| self.stages.get_key_value(&s.name));
        let unknown = self
            .stages
            .iter()
            .filter(|(name, _)| !self.facts.stages.iter().any(|s| s.name == **name));
        known.chain(unknown).map(|(name, series)| (name.as_str(), series)).collect()
    }

    /// Returns the number of samples published on a topic: the count that its publishers report
    /// once a second, or the higher count that received sequence numbers prove. For an external
    /// topic, the result is the number of samples that its readers received or missed. Its sequence
    /// numbers are no count: they include samples from before this run, and a restarted publisher
    /// begins with 1 again.
    pub(crate) fn published(&self, id: TopicId, topic: &TopicSeries) -> u64 {
        // Programs outside of the run may publish as well, so an input may have counted more
        // samples than the publishers of the run. Such a count is used, except that of an input
        // whose restarted process may have received kept samples a second time.
        let inputs = self.stages.iter().flat_map(|(stage, s)| {
            s.inputs.iter().map(move |(input, series)| (stage.as_str(), input.as_str(), series))
        });
        let inputs = inputs.filter(|(.., series)| series.topic == id);
        if topic.is_counted() {
            let once = inputs
                .filter(|(stage, input, series)| !self.gets_again(stage, input, series))
                .map(|(.., series)| series.heard_of())
                .max();
            let before = topic.counted_before();
            // Each of several publishers has its own sequence, so the newest number is not the
            // count of all.
            let single = topic.publishers.len() <= 1;
            let proven = if single { before.saturating_add(topic.newest) } else { topic.newest };
            return topic.counted().max(proven).max(once.unwrap_or_default());
        }
        inputs.map(|(.., series)| series.heard_of()).max().unwrap_or_default()
    }

    /// Returns true if an input may count a sample twice: its process was restarted, and publishers
    /// sent their kept samples to it a second time.
    pub(crate) fn gets_again(&self, stage: &str, input: &str, series: &InputSeries) -> bool {
        let key = (stage.to_owned(), input.to_owned());
        series.began_anew() && self.facts.transient_local.contains(&key)
    }

    /// Returns true if a topic is a sensor's: a component without inputs publishes it, or its
    /// samples are their own origin. A component with inputs may publish before it has read its
    /// first sample, for example on a timer: its topic is no sensor's as soon as one of its samples
    /// descends from another.
    pub(crate) fn is_source(&self, id: TopicId, topic: &TopicSeries) -> bool {
        let mut publishers =
            self.facts.stages.iter().filter(|s| s.outputs.iter().any(|o| o.id() == id)).peekable();
        let inside = publishers.peek().is_some();
        publishers.any(|s| s.inputs.is_empty()) || topic.own_origin && !(inside && topic.descends)
    }

    /// Returns true if a missed sample on an input is work that was not done. Returns true as well
    /// for an input that the graph does not have.
    pub(crate) fn triggers(&self, stage: &str, input: &str) -> bool {
        let stage = self.facts.stages.iter().find(|s| s.name == stage);
        stage.and_then(|s| s.inputs.iter().find(|i| i.name == input)).is_none_or(|i| i.triggers)
    }

    /// Returns true if an input is reliable in the graph.
    pub(crate) fn is_reliable(&self, stage: &str, input: &str) -> bool {
        self.facts.reliable.contains(&(stage.to_owned(), input.to_owned()))
    }

    /// Returns the topics whose samples trigger a stage according to the graph.
    pub(crate) fn triggers_of(&self, stage: &str) -> impl Iterator<Item = &TopicName> {
        let facts = self.facts.stages.iter().find(|s| s.name == stage);
        facts.into_iter().flat_map(|s| s.inputs.iter().filter(|i| i.triggers).map(|i| &i.topic))
    }

    /// Returns the stage that publishes a topic according to the graph.
    pub(crate) fn publisher_of(&self, topic: TopicId) -> Option<&str> {
        self.facts
            .stages
            .iter()
            .find(|s| s.outputs.iter().any(|o| o.id() == topic))
            .map(|s| s.name.as_str())
    }

    /// Returns true if a stage has inputs, and no component in the graph reads its outputs. Without
    /// a graph, every stage may be the last.
    pub(crate) fn is_sink(&self, stage: &str) -> bool {
        let Some(facts) = self.facts.stages.iter().find(|s| s.name == stage) else {
            return self.facts.stages.is_empty();
        };
        let read = |topic: &TopicName| {
            self.facts.stages.iter().any(|s| s.inputs.iter().any(|i| i.topic == *topic))
        };
        !facts.inputs.is_empty() && !facts.outputs.iter().any(read)
    }
}

impl TopicSeries {
    /// Returns true if publishers of the run have reported their counters.
    fn is_counted(&self) -> bool {
        !self.publishers.is_empty() || self.ended > 0
    }

    /// Returns the counts of earlier processes of the publishers.
    fn counted_before(&self) -> u64 {
        self.publishers.values().fold(self.ended, |sum, p| sum.saturating_add(p.before_restart))
    }

    /// Returns the counts of the run's publishers.
    fn counted(&self) -> u64 {
        let since = |sum: u64, p: &PublisherSeries| sum.saturating_add(p.since);
        self.publishers.values().fold(self.counted_before(), since)
    }
}

impl InputSeries {
    /// Returns an input on which no sample came.
    pub(crate) fn silent(topic: TopicId) -> Self {
        Self { topic, ..Self::default() }
    }

    /// Returns true if there are counters of an earlier process.
    fn began_anew(&self) -> bool {
        self.banked != (0, 0) || self.before_restart != InputCounters::default()
    }

    /// Returns the number of samples whose outcome is known: the sum of [`Self::counters`].
    pub(crate) fn heard_of(&self) -> u64 {
        self.counters().accounted()
    }

    /// Adds up the counters of a process that has ended; the next process counts from 0. The last
    /// counters are up to a second old; records of callbacks may be newer. `not_read` is dropped,
    /// because the number of unread samples is computed from the number of published samples.
    pub(crate) fn bank(&mut self) {
        self.before_restart =
            self.before_restart.and(InputCounters { not_read: 0, ..self.since_restart() });
        self.counted = None;
        self.banked = (self.received, self.missed);
    }

    /// Returns the counters of the newest process: the transport's, raised to the counts that
    /// callbacks show.
    fn since_restart(&self) -> InputCounters {
        let seen = (
            self.received.saturating_sub(self.banked.0),
            self.missed.saturating_sub(self.banked.1),
        );
        let counted = self.counted.unwrap_or_default();
        if !self.began_anew() && self.counted.is_some() && counted.received >= seen.0 {
            return counted;
        }
        // A callback states how many samples are missing before its own, without their outcome.
        let known = counted.received.saturating_add(counted.not_read);
        let skipped = counted.accounted().saturating_sub(known);
        let received = seen.0.saturating_sub(counted.received);
        let replaced = seen.1.saturating_sub(skipped);
        let (missed, superseded) =
            if counted.superseded > 0 { (0, replaced) } else { (replaced, 0) };
        let read = received.saturating_add(replaced);
        InputCounters { not_read: counted.not_read.saturating_sub(read), ..counted }
            .and(InputCounters { received, missed, superseded, ..InputCounters::default() })
    }

    /// Returns the counters over all processes: the transport's, or those of the callbacks if the
    /// transport reported none.
    pub(crate) fn counters(&self) -> InputCounters {
        self.before_restart.and(self.since_restart())
    }

    /// Counts a sample once, however often callbacks look at it again.
    fn count(&mut self, input: &StageInput<'_>, now: MonotonicNs) {
        self.topic = input.topic;
        if !input.fresh {
            return;
        }
        self.received += 1;
        self.last_sequence = Some(input.header.sequence);
        self.missed = self.missed.saturating_add(input.missed);
        if input.missed > 0 {
            self.misses.push(now, self.missed);
        }
    }
}

impl StageSeries {
    /// Extends the ages of the inputs' data to the end of this callback. Returns false if an age
    /// cannot be extended, and the lowest negative age or part of an age, if any.
    fn add_ages(&mut self, record: &StageRecord<'_>) -> (bool, Option<i64>) {
        let mut lineage = Lineage::start(record.start);
        // Conversions count as communication, wherever in the call they were made.
        let (converted, mut until) =
            (record.conversion_ns.saturating_add(record.encoding_ns), record.start);
        for input in record.inputs {
            let published = input.header.publish_time;
            // For a sample published during the callback, only conversions after its publish belong
            // to its communication: at most the rest of the call.
            let before = MonotonicNs(record.start.0.saturating_add(
                converted.saturating_sub(record.end.0.saturating_sub(published.0)),
            ));
            if published > record.start && before > until {
                lineage.convert(until, before);
                until = before;
            }
            lineage.inherit(input.header, input.arrival);
        }
        lineage.convert(until, MonotonicNs(record.start.0.saturating_add(converted)));
        if !lineage.has_ancestors() {
            return (true, None);
        }
        let mut end = SampleHeader { publish_time: record.end, ..SampleHeader::default() };
        lineage.stamp(&mut end, TopicId::default(), None, 0);
        let (mut consistent, mut least_ns) = (true, None);
        for origin in end.origins.as_slice() {
            let Some(sample) = AgeSample::of(origin, record.end) else {
                consistent = false;
                continue;
            };
            least_ns = sample.below_zero_ns().into_iter().chain(least_ns).min();
            if self.ages.len() >= MAX_ORIGINS_OF_STAGE && !self.ages.contains_key(&origin.topic) {
                continue;
            }
            self.ages.entry(origin.topic).or_default().push(sample);
        }
        (consistent, least_ns)
    }
}
