// SPDX-License-Identifier: Apache-2.0
//! Modes, by real processes. The decisions themselves are tested with the state machine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod support;

use driveline_runtime::account::{InputCounters, Record};
use driveline_runtime::launch::Event;
use driveline_runtime::launch::control::{
    Ask, AskError, ComponentHealth, ComponentState, ErrorCode, ModeStatus, RunPhase, RunStatus,
    Verb,
};
use rustix::process::Signal;
use support::Seen;
use support::tool::{Tool, is_ready, process, while_running};

/// A source that is always active, and a component in a module of its own for each of three modes.
fn graph(parameters: [&str; 3], keys: &str, modes: &str) -> String {
    let [joystick, planner, brake] = parameters;
    let module = |module: &str, name: &str, parameters: &str, keys: &str| {
        format!(
            "  {module}:\n    {keys}\n    components:\n      {name}: {{library: lib, class: Modal, \
             parameters: {{{parameters}}}, inputs: {{in: {{topic: a, qos: {{depth: 64}}}}}}, \
             outputs: {{out: {name}_out}}}}\n"
        )
    };
    format!(
        "driveline: 1\nname: vehicle\ntopics:\n  a: {{reach: host, max_payload: 8}}\n{}modules:\n  \
         sensing:\n    {keys}\n    components:\n      camera: {{library: lib, class: Counter, \
         parameters: {{period_ms: 5}}, outputs: {{count: a}}}}\n{}{}{}modes:\n{modes}",
        ["joystick", "planner", "brake"]
            .map(|name| format!("  {name}_out: {{max_payload: 8, external: true}}\n"))
            .concat(),
        module("manual", "joystick", joystick, "environment: {}"),
        module("planning", "planner", planner, "restart: {policy: on_failure, backoff_ms: 1}"),
        module("safety", "brake", brake, "environment: {}"),
    )
}

const MODES: &str = "  manual: {active: [joystick], enter_within_ms: 60000}
  autonomous: {active: [planner], enter_within_ms: 60000, fallback: [safe_stop], \
               entry: {ready: [sensing], rates: {a: 1}, ages: {a: 10000}}}
  safe_stop: {active: [brake], enter_within_ms: 60000, latch: true}
";

fn mode(run: &RunStatus) -> &ModeStatus {
    run.mode.as_ref().unwrap()
}

fn component<'a>(run: &'a RunStatus, module: &str, name: &str) -> &'a ComponentHealth {
    let health = process(run, module).health.as_ref().unwrap();
    health.components.iter().find(|c| c.name == name).unwrap()
}

/// Waits until the run is in a mode and no switch is in flight.
fn settled(tool: &Tool, name: &str) -> ModeStatus {
    let run = tool.until(Verb::Mode, |run| {
        mode(run).current.as_deref() == Some(name) && mode(run).switch.is_none()
    });
    mode(&run).clone()
}

fn transitions(seen: &Seen) -> Vec<(&str, bool)> {
    let transition = |e: &'_ Event| match e {
        Event::Transition { active, error: None, .. } => Some(*active),
        _ => None,
    };
    seen.events
        .iter()
        .filter_map(|e| match e {
            Event::Transition { component, .. } => Some((component.as_str(), transition(e)?)),
            _ => None,
        })
        .collect()
}

fn counters(seen: &Seen, wanted: &str) -> InputCounters {
    let input = |record: &Record| match record {
        Record::Input { component, stats, .. } if component == wanted => Some(*stats),
        _ => None,
    };
    seen.records.iter().rev().find_map(|(_, r)| input(r)).unwrap()
}

