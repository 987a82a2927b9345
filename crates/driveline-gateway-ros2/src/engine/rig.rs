// SPDX-License-Identifier: Apache-2.0
//! Helpers for tests of the gateway's parts.

use super::control_thread::ControlThread;
use driveline_gateway::ros2::Ros2GatewayConfig;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// In DDS, for tests of this crate's own code; those of programs stand in `tests/rig`.
pub(super) const DOMAIN: u32 = 1;
/// A process takes part in a domain once at a time.
pub(super) static ALONE: Mutex<()> = Mutex::new(());

/// Only a failure takes so long.
pub(super) const LONG: Duration = Duration::from_secs(60);

#[track_caller]
pub(super) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < end, "not {what}");
        // time: a pause between polls; only the time-out of 60 s ends them
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Of a gateway in a domain of its own below `dir`. `ros2`: as in a graph file.
pub(super) fn config(dir: &Path, ros2: serde_json::Value) -> Ros2GatewayConfig {
    serde_json::from_value(serde_json::json!({ "domain_dir": dir.join("domain"), "ros2": ros2 }))
        .unwrap()
}

/// The same gateway, whose thread does not run.
pub(super) fn control_thread(dir: &Path, ros2: serde_json::Value) -> ControlThread {
    ControlThread::new(config(dir, ros2)).unwrap()
}
