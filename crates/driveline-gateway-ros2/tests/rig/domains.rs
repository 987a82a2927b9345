// SPDX-License-Identifier: Apache-2.0
//! DDS domains of tests. Each test has its own, and each test program a range, so that programs can
//! run at the same time. Copies of one program take turns (`turns`).
//!
//! Domains are at most 101: Linux uses the ports of higher ones for other programs. Domain 1 is for
//! tests in `src/`, 7 and 8 are for `examples/`, which have their own tests. Nodes on Zenoh alone
//! need no domain, and `network` runs in separate namespaces.

use std::ops::RangeInclusive;

const OF_PROGRAMS: [(&str, RangeInclusive<u32>); 17] = [
    ("network", 0..=2),
    ("ros2_client_services", 2..=6),
    ("ros2_client_services", 9..=9),
    ("live", 10..=23),
    ("live", 28..=29),
    ("qos_pairs", 24..=24),
    ("kills", 25..=27),
    ("kills", 71..=71),
    ("live", 72..=74),
    ("across", 30..=44),
    ("dds_services", 45..=68),
    ("live", 69..=69),
    ("dds_services", 70..=70),
    ("vendors", 75..=94),
    ("vendors", 100..=100),
    ("live", 101..=101),
    ("ros2_client", 95..=99),
];

/// Checks that a domain belongs to this program, and waits until no other copy of the program uses
/// its domains.
#[track_caller]
pub(crate) fn check(domain_id: u32) {
    let program = env!("CARGO_CRATE_NAME");
    let own: Vec<_> =
        OF_PROGRAMS.iter().filter(|(name, _)| *name == program).map(|(_, own)| own).collect();
    assert!(!own.is_empty(), "{program} has no DDS domains: add some in tests/rig/domains.rs");
    assert!(
        own.iter().any(|own| own.contains(&domain_id)),
        "DDS domain {domain_id} is not one of {program}'s, which are {own:?}"
    );
    super::turns::take(program);
}