#[test]
fn a_command_switches_components_of_all_modules_and_what_passes_them_counts_as_inactive() {
    // After three samples, the planner requests the mode `none`, which makes it inactive.
    let text = graph(["", "request_on: 3, mode: none", ""], "environment: {}", MODES)
        + "  none: {active: [], enter_within_ms: 60000}\n";
    let (seen, _) = while_running(&text, |tool| {
        tool.until(Verb::Health, is_ready);
        let m = settled(tool, "manual");
        assert_eq!((m.active.as_slice(), m.latched), (&["joystick".to_owned()][..], false));
        assert_eq!(m.names, ["manual", "autonomous", "safe_stop", "none"]);
        tool.ask(Ask::mode("autonomous")).unwrap();
        let last = settled(tool, "none").last_switch.unwrap();
        assert_eq!((last.number, last.from.as_deref()), (2, Some("autonomous")));
        assert_eq!((last.cause.as_str(), last.failed.len()), ("component 'planner'", 0));
        // A killed module would not report its last counters.
        tool.end();
    });
    assert_eq!(
        transitions(&seen),
        [("joystick", true), ("planner", true), ("joystick", false), ("planner", false)]
    );
    let [joystick, planner, brake] = ["joystick", "planner", "brake"].map(|c| counters(&seen, c));
    assert!(joystick.inactive > 0 && planner.inactive > 0, "{joystick:?} {planner:?}");
    assert_eq!((brake.received, brake.missed), (0, 0), "{brake:?}");
    assert!(brake.inactive > 0);
    let got = seen.printed("planning").iter().filter(|l| l.starts_with("planner got ")).count();
    assert_eq!(u64::try_from(got).unwrap(), planner.received);
    assert!(!seen.printed("safety").iter().any(|l| l.starts_with("brake ")), "never active");
    // The timer of an inactive component publishes nothing.
    let published = |wanted: &str| {
        let output = |r: &Record| match r {
            Record::Output { component, published, .. } if component == wanted => Some(*published),
            _ => None,
        };
        seen.records.iter().rev().find_map(|(_, r)| output(r))
    };
    assert_eq!(published("brake").unwrap_or(0), 0);
}

#[test]
fn a_mode_that_the_run_does_not_have_and_one_that_is_refused_are_errors_with_a_reason() {
    while_running(&graph(["", "", ""], "environment: {}", MODES), |tool| {
        settled(tool, "manual");
        let refused = |mode: &str| match tool.ask(Ask::mode(mode)) {
            Err(AskError::Refused { code, text }) => (code, text),
            other => panic!("{other:?}"),
        };
        let (code, text) = refused("fly");
        assert_eq!(code, ErrorCode::UnknownMode);
        assert!(text.contains("this run has: manual, autonomous, safe_stop"), "{text}");
    });
    let modes = MODES.replace("latch: true", "switched_by: [reaction]");
    while_running(&graph(["", "", ""], "environment: {}", &modes), |tool| {
        settled(tool, "manual");
        let refused = tool.ask(Ask::mode("safe_stop"));
        let Err(AskError::Refused { code: ErrorCode::Refused, text }) = refused else {
            panic!("{refused:?}")
        };
        assert!(text.contains("`switched_by`"), "{text}");
    });
}

#[test]
fn a_component_that_hangs_is_killed_and_the_fallback_is_entered() {
    // `enter_within_ms` includes the wait for the entry condition. The mode has none here, so the
    // component has all of the time.
    let modes = MODES
        .replace(
            "active: [planner], enter_within_ms: 60000",
            "active: [planner], enter_within_ms: 500",
        )
        .replace(", entry: {ready: [sensing], rates: {a: 1}, ages: {a: 10000}}", "");
    let text = graph(["", "hang_activate: 1", ""], "environment: {}", &modes);
    let (seen, _) = while_running(&text, |tool| {
        settled(tool, "manual");
        tool.ask(Ask::mode("autonomous")).unwrap();
        let m = settled(tool, "safe_stop");
        assert!(m.latched);
        let last = m.last_switch.unwrap();
        assert_eq!(last.failed.len(), 1, "{last:?}");
        tool.until(Verb::Status, |run| process(run, "planning").restarts == 1);
    });
    let death = |e: &Event| match e {
        Event::Ended { death, expected: false } => Some(death.clone()),
        _ => None,
    };
    let death = seen.events.iter().find_map(death).unwrap();
    assert_eq!(death.module, "planning");
    assert!(death.how.contains("its component 'planner' did not become active"), "{death}");
}

