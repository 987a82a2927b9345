// SPDX-License-Identifier: Apache-2.0
//! Modules that end while others run, by real processes. The decisions themselves are tested with
//! the state machine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod support;

use driveline::{Context, ContextOptions, Reach, SubscriptionOptions};
use driveline_runtime::account::Record;
use driveline_runtime::launch::{End, Event};
use driveline_types::Schema;
use std::time::{Duration, Instant};
use support::{Fixture, GRACE, Seen, graph, script};

/// The graph of the other tests, with other keys for module `one` and for module `two`.
fn supervised(relay: &str, one: &str, two: &str) -> Fixture {
    let text = graph(0, relay, "");
    let text = text.replace("    restart: {on_exhausted: stop}\n", &format!("    {one}\n"));
    Fixture::new(&text.replace("  two:\n", &format!("  two:\n    {two}\n")))
}

fn spawned(seen: &Seen, module: &str) -> usize {
    seen.events
        .iter()
        .filter(|e| matches!(e, Event::Spawned { module: m, .. } if m == module))
        .count()
}

fn place(seen: &Seen, wanted: impl Fn(&Event) -> bool) -> usize {
    seen.events.iter().position(wanted).unwrap_or_else(|| panic!("{:?}", seen.events))
}

#[test]
fn without_keys_the_others_go_on_and_the_run_names_what_is_down() {
    let f = supervised("", "restart: {}", "environment: {}");
    let mut seen = Seen {
        kill_at: Some("printer got 2"),
        interrupt_at: Some("'one' stays down"),
        ..Seen::default()
    };
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.end, End::Interrupted, "{:?}", seen.events);
    assert_eq!(outcome.down.len(), 1);
    assert_eq!(outcome.down[0].module, "one");
    assert!(
        outcome.down[0].death.as_ref().is_some_and(|d| d.how.contains("SIGKILL")),
        "{:?}",
        outcome.down
    );
    assert_eq!(seen.ended(), ["one", "two"]);
    assert_eq!((spawned(&seen, "one"), spawned(&seen, "two")), (1, 1));
}

#[test]
fn a_run_ends_when_none_of_its_modules_is_left() {
    let f = supervised("", "restart: {}", "environment: {}");
    let mut f = f;
    f.options.modules = Some(vec!["one".into()]);
    let mut seen = Seen { kill_at: Some("printer got 2"), ..Seen::default() };
    let outcome = f.run(&mut seen);
    assert!(matches!(&outcome.end, End::Died(death) if death.module == "one"), "{:?}", outcome.end);
}

#[test]
fn a_killed_module_is_started_again_and_works_while_the_others_go_on() {
    let f = supervised("", "restart: {policy: on_failure, backoff_ms: 1}", "environment: {}");
    let mut seen = Seen {
        kill_at: Some("printer got 2"),
        interrupt_at: Some("works again as process"),
        ..Seen::default()
    };
    let outcome = f.run(&mut seen);
    assert_eq!(
        (outcome.end, outcome.down, outcome.killed),
        (End::Interrupted, vec![], vec![]),
        "{:?}",
        seen.events
    );
    assert_eq!((spawned(&seen, "one"), spawned(&seen, "two")), (2, 1));
    let ended = place(
        &seen,
        |e| matches!(e, Event::Ended { expected: false, death } if death.module == "one"),
    );
    let restarts = place(&seen, |e| *e == Event::Restarts { module: "one".into(), after_ms: 1 });
    let recovered =
        place(&seen, |e| matches!(e, Event::Recovered { module, .. } if module == "one"));
    assert!(ended < restarts && restarts < recovered);
    assert!(
        seen.printed("one").iter().filter(|l| **l == "printer is ready").count() == 2,
        "{:?}",
        seen.lines
    );
}

const FEW_PINS: &str = "\
driveline: 1
name: few pins
topics:
  number: {reach: host, max_payload: 8, pins: 2}
modules:
  one:
    restart: {policy: on_failure, backoff_ms: 1}
    components:
      printer: {library: lib, class: Printer, inputs: {count: number}}
  two:
    components:
      counter:
        library: lib
        class: Counter
        parameters: {limit: 0, period_ms: 5}
        outputs: {count: number}
";

