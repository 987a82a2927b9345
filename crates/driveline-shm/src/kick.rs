// SPDX-License-Identifier: Apache-2.0
//! A word that ends a wait, with its futex calls. A kick stays until a wait has returned it; if no
//! thread sleeps, it makes no system call.

use crate::protocol::kick::{Kick, WAITING};
use crate::sys::futex::{self, Scope, Word};
use driveline_types::MonotonicNs;
use std::sync::Arc;

/// A word that ends a wait. One waiter, any number of kickers.
#[derive(Debug, Default)]
pub(crate) struct KickWord(Kick);

impl KickWord {
    /// Ends the running or the next wait.
    pub(crate) fn kick(&self) {
        if self.0.kick() {
            futex::wake(self.0.word(), Scope::Private, 1);
        }
    }

    /// Makes a sleeping waiter check for data. A waiter that is awake checks anyway.
    pub(crate) fn look(&self) {
        if self.0.look() {
            futex::wake(self.0.word(), Scope::Private, 1);
        }
    }

    /// Takes a kick, if there is one.
    pub(crate) fn take(&self) -> bool {
        self.0.take()
    }

    /// Begins to wait, and returns true, unless there is a kick.
    pub(crate) fn begin(&self) -> bool {
        self.0.begin()
    }

    /// Ends waiting; a kick stays.
    pub(crate) fn end(&self) {
        self.0.end();
    }

    /// The word to sleep on between `begin` and `end`.
    pub(crate) fn word(&self) -> Word<'_> {
        Word { word: self.0.word(), scope: Scope::Private, expected: WAITING }
    }

    /// Sleeps between `begin` and `end`.
    pub(crate) fn sleep(&self, deadline: Option<MonotonicNs>) {
        futex::wait(self.0.word(), Scope::Private, WAITING, deadline);
    }
}

/// Ends the wait of one wait set, from any thread. Cheap without a waiter.
#[derive(Clone, Debug)]
pub struct Kicker(pub(crate) Arc<KickWord>);

impl Kicker {
    /// Ends the running wait, or the next one. No system call if the waiter is awake.
    pub fn kick(&self) {
        self.0.kick();
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
