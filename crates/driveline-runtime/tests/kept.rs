// SPDX-License-Identifier: Apache-2.0
//! Components that keep as many samples as they may hold.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod support;

use driveline_runtime::account::{InputCounters, Record};
use driveline_runtime::launch::End;
use std::time::Duration;
use support::{Fixture, Seen};

/// A counter of numbers, a relay that keeps the last two of them, a printer.
fn graph(reach: &str, limit: u32, relay: &str) -> String {
    let modules = if reach == "process" {
        format!(
            "  one:\n    components:\n      counter: {{library: lib, class: Counter, parameters: \
             {{limit: {limit}}}, outputs: {{count: a}}}}\n      relay: {{library: lib, class: \
             Relay, parameters: {{keep: 2{relay}}}, inputs: {{in: a}}, outputs: {{out: \
             b}}}}\n      printer: {{library: lib, class: Printer, inputs: {{count: b}}}}\n"
        )
    } else {
        format!(
            "  one:\n    components:\n      counter: {{library: lib, class: Counter, parameters: \
             {{limit: {limit}}}, outputs: {{count: a}}}}\n  two:\n    components:\n      relay: \
             {{library: lib, class: Relay, parameters: {{keep: 2{relay}}}, inputs: {{in: a}}, \
             outputs: {{out: b}}}}\n  three:\n    components:\n      printer: {{library: lib, \
             class: Printer, inputs: {{count: b}}}}\n"
        )
    };
    format!(
        "driveline: 1\nname: kept\ntopics:\n  a: {{reach: {reach}, max_payload: 8}}\n  b: {{reach: \
         {reach}, max_payload: 8}}\nmodules:\n{modules}"
    )
}

fn held(seen: &Seen) -> Vec<&Record> {
    seen.records.iter().map(|(_, r)| r).filter(|r| matches!(r, Record::Held { .. })).collect()
}

fn input_of_relay(seen: &Seen) -> InputCounters {
    let last = seen.records.iter().rev().find_map(|(_, r)| match r {
        Record::Input { component, stats, .. } if component == "relay" => Some(*stats),
        _ => None,
    });
    last.unwrap()
}

#[test]
fn a_component_that_keeps_its_samples_is_named_and_what_it_lost_is_counted() {
    for reach in ["process", "host"] {
        // The run is long enough that the stall is reported before its end. Each sample is
        // accounted for, however long the run takes.
        let f = Fixture::new(&graph(reach, 150, ""));
        let mut seen = Seen::default();
        assert!(matches!(f.run(&mut seen).end, End::Finished { .. }), "{reach}");
        let expected = Record::Held {
            component: "relay".into(),
            input: "in".into(),
            topic: "a".into(),
            held: 2,
            triggers: true,
            end: None,
        };
        assert_eq!(held(&seen), [&expected], "{reach}");
        let input = input_of_relay(&seen);
        assert_eq!(
            (input.received, input.missed, input.not_read),
            (2, 147, 1),
            "{reach}: {input:?}"
        );
    }
}

#[test]
fn waits_of_a_reliable_publisher_are_in_the_account() {
    for reach in ["process", "host"] {
        let qos = "max_payload: 8, qos: {reliability: reliable, depth: 2, max_blocking_ms: 1}}";
        let f = Fixture::new(&graph(reach, 20, "").replace("max_payload: 8}", qos));
        let mut seen = Seen::default();
        assert!(matches!(f.run(&mut seen).end, End::Finished { .. }), "{reach}");
        let blocked = seen.records.iter().rev().find_map(|(_, r)| match r {
            Record::Output { component, blocked, .. } if component == "counter" => Some(*blocked),
            _ => None,
        });
        let blocked = blocked.unwrap();
        // Before the wait that times out, the publisher may have waited with success, if the
        // relay's process read the first two numbers late.
        let most = if reach == "host" { 3 } else { 1 };
        assert!((1..=most).contains(&blocked.waits), "{reach}: {} waits", blocked.waits);
        assert_eq!(blocked.timeouts, 1, "{reach}");
    }
}

/// Returns true at the end of a stall in which the input missed a number. The counter publishes a
/// number each 10 ms, so each stall misses numbers, unless the machine stands still.
fn goes_on(record: &Record) -> bool {
    matches!(record, Record::Held { end: Some(end), .. } if end.missed > 0)
}

#[test]
fn an_input_goes_on_when_its_samples_are_given_back() {
    for reach in ["process", "host"] {
        let f = Fixture::new(&graph(reach, 0, ", give_back_ms: 1000"));
        let mut seen = Seen { interrupt_at_record: Some(goes_on), ..Seen::default() };
        assert!(matches!(f.run(&mut seen).end, End::Interrupted), "{reach}");
        let reports = held(&seen);
        let end = reports.iter().position(|r| goes_on(r)).unwrap();
        let stalls = reports[..=end].chunks(2);
        let is_stall = |pair: &[&Record]| {
            matches!(pair, [Record::Held { end: None, .. }, Record::Held { end: Some(_), .. }])
        };
        assert!(stalls.into_iter().all(is_stall), "{reach}: {reports:?}");
        assert!(input_of_relay(&seen).received >= 3, "{reach}: called again");
    }
}

#[test]
fn samples_that_are_kept_at_the_end_of_a_short_run_are_reported_as_well() {
    let mut f = Fixture::new(&graph("process", 5, ""));
    // The run is over before the executor would report the stall.
    f.options.quiet = Duration::ZERO;
    let mut seen = Seen::default();
    assert!(matches!(f.run(&mut seen).end, End::Finished { .. }));
    assert!(
        matches!(held(&seen)[..], [Record::Held { held: 2, end: None, .. }]),
        "{:?}",
        seen.records
    );
}
