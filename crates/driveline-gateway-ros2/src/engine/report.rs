// SPDX-License-Identifier: Apache-2.0
//! What a gateway says about itself, to tools.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All that is carried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// DDS domain.
    pub domain_id: u32,
    /// Towards ROS 2.
    pub to_ros: Vec<TopicReport>,
    /// From ROS 2.
    pub from_ros: Vec<TopicReport>,
}

/// A topic in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicReport {
    /// Name in Driveline.
    pub topic: String,
    /// Publishers that are carried at present, each with its type in ROS 2: nodes of Driveline, or `ros2/` and a node of ROS 2.
    pub publishers: Vec<(String, String)>,
    /// Samples that arrived at the other side.
    pub carried: u64,
    /// Samples that did not, by reason.
    pub dropped: BTreeMap<String, u64>,
}
