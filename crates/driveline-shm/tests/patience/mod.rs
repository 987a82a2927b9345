// SPDX-License-Identifier: Apache-2.0
//! Waiting for results of the control threads.

use std::time::{Duration, Instant};

/// Generous: only a failure takes that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a result of the control threads.
#[track_caller]
pub(crate) fn eventually(mut f: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !f() {
        assert!(Instant::now() < end, "did not come about");
        // time: a pause between polls; they end with the condition
        std::thread::sleep(Duration::from_millis(1));
    }
}
