// SPDX-License-Identifier: Apache-2.0
//! A module that is suspended (SIGSTOP) until the run ends: each sample is accounted for.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod support;

use driveline_runtime::account::{InputCounters, Record};
use driveline_runtime::launch::{End, Event};
use support::{Fixture, Seen};

const READER: &str = "  reader:\n    components:\n      printer: {library: lib, class: Printer, \
                      inputs: {count: {topic: a, qos: {depth: 4}}}}\n";
const SOURCE: &str = "  source:\n    components:\n      counter: {library: lib, class: Counter, \
                      parameters: {limit: 60}, outputs: {count: a}}\n";

fn graph(modules: &str) -> String {
    format!(
        "driveline: 1\nname: stopped\ntopics:\n  a: {{reach: host, max_payload: \
         8}}\nmodules:\n{modules}"
    )
}

fn last(seen: &Seen) -> (InputCounters, u64) {
    let records = || seen.records.iter().rev().map(|(_, r)| r);
    let input = records()
        .find_map(|r| if let Record::Input { stats, .. } = r { Some(*stats) } else { None });
    let published = records().find_map(|r| {
        if let Record::Output { published, .. } = r { Some(*published) } else { None }
    });
    (input.unwrap(), published.unwrap())
}

#[test]
fn all_that_a_stopped_module_did_not_read_is_counted_whichever_module_ends_first() {
    for modules in [[READER, SOURCE].concat(), [SOURCE, READER].concat()] {
        let f = Fixture::new(&graph(&modules));
        let mut seen = Seen { stop_at: Some("printer got 2"), stops: "reader", ..Seen::default() };
        let outcome = f.run(&mut seen);
        assert!(matches!(outcome.end, End::Finished { .. }), "{outcome:?}");
        assert_eq!(
            (outcome.suspended.as_slice(), outcome.killed.len()),
            (&["reader".to_owned()][..], 0)
        );
        assert!(
            seen.events
                .iter()
                .any(|e| matches!(e, Event::Suspended { module, .. } if module == "reader"))
        );
        let (input, published) = last(&seen);
        assert_eq!((published, input.accounted()), (60, 60), "{:?}: {input:?}", seen.ended());
    }
}
