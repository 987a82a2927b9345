// SPDX-License-Identifier: Apache-2.0
//! Word that ends a wait. A kick stays until a wait has returned it. One waiter, any number of
//! kickers.
//!
//! | from | to | by |
//! |---|---|---|
//! | idle | waiting | the waiter, before its last check of the data |
//! | waiting | idle | the waiter, awake again |
//! | any | kicked | a thread that wants the waiter to return; wakes it if it was waiting |
//! | waiting | look | a helper thread that has found data; wakes the waiter |
//! | look | idle | the waiter, awake again |
//! | kicked | idle | the waiter, which returns |

use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, Mutant, mutant};

const IDLE: u32 = 0;
/// The waiter sleeps, or is about to.
pub const WAITING: u32 = 1;
/// The waiter is to return.
const KICKED: u32 = 2;
/// A helper thread requests a check of the data.
const LOOK: u32 = 3;

/// State of the word; see the module.
#[derive(Debug)]
pub struct Kick(AtomicU32);

impl Default for Kick {
    fn default() -> Self {
        Self(AtomicU32::new(IDLE))
    }
}

impl Kick {
    /// Ends the current or the next wait. Returns true if the waiter must be woken.
    #[must_use]
    pub fn kick(&self) -> bool {
        let order = if mutant(Mutant::RelaxedKick) { Relaxed } else { AcqRel };
        // AcqRel: earlier writes of the kicker are visible to the waiter.
        self.0.swap(KICKED, order) == WAITING
    }

    /// Makes a sleeping waiter check for data; an awake one checks anyway. Returns true if it must
    /// be woken.
    #[must_use]
    pub fn look(&self) -> bool {
        if mutant(Mutant::LookOverwrites) {
            return self.0.swap(LOOK, AcqRel) == WAITING;
        }
        // Release as for `kick`. A failure means that the word is idle, look or kicked: in each of
        // these states the waiter checks for data anyway.
        self.0.compare_exchange(WAITING, LOOK, AcqRel, Relaxed).is_ok()
    }

    /// Takes a kick. Returns true if there was one.
    pub fn take(&self) -> bool {
        // The plain load keeps the common case free of a locked instruction.
        self.0.load(Relaxed) == KICKED
            && self.0.compare_exchange(KICKED, IDLE, Acquire, Relaxed).is_ok()
    }

    /// Begins to wait, and returns true, unless there is a kick. After that, the waiter can sleep
    /// on the word while it is [`WAITING`].
    pub fn begin(&self) -> bool {
        self.0.compare_exchange(IDLE, WAITING, AcqRel, Relaxed).is_ok()
    }

    /// Ends waiting; a kick stays.
    pub fn end(&self) {
        if mutant(Mutant::EndForgetsKick) {
            self.0.store(IDLE, Release);
            return;
        }
        if self.0.compare_exchange(WAITING, IDLE, Release, Relaxed).is_err() {
            let _ = self.0.compare_exchange(LOOK, IDLE, Acquire, Relaxed);
        }
    }

    /// Word to sleep on.
    pub fn word(&self) -> &AtomicU32 {
        &self.0
    }
}