#[test]
fn a_restarted_module_whose_connection_does_not_come_back_is_named_with_the_reason() {
    let mut f = Fixture::new(FEW_PINS);
    // Longer than the first match may take: a connection that never existed would be reported
    // without the words "since a restart".
    f.options.matched_within = Duration::from_secs(3);
    let domain_dir = Some(f.options.domain_dir.clone());
    // Another program takes the pins while the module is down.
    let mut outside = None;
    let on_event = move |event: &Event| {
        if !matches!(event, Event::Ended { .. }) || outside.is_some() {
            return;
        }
        let options = ContextOptions { name: "outside".into(), domain_dir: domain_dir.clone() };
        let node = Context::new(options).unwrap().node("outside").unwrap();
        let options = SubscriptionOptions { reach: Reach::Host, max_held: 2, ..Default::default() };
        let schema = Schema::bytes("demo/Count", "u64-le", "");
        let subscription = node.raw_subscription("number", schema, options).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while subscription.matched() == 0 {
            assert!(Instant::now() < end, "it gets no pins");
            // time: a pause between two looks.
            std::thread::sleep(Duration::from_millis(1));
        }
        outside = Some((node, subscription));
    };
    let mut seen = Seen {
        kill_at: Some("printer got 2"),
        interrupt_at: Some("does not receive from 'counter', since a restart: "),
        on_event: Some(Box::new(on_event)),
        ..Seen::default()
    };
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.end, End::Interrupted);
    let [edge] = outcome.unconnected.as_slice() else { panic!("{outcome:?}") };
    assert!(edge.since_restart && edge.why.contains("pins"), "{edge}");
}

#[test]
fn a_restarted_module_that_is_suspended_is_not_reported_as_not_connected() {
    let mut f = Fixture::new(
        "driveline: 1\nname: demo\ntopics:\n  number: {reach: host, max_payload: 8}\nmodules:\n  \
         one:\n    restart: {policy: on_failure, backoff_ms: 1}\n    components:\n      counter: \
         {library: lib, class: Counter, parameters: {limit: 0, period_ms: 5}, outputs: {count: \
         number}}\n  two:\n    components:\n      printer: {library: lib, class: Printer, inputs: \
         {count: number}}\n",
    );
    // The launcher checks the connections of a restarted module the next time that it looks for
    // missing ones, at the latest when the run stops.
    f.options.matched_within = Duration::ZERO;
    let mut seen = Seen {
        kill_at: Some("printer got 2"),
        stop_at: Some("works again as process"),
        stops: "one",
        interrupt_at: Some("is suspended"),
        ..Seen::default()
    };
    let outcome = f.run(&mut seen);
    assert_eq!((outcome.end, outcome.suspended), (End::Interrupted, vec!["one".to_owned()]));
    assert_eq!(outcome.unconnected, [], "{:?}", seen.events);
}

#[test]
fn a_module_that_crashes_again_and_again_stays_down_after_its_limit() {
    let f = supervised(
        "abort_on: 3",
        "restart: {policy: on_failure, backoff_ms: 1, max: 2}",
        "environment: {}",
    );
    let mut seen = Seen {
        interrupt_at: Some("'one' stays down: it was restarted 2 times within 60 s"),
        ..Seen::default()
    };
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.end, End::Interrupted);
    assert_eq!(spawned(&seen, "one"), 3);
    let death = outcome.down[0].death.as_ref().unwrap();
    assert_eq!(
        death.cause.as_deref(),
        Some("in component 'relay' in on_trigger on sample 3 of 'a'")
    );
}

#[test]
fn an_exhausted_module_ends_the_run_where_the_graph_says_so() {
    let f = supervised(
        "abort_on: 3",
        "restart: {policy: on_failure, backoff_ms: 1, max: 1, on_exhausted: stop}",
        "environment: {}",
    );
    let mut seen = Seen::default();
    let outcome = f.run(&mut seen);
    assert!(matches!(&outcome.end, End::Died(death) if death.module == "one"), "{:?}", outcome.end);
    assert_eq!(spawned(&seen, "one"), 2);
    assert_eq!(seen.ended().last(), Some(&"two"), "the others are stopped in order");
}

