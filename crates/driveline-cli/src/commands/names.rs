// SPDX-License-Identifier: Apache-2.0
//! Names of topics and services as people type them.

use driveline_types::{NameError, TopicName};

/// Parses a topic's or service's name as users type it: as in ROS 2, it may begin with `/`.
pub(super) fn name_of(typed: &str) -> Result<TopicName, String> {
    let name = typed.strip_prefix('/').unwrap_or(typed);
    if name.starts_with('/') {
        let meant = name.trim_start_matches('/');
        let meant =
            if meant.is_empty() { String::new() } else { format!("; did you mean '{meant}'?") };
        return Err(format!(
            "'{typed}' is no name: one '/' before it is left out, and there are more{meant}"
        ));
    }
    name.parse().map_err(|e: NameError| e.to_string())
}
