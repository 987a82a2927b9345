// SPDX-License-Identifier: Apache-2.0
//! Tests that losses are compared regardless of the end that counts them, and that a few messages
//! make no significant difference.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::harness::{Payload, System};
use driveline_bench::observations::{Observations, Point, Quantity};
use driveline_lab::archive::{Archive, Case};
use driveline_lab::compare::{Cost, CostVerdict, What, archives};
use fixture::{case, chain_case, experiment, link, manifest, run, workload_case};
use std::path::Path;

/// Makes five rounds of a case with a hundred messages, `lost` of which do not arrive.
fn losing(directory: &Path, case: &Case, lost: u64) -> Archive {
    let archive =
        Archive::create(directory, manifest(vec![experiment("X", 5, vec![case.clone()])], 1))
            .unwrap();
    for round in 0..5 {
        let mut run = run(case, round, &[20_000; 100]);
        let mut o = Observations::default();
        let counters: Vec<(&str, u64)> = if case.workload.is_some() {
            // Some deliveries are late, which is not a loss. One of the lost samples was never
            // sent.
            let not_sent = lost.min(1);
            vec![
                ("messages scheduled", 100),
                ("messages sent", 100 - not_sent),
                ("messages scheduled but not sent", not_sent),
                ("deliveries scheduled", 100),
                ("deliveries due", 100 - not_sent),
                ("deliveries in time", 90 - lost),
                ("deliveries late", 10),
                ("deliveries lost", lost - not_sent),
            ]
        } else if case.chain.is_some() {
            vec![("sent", 100), ("completed", 100 - lost)]
        } else {
            vec![]
        };
        if !counters.is_empty() {
            let subject = if case.chain.is_some() { "end to end" } else { "all" };
            o.put(
                subject,
                Quantity::Latency,
                (0..100).map(|i| Point { time_ns: i, value: 20_000 + i }),
            );
            o.counters.extend(counters.iter().map(|(name, n)| ((*name).to_owned(), *n)));
        }
        for a in &mut run.accounts {
            for s in a.stamps.iter_mut().take(lost as usize) {
                (s.received, s.transport_ns) = (None, 0);
                (a.received[0], a.missed[0]) = (a.received[0] - 1, a.missed[0] + 1);
            }
        }
        run.counters.clone_from(&o.counters);
        archive.add("X", case, &run, &o).unwrap();
    }
    archive
}

/// Returns the comparison of losses.
fn compared(case: &Case, lost: (u64, u64)) -> Option<Cost> {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) =
        (losing(&dir.path().join("a"), case, lost.0), losing(&dir.path().join("b"), case, lost.1));
    archives(&a, &b).unwrap().costs.into_iter().find(|c| c.what == What::ShareLost)
}

fn cases() -> [Case; 3] {
    [
        case(System::Driveline, "link", 0, vec![link(64, 1, Payload::Untouched)]),
        workload_case(System::Driveline, 0),
        chain_case(System::Driveline, "chain", 0, true),
    ]
}

#[test]
fn losses_of_links_of_workloads_and_of_chains_are_compared_alike() {
    for case in cases() {
        let more =
            compared(&case, (0, 20)).unwrap_or_else(|| panic!("{}: nothing is compared", case.id));
        assert_eq!((more.a, more.b, more.verdict), (0.0, 0.2, CostVerdict::More), "{}", case.id);
        assert_eq!(compared(&case, (20, 0)).unwrap().verdict, CostVerdict::Less, "{}", case.id);
        // If all samples arrived, there is nothing to compare.
        assert!(compared(&case, (0, 0)).is_none(), "{}", case.id);
    }
}

#[test]
fn one_message_lost_in_every_round_proves_nothing() {
    for case in cases() {
        let one = compared(&case, (0, 1)).unwrap();
        assert_eq!(one.verdict, CostVerdict::NoDifferenceShown, "{}", case.id);
        assert!(one.p_corrected.is_some_and(|p| p > 0.05), "{}: {:?}", case.id, one.p_corrected);
    }
}
