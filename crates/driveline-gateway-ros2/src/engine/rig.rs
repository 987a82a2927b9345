// SPDX-License-Identifier: Apache-2.0
//! What tests of the gateway's parts have in common.

use super::conductor::Conductor;
use std::path::Path;
use std::sync::Mutex;

/// In DDS, for tests of this crate's own code; those of programs stand in `tests/rig`.
pub(super) const DOMAIN: u32 = 1;
/// A process takes part in a domain once at a time.
pub(super) static ALONE: Mutex<()> = Mutex::new(());

/// A gateway whose thread does not run, in a domain of its own below `dir`. `ros2`: as in a graph file.
pub(super) fn conductor(dir: &Path, ros2: serde_json::Value) -> Conductor {
    let config = serde_json::json!({ "domain_dir": dir.join("domain"), "ros2": ros2 });
    Conductor::new(serde_json::from_value(config).unwrap()).unwrap()
}
