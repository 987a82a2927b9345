// SPDX-License-Identifier: Apache-2.0
//! Passes the records of a graph's processes to a [`Collector`].

use super::Collector;
use crate::account::KeptSeries;
use crate::deadlines::PortEnd;
use crate::records::{StageInput, StageRecord};
use driveline_runtime::account::{Call, CallbackAccount, Record};
use driveline_types::{MonotonicNs, SampleHeader};

/// Maximum number of failures whose text is kept; all are counted.
pub const MAX_FAILURES: usize = 20;
/// Maximum number of refused connections whose text is kept.
const MAX_REFUSED: usize = 20;
/// Maximum number of inputs for which it is recorded that their component held as many samples as
/// permitted.
const MAX_KEPT: usize = 1_000;
/// Maximum number of facts kept.
const MAX_FACTS: usize = 100;
/// Maximum number of service ends kept; far more than any graph has.
const MAX_SERVICES: usize = 4_000;
/// Maximum number of calls in flight kept; far more than any graph has.
const MAX_IN_CALL: usize = 2_000;

impl Collector {
    /// Takes one record of a module's stream. Records that no figure needs are skipped.
    pub fn take(&mut self, module: &str, record: &Record) {
        match record {
            Record::Callback(call) => {
                self.accounts.in_call.remove(&call.component);
                self.take_callback(call);
            }
            Record::Busy { call, .. }
            | Record::Failed { call: Some(call), .. }
            | Record::Crash { call: Some(call), .. }
                if call.call == Call::OnTrigger && self.accounts.in_call.len() < MAX_IN_CALL =>
            {
                self.accounts.in_call.insert(call.component.clone(), call.inside());
            }
            Record::Failure { component, topic, sequence, text, .. }
                if self.accounts.failures.len() < MAX_FAILURES =>
            {
                let sample = match (topic, sequence) {
                    (Some(topic), Some(sequence)) => format!(" at {topic} #{sequence}"),
                    _ => String::new(),
                };
                self.accounts.failures.push(format!("{component}{sample}: {text}"));
            }
            Record::Counters { component, stats } => {
                self.accounts.counters.insert(component.clone(), *stats);
                self.keep_stage(component);
            }
            Record::Refused { component, port, text }
                if self.accounts.refused.len() < MAX_REFUSED
                    && !self.accounts.refused.iter().any(|(_, _, known)| known == text) =>
            {
                self.accounts.refused.push((component.clone(), port.clone(), text.clone()));
            }
            Record::Held { component, input, topic, held, triggers, end } => {
                let key = (component.clone(), input.clone());
                if self.accounts.kept.len() < MAX_KEPT || self.accounts.kept.contains_key(&key) {
                    let new = || KeptSeries {
                        topic: topic.clone(),
                        held: *held,
                        triggers: *triggers,
                        times: 0,
                        last_end: None,
                        until_restart: false,
                    };
                    let series = self.accounts.kept.entry(key).or_insert_with(new);
                    (series.held, series.last_end) = (*held, *end);
                    series.until_restart = false;
                    series.times = series.times.saturating_add(u64::from(end.is_none()));
                }
            }
            Record::Fact { component, name, text } => {
                let key = (component.clone(), name.clone());
                let facts = &mut self.accounts.facts;
                if facts.len() < MAX_FACTS || facts.contains_key(&key) {
                    facts.insert(key, text.clone());
                }
            }
            Record::Input { component, input, topic, stats } => {
                self.set_subscription(component, input, *topic, *stats);
                self.accounts.deadlines.set(
                    component,
                    PortEnd::Input,
                    input,
                    *topic,
                    stats.deadlines_missed,
                );
            }
            Record::Output {
                component,
                output,
                topic,
                published,
                deadlines_missed,
                blocked,
                ..
            } => {
                self.set_published(component, output, *topic, *published);
                self.accounts.backpressure.set(component, output, *topic, *blocked);
                self.accounts.deadlines.set(
                    component,
                    PortEnd::Output,
                    output,
                    *topic,
                    *deadlines_missed,
                );
            }
            Record::Service { component, service, end, calls } => {
                let key = (component.clone(), service.clone(), *end);
                if self.accounts.services.len() < MAX_SERVICES
                    || self.accounts.services.contains_key(&key)
                {
                    self.accounts.services.entry(key).or_default().set(*calls);
                }
            }
            Record::Lost { callbacks, others } => {
                let lost = self.accounts.lost.entry(module.to_owned()).or_default();
                lost.set(*callbacks, *others);
            }
            _ => {}
        }
    }

