// SPDX-License-Identifier: Apache-2.0
//! A turn under every interleaving: `RUSTFLAGS="--cfg loom" cargo test -p driveline-capi --release
//! --test loom_turn`. The file under test is the shipped one.
#![cfg(loom)]
#![expect(unsafe_code, reason = "the model needs a cell like that of the turn")]

#[path = "../src/turn.rs"]
mod turn;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use turn::Turn;

/// Value that one thread at a time uses. Loom ends the model if two threads use it at once, or if a
/// thread does not see the changes of the previous thread.
struct Guarded {
    turn: Turn,
    uses: UnsafeCell<usize>,
}

// SAFETY: only the thread with the turn accesses `uses`; loom checks that.
unsafe impl Sync for Guarded {}

/// Attempts twice to take the turn. Returns the number of successful attempts.
fn use_twice(guarded: &Guarded) -> usize {
    (0..2).filter(|_| use_once(guarded)).count()
}

fn use_once(guarded: &Guarded) -> bool {
    let mine = guarded.turn.take();
    if mine {
        // SAFETY: as for `Sync`.
        guarded.uses.with_mut(|uses| unsafe { *uses += 1 });
        guarded.turn.give_back();
    }
    mine
}

#[test]
fn one_is_inside_at_a_time_and_sees_what_the_last_one_did() {
    loom::model(|| {
        let guarded = Arc::new(Guarded { turn: Turn::new(), uses: UnsafeCell::new(0) });
        let others: Vec<_> = (0..2)
            .map(|_| {
                let guarded = guarded.clone();
                thread::spawn(move || use_twice(&guarded))
            })
            .collect();
        let let_in = usize::from(use_once(&guarded))
            + others.into_iter().map(|t| t.join().unwrap()).sum::<usize>();
        assert!(let_in >= 1, "no thread got the turn");
        // SAFETY: the other threads have ended.
        assert_eq!(guarded.uses.with(|uses| unsafe { *uses }), let_in);
        assert!(guarded.turn.take(), "the turn was not given back");
    });
}
