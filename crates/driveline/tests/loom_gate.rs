// SPDX-License-Identifier: Apache-2.0
//! The gate of a callback group under every interleaving: `RUSTFLAGS="--cfg loom" cargo test -p driveline --release
//! --test loom_gate`. The file under test is the shipped one.
#![cfg(loom)]

#[path = "../src/executor/gate.rs"]
mod gate;

use gate::Gate;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

/// A waiter that passes a group over sleeps until it is kicked. Whatever the order, it is kicked, or it has not passed
/// the group over.
#[test]
fn a_group_that_was_passed_over_is_looked_at_again_when_its_call_ends() {
    loom::model(|| {
        let gate = Arc::new(Gate::default());
        let kicked = Arc::new(AtomicBool::new(false));
        assert!(gate.enter());
        let caller = {
            let (gate, kicked) = (gate.clone(), kicked.clone());
            thread::spawn(move || {
                if gate.leave() {
                    kicked.store(true, Ordering::Release);
                }
            })
        };
        let left_out = gate.pass_over();
        caller.join().unwrap();
        assert!(!left_out || kicked.load(Ordering::Acquire), "the waiter sleeps without the group, and nobody wakes it");
    });
}

/// The waiter's look and a call that begins and ends meanwhile, seen by a third thread that only tries the gate.
#[test]
fn a_call_that_found_nothing_to_do_kicks_like_any_other() {
    loom::model(|| {
        let gate = Arc::new(Gate::default());
        let kicks = Arc::new(AtomicUsize::new(0));
        let tries: Vec<_> = (0..2)
            .map(|_| {
                let (gate, kicks) = (gate.clone(), kicks.clone());
                thread::spawn(move || {
                    if gate.enter() && gate.leave() {
                        kicks.fetch_add(1, Ordering::Release);
                    }
                })
            })
            .collect();
        let left_out = gate.pass_over();
        for t in tries {
            t.join().unwrap();
        }
        assert!(!left_out || kicks.load(Ordering::Acquire) > 0);
    });
}

#[test]
fn one_at_a_time() {
    loom::model(|| {
        let gate = Arc::new(Gate::default());
        let inside = Arc::new(loom::cell::UnsafeCell::new(0));
        let enter = |gate: &Gate, inside: &loom::cell::UnsafeCell<u32>| {
            if gate.enter() {
                inside.with_mut(|_| ());
                let _ = gate.leave();
            }
        };
        let other = {
            let (gate, inside) = (gate.clone(), inside.clone());
            thread::spawn(move || enter(&gate, &inside))
        };
        enter(&gate, &inside);
        other.join().unwrap();
    });
}
