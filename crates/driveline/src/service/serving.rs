// SPDX-License-Identifier: Apache-2.0
//! Executors that run the servers of this process: a blocking call in a callback of the same
//! executor would wait for itself.

use crate::executor::{ExecutorId, current};
use driveline_types::service::ShortId;
use std::sync::{Mutex, MutexGuard, PoisonError};

static RUNNING: Mutex<Vec<(ShortId, ExecutorId)>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<(ShortId, ExecutorId)>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server that an executor runs. Ends when it is dropped.
pub(super) struct Running(ShortId);

impl Running {
    pub(super) fn register(server: ShortId, executor: ExecutorId) -> Self {
        running().push((server, executor));
        Self(server)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        running().retain(|(server, _)| *server != self.0);
    }
}

/// Returns true if this thread runs a callback of the executor that runs the server.
pub(super) fn is_ours(server: ShortId) -> bool {
    current().is_some_and(|here| running().iter().any(|(s, e)| *s == server && *e == here))
}
