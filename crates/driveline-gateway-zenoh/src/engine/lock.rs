// SPDX-License-Identifier: Apache-2.0
//! Locks that a panic of another thread does not poison.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. Returns the content as it is if another thread panicked while it held the lock.
pub(super) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}
