// SPDX-License-Identifier: Apache-2.0
//! Executor whose callback runs on this thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Identifies an executor within the process; ids are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExecutorId(u64);

static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static CURRENT: Cell<Option<ExecutorId>> = const { Cell::new(None) };
}

impl ExecutorId {
    pub(super) fn fresh() -> Self {
        // Relaxed: ids only have to differ.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Marks the executor that runs a callback on this thread, until dropped. Executors nest: one may
/// run callbacks within a callback of another.
pub(super) struct Current(Option<ExecutorId>);

pub(super) fn enter(id: ExecutorId) -> Current {
    Current(CURRENT.replace(Some(id)))
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Returns the executor whose callback runs on this thread, if one does.
pub(crate) fn current() -> Option<ExecutorId> {
    CURRENT.get()
}
