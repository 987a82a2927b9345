// SPDX-License-Identifier: Apache-2.0
//! Helpers for tests of the gateway's parts.

#[path = "../../tests/rig/turns.rs"]
mod turns;

use super::control_thread::ControlThread;
use super::fake_transport::FakeNodes;
use driveline_gateway::ros2::Ros2GatewayConfig;
use driveline_shm::{Participant, ParticipantConfig};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// DDS domain of this crate's unit tests; `tests/rig` has those of the test programs.
pub(super) const DOMAIN: u32 = 1;

/// Waits until no other test uses the domain, in this process and in others.
pub(super) fn alone() -> MutexGuard<'static, ()> {
    // A process can join a domain once at a time.
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    turns::take("unit tests");
    alone
}

/// Time-out; only a failure takes this long.
pub(super) const LONG: Duration = Duration::from_secs(60);

#[track_caller]
pub(super) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < end, "not {what}");
        // time: a pause between polls; they end with the condition
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the configuration of a gateway in its own domain below `dir`. `ros2`: as in a graph
/// file.
pub(super) fn config(dir: &Path, ros2: serde_json::Value) -> Ros2GatewayConfig {
    serde_json::from_value(serde_json::json!({ "domain_dir": dir.join("domain"), "ros2": ros2 }))
        .unwrap()
}

/// Returns the control thread of such a gateway, which is not running.
pub(super) fn control_thread(dir: &Path, ros2: serde_json::Value) -> ControlThread {
    ControlThread::new(config(dir, ros2)).unwrap()
}

/// Returns the control thread of a gateway without a network, which is not running.
pub(super) fn fake_control_thread(
    dir: &Path,
    ros2: serde_json::Value,
    nodes: &Arc<FakeNodes>,
) -> ControlThread {
    ControlThread::over(config(dir, ros2), |_, _| nodes.open()).unwrap()
}

/// Joins the domain of [`config`] as another process would.
pub(super) fn others(dir: &Path) -> Participant {
    Participant::open(ParticipantConfig {
        domain_dir: Some(dir.join("domain")),
        name: "others".into(),
    })
    .unwrap()
}
