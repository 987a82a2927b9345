// SPDX-License-Identifier: Apache-2.0
//! Radar messages.

use crate::header::Header;
use driveline_types::plain_type;

/// One sweep of a radar: a header, and the returns as `returns`. It corresponds to ROS's
/// `radar_msgs/RadarScan`.
#[plain_type(name = "driveline/RadarScan", tail(returns: RadarReturn))]
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RadarScan {
    /// Source time, number of the sweep and radar frame.
    pub header: Header,
}

/// One return. Fields as in ROS's `radar_msgs/RadarReturn`.
#[plain_type(name = "driveline/RadarReturn")]
#[derive(Debug, Default, PartialEq)]
pub struct RadarReturn {
    /// Distance, in metres.
    pub range: f32,
    /// Angle in the radar's xy plane from x towards y, in radians.
    pub azimuth: f32,
    /// Angle from the radar's xy plane towards z, in radians.
    pub elevation: f32,
    /// Velocity along the ray, positive if moving away, in metres per second.
    pub doppler_velocity: f32,
    /// Strength of the return, in decibels.
    pub amplitude: f32,
}