#[test]
fn a_suspended_module_does_not_enter_a_mode_that_the_run_has_left() {
    let modes = MODES
        .replace(
            "active: [planner], enter_within_ms: 60000",
            "active: [planner], enter_within_ms: 500",
        )
        .replace(", entry: {ready: [sensing], rates: {a: 1}, ages: {a: 10000}}", "")
        + "  patient: {active: [planner], enter_within_ms: 60000}\n";
    let text = graph(["", "", ""], "environment: {}", &modes);
    let (seen, _) = while_running(&text, |tool| {
        settled(tool, "manual");
        tool.signal("planning", Signal::STOP);
        tool.until(Verb::Status, |run| process(run, "planning").suspended);
        tool.ask(Ask::mode("autonomous")).unwrap();
        tool.until(Verb::Mode, |run| mode(run).current.as_deref() == Some("safe_stop"));
        tool.signal("planning", Signal::CONT);
        settled(tool, "safe_stop");
        tool.ask(Ask::mode("patient")).unwrap();
        settled(tool, "patient");
    });
    let activations = transitions(&seen).iter().filter(|t| **t == ("planner", true)).count();
    assert_eq!(activations, 1, "only for the second request: {:?}", transitions(&seen));
}

#[test]
fn a_component_that_fails_to_become_active_leads_to_the_fallback() {
    let text = graph(["", "fail_activate: 1", ""], "environment: {}", MODES);
    let (seen, _) = while_running(&text, |tool| {
        settled(tool, "manual");
        tool.ask(Ask::mode("autonomous")).unwrap();
        settled(tool, "safe_stop");
    });
    let failed = |e: &Event| {
        matches!(e, Event::Transition { component, active: true, error: Some(error), .. }
            if component == "planner" && error == "asked to fail")
    };
    assert!(seen.events.iter().any(failed), "{:?}", seen.events);
    assert_eq!(seen.ended().len(), 4, "no module was killed: {:?}", seen.events);
}

#[test]
fn a_component_requests_a_mode() {
    let text = graph(["request_on: 3, mode: safe_stop", "", ""], "environment: {}", MODES);
    let (seen, _) = while_running(&text, |tool| {
        let m = settled(tool, "safe_stop");
        assert_eq!(m.last_switch.unwrap().cause, "component 'joystick'");
    });
    assert_eq!(transitions(&seen), [("joystick", true), ("brake", true), ("joystick", false)]);
}

#[test]
fn a_module_that_stays_down_leads_to_the_declared_mode() {
    let keys = "restart: {policy: never, on_exhausted: {mode: safe_stop}}";
    let (seen, _) = while_running(&graph(["", "", ""], keys, MODES), |tool| {
        settled(tool, "manual");
        tool.signal("sensing", Signal::KILL);
        let m = settled(tool, "safe_stop");
        let cause = m.last_switch.unwrap().cause;
        assert!(cause.starts_with("module 'sensing', which stays down: "), "{cause}");
    });
    assert_eq!(transitions(&seen), [("joystick", true), ("brake", true), ("joystick", false)]);
}

#[test]
fn a_restarted_module_gets_the_mode() {
    let (seen, _) = while_running(&graph(["", "", ""], "environment: {}", MODES), |tool| {
        settled(tool, "manual");
        tool.ask(Ask::mode("autonomous")).unwrap();
        settled(tool, "autonomous");
        tool.signal("planning", Signal::KILL);
        // The launcher sends the mode to a ready module, which acts on it a moment later.
        tool.until(Verb::Health, |run| {
            let works = component(run, "planning", "planner").calls > 0;
            works && is_ready(run) && process(run, "planning").restarts == 1
        });
    });
    let asked = "planner is asked to be active";
    let asked = seen.printed("planning").iter().filter(|l| **l == asked).count();
    assert_eq!(asked, 2);
}

#[test]
fn a_component_of_no_mode_is_active_from_the_start_and_its_failure_ends_the_module() {
    let modes = MODES.replace("active: [planner]", "active: []");
    let text = graph(["", "", ""], "environment: {}", &modes);
    let (seen, _) = while_running(&text, |tool| {
        settled(tool, "manual");
        // A ready module calls its components a moment after the command to start.
        tool.until(Verb::Health, |run| {
            let planner = component(run, "planning", "planner");
            is_ready(run) && planner.state == ComponentState::Active
        });
    });
    assert_eq!(seen.printed("planning").first(), Some(&"planner is asked to be active"));
    let text = graph(["", "fail_activate: 1", ""], "environment: {}", &modes)
        .replace("policy: on_failure, backoff_ms: 1", "policy: never");
    let (seen, _) = while_running(&text, |tool| {
        tool.until(Verb::Status, |run| process(run, "planning").last_fault.is_some());
    });
    let failed =
        |r: &Record| matches!(r, Record::Failed { text, .. } if text.contains("asked to fail"));
    assert!(seen.records.iter().any(|(_, r)| failed(r)), "{:?}", seen.events);
}

