// SPDX-License-Identifier: Apache-2.0
//! Reaction of a run to a request to end.

use super::{Launcher, Phase};
use crate::host;
use crate::launch::End;
use std::time::Instant;

impl Launcher<'_> {
    /// Handles a request for the end by a signal, a tool or the program. A request while the run
    /// already stops kills at once. A request within [`host::ONE_INTERRUPT`] of the last one that
    /// was not ignored is ignored.
    pub(super) fn interrupted(&mut self) {
        if self.interrupted_at.is_some_and(|at| at.elapsed() < host::ONE_INTERRUPT) {
            return;
        }
        self.interrupted_at = Some(Instant::now());
        if let Phase::Stopping { .. } = self.phase {
            for i in 0..self.processes.len() {
                self.kill(i, "was interrupted again");
            }
        } else {
            self.stop_as_asked();
        }
    }

    /// Handles the end of the terminal, or of the program that reads the launcher's output. It
    /// counts as one request, however often it is reported.
    pub(super) fn hung_up(&mut self) {
        if !matches!(self.phase, Phase::Stopping { .. }) {
            self.stop_as_asked();
        }
    }

    /// Stops the modules. If a component has finished before, the request is nevertheless the
    /// reason for the end, because the remaining work is not done any more.
    fn stop_as_asked(&mut self) {
        match self.end {
            Some(End::Finished { .. }) | None => self.end = Some(End::Interrupted),
            Some(_) => {}
        }
        self.stop();
    }
}
