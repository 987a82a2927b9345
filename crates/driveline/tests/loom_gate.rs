// SPDX-License-Identifier: Apache-2.0
//! The gate of a callback group, and the turns of callbacks, under every interleaving:
//! `RUSTFLAGS="--cfg loom" cargo test -p driveline --release --test loom_gate`. The files under
//! test are the shipped ones.
#![cfg(loom)]

#[path = "../src/executor/gate.rs"]
mod gate;

#[path = "../src/executor/fairness.rs"]
mod fairness;

use fairness::{Part, Rotation, Turns};
use gate::Gate;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

/// A waiter that has passed a group over sleeps until a kick. In every order, either the waiter is
/// kicked or it has not passed the group over.
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
        assert!(
            !left_out || kicked.load(Ordering::Acquire),
            "the waiter sleeps without the group, and is not woken"
        );
    });
}

/// The waiter checks the gate while two other threads each enter and leave it.
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

/// Two threads call callbacks that are always due. Each thread continues after the callback that
/// the other thread has called.
#[test]
fn callbacks_of_a_group_take_turns_whichever_thread_calls_them() {
    loom::model(|| {
        let gate = std::sync::Arc::<Gate>::default();
        let turns = Arc::new(Turns::new(Some(gate.clone()), 0..3));
        // A mutex of std, which loom does not see: only the gate may order the two threads.
        let called = Arc::new(std::sync::Mutex::new(Vec::new()));
        let call = |turns: &Turns, gate: &Gate, called: &std::sync::Mutex<Vec<usize>>| {
            for _ in 0..2 {
                let Some(entered) = turns.enter() else { continue };
                called.try_lock().unwrap().push(entered.first_due(Part::Everyone, Some).unwrap());
                let _ = gate.leave();
            }
        };
        let other = {
            let (turns, gate, called) = (turns.clone(), gate.clone(), called.clone());
            thread::spawn(move || call(&turns, &gate, &called))
        };
        call(&turns, &gate, &called);
        other.join().unwrap();
        let called = called.lock().unwrap();
        assert!(called.iter().enumerate().all(|(i, member)| *member == i % 3), "{called:?}");
    });
}

/// A search that began early and ends late does not return the turn to groups that have had their
/// turn.
#[test]
fn the_turn_of_groups_never_goes_back() {
    loom::model(|| {
        let rotation =
            Arc::new(Rotation::new((0..3).map(|i| Turns::new(None, i..i + 1)).collect()));
        let search = |rotation: &Rotation| {
            rotation.search(|turns, part| turns.enter()?.first_due(part, Some).ok())
        };
        let other = {
            let rotation = rotation.clone();
            thread::spawn(move || search(&rotation))
        };
        let chosen = [(); 3].map(|()| search(&rotation));
        assert!(
            chosen[0] != chosen[1] && chosen[1] != chosen[2],
            "a search goes on behind the one before it: {chosen:?}"
        );
        other.join().unwrap();
    });
}
