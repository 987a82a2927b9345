// SPDX-License-Identifier: Apache-2.0
//! Executor whose callback runs on this thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Names an executor within the process; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExecutorId(u64);

static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static CURRENT: Cell<Option<ExecutorId>> = const { Cell::new(None) };
}

impl ExecutorId {
    pub(super) fn fresh() -> Self {
        // Relaxed: only that they differ counts.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Ends when the callback has returned. An executor may run callbacks within a callback of another.
pub(super) struct Current(Option<ExecutorId>);

pub(super) fn enter(id: ExecutorId) -> Current {
    Current(CURRENT.replace(Some(id)))
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// The executor whose callback runs on this thread, if one does.
pub(crate) fn current() -> Option<ExecutorId> {
    CURRENT.get()
}