#[test]
fn a_failed_start_can_be_continued_without_the_module() {
    let f =
        supervised("fail_init: 1", "restart: {on_exhausted: continue_without}", "environment: {}");
    let mut seen = Seen { interrupt_at: Some("other_printer got 3"), ..Seen::default() };
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.end, End::Interrupted, "{:?}", seen.events);
    let running = Event::Running { down: vec!["one".into()] };
    assert_eq!(running.to_string(), "running without 'one', which stays down");
    assert!(seen.events.contains(&running), "{:?}", seen.events);
    assert!(
        outcome.down[0].death.as_ref().is_some_and(|d| d.exit_code == Some(1)),
        "{:?}",
        outcome.down
    );
}

#[test]
fn a_module_is_started_when_the_ones_it_depends_on_are_ready() {
    let f = supervised("", "depends_on: [two]", "environment: {}");
    let mut seen = Seen { interrupt_at: Some("printer got 3"), ..Seen::default() };
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.end, End::Interrupted);
    let order: Vec<_> = seen
        .events
        .iter()
        .filter_map(|e| {
            if let Event::Spawned { module, .. } = e { Some(module.as_str()) } else { None }
        })
        .collect();
    assert_eq!(order, ["two", "one"]);
    assert!(seen.records.iter().any(|(m, r)| m == "one" && *r == Record::Ready));
}

#[test]
fn a_module_is_restarted_together_with_another() {
    let f = supervised(
        "",
        "restart: {policy: on_failure, backoff_ms: 1}",
        "restart_with: [one]\n    depends_on: [one]",
    );
    let mut seen = Seen {
        kill_at: Some("printer got 2"),
        interrupt_at: Some("module 'two' works again"),
        ..Seen::default()
    };
    let outcome = f.run(&mut seen);
    assert_eq!(
        (outcome.end, outcome.down, outcome.killed),
        (End::Interrupted, vec![], vec![]),
        "{:?}",
        seen.events
    );
    assert_eq!((spawned(&seen, "one"), spawned(&seen, "two")), (2, 2));
    let two =
        |e: &Event| matches!(e, Event::Ended { expected: true, death } if death.module == "two");
    assert!(seen.events.iter().any(two), "it is asked to end, and does: {:?}", seen.events);
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let mut f = supervised("", "restart: {}", "environment: {}");
    f.options.host = "/nowhere/driveline-host".into();
    let outcome = f.run(&mut Seen::default());
    let End::Died(death) = outcome.end else { panic!("{:?}", outcome.end) };
    assert!(death.how.contains("could not be started with /nowhere/driveline-host: "), "{death}");
}

#[test]
fn a_module_that_is_not_ready_in_time_says_which_call_it_was_in() {
    let mut f = supervised("hang_init: 1", "ready_within_ms: 2500", "environment: {}");
    f.options.grace = std::time::Duration::ZERO;
    let mut seen = Seen::default();
    let outcome = f.run(&mut seen);
    let End::NotReady { modules } = outcome.end else { panic!("{:?}", outcome.end) };
    assert_eq!(modules, ["one (component 'relay' in init)"]);
    let line = "module 'one' was not ready within 2.5 s (`ready_within_ms`): it was in component \
                'relay' in init";
    assert!(seen.events.iter().any(|e| e.to_string() == line), "{:?}", seen.events);
}

#[test]
fn a_module_that_is_not_ready_in_time_is_ended_and_started_again() {
    let mut f = supervised("", "ready_within_ms: 50", "environment: {}");
    f.graph.modules[0].restart.policy = driveline_graph::RestartPolicy::OnFailure;
    f.graph.modules[0].restart.max = Some(1);
    f.options.modules = Some(vec!["one".into()]);
    f.options.grace = GRACE;
    let deaf = f.dir.path().join("deaf");
    script(&deaf, "exec sleep 1000");
    f.options.host = deaf;
    let mut seen = Seen::default();
    let outcome = f.run(&mut seen);
    let End::Died(death) = outcome.end else { panic!("{:?}", outcome.end) };
    assert!(death.how.contains("was not ready within 0.05 s"), "{death}");
    assert_eq!(spawned(&seen, "one"), 2);
    assert_eq!(seen.events.iter().filter(|e| matches!(e, Event::NotReady { .. })).count(), 2);
}
