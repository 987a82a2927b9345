// SPDX-License-Identifier: Apache-2.0
//! Deadlines of topics that inputs and outputs missed.

use driveline_types::TopicId;
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of ports kept; far more than any graph has.
const MAX_PORTS: usize = 20_000;

/// The kind of port that has the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PortEnd {
    /// The offered deadlines of an output.
    Output,
    /// The requested deadlines of an input.
    Input,
}

/// Deadlines that one port missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadlineSummary {
    /// The component.
    pub stage: String,
    /// The port.
    pub port: String,
    /// Input or output.
    pub end: PortEnd,
    /// The topic.
    pub topic: String,
    /// Periods of its deadline that ended without a sample.
    pub missed: u64,
}

/// Counters of a run's ports. After a restart they begin at 0 again.
#[derive(Debug, Default)]
pub(crate) struct Deadlines(pub(crate) BTreeMap<(String, PortEnd, String), Series>);

#[derive(Debug, Default)]
pub(crate) struct Series {
    pub(crate) topic: TopicId,
    pub(crate) before_restart: u64,
    pub(crate) since: u64,
}

impl Deadlines {
    pub(crate) fn set(
        &mut self,
        stage: &str,
        end: PortEnd,
        port: &str,
        topic: TopicId,
        missed: u64,
    ) {
        let key = (stage.to_owned(), end, port.to_owned());
        if !self.0.contains_key(&key) && (missed == 0 || self.0.len() >= MAX_PORTS) {
            return;
        }
        let series = self.0.entry(key).or_default();
        if missed < series.since {
            series.before_restart = series.before_restart.saturating_add(series.since);
        }
        (series.topic, series.since) = (topic, missed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Collector, InputFacts, RunFacts, StageFacts};
    use driveline_runtime::account::{InputCounters, Record};
    use driveline_types::TopicName;

    #[test]
    fn both_ends_stand_in_summary_and_report_over_restarts() {
        let topic: TopicName = "x/tick".parse().unwrap();
        let input = InputFacts { name: "in".into(), topic: topic.clone(), triggers: true };
        let stages = vec![
            StageFacts { name: "slow".into(), inputs: vec![input], outputs: Vec::new() },
            StageFacts { name: "fast".into(), inputs: Vec::new(), outputs: vec![topic.clone()] },
        ];
        let mut run = Collector::new(RunFacts { stages, ..RunFacts::default() });
        let mut take = |record: &Record| {
            run.take("m", &serde_json::from_slice(&serde_json::to_vec(record).unwrap()).unwrap())
        };
        for missed in [0, 900, 1200, 8] {
            let (component, output, topic) = ("fast".into(), "out".into(), topic.id());
            take(&Record::Output {
                component,
                output,
                topic,
                published: 1,
                deadlines_missed: missed,
                newest_ns: 0,
                blocked: Default::default(),
            });
        }
        for deadlines_missed in [0, 5, 321] {
            let stats = InputCounters { deadlines_missed, ..InputCounters::default() };
            assert_eq!(stats.accounted(), 0, "they are no samples");
            take(&Record::Input {
                component: "slow".into(),
                input: "in".into(),
                topic: topic.id(),
                stats,
            });
        }
        let s = run.summary();
        let missed: Vec<_> =
            s.deadlines.iter().map(|d| (d.stage.as_str(), d.end, d.missed)).collect();
        assert_eq!(missed, [("slow", PortEnd::Input, 321), ("fast", PortEnd::Output, 1208)]);
        let text = "deadlines missed: 1208 by output fast.out (topic 'x/tick'), 321 by input \
                    slow.in (topic 'x/tick')";
        assert_eq!(s.missed_deadlines().unwrap(), text);
        let json = serde_json::to_value(&s).unwrap();
        let fast = serde_json::json!(
            { "stage": "fast", "port": "out", "end": "output", "topic": "x/tick", "missed": 1208 }
        );
        assert_eq!(json["deadlines"][1], fast);
        let page = crate::report::render(&run, &s);
        assert!(
            page.contains("Missed deadlines")
                && page.contains("<th>out</th><th>output</th><th>x/tick</th>"),
            "{page}"
        );
        let quiet = Collector::new(RunFacts::default());
        assert!(!crate::report::render(&quiet, &quiet.summary()).contains("Missed deadlines"));
    }
}
