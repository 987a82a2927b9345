// SPDX-License-Identifier: Apache-2.0
//! Modules without results during a run: the other figures alone would look normal.

use driveline_analyze::Summary;
use driveline_graph::ResolvedGraph;
use driveline_runtime::account::{Call, CallPlace, Record};
use driveline_runtime::launch::Event;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time after the last report of a long call at which the call counts as ended. A process reports a
/// long call each second.
const HOLDS: Duration = Duration::from_millis(2500);

/// Long calls, components that were refused a connection, inputs that get no samples because their
/// component holds too many, and modules and gateways that are suspended, restarting or down.
pub(super) struct Hung {
    /// Components of each module.
    modules: BTreeMap<String, Vec<String>>,
    /// Number of components that publish on each topic.
    publishers: BTreeMap<String, usize>,
    calls: BTreeMap<String, Long>,
    /// Last refusal of each component that has not been called since that refusal.
    refused: BTreeMap<String, String>,
    /// Inputs whose component holds `max_held` samples and gets no others, with the time of the
    /// report, by component and input.
    kept: BTreeMap<(String, String), (String, Instant)>,
    suspended: BTreeMap<String, (u32, Instant)>,
    /// Modules that are restarting or stay down, each with this state as part of a sentence.
    away: BTreeMap<String, String>,
}

struct Long {
    place: CallPlace,
    age: Duration,
    told: Instant,
}

impl Hung {
    pub(super) fn new(graph: &ResolvedGraph) -> Self {
        let names = |m: &driveline_graph::ResolvedModule| {
            m.components.iter().map(|c| c.name.to_string()).collect()
        };
        let mut publishers = BTreeMap::new();
        for (_, component) in graph.components() {
            component
                .outputs
                .iter()
                .for_each(|o| *publishers.entry(o.topic.to_string()).or_default() += 1);
        }
        Self {
            modules: graph.modules.iter().map(|m| (m.name.to_string(), names(m))).collect(),
            publishers,
            calls: BTreeMap::new(),
            refused: BTreeMap::new(),
            kept: BTreeMap::new(),
            suspended: BTreeMap::new(),
            away: BTreeMap::new(),
        }
    }

    /// Components of a module, in the order of the graph.
    pub(super) fn components(&self, module: &str) -> &[String] {
        self.modules.get(module).map_or(&[], Vec::as_slice)
    }

    pub(super) fn record(&mut self, record: &Record) {
        match record {
            Record::Busy { call, for_ms } if call.call != Call::Load => {
                let long = Long {
                    place: call.clone(),
                    age: Duration::from_millis(*for_ms),
                    told: Instant::now(),
                };
                self.calls.insert(call.component.clone(), long);
            }
            // The call has returned.
            Record::Callback(ended) => {
                self.calls.remove(&ended.component);
                self.refused.remove(&ended.component);
            }
            Record::Refused { component, text, .. } => {
                self.refused.insert(component.clone(), text.clone());
            }
            Record::Held { component, input, end: Some(_), .. } => {
                self.kept.remove(&(component.clone(), input.clone()));
            }
            Record::Held { component, input, topic, held, .. } => {
                let text = format!(
                    "{component} keeps {held} samples of '{topic}', which is max_held of its input \
                     '{input}', and gets no others"
                );
                self.kept.insert((component.clone(), input.clone()), (text, Instant::now()));
            }
            _ => {}
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::Suspended { module, pid } => {
                self.suspended.insert(module.clone(), (*pid, Instant::now()));
            }
            Event::Continued { module } => drop(self.suspended.remove(module)),
            Event::Ended { death, .. } => drop(self.suspended.remove(&death.module)),
            Event::Restarts { module, .. } => {
                self.away.insert(module.clone(), "is started again".into());
            }
            Event::Recovered { module, .. } => drop(self.away.remove(module)),
            Event::Down { module, why } => {
                drop(self.away.insert(module.clone(), format!("is down: {why}")))
            }
            _ => {}
        }
    }

