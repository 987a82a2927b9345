// SPDX-License-Identifier: Apache-2.0
//! Time that reliable outputs waited for their readers.

use driveline_runtime::account::BlockedCounters;
use driveline_types::TopicId;
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of outputs kept; far more than any graph has.
const MAX_OUTPUTS: usize = 20_000;

/// Waits of one reliable output for its readers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlockedOutput {
    /// The component.
    pub stage: String,
    /// Its output port.
    pub output: String,
    /// The topic.
    pub topic: String,
    /// Publishes that had to wait.
    pub waits: u64,
    /// Publishes in `waits` that waited `max_blocking_ms` without success.
    pub timeouts: u64,
    /// Time spent waiting, in milliseconds.
    pub blocked_ms: f64,
    /// Components of the graph with a reliable input on the topic. The output waited for one of
    /// them, or for a program outside of the graph.
    pub readers: Vec<String>,
    /// True if programs outside of the graph may subscribe to the topic.
    pub external: bool,
}

/// Counters of the outputs of a run. After a restart they begin at 0 again.
#[derive(Debug, Default)]
pub(crate) struct Backpressure(pub(crate) BTreeMap<(String, String), Series>);

#[derive(Debug, Default)]
pub(crate) struct Series {
    pub(crate) topic: TopicId,
    pub(crate) before_restart: BlockedCounters,
    pub(crate) since: BlockedCounters,
}

impl Backpressure {
    pub(crate) fn set(&mut self, stage: &str, output: &str, topic: TopicId, new: BlockedCounters) {
        let key = (stage.to_owned(), output.to_owned());
        if !self.0.contains_key(&key) && (new.waits == 0 || self.0.len() >= MAX_OUTPUTS) {
            return;
        }
        let series = self.0.entry(key).or_default();
        if new.waits < series.since.waits {
            series.before_restart = series.before_restart.and(series.since);
        }
        (series.topic, series.since) = (topic, new);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Collector, InputFacts, RunFacts, StageFacts};
    use driveline_runtime::account::{BlockedCounters, CallbackCounters, InputCounters, Record};
    use driveline_types::TopicName;

    fn topic() -> TopicName {
        "x/tick".parse().unwrap()
    }

    fn run(reliable: bool) -> Collector {
        let input = InputFacts { name: "in".into(), topic: topic(), triggers: true };
        let stages = vec![
            StageFacts { name: "slow".into(), inputs: vec![input], outputs: Vec::new() },
            StageFacts { name: "fast".into(), inputs: Vec::new(), outputs: vec![topic()] },
        ];
        let reliable = reliable.then(|| ("slow".to_owned(), "in".to_owned())).into_iter().collect();
        Collector::new(RunFacts { stages, reliable, ..RunFacts::default() })
    }

    fn publishes(run: &mut Collector, waits: u64, timeouts: u64, blocked_ns: u64) {
        let record = Record::Output {
            component: "fast".into(),
            output: "out".into(),
            topic: topic().id(),
            published: 9,
            deadlines_missed: 0,
            newest_ns: 0,
            blocked: BlockedCounters { waits, timeouts, blocked_ns },
        };
        // The form in which a module sends the record.
        let json = serde_json::to_vec(&record).unwrap();
        run.take("m", &serde_json::from_slice(&json).unwrap());
    }

    fn misses(run: &mut Collector, missed: u64) {
        let stats = InputCounters { received: 16, missed, ..InputCounters::default() };
        run.take(
            "m",
            &Record::Input {
                component: "slow".into(),
                input: "in".into(),
                topic: topic().id(),
                stats,
            },
        );
    }

    #[test]
    fn time_blocked_in_publish_stands_in_summary_and_report_over_restarts() {
        let mut run = run(true);
        publishes(&mut run, 0, 0, 0);
        assert_eq!(run.summary().blocked_in_publish(), None);
        publishes(&mut run, 40, 1, 4_000_000_000);
        publishes(&mut run, 2, 0, 250_000_000);
        let s = run.summary();
        let text = s.blocked_in_publish().unwrap();
        assert!(
            text.starts_with(
                "blocked in publish: fast 4.25 s on 'x/tick' (42 waits for slow, 1 timed out)"
            ),
            "{text}"
        );
        let json = serde_json::to_value(&s).unwrap();
        assert_eq!(json["backpressure"][0]["timeouts"], 1);
        assert_eq!(json["backpressure"][0]["readers"][0], "slow");
        run.facts_mut().external.push(topic());
        let text = run.summary().blocked_in_publish().unwrap();
        assert!(text.contains("for slow or a reader outside of the graph"), "{text}");
        run.facts_mut().external.clear();
        let page = crate::report::render(&run, &s);
        assert!(page.contains("Blocked in publish") && page.contains("<td>4\u{202f}250"), "{page}");
        let quiet = Collector::new(RunFacts::default());
        assert!(!crate::report::render(&quiet, &quiet.summary()).contains("Blocked in publish"));
    }

    #[test]
    fn a_reliable_input_that_missed_samples_is_work_not_done_and_names_the_remedy() {
        let mut run = run(true);
        publishes(&mut run, 3, 1, 100_000_000);
        misses(&mut run, 281);
        let problems = run.summary().problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        let problem = &problems[0];
        assert_eq!(
            (problem.what.as_str(), problem.topic.as_deref()),
            ("slow missed 281 of 297 samples of reliable topic 'x/tick'", Some("x/tick"))
        );
        for part in ["fast", "max_blocking_ms", "1 time", "qos.depth"] {
            assert!(problem.why.contains(part), "{part} is missing: {}", problem.why);
        }
        assert_eq!(serde_json::to_value(problem).unwrap()["kind"], "reliable_loss");
    }

    #[test]
    fn a_best_effort_input_may_miss_samples() {
        let mut run = run(false);
        misses(&mut run, 281);
        assert_eq!(run.summary().problems, []);
    }

    #[test]
    fn overruns_of_timers_are_named_with_the_ticks() {
        let mut run = run(false);
        let stats = CallbackCounters { invocations: 400, overruns: 12, ..Default::default() };
        run.take("m", &Record::Counters { component: "fast".into(), stats });
        run.keep_stage("fast");
        let text = run.summary().overruns().unwrap();
        assert!(
            text.starts_with("timer ticks without a call (overruns): fast 12 (400 calls made);"),
            "{text}"
        );
    }
}
