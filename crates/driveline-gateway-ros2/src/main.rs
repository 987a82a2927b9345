// SPDX-License-Identifier: Apache-2.0
//! `driveline-gateway-ros2`: exchanges topics and services of one domain with ROS 2 nodes, over DDS
//! and over rmw_zenoh.

use driveline_gateway_ros2::engine::Gateway;
use std::process::ExitCode;

fn main() -> ExitCode {
    driveline_gateway::serve::<Gateway>("driveline-gateway-ros2")
}
