// SPDX-License-Identifier: Apache-2.0
//! Takes events of modes.

use super::Collector;
use crate::modes::{ComponentTransition, ModeSwitch};
use driveline_runtime::launch::Event;
use driveline_types::MonotonicNs;

/// Maximum number of component transitions kept for a switch.
const MAX_TRANSITIONS: usize = 1_000;

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
                // `open` stays as it is, because events of the previous switch may still come.
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
            Event::ModeEntered { mode, after_ms, without, .. } => {
                if let Some(newest) = modes.newest() {
                    if !without.is_empty() {
                        newest.failed.push(format!("'{mode}': without {}", without.join(", ")));
                    }
                    newest.entered = Some(mode.clone());
                    newest.took_ms = Some(*after_ms as f64);
                }
            }
            Event::Transition { component, active, took_ms, error } => {
                // A restarted module activates its components again. These events repeat earlier
                // ones and do not belong to the switch.
                let known = |t: &ComponentTransition| {
                    (&t.stage, t.active, &t.error) == (component, *active, error)
                };
                if let Some(newest) = modes.newest()
                    && newest.transitions.len() < MAX_TRANSITIONS
                    && !newest.transitions.iter().any(known)
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
    use crate::modes::MAX_SWITCHES;

    fn entered(mode: &str) -> Event {
        Event::ModeEntered {
            from: None,
            mode: mode.into(),
            cause: "a command".into(),
            after_ms: 12,
            without: Vec::new(),
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
    fn a_mode_entered_without_a_component_is_not_shown_as_not_entered() {
        let incomplete = Event::ModeEntered {
            from: None,
            mode: "drive".into(),
            cause: "a command".into(),
            after_ms: 12,
            without: vec!["lane".into()],
        };
        let run = run(&[requested("drive"), incomplete]);
        let page = crate::report::render(&run, &run.summary());
        assert!(page.contains(">entered: ") && page.contains("without lane"), "{page}");
        assert!(!page.contains("not entered: "), "{page}");
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
            transition.clone(),
            entered("stop"),
            // After a restart of its module.
            transition,
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
