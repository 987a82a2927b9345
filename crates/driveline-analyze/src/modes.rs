// SPDX-License-Identifier: Apache-2.0
//! Switches between the modes of a run: when, from where, why, and how long each took.

use crate::collector::Collector;
use driveline_runtime::launch::Event;
use driveline_types::MonotonicNs;
use serde::Serialize;

/// Maximum number of switches that are kept; all are counted.
pub const MAX_SWITCHES: usize = 1_000;
/// Maximum number of transitions of components that a switch keeps.
const MAX_TRANSITIONS: usize = 1_000;

/// One switch to a mode that was requested.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModeSwitch {
    /// Time since the first callback of the run, in seconds.
    pub at_s: f64,
    /// The mode before; none at the start.
    pub from: Option<String>,
    /// The mode that was requested.
    pub requested: String,
    /// The mode that was entered; none if the request was refused, or the run ended before.
    pub entered: Option<String>,
    /// Source of the request, for people.
    pub cause: String,
    /// Time from the request until the components of the mode were active, in milliseconds.
    pub took_ms: Option<f64>,
    /// Modes that were not entered and why, or why the request was refused, for people.
    pub failed: Vec<String>,
    /// Components that changed, in the order in which they reported it.
    pub transitions: Vec<ComponentTransition>,
}

/// One component that became active or inactive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComponentTransition {
    /// Component.
    pub stage: String,
    /// True if it was to become active.
    pub active: bool,
    /// Duration of its call, in milliseconds.
    pub took_ms: f64,
    /// Reason of the failure.
    pub error: Option<String>,
}

/// All switches of a run.
#[derive(Debug, Default)]
pub(crate) struct ModeSwitches {
    kept: Vec<ModeSwitch>,
    /// Switches without details.
    beyond: u64,
    /// The switch that what comes belongs to, if it is kept.
    open: Option<usize>,
}

impl ModeSwitches {
    pub(crate) fn list(&self) -> Vec<ModeSwitch> {
        self.kept.clone()
    }

    pub(crate) fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Keeps a switch; its index.
    fn add(&mut self, switch: ModeSwitch) -> Option<usize> {
        if self.kept.len() == MAX_SWITCHES {
            self.beyond += 1;
            return None;
        }
        self.kept.push(switch);
        Some(self.kept.len() - 1)
    }

    fn newest(&mut self) -> Option<&mut ModeSwitch> {
        self.kept.get_mut(self.open?)
    }
}

impl Collector {
    /// Takes an event of the run that concerns its modes; others are ignored.
    pub fn mode_event(&mut self, event: &Event, at: MonotonicNs) {
        let at_s = self.first.map_or(0.0, |first| at.since(first).as_secs_f64());
        let switch = |from: Option<String>, mode: &str, cause: &str| ModeSwitch {
            at_s,
            from,
            requested: mode.to_owned(),
            entered: None,
            cause: cause.to_owned(),
            took_ms: None,
            failed: Vec::new(),
            transitions: Vec::new(),
        };
        let modes = &mut self.modes;
        match event {
            Event::ModeRequested { from, mode, cause } => {
                modes.open = modes.add(switch(from.clone(), mode, cause));
            }
            Event::ModeRefused { mode, cause, why } => {
                // What belongs to the switch before may still come.
                modes.add(ModeSwitch {
                    failed: vec![format!("refused: {why}")],
                    ..switch(None, mode, cause)
                });
            }
            Event::ModeFailed { mode, why, .. } => {
                if let Some(newest) = modes.newest() {
                    newest.failed.push(format!("'{mode}': {why}"));
                }
            }
            Event::ModeEntered { mode, after_ms, .. } => {
                if let Some(newest) = modes.newest() {
                    newest.entered = Some(mode.clone());
                    newest.took_ms = Some(*after_ms as f64);
                }
            }
            Event::Transition { component, active, took_ms, error } => {
                if let Some(newest) = modes.newest()
                    && newest.transitions.len() < MAX_TRANSITIONS
                {
                    newest.transitions.push(ComponentTransition {
                        stage: component.clone(),
                        active: *active,
                        took_ms: *took_ms as f64,
                        error: error.clone(),
                    });
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunFacts;

    fn entered(mode: &str) -> Event {
        Event::ModeEntered {
            from: None,
            mode: mode.into(),
            cause: "a command".into(),
            after_ms: 12,
        }
    }

    fn requested(mode: &str) -> Event {
        Event::ModeRequested {
            from: Some("manual".into()),
            mode: mode.into(),
            cause: "a command".into(),
        }
    }

    fn run(events: &[Event]) -> Collector {
        let mut run = Collector::new(RunFacts::default());
        events.iter().for_each(|e| run.mode_event(e, MonotonicNs(1)));
        run
    }

    #[test]
    fn a_switch_has_its_cause_its_duration_and_what_failed() {
        let transition =
            Event::Transition { component: "brake".into(), active: true, took_ms: 3, error: None };
        let run = run(&[
            requested("autonomous"),
            Event::ModeRefused {
                mode: "manual".into(),
                cause: "component 'lane'".into(),
                why: "it is latched".into(),
            },
            Event::ModeFailed {
                mode: "autonomous".into(),
                why: "'planner' failed".into(),
                next: Some("stop".into()),
            },
            transition,
            entered("stop"),
        ]);
        let summary = run.summary();
        let [switch, refused] = &summary.modes[..] else { panic!("{:?}", summary.modes) };
        assert_eq!(refused.failed, ["refused: it is latched"]);
        assert_eq!((refused.requested.as_str(), &refused.entered), ("manual", &None));
        assert_eq!(switch.requested, "autonomous");
        assert_eq!((switch.entered.as_deref(), switch.took_ms), (Some("stop"), Some(12.0)));
        assert_eq!(switch.failed, ["'autonomous': 'planner' failed"]);
        assert_eq!(switch.transitions.len(), 1);
        assert!(
            crate::report::render(&run, &summary).contains("<td>12 ms"),
            "the report has a table of switches"
        );
    }

    #[test]
    fn switches_beyond_the_limit_are_counted() {
        let events: Vec<_> =
            (0..=MAX_SWITCHES).flat_map(|_| [requested("stop"), entered("stop")]).collect();
        let summary = run(&events).summary();
        assert_eq!(summary.modes.len(), MAX_SWITCHES);
        assert!(summary.notes.iter().any(|n| n.starts_with("1 more switches of modes")));
    }
}
