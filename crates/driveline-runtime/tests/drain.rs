// SPDX-License-Identifier: Apache-2.0
//! Timers of other components after a component has finished.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod support;

use driveline_runtime::account::{CallbackAccount, Record};
use driveline_runtime::launch::End;
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
      planner: {library: lib, class: Planner, trigger: {kind: timer, period_ms: 5}, inputs: {in: number}, outputs: {out: plan}}
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
    // One last tick each. A call that was under way when the word came may have begun after it was noted.
    let beats = late_calls(&seen, "beat").len();
    assert!(beats <= 2, "{beats}");
    let plans = late_calls(&seen, "planner");
    let repeated = plans.iter().filter(|c| !c.inputs.iter().any(|i| i.fresh)).count();
    assert!(repeated <= 2, "{plans:?}");
    assert!(seen.printed("three").contains(&"printer got 20"), "the last number is still read");
}
