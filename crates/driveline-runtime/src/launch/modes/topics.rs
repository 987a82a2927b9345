// SPDX-License-Identifier: Apache-2.0
//! Rates and ages of the topics that entry conditions name, from the counters of the modules.

use crate::account::Record;
use driveline_graph::{ResolvedMode, ResolvedModes};
use driveline_types::{MonotonicNs, TopicId, TopicName};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Time over which a rate is counted.
const WINDOW: Duration = Duration::from_secs(1);
/// Time within which a report of an output's changed counters comes, even on a busy machine. The
/// usual period is 100 ms.
const REPORTED_WITHIN: Duration = Duration::from_millis(300);
/// Minimum time between two entries of a history, which bounds its length: if many outputs publish
/// a topic, many more reports come, ten a second of each output.
const STEP: Duration = Duration::from_millis(30);

/// State of one topic.
#[derive(Debug, Default)]
struct Topic {
    /// Counter of each output, by component and port.
    outputs: BTreeMap<(String, String), u64>,
    /// Samples of all outputs so far.
    published: u64,
    newest: Option<MonotonicNs>,
    /// Times of reports, at least [`STEP`] apart, with `published` at that time. Only the first one
    /// may be older than [`WINDOW`] plus [`REPORTED_WITHIN`].
    history: VecDeque<(MonotonicNs, u64)>,
    /// Time of the last report.
    reported: Option<MonotonicNs>,
}

impl Topic {
    /// Returns the number of samples in the last second or a little more, and the time in seconds.
    fn counted(&self, now: MonotonicNs) -> (u64, f64) {
        // Up to the last report: the samples since then are not known yet.
        let recent = self.reported.filter(|at| now.since(*at) <= REPORTED_WITHIN);
        let end = recent.unwrap_or(now);
        let from = MonotonicNs(end.0.saturating_sub(WINDOW.as_nanos() as u64));
        let before = self.history.iter().rev().find(|(at, _)| *at <= from);
        let before = before.or(self.history.front());
        let Some((at, count)) = before else { return (0, 1.0) };
        let time = end.since(*at).as_secs_f64().max(WINDOW.as_secs_f64());
        (self.published - count, time)
    }

    fn age(&self, now: MonotonicNs) -> Option<Duration> {
        self.newest.map(|at| now.since(at))
    }
}

/// The topics of all conditions.
#[derive(Debug, Default)]
pub(super) struct Topics {
    by_id: BTreeMap<TopicId, Topic>,
}

impl Topics {
    pub(super) fn new(modes: &ResolvedModes) -> Self {
        let named = modes
            .modes
            .iter()
            .flat_map(|m| m.rates.iter().map(|(t, _)| t).chain(m.ages.iter().map(|(t, _)| t)));
        Self { by_id: named.map(|t| (t.id(), Topic::default())).collect() }
    }

    pub(super) fn observe(&mut self, record: &Record, now: MonotonicNs) {
        let Record::Output { component, output, topic, published, newest_ns, .. } = record else {
            return;
        };
        let Some(topic) = self.by_id.get_mut(topic) else { return };
        let key = (component.clone(), output.clone());
        let before = topic.outputs.insert(key, *published).unwrap_or(0);
        topic.published += published.saturating_sub(before);
        topic.reported = Some(now);
        let newest = Some(MonotonicNs(*newest_ns)).filter(|at| at.0 != 0);
        topic.newest = topic.newest.max(newest);
        if topic.history.back().is_none_or(|(at, _)| now.since(*at) >= STEP) {
            topic.history.push_back((now, topic.published));
        }
        while topic.history.get(1).is_some_and(|(at, _)| now.since(*at) > WINDOW + REPORTED_WITHIN)
        {
            topic.history.pop_front();
        }
    }

    pub(super) fn restarted(&mut self, components: &[&str]) {
        for topic in self.by_id.values_mut() {
            topic.outputs.retain(|(component, _), _| !components.contains(&component.as_str()));
        }
    }

    /// Returns true if rates and ages of a mode's condition hold.
    pub(super) fn met(&self, mode: &ResolvedMode, now: MonotonicNs) -> bool {
        self.unmet(mode, now).next().is_none()
    }