    /// Returns the lines for users: one for each such component, input, module and gateway.
    pub(super) fn lines(&self, summary: &Summary) -> Vec<String> {
        self.lines_at(Instant::now(), summary)
    }

    fn lines_at(&self, now: Instant, summary: &Summary) -> Vec<String> {
        let suspended = self.suspended.iter().map(|(module, (pid, since))| {
            let s = (now - *since).as_secs().max(1);
            let go_on = format!("is suspended; `kill -CONT {pid}` lets it go on");
            match self.modules.get(module) {
                Some(components) => format!(
                    "no result from {} for {s} s (module '{module}' {go_on})",
                    components.join(", ")
                ),
                // A gateway has no components.
                None => format!("nothing is carried for {s} s (process '{module}' {go_on})"),
            }
        });
        let still = |component: &str| {
            !self
                .suspended
                .keys()
                .any(|m| self.modules.get(m).is_some_and(|c| c.iter().any(|c| c == component)))
        };
        let calls = self.calls.iter().filter(|(c, long)| now - long.told < HOLDS && still(c));
        let calls = calls.map(|(component, long)| {
            let s = (long.age + (now - long.told)).as_secs();
            format!(
                "no result from {component} for {s} s (in {}{})",
                long.place.inside(),
                self.newer(&long.place, summary)
            )
        });
        let refused = self
            .refused
            .iter()
            .map(|(component, text)| format!("{component} reports a connection problem: {text}"));
        let away = self.away.iter().map(|(module, what)| match self.modules.get(module) {
            Some(components) => {
                format!("no result from {} (module '{module}' {what})", components.join(", "))
            }
            None => format!("nothing is carried (process '{module}' {what})"),
        });
        let kept = self.kept.values().map(|(text, since)| match (now - *since).as_secs() {
            0 => text.clone(),
            s => format!("{text} (for {s} s)"),
        });
        away.chain(suspended).chain(calls).chain(refused).chain(kept).collect()
    }

    /// Describes how many samples were published after the sample of the call; empty if none, or if
    /// the number is unknown.
    fn newer(&self, place: &CallPlace, summary: &Summary) -> String {
        // Each publisher counts its own sequence, so with several publishers, the sequence number
        // of a sample does not show how many were published before it.
        let topic = place.topic.as_ref().filter(|t| self.publishers.get(*t) == Some(&1));
        let newer = topic
            .and_then(|t| summary.published.get(t))
            .zip(place.sequence)
            .map(|(n, at)| n.saturating_sub(at));
        newer
            .filter(|n| *n > 0)
            .map_or_else(String::new, |n| format!("; {n} newer published since, waiting or missed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_process_is_recognised_by_its_inactivity() {
        let modules = BTreeMap::from([(
            "perception".to_owned(),
            vec!["lane".to_owned(), "fusion".to_owned()],
        )]);
        let mut hung = Hung {
            modules,
            publishers: BTreeMap::new(),
            calls: BTreeMap::new(),
            refused: BTreeMap::new(),
            kept: BTreeMap::new(),
            suspended: BTreeMap::new(),
            away: BTreeMap::new(),
        };
        let suspended = |module: &str, pid| Event::Suspended { module: module.into(), pid };
        hung.event(&suspended("gateway", 41));
        hung.event(&suspended("perception", 42));
        let (since, summary) = (Instant::now(), driveline_analyze::Collector::default().summary());
        hung.suspended.values_mut().for_each(|(_, at)| *at = since);
        let now = since + Duration::from_secs(4);
        let lines = [
            "nothing is carried for 4 s (process 'gateway' is suspended; `kill -CONT 41` lets it \
             go on)",
            "no result from lane, fusion for 4 s (module 'perception' is suspended; `kill -CONT \
             42` lets it go on)",
        ];
        assert_eq!(hung.lines_at(now, &summary), lines);
        hung.event(&Event::Continued { module: "gateway".into() });
        assert_eq!(hung.lines_at(now, &summary), lines[1..]);
    }
}
