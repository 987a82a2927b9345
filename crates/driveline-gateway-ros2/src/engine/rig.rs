// SPDX-License-Identifier: Apache-2.0
//! What tests of the gateway's parts have in common.

use super::conductor::Conductor;
use std::path::Path;

/// A gateway whose thread does not run, in a domain of its own below `dir`. `ros2`: as in a graph file.
pub(super) fn conductor(dir: &Path, ros2: serde_json::Value) -> Conductor {
    let config = serde_json::json!({ "domain_dir": dir.join("domain"), "ros2": ros2 });
    Conductor::new(serde_json::from_value(config).unwrap()).unwrap()
}