    /// Returns the parts of the condition that do not hold, for people.
    pub(super) fn unmet<'s>(
        &'s self,
        mode: &'s ResolvedMode,
        now: MonotonicNs,
    ) -> impl Iterator<Item = String> + 's {
        let topic = |name: &TopicName| self.by_id.get(&name.id());
        let slow = mode.rates.iter().filter_map(move |(name, wanted)| {
            let (count, time) = topic(name).map_or((0, 1.0), |t| t.counted(now));
            // At exactly the wanted rate, the time may contain one sample less.
            let least = wanted * time - 1.0;
            let rate = count as f64 / time;
            (count == 0 || (count as f64) < least)
                .then(|| format!("topic '{name}' has {rate:.1} samples/s, not {wanted}"))
        });
        let topic = |name: &TopicName| self.by_id.get(&name.id());
        let old = mode.ages.iter().filter_map(move |(name, most)| {
            let age = topic(name).and_then(|t| t.age(now));
            match age {
                Some(age) if age <= *most => None,
                Some(age) => Some(format!(
                    "the newest sample of '{name}' is {} ms old, more than {} ms",
                    age.as_millis(),
                    most.as_millis()
                )),
                None => Some(format!("topic '{name}' has no sample")),
            }
        });
        slow.chain(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn name() -> TopicName {
        "camera/image".parse().unwrap()
    }

    fn mode(hz: f64, age_ms: u64) -> ResolvedMode {
        ResolvedMode {
            name: "drive".into(),
            active: Vec::new(),
            parameters: BTreeMap::new(),
            ready: Vec::new(),
            rates: vec![(name(), hz)],
            ages: vec![(name(), Duration::from_millis(age_ms))],
            enter_within: WINDOW,
            fallback: Vec::new(),
            latch: false,
            min_dwell: Duration::ZERO,
            switched_by: None,
            order: driveline_graph::ModeOrder::default(),
        }
    }

    fn topics() -> Topics {
        Topics::new(&ResolvedModes { initial: 0, modes: vec![mode(20.0, 50)] })
    }

    fn report(topics: &mut Topics, at_ms: u64, published: u64) {
        report_of(topics, "camera", at_ms, published);
    }

    fn report_of(topics: &mut Topics, component: &str, at_ms: u64, published: u64) {
        let record = Record::Output {
            component: component.into(),
            output: "image".into(),
            topic: name().id(),
            published,
            deadlines_missed: 0,
            blocked: Default::default(),
            newest_ns: at_ms * MS,
        };
        topics.observe(&record, MonotonicNs(at_ms * MS));
    }

    fn met(topics: &Topics, at_ms: u64) -> bool {
        topics.met(&mode(20.0, 50), MonotonicNs(at_ms * MS))
    }

    #[test]
    fn a_rate_holds_after_a_second_and_fails_after_a_silence() {
        let mut t = topics();
        assert!(!met(&t, 1000));
        for i in 0..=15 {
            report(&mut t, 1000 + i * 100, i * 2 + i / 2);
        }
        assert!(met(&t, 2500), "{t:?}");
        assert!(!met(&t, 2551), "the newest sample is too old");
        let unmet: Vec<_> = t.unmet(&mode(20.0, 5000), MonotonicNs(3400 * MS)).collect();
        assert_eq!(unmet.len(), 1, "{unmet:?}");
        assert!(unmet[0].starts_with("topic 'camera/image' has "), "{unmet:?}");
    }

    #[test]
    fn a_steady_rate_is_counted_exactly_between_two_reports() {
        let mut t = topics();
        for i in 0..=30 {
            // 50 samples a second, reported ten times.
            report(&mut t, 1000 + i * 100 + i % 3, i * 5);
        }
        for late_ms in [0, 50, 99, 250] {
            let at = MonotonicNs((4000 + late_ms) * MS);
            assert!(t.met(&mode(50.0, 5000), at), "{late_ms} ms after the last report");
            assert!(!t.met(&mode(52.5, 5000), at), "{late_ms} ms after the last report");
        }
    }

    #[test]
    fn many_outputs_of_a_topic_add_up() {
        // 100 outputs with ten samples a second each, reported one after the other.
        let mut t = topics();
        for tenth in 0..=50 {
            for output in 0..100 {
                let at_ms = 1000 + tenth * 100 + output;
                report_of(&mut t, &format!("camera_{output}"), at_ms, tenth);
            }
        }
        let topic = &t.by_id[&name().id()];
        let (count, time) = topic.counted(MonotonicNs(6100 * MS));
        let rate = count as f64 / time;
        assert!((950.0..=1050.0).contains(&rate), "{rate}");
        assert!(topic.history.len() < 60, "{}", topic.history.len());
    }

    #[test]
    fn a_rate_is_not_met_by_one_report() {
        let mut t = topics();
        report(&mut t, 1000, 50);
        assert!(!met(&t, 1000), "published before the launcher counted");
    }

    #[test]
    fn counters_of_a_restarted_module_begin_again() {
        let mut t = topics();
        report(&mut t, 1000, 1000);
        t.restarted(&["camera"]);
        report(&mut t, 1100, 3);
        assert_eq!(t.by_id[&name().id()].published, 1003);
    }
}
