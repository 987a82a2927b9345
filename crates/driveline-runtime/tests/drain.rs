// SPDX-License-Identifier: Apache-2.0
//! Timers of other components after a component has finished.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod support;

use driveline::{Context, ContextOptions, PublisherOptions, Reach};
use driveline_runtime::account::{CallbackAccount, Record};
use driveline_runtime::launch::{End, Event};
use driveline_types::Schema;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use support::{Fixture, Seen};

const GRAPH: &str = "\
driveline: 1
name: plans
topics:
  number: {reach: host, max_payload: 8}
  plan: {reach: host, max_payload: 8, qos: {depth: 64}}
  beat: {reach: host, max_payload: 8, qos: {depth: 64}}
modules:
  one:
    components:
      counter: {library: lib, class: Counter, parameters: {limit: 20}, outputs: {count: number}}
  two:
    components:
      planner: {library: lib, class: Planner, trigger: {kind: timer, period_ms: 5}, \
                inputs: {in: number}, outputs: {out: plan}}
      beat: {library: lib, class: Counter, parameters: {period_ms: 5}, outputs: {count: beat}}
  three:
    components:
      printer: {library: lib, class: Printer, inputs: {count: plan}}
      listener: {library: lib, class: Printer, inputs: {count: beat}}
";

/// Calls of a component that began after its process knew that another one had finished.
fn late_calls<'a>(seen: &'a Seen, component: &str) -> Vec<&'a CallbackAccount> {
    let module_two = || seen.records.iter().filter(|(m, _)| m == "two").map(|(_, r)| r);
    let since = module_two()
        .find_map(|r| if let Record::Draining { at_ns } = r { Some(*at_ns) } else { None })
        .unwrap();
    module_two()
        .filter_map(|r| if let Record::Callback(c) = r { Some(c) } else { None })
        .filter(|c| c.component == component && c.start_ns > since)
        .collect()
}

#[test]
fn timers_do_not_repeat_the_last_sample_after_a_component_has_finished() {
    // The graph drains for three seconds, in which each timer has 600 times to tick.
    let f = Fixture::new(GRAPH);
    let mut seen = Seen::default();
    assert!(matches!(f.run(&mut seen).end, End::Finished { .. }));
    // Each timer ticks once more. A tick that fell due just before the message came may count as
    // well, if its call began after the noted time.
    let beats = late_calls(&seen, "beat").len();
    assert!(beats <= 2, "{beats}");
    let plans = late_calls(&seen, "planner");
    let repeated = plans.iter().filter(|c| !c.inputs.iter().any(|i| i.fresh)).count();
    assert!(repeated <= 2, "{plans:?}");
    assert!(seen.printed("three").contains(&"printer got 20"), "the last number is still read");
}

const EXTERNAL: &str = "\
driveline: 1
name: shared
topics:
  number: {reach: host, external: true, max_payload: 8}
modules:
  one:
    components:
      counter:
        library: lib
        class: Counter
        parameters: {limit: 6, period_ms: 1}
        outputs: {count: number}
  two:
    components:
      printer: {library: lib, class: Printer, inputs: {count: number}}
";

#[test]
fn a_program_that_publishes_on_the_topic_does_not_keep_a_run_whose_source_has_finished() {
    let mut f = Fixture::new(EXTERNAL);
    (f.options.quiet, f.options.settle) = (Duration::from_secs(2), Duration::from_secs(2));
    let options =
        ContextOptions { name: "outside".into(), domain_dir: Some(f.options.domain_dir.clone()) };
    let node = Context::new(options).unwrap().node("outside").unwrap();
    let options =
        PublisherOptions { reach: Reach::Host, max_payload: 8, pins: 8, ..Default::default() };
    let schema = Schema::bytes("demo/Count", "u64-le", "");
    let mut publisher = node.raw_publisher("number", schema, options).unwrap();
    let (over, published) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Publishes for a minute if nothing ends the run.
            while !over.load(Relaxed) && published.fetch_add(1, Relaxed) < 6000 {
                let mut loan = publisher.loan(8).unwrap();
                loan.payload_mut().copy_from_slice(&1000u64.to_le_bytes());
                publisher.publish(loan).unwrap();
                // time: the rate of the publisher; nothing is judged by it.
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let mut seen = Seen::default();
        let outcome = f.run(&mut seen);
        over.store(true, Relaxed);
        assert!(matches!(&outcome.end, End::Finished { .. }), "{outcome:?}");
        assert!(seen.printed("two").contains(&"printer got 1000"), "both publishers are read");
    });
    assert!(published.into_inner() < 6000, "the run waited for the other program");
}

const CHAIN: &str = "\
driveline: 1
name: chain
topics:
  number: {reach: host, max_payload: 8, qos: {depth: 64}}
  passed: {reach: host, max_payload: 8, qos: {depth: 64}}
modules:
  one:
    components:
      counter: {library: lib, class: Counter, parameters: {limit: 6, period_ms: 1}, \
                outputs: {count: number}}
  two:
    components:
      relay: {library: lib, class: Relay, parameters: {}, \
              inputs: {in: number}, outputs: {out: passed}}
  three:
    components:
      printer: {library: lib, class: Printer, inputs: {count: passed}}
";

fn chain(relay: &str) -> Fixture {
    let mut f = Fixture::new(&CHAIN.replace("parameters: {}", &format!("parameters: {{{relay}}}")));
    // Only the work itself makes the run wait.
    (f.options.quiet, f.options.settle) = (Duration::ZERO, Duration::ZERO);
    f
}

#[test]
fn a_run_does_not_end_while_a_call_runs_or_a_sample_waits() {
    for relay in ["take_ms: 150", "take_ms: 400, slow_on: 6", "take_ms: 400, slow_on: 1"] {
        let f = chain(relay);
        let mut seen = Seen::default();
        let outcome = f.run(&mut seen);
        assert!(matches!(outcome.end, End::Finished { .. }), "{relay}: {outcome:?}");
        assert_eq!(outcome.cut_off, []);
        let printed = seen.printed("three");
        assert!(printed.contains(&"printer got 6"), "{relay}: {printed:?}");
    }
}

#[test]
fn a_call_that_never_ends_is_cut_off_and_named() {
    let mut f = chain("hang_on: 2");
    // `stuck` is longer than the machine may stand still, so that the run is not cut off before the
    // relay reaches the second number, nor before its module has reported its work.
    (f.options.stuck, f.options.grace) = (Duration::from_secs(3), Duration::from_millis(100));
    let mut seen = Seen::default();
    let outcome = f.run(&mut seen);
    assert!(matches!(outcome.end, End::Finished { .. }), "{outcome:?}");
    let [work] = outcome.cut_off.as_slice() else { panic!("{outcome:?}") };
    assert_eq!((work.component.as_str(), work.running), ("relay", 1));
    assert_eq!(work.unread, [("number".to_owned(), 4)]);
    let text = "component 'relay' had work left: 1 call in progress, 4 unread of topic 'number'";
    assert_eq!(work.to_string(), text);
    assert!(seen.events.contains(&Event::CutOff { work: work.clone() }));
}
