// SPDX-License-Identifier: Apache-2.0
//! Files that killed processes leave in the domain directory.

use super::{Launcher, Process};

impl Launcher<'_> {
    /// Removes the sockets of killed processes, which no other process of the run may be there to
    /// remove.
    pub(super) fn remove_leftovers(&self) {
        // Or of one before the newest.
        let failed = |p: &Process<'_>| {
            let newest = p.child.as_ref().and_then(|c| c.ended);
            p.death.is_some() || newest.is_some_and(|status| !status.success())
        };
        if self.processes.iter().any(failed) {
            // Where it fails, the next participant does it.
            let _ = driveline_shm::remove_dead(&self.options.domain_dir);
        }
    }
}