#[test]
fn parameters_of_a_mode_reach_components_before_they_are_active_and_between_calls() {
    let set = "parameters: {planner: {request_on: 77}, joystick: {request_on: 78}}";
    let modes = MODES.replace("active: [planner], ", &format!("active: [planner], {set}, "));
    let (seen, _) = while_running(&graph(["", "", ""], "environment: {}", &modes), |tool| {
        settled(tool, "manual");
        tool.ask(Ask::mode("autonomous")).unwrap();
        settled(tool, "autonomous");
    });
    let at = |text: &str| {
        let lines = seen.printed("planning");
        lines.iter().position(|l| *l == text).unwrap_or_else(|| panic!("{text}: {lines:?}"))
    };
    assert!(at("planner has request_on 77 now") < at("planner is asked to be active"));
    let manual = seen.printed("manual");
    assert!(manual.contains(&"joystick has request_on 78 now"), "{manual:?}");
}

/// Value of a parameter as tools see it, whether it was set, and the mode that set it.
fn parameter(run: &RunStatus, component: &str, name: &str) -> (String, bool, Option<String>) {
    let all = &run.parameters.as_ref().unwrap().parameters;
    let found = all.iter().find(|p| p.component == component && p.name == name).unwrap();
    (found.value.to_string(), found.set, found.mode.clone())
}

#[test]
fn values_of_a_mode_are_shown_with_its_name_and_newer_than_what_was_set_before() {
    let set = "parameters: {planner: {request_on: 77, mode: x}, camera: {limit: 0, fail_on: 90}}";
    let refused = "parameters: {planner: {request_on: 13}}";
    let modes = MODES
        .replace("active: [planner], ", &format!("active: [planner], {set}, "))
        .replace("active: [brake], ", &format!("active: [brake], {refused}, "))
        + "  slow: {active: [planner], enter_within_ms: 60000, parameters: \
            {planner: {request_on: 78}}}\n";
    let (seen, _) = while_running(&graph(["", "", ""], "environment: {}", &modes), |tool| {
        let value = |value: &str, mode: Option<&str>| {
            (value.to_owned(), mode.is_some(), mode.map(str::to_owned))
        };
        let until = |component: &str, name: &str, wanted: &(String, bool, Option<String>)| {
            tool.until(Verb::Param, |run| parameter(run, component, name) == *wanted);
        };
        settled(tool, "manual");
        until("planner", "request_on", &value("0", None));
        tool.ask(Ask::mode("autonomous")).unwrap();
        settled(tool, "autonomous");
        until("planner", "request_on", &value("77", Some("autonomous")));
        until("planner", "mode", &value("\"x\"", Some("autonomous")));
        // The camera is active in each mode, and its module has no other component.
        until("camera", "fail_on", &value("90", Some("autonomous")));
        // The planner is active in this mode as well as in the previous one.
        tool.ask(Ask::mode("slow")).unwrap();
        settled(tool, "slow");
        until("planner", "request_on", &value("78", Some("slow")));
        // The next mode does not reset the value, and neither does a restart.
        until("camera", "fail_on", &value("90", Some("autonomous")));
        tool.signal("planning", Signal::KILL);
        tool.until(Verb::Health, |run| process(run, "planning").restarts == 1 && is_ready(run));
        until("planner", "request_on", &value("78", Some("slow")));
        // A value that the component refuses is not in effect.
        tool.ask(Ask::mode("safe_stop")).unwrap();
        settled(tool, "safe_stop");
        until("planner", "request_on", &value("78", Some("slow")));
    });
    let changes: Vec<_> = seen
        .events
        .iter()
        .filter(|e| matches!(e, Event::ParameterChanged { .. }))
        .map(ToString::to_string)
        .filter(|text| text.contains("planner.request_on"))
        .collect();
    assert_eq!(
        changes,
        [
            "parameter planner.request_on is 77 now (mode 'autonomous')",
            "parameter planner.request_on is 78 now (mode 'slow')",
            "parameter planner.request_on stays: 13 is unlucky (mode 'safe_stop')",
        ]
    );
    let planner = seen.printed("planning");
    let last = planner.iter().rev().find(|l| l.contains("request_on 7"));
    assert_eq!(last, Some(&"planner has request_on 78 now"), "{planner:?}");
}

