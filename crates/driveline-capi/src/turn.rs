// SPDX-License-Identifier: Apache-2.0
//! Exclusive turn: a word that one thread owns at a time; a second thread is refused and never
//! waits.
//!
//! | from | to | by |
//! |---|---|---|
//! | free | taken | the thread that takes it |
//! | taken | free | the same thread, when it is done |
//!
//! No thread waits, so none has to be woken, and releasing is a plain store: a mutex needs a locked
//! instruction for it. `tests/loom_turn.rs` runs this file under every interleaving.

#[cfg(loom)]
use loom::sync::atomic::AtomicBool;
#[cfg(not(loom))]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// State of the turn; see the module.
#[derive(Debug)]
pub(crate) struct Turn(AtomicBool);

impl Turn {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Takes the turn. Returns true if the caller owns it now, until [`Self::give_back`]. Does not
    /// block.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        // Acquire pairs with the Release of the previous owner: its writes are visible. A refused
        // thread writes nothing.
        self.0.compare_exchange(false, true, Acquire, Relaxed).is_ok()
    }

    /// Releases the turn. Only for its owner.
    #[inline]
    pub(crate) fn give_back(&self) {
        self.0.store(false, Release);
    }
}
