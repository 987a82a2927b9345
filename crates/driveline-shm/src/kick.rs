// SPDX-License-Identifier: Apache-2.0
//! One word that ends a wait. A kick stays until a wait has returned it; without a waiter it makes no system call.

use crate::sys::futex::{self, Scope, Word};
use driveline_types::MonotonicNs;
use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

const IDLE: u32 = 0;
/// The waiter sleeps, or is about to.
const WAITING: u32 = 1;
/// Somebody wants the waiter to return.
const KICKED: u32 = 2;
/// A helper thread wants the waiter to look at the data.
const LOOK: u32 = 3;

/// See the module. One waiter, any number of kickers.
#[derive(Debug, Default)]
pub(crate) struct KickWord(AtomicU32);

impl KickWord {
    /// Ends the running or the next wait.
    pub(crate) fn kick(&self) {
        // AcqRel: what the kicker did before is visible to the waiter.
        if self.0.swap(KICKED, AcqRel) == WAITING {
            futex::wake(&self.0, Scope::Private, 1);
        }
    }

    /// Has a sleeping waiter look for data; nothing to do if it is awake, for then it will.
    pub(crate) fn look(&self) {
        // Release as for `kick`. A failure means idle, already looking, or kicked: all of them look.
        if self.0.compare_exchange(WAITING, LOOK, AcqRel, Relaxed).is_ok() {
            futex::wake(&self.0, Scope::Private, 1);
        }
    }

    /// Takes a kick, if there is one.
    pub(crate) fn take(&self) -> bool {
        // The plain load keeps the common case free of a locked instruction.
        self.0.load(Relaxed) == KICKED && self.0.compare_exchange(KICKED, IDLE, Acquire, Relaxed).is_ok()
    }

    /// Begins to wait, unless there is a kick.
    pub(crate) fn begin(&self) -> bool {
        self.0.compare_exchange(IDLE, WAITING, AcqRel, Relaxed).is_ok()
    }

    /// Ends waiting; a kick stays.
    pub(crate) fn end(&self) {
        if self.0.compare_exchange(WAITING, IDLE, Release, Relaxed).is_err() {
            let _ = self.0.compare_exchange(LOOK, IDLE, Acquire, Relaxed);
        }
    }

    /// The word to sleep on between `begin` and `end`.
    pub(crate) fn word(&self) -> Word<'_> {
        Word { word: &self.0, scope: Scope::Private, expected: WAITING }
    }

    /// Sleeps between `begin` and `end`.
    pub(crate) fn sleep(&self, deadline: Option<MonotonicNs>) {
        futex::wait(&self.0, Scope::Private, WAITING, deadline);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kick_stays_until_it_is_taken() {
        let k = KickWord::default();
        assert!(!k.take());
        k.kick();
        k.kick();
        assert!(!k.begin());
        assert!(k.take());
        assert!(!k.take());
        assert!(k.begin());
        k.look();
        k.sleep(None);
        k.end();
        assert!(!k.take());
        assert!(k.begin());
        k.kick();
        k.look();
        k.end();
        assert!(k.take());
    }
}
