// SPDX-License-Identifier: Apache-2.0
//! A value that one thread uses at a time; a second thread is refused and never waits. A panic ends
//! the use as well.

use crate::turn::Turn;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Holds the value; see the module.
pub(crate) struct Exclusive<T> {
    turn: Turn,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through `Inside`, of which there is one at a time (`enter`); so
// threads use the value one after another, which `Send` permits.
unsafe impl<T: Send> Sync for Exclusive<T> {}

/// Access of one thread to the value. Ends when it is dropped.
pub(crate) struct Inside<'a, T>(&'a Exclusive<T>, PhantomData<&'a mut T>);

impl<T> Exclusive<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { turn: Turn::new(), value: UnsafeCell::new(value) }
    }

    /// Returns the value, unless it is in use.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Inside<'_, T>> {
        self.turn.take().then(|| Inside(self, PhantomData))
    }
}

impl<T> Deref for Inside<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this exists while its thread has the turn, which no other thread can have
        // meanwhile.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Inside<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`; `&mut self` makes this the only reference.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Inside<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.turn.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_user_is_turned_away_until_the_first_is_done() {
        let value = Exclusive::new(1);
        let inside = value.enter().unwrap();
        assert!(std::thread::scope(|s| s.spawn(|| value.enter().is_none()).join().unwrap()));
        drop(inside);
        assert_eq!(value.enter().map(|v| *v), Some(1));
    }

    #[test]
    fn a_panic_ends_the_use() {
        let value = Exclusive::new(2);
        let fell = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _inside = value.enter();
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(fell.is_err());
        assert_eq!(value.enter().map(|v| *v), Some(2));
    }
}
