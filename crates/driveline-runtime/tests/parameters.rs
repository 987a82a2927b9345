// SPDX-License-Identifier: Apache-2.0
//! Parameters that are changed while a run goes on, by real processes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod support;

use driveline_runtime::launch::Event;
use driveline_runtime::launch::control::{Ask, AskError, ChangeAsk, ChangeState, RunStatus, Verb};
use rustix::process::Signal;
use support::graph;
use support::tool::{Tool, is_ready, process, while_running};

fn set(component: &str, name: &str, value: &str) -> Ask {
    Ask::change(ChangeAsk::Parameter {
        component: component.into(),
        name: name.into(),
        value: value.into(),
    })
}

/// Returns the result of a change.
fn outcome(tool: &Tool, ask: Ask) -> ChangeState {
    let number = tool.ask(ask).unwrap().change;
    let state = |run: &RunStatus| {
        let changes = &run.parameters.as_ref().unwrap().changes;
        changes.iter().find(|c| Some(c.number) == number).unwrap().state.clone()
    };
    state(&tool.until(Verb::Param, |run| state(run) != ChangeState::Pending))
}

fn refused(tool: &Tool, ask: Ask) -> String {
    match tool.ask(ask) {
        Err(AskError::Refused { text, .. }) => text,
        other => panic!("{other:?}"),
    }
}

fn mark(tool: &Tool) -> (String, bool) {
    let all = tool.ask(Verb::Param).unwrap().parameters.unwrap().parameters;
    let mark = all.iter().find(|p| p.component == "printer" && p.name == "mark").unwrap();
    assert!(mark.live && mark.max.as_deref() == Some("99"), "{mark:?}");
    assert!(all.iter().any(|p| p.component == "relay" && p.name == "take_ms" && !p.live));
    (mark.value.to_string(), mark.set)
}

#[test]
fn what_is_declared_as_changeable_is_changed_and_survives_a_restart() {
    let text = graph(0, "", "");
    let text = text
        .replace("restart: {on_exhausted: stop}", "restart: {policy: on_failure, backoff_ms: 1}");
    let (seen, _) = while_running(&text, |tool| {
        tool.until(Verb::Health, is_ready);
        assert_eq!(mark(tool), ("1".into(), false));
        assert_eq!(outcome(tool, set("printer", "mark", "7")), ChangeState::Done);
        assert_eq!(mark(tool), ("7".into(), true));
        // The component refuses it, and the old value stays.
        let error = "13 is unlucky".to_owned();
        assert_eq!(outcome(tool, set("printer", "mark", "13")), ChangeState::Refused { error });
        assert_eq!(mark(tool), ("7".into(), true));
        for (component, name, value, why) in [
            ("printer", "mark", "100", "100 is above 99"),
            ("printer", "mark", "much", "printer.mark is an integer, as 1 is, and \"much\" is not"),
            ("printer", "hang", "1", "does not declare it as changeable"),
            ("printer", "mrak", "1", "did you mean `mark`?"),
            ("prnter", "mark", "1", "did you mean `printer`?"),
        ] {
            let text = refused(tool, set(component, name, value));
            assert!(text.contains(why), "{text}");
        }
        let log = ChangeAsk::Log { module: "one".into(), filter: "debug".into() };
        let error = "this program has no log whose level can be changed".to_owned();
        assert_eq!(outcome(tool, Ask::change(log)), ChangeState::Refused { error });
        tool.signal("one", Signal::KILL);
        tool.until(Verb::Health, |run| process(run, "one").restarts == 1 && is_ready(run));
        assert_eq!(mark(tool), ("7".into(), true));
        assert_eq!(outcome(tool, set("printer", "mark", "8")), ChangeState::Done);
    });
    let of_mark = |l: &&&str| l.contains("mark");
    let printed = seen.printed("one");
    let told: Vec<_> = printed.iter().filter(of_mark).copied().collect();
    assert_eq!(
        told,
        ["printer has mark 7 now", "printer has mark 7 now", "printer has mark 8 now"],
        "the restarted process gets it before its callbacks"
    );
    let events: Vec<_> = seen
        .events
        .iter()
        .filter(|e| matches!(e, Event::ParameterChanged { .. }))
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        events,
        [
            "parameter printer.mark is 7 now",
            "parameter printer.mark stays: 13 is unlucky",
            "parameter printer.mark is 8 now"
        ]
    );
}
