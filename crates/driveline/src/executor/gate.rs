// SPDX-License-Identifier: Apache-2.0
//! Gate of a group: one callback at a time, and no missed wake-up when it opens.
//!
//! The waiting thread excludes the inputs of a shut group from its wait. The thread that opens the
//! gate again must end that wait. A thread that makes a call writes `shut`; the waiting thread sets
//! `passed_over`, and a thread that opens the gate and kicks clears it. Each reads the other's word
//! after writing its own. Release and Acquire do not order that; a full fence on both sides does:
//! at least one of them sees what the other has written. `tests/loom_gate.rs` runs this file under
//! every interleaving.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

#[derive(Debug, Default)]
pub(crate) struct Gate {
    shut: AtomicBool,
    passed_over: AtomicBool,
}

impl Gate {
    /// Shuts the gate behind the caller; `false` if it is shut already.
    pub(crate) fn enter(&self) -> bool {
        // Acquire pairs with the Release in `leave`: the previous callback has finished its work on
        // what the group protects. Not a swap: a thread that finds the gate shut must not write
        // `shut`.
        self.shut.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Opens the gate. Returns true if a waiter has passed the group over meanwhile and must be
    /// kicked.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        self.shut.store(false, Ordering::Release);
        // Pairs with the fence in `pass_over`.
        fence(Ordering::SeqCst);
        self.passed_over.load(Ordering::Relaxed) && self.passed_over.swap(false, Ordering::Relaxed)
    }

    /// Called by the waiter. Returns true if the group must be excluded from the next wait; the
    /// waiter is then kicked when the gate opens.
    pub(crate) fn pass_over(&self) -> bool {
        if !self.shut.load(Ordering::Relaxed) {
            return false;
        }
        self.passed_over.store(true, Ordering::Relaxed);
        // Pairs with the fence in `leave`: either we see the gate open, or `leave` sees us.
        fence(Ordering::SeqCst);
        self.shut.load(Ordering::Relaxed)
    }
}
