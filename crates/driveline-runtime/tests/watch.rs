// SPDX-License-Identifier: Apache-2.0
//! Modules that violate limits of the graph, by real processes. The judgement itself is tested on a
//! test clock (`launch/judge_tests.rs`).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod support;

use driveline_runtime::launch::{End, Event};
use support::{Fixture, Seen, graph};

/// The graph of the other tests, with keys for module `one`, its relay, and the output of its
/// counter.
fn watched(relay: &str, one: &str, more: &[(&str, &str)]) -> Fixture {
    let mut text = graph(0, relay, "");
    text = text.replace("    restart: {on_exhausted: stop}\n", &format!("    {one}\n"));
    for (from, to) in more {
        assert!(text.contains(from), "{from} is not in\n{text}");
        text = text.replacen(from, to, 1);
    }
    Fixture::new(&text)
}

fn faults(seen: &Seen) -> Vec<(String, String)> {
    let fault = |e: &Event| match e {
        Event::Fault { module, text, reaction } => {
            Some((format!("{module}: {text}"), reaction.clone()))
        }
        _ => None,
    };
    seen.events.iter().filter_map(fault).collect()
}

#[test]
fn a_module_that_hangs_is_killed_and_started_again() {
    let f = watched("hang_on: 3", "on_hang: restart\n    hang_ms: 300", &[]);
    let mut seen = Seen { interrupt_at: Some("works again as process"), ..Seen::default() };
    let outcome = f.run(&mut seen);
    assert_eq!((outcome.end, outcome.down), (End::Interrupted, vec![]), "{:?}", seen.events);
    let (text, reaction) = faults(&seen).remove(0);
    assert!(text.starts_with("one: component 'relay' hangs: a call has not ended for "), "{text}");
    assert!(text.ends_with("(`hang_ms: 300`)") && reaction == "restart", "{text}; {reaction}");
    let killed = |e: &Event| e.to_string() == "module 'one' hangs: killed";
    assert!(seen.events.iter().any(killed), "{:?}", seen.events);
    let ended = |e: &Event| match e {
        Event::Ended { expected: false, death } => death.how.contains("relay' hangs"),
        _ => false,
    };
    assert!(seen.events.iter().any(ended), "{:?}", seen.events);
}

#[test]
fn a_call_beyond_its_budget_and_a_rate_out_of_range_are_events() {
    let f = watched(
        "take_ms: 30",
        "on_overrun: event",
        &[
            ("class: Relay,", "class: Relay, budget_ms: 10,"),
            ("outputs: {count: a}", "outputs: {count: {topic: a, rate_hz: {max: 2}}}"),
        ],
    );
    let mut seen = Seen { interrupt_at: Some("publishes at"), ..Seen::default() };
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.end, End::Interrupted, "{:?}", seen.events);
    let faults = faults(&seen);
    let found = |text: &str| faults.iter().any(|(t, r)| t.contains(text) && r == "event");
    assert!(found("component 'relay': "), "{faults:?}");
    assert!(found("`budget_ms: 10`") && found("(topic 'a', `rate_hz: {max: 2}`)"), "{faults:?}");
}

#[test]
fn an_ordered_stop_is_a_reaction_and_names_the_fault() {
    let f = watched("", "limits: {descriptors: 1}\n    on_limit: stop", &[]);
    let mut seen = Seen::default();
    let outcome = f.run(&mut seen);
    let End::Died(death) = outcome.end else { panic!("{:?}", outcome.end) };
    assert_eq!(death.module, "one");
    assert!(death.how.contains("open descriptors (`limits: descriptors: 1`)"), "{death}");
    assert!(seen.ended().contains(&"two"), "the others are stopped in order");
}

#[test]
fn a_module_that_uses_too_much_is_started_again() {
    let f = watched("", "limits: {memory: 64 KiB}\n    on_limit: restart", &[]);
    let mut seen = Seen { interrupt_at: Some("is started again in"), ..Seen::default() };
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.end, End::Interrupted, "{:?}", seen.events);
    let faults = faults(&seen);
    assert!(faults[0].0.contains("MiB of memory (`limits: memory: 64 KiB`)"), "{faults:?}");
    assert_eq!(faults[0].1, "restart");
}

#[test]
fn a_component_that_keeps_its_samples_exceeds_the_limit_of_its_module() {
    let f = watched("keep: 9", "limits: {max_held: 8}", &[]);
    let mut seen = Seen { interrupt_at: Some("limits: max_held"), ..Seen::default() };
    f.run(&mut seen);
    let (text, reaction) = faults(&seen).remove(0);
    assert!(text.starts_with("one: component 'relay' keeps "), "{text}");
    assert_eq!(reaction, "event");
}
