// SPDX-License-Identifier: Apache-2.0
//! Processes that reserve memory at the same time: each gets its memory or a refusal with the
//! reason, and together they stay below the limit.
//!
//! A directory stands for the machine's memory (`DRIVELINE_FAULT_MEMORY`): `limit` has its bytes,
//! and each reservation adds a line to `used`. The lock is on that directory.

use crate::support::{Domain, Peer};
use rustix::process::Signal;
use std::path::Path;

/// Steps of a reservation, all of them with the lock held.
pub(crate) const RESERVING: &[&str] =
    &["memory.after_lock", "memory.after_check", "memory.after_reserve"];

const MIB: u64 = 1 << 20;
/// A publisher of 14 slots: 29 MiB.
const PUBLISHER: &str = "publisher p max=2097152 pins=8 loans=1";

/// A machine with so much memory.
fn machine(bytes: u64) -> tempfile::TempDir {
    let t = tempfile::tempdir().unwrap();
    std::fs::set_permissions(t.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .unwrap();
    std::fs::write(t.path().join("limit"), bytes.to_string()).unwrap();
    t
}

fn used(machine: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(machine.join("used")).unwrap_or_default();
    text.lines().map(|l| l.parse().unwrap()).collect()
}

fn peer(d: &Domain, machine: &Path, name: &str, point: Option<(&str, &str)>) -> Peer {
    d.peer_with(name, |c| {
        // The peer does not wait for reservations of others, so that the test is quick.
        c.env("DRIVELINE_FAULT_MEMORY", machine).env("DRIVELINE_FAULT_SWITCHES", "impatient");
        if let Some((point, action)) = point {
            c.env("DRIVELINE_FAULT_POINT", point).env("DRIVELINE_FAULT_ACTION", action);
        }
    })
}

#[test]
fn processes_that_race_for_memory_are_served_or_refused_and_never_exceed_it() {
    const RIVALS: usize = 8;
    let d = Domain::new();
    for _ in 0..5 {
        let machine = machine(100 * MIB);
        let start = |i| {
            d.peer_with(&format!("rival {i}"), |c| {
                c.env("DRIVELINE_FAULT_MEMORY", machine.path())
                    .env("DRIVELINE_FAULT_SWITCHES", "patient");
            })
        };
        let mut rivals: Vec<Peer> = (0..RIVALS).map(start).collect();
        for r in &mut rivals {
            r.ask("join");
        }
        for r in &mut rivals {
            r.send(PUBLISHER);
        }
        let answers: Vec<_> = rivals.iter_mut().map(|r| r.answer("publisher")).collect();
        let refused: Vec<&String> = answers.iter().filter_map(|a| a.as_ref().err()).collect();
        for text in &refused {
            assert!(
                text.contains(") are needed")
                    && text.contains("are available")
                    && text.contains("are kept free"),
                "{text}"
            );
        }
        // 100 MiB less the margin suffice for three publishers.
        assert_eq!(refused.len(), RIVALS - 3, "{answers:?}");
        assert!(used(machine.path()).iter().sum::<u64>() <= 100 * MIB);
        rivals.into_iter().for_each(Peer::quit);
    }
}

#[test]
fn a_process_that_dies_while_it_reserves_leaves_the_lock_to_the_next() {
    for point in RESERVING {
        let d = Domain::new();
        let machine = machine(40 * MIB);
        let mut doomed = peer(&d, machine.path(), point, Some((point, "kill")));
        doomed.send(PUBLISHER);
        doomed.died();
        peer(&d, machine.path(), "next", None).ask(PUBLISHER);
        assert_eq!(used(machine.path()).len(), 1, "{point}");
    }
}

#[test]
fn a_process_stopped_while_it_reserves_is_named_and_its_memory_stays_free() {
    for point in RESERVING {
        let d = Domain::new();
        let machine = machine(48 * MIB);
        let mut stopped = peer(&d, machine.path(), "stopped", Some((point, "stop")));
        stopped.send(PUBLISHER);
        stopped.stopped();
        let mut other = peer(&d, machine.path(), "other", None);
        let text = other.try_ask(PUBLISHER).unwrap_err();
        assert!(
            text.contains("topic 't'")
                && text.contains(&format!("process {} has been reserving", stopped.pid())),
            "{point}: {text}"
        );
        assert!(text.contains("Continue or end it"), "{text}");
        // Small publishers need no lock. Without the lock, up to half of the available memory is
        // admitted.
        other.ask("publisher small topic=small");
        other.ask("publisher half topic=half max=1048576 pins=2 loans=1");
        other.ask("drop half");
        stopped.signal(Signal::CONT);
        stopped.answer("publisher").unwrap();
        let text = other.try_ask(PUBLISHER).unwrap_err();
        assert!(
            text.contains(") are needed") && text.contains("the limit is the test's"),
            "{point}: {text}"
        );
    }
}