/// Runs the graph until a reaction has led to `safe_stop`, and returns the cause of that switch.
fn safe_stop_because(text: &str, provoke: impl FnOnce(&Tool)) -> String {
    let mut cause = String::new();
    while_running(text, |tool| {
        provoke(tool);
        cause = settled(tool, "safe_stop").last_switch.unwrap().cause;
    });
    cause
}

#[test]
fn a_rate_out_of_range_leads_to_the_declared_mode() {
    let text = graph(["", "", ""], "environment: {}", MODES).replace(
        "{count: a}",
        "{count: {topic: a, rate_hz: {max: 20}, on_rate: {mode: safe_stop}}}",
    );
    let cause = safe_stop_because(&text, |_| {});
    assert!(cause.starts_with("a fault of module 'sensing': output 'count'"), "{cause}");
    assert!(cause.contains("`rate_hz: {max: 20}`"), "{cause}");
}

#[test]
fn a_missed_deadline_leads_to_the_declared_mode() {
    let text = graph(["", "", ""], "environment: {}", MODES)
        .replace(
            "a: {reach: host, max_payload: 8}",
            "a: {reach: host, max_payload: 8, qos: {deadline_ms: 100}}",
        )
        .replacen("{topic: a, qos: {depth: 64}}", "{topic: a, on_deadline: {mode: safe_stop}}", 1);
    let cause = safe_stop_because(&text, |tool| {
        // Deadlines count from the first sample on.
        tool.until(Verb::Health, |run| {
            let health = process(run, "manual").health.as_ref();
            let inputs = health.into_iter().flat_map(|h| &h.components).flat_map(|c| &c.inputs);
            inputs.filter(|i| i.port == "in").any(|i| i.samples > 0)
        });
        tool.signal("sensing", Signal::STOP);
    });
    assert!(cause.starts_with("a fault of module 'manual': input 'in' of component"), "{cause}");
    assert!(cause.contains("`deadline_ms`"), "{cause}");
}

#[test]
fn a_hang_leads_to_the_declared_mode() {
    let keys = "on_hang: {mode: safe_stop}\n    hang_ms: 300";
    let relay = "
      relay: {library: lib, class: Relay, parameters: {hang_on: 3}, \
              inputs: {in: a}, outputs: {out: r}}
";
    let text = graph(["", "", ""], keys, MODES)
        .replace("topics:\n", "topics:\n  r: {reach: host, max_payload: 8, external: true}\n")
        // The relay must not miss the number at which it hangs.
        .replace(
            "a: {reach: host, max_payload: 8}",
            "a: {reach: host, max_payload: 8, qos: {depth: 64}}",
        )
        .replace(
            "outputs: {count: a}}\n",
            &format!("outputs: {{count: a}}, executor: other}}{relay}"),
        )
        .replace(
            "    components:\n      camera",
            "    executors: {other: {threads: 1}}\n    components:\n      camera",
        );
    let cause = safe_stop_because(&text, |_| {});
    assert!(cause.starts_with("a fault of module 'sensing': component 'relay' hangs"), "{cause}");
}

#[test]
fn a_module_killed_beyond_its_restarts_leads_to_the_declared_mode() {
    let keys =
        "restart: {policy: on_failure, backoff_ms: 1, max: 2, on_exhausted: {mode: safe_stop}}";
    let cause = safe_stop_because(&graph(["", "", ""], keys, MODES), |tool| {
        for restarts in 0..3 {
            tool.until(Verb::Health, |run| {
                let camera = process(run, "sensing");
                // Before all modules are ready, its last death would be a failed start of the run.
                let runs = run.phase == RunPhase::Running;
                runs && camera.restarts == restarts && camera.ready == Some(true)
            });
            tool.signal("sensing", Signal::KILL);
        }
    });
    assert!(cause.contains("'sensing', which stays down: it was restarted 2 times"), "{cause}");
}