    /// Returns true if a refused connection is listed for the component. If two components of the
    /// run report the same refusal, it is listed only for the one that reported it first.
    #[must_use]
    pub fn was_refused(&self, component: &str) -> bool {
        self.accounts.refused.iter().any(|(of, ..)| of == component)
    }

    fn take_callback(&mut self, call: &CallbackAccount) {
        // A module can send any timestamp; a timestamp in the future could make the run last for
        // centuries.
        let now = MonotonicNs::now().0;
        if call.start_ns > now
            || call.end_ns > now
            || call.inputs.iter().any(|i| i.publish_ns > now)
        {
            self.contradictions += 1;
            return;
        }
        let headers: Vec<SampleHeader> = call.inputs.iter().map(|i| i.header()).collect();
        let inputs: Vec<StageInput<'_>> = call
            .inputs
            .iter()
            .zip(&headers)
            .map(|(i, header)| StageInput {
                input: &i.input,
                topic: i.topic,
                arrival: i.arrival(),
                header,
                missed: i.missed,
                fresh: i.fresh,
            })
            .collect();
        let (start, end) = (MonotonicNs(call.start_ns), MonotonicNs(call.end_ns));
        let (conversion_ns, encoding_ns) = (call.conversion_ns, call.encoding_ns);
        self.add(&StageRecord {
            stage: &call.component,
            start,
            end,
            conversion_ns,
            encoding_ns,
            failed: call.failed,
            inputs: &inputs,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunFacts;
    use driveline_runtime::account::{CallCounters, CallEnd, CallbackCounters};
    use driveline_runtime::account::{InputAccount, OriginAccount};
    use driveline_types::TopicId;

    #[test]
    fn calls_of_a_component_that_is_started_again_count_on_top() {
        let mut run = Collector::new(RunFacts::default());
        for (calls, answered, refused) in [(4, 3, 0), (5, 4, 1), (2, 1, 0)] {
            let calls = CallCounters { calls, answered, refused, ..CallCounters::default() };
            let record = Record::Service {
                component: "asker".into(),
                service: "math/add".into(),
                end: CallEnd::Client,
                calls,
            };
            let line = serde_json::to_vec(&record).unwrap();
            run.take("one", &serde_json::from_slice(&line).unwrap());
        }
        let summary = run.summary();
        let [service] = summary.services.as_slice() else { panic!("{summary:?}") };
        assert_eq!((service.calls.calls, service.calls.answered, service.failed()), (7, 5, 1));
    }

    #[test]
    fn records_become_figures_losses_and_failures() {
        let mut run = Collector::new(RunFacts::default());
        let origin = OriginAccount {
            topic: TopicId(1),
            oldest_ns: 1_000,
            newest_ns: 1_000,
            computation_ns: 500,
            ..Default::default()
        };
        let input = InputAccount {
            input: "image".into(),
            topic: TopicId(1),
            triggered: true,
            missed: 2,
            fresh: true,
            sequence: 7,
            publish_ns: 1_500,
            clock_error_ns: 1_500_000,
            origins: vec![origin],
            ..Default::default()
        };
        let call = CallbackAccount {
            component: "lane".into(),
            start_ns: 2_000,
            end_ns: 5_000,
            conversion_ns: 1_000,
            inputs: vec![input],
            ..Default::default()
        };
        run.take("perception", &Record::Callback(call));
        let failed = CallbackAccount {
            component: "lane".into(),
            start_ns: 6_000,
            end_ns: 6_001,
            failed: true,
            ..Default::default()
        };
        run.take("perception", &Record::Callback(failed));
        for callbacks in [3, 5] {
            run.take("perception", &Record::Lost { callbacks, others: 0 });
            run.take("sensing", &Record::Lost { callbacks: 1, others: 2 });
        }
        // A new process of the module counts from 0.
        run.take("sensing", &Record::Lost { callbacks: 0, others: 1 });
        let stats = CallbackCounters { invocations: 9, skipped_stale: 4, ..Default::default() };
        run.take("perception", &Record::Counters { component: "lane".into(), stats });
        run.take(
            "perception",
            &Record::Failure {
                component: "lane".into(),
                topic: Some("image".into()),
                sequence: Some(7),
                text: "too dark".into(),
                count: 1,
            },
        );
        for text in ["not yet known", "classical"] {
            run.take(
                "perception",
                &Record::Fact {
                    component: "lane".into(),
                    name: "detector".into(),
                    text: text.into(),
                },
            );
        }
        run.take("perception", &Record::Ready);

        let s = run.summary();
        // One sample arrived and two did not. Whether earlier samples belong to this run is
        // unknown.
        assert_eq!((s.frames_published, s.missed_by_triggers), (3, 2));
        assert_eq!(
            (s.stages[0].transmission_us.p50, s.stages[0].processing_us.p50, s.stages[0].failed),
            (1.5, 2.0, 1)
        );
        assert_eq!(
            (s.end_to_end[0].max.communication_us, s.end_to_end[0].max.computation_us),
            (1.5, 2.5)
        );
        assert_eq!(s.stages[0].counters.map(|c| c.skipped_stale), Some(4));
        assert_eq!(
            (s.facts.len(), s.facts[0].text.as_str(), s.facts[0].component.as_str()),
            (1, "classical", "lane")
        );
        assert_eq!(s.failures, ["lane at image #7: too dark"]);
        let stats = CallbackCounters { invocations: 9, failed_events: 2, ..Default::default() };
        run.take("perception", &Record::Counters { component: "lane".into(), stats });
        let s = run.summary();
        assert_eq!((s.stages[0].failed, s.stages[0].failed_events, s.failed()), (1, 2, 3));
        assert_eq!(
            s.failed_of(),
            ["1 of 9 calls of lane failed", "2 calls of lane with events failed"]
        );
        assert!(crate::report::render(&run, &s).contains("<th rowspan=2>failed events"));
        assert!(s.notes.iter().any(|n| n.starts_with("6 callbacks")), "{:?}", s.notes);
        assert!(s.notes.iter().any(|n| n.starts_with("3 other records")), "{:?}", s.notes);
        assert!(
            s.notes.iter().any(|n| n.contains("other hosts have an error of at most 1.500 ms")),
            "{:?}",
            s.notes
        );
    }

    #[test]
    fn refused_connections_are_notes_each_once() {
        let mut run = Collector::default();
        let refused = |component: &str, text: &str| Record::Refused {
            component: component.into(),
            port: "image".into(),
            text: text.into(),
        };
        for record in [
            refused("lane", "types differ"),
            refused("camera", "types differ"),
            refused("lane", "types differ"),
        ] {
            run.take("m", &serde_json::from_slice(&serde_json::to_vec(&record).unwrap()).unwrap());
        }
        assert_eq!(
            run.summary().notes,
            ["The port 'image' of lane reports a connection problem: types differ."]
        );
        assert!(run.was_refused("lane") && !run.was_refused("fusion"));
        (0..1000).for_each(|i| run.take("m", &refused("lane", &i.to_string())));
        assert_eq!(run.summary().notes.len(), MAX_REFUSED);
    }

    #[test]
    fn what_has_not_happened_yet_is_no_figure() {
        let mut run = Collector::default();
        let call = |end_ns| CallbackAccount {
            component: "a".into(),
            start_ns: 1_000,
            end_ns,
            ..Default::default()
        };
        run.take("m", &Record::Callback(call(2_000)));
        for end_ns in [u64::MAX, MonotonicNs::now().0 + 3_600_000_000_000] {
            run.take("m", &Record::Callback(call(end_ns)));
        }
        let s = run.summary();
        assert_eq!((s.duration_s, s.stages[0].runs), (1e-6, 1));
        assert!(s.notes.iter().any(|n| n.starts_with("2 callbacks are left out")), "{:?}", s.notes);
    }

    #[test]
    fn known_facts_change_when_the_list_is_full() {
        let mut run = Collector::new(RunFacts::default());
        let mut fact = |name: String, text: &str| {
            let record = Record::Fact { component: "lane".into(), name, text: text.into() };
            run.take("perception", &record);
        };
        (0..=MAX_FACTS).for_each(|i| fact(format!("fact {i}"), "old"));
        fact("fact 7".into(), "new");
        let facts = run.summary().facts;
        assert_eq!(facts.len(), MAX_FACTS);
        assert!(facts.iter().any(|f| f.name == "fact 7" && f.text == "new"), "{facts:?}");
    }

    #[test]
    fn texts_of_failures_are_bounded() {
        let mut run = Collector::default();
        let failure = Record::Failure {
            component: "a".into(),
            topic: None,
            sequence: None,
            text: "b".into(),
            count: 1,
        };
        for _ in 0..1000 {
            run.take("m", &failure);
        }
        assert_eq!(run.summary().failures.len(), MAX_FAILURES);
    }
}
