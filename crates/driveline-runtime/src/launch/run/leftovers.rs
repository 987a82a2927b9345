// SPDX-License-Identifier: Apache-2.0
//! Removal of files that killed processes leave in the domain directory.

use super::{Launcher, Process};

impl Launcher<'_> {
    /// Removes the sockets of killed processes. The run may have no other process that would do
    /// this.
    pub(super) fn remove_leftovers(&self) {
        // Also true if a process before the newest one has failed.
        let failed = |p: &Process<'_>| {
            let newest = p.child.as_ref().and_then(|c| c.ended);
            p.death.is_some() || newest.is_some_and(|status| !status.success())
        };
        if self.processes.iter().any(failed) {
            // If it fails, the next participant removes them.
            let _ = driveline_shm::remove_dead(&self.options.domain_dir);
        }
    }
}
