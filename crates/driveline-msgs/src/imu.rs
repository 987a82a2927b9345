// SPDX-License-Identifier: Apache-2.0
//! Inertial measurements.

use crate::header::Header;
use driveline_types::plain_type;

/// One measurement of an inertial measurement unit, in its own frame. Fields and rules as in ROS's
/// `sensor_msgs/Imu`.
///
/// Covariances are row-major; all zeros stand for "not known", and -1 in the first element for "the
/// quantity itself is not measured".
#[plain_type(name = "driveline/Imu")]
#[derive(Debug, Default, PartialEq)]
pub struct Imu {
    /// Source time, number of the measurement and sensor frame.
    pub header: Header,
    /// Orientation as a quaternion x, y, z, w.
    pub orientation: [f64; 4],
    /// Covariance about x, y, z; in rad².
    pub orientation_covariance: [f64; 9],
    /// Angular velocity about x, y, z; in rad/s.
    pub angular_velocity: [f64; 3],
    /// Covariance in (rad/s)².
    pub angular_velocity_covariance: [f64; 9],
    /// Acceleration along x, y, z, gravity included; in m/s².
    pub linear_acceleration: [f64; 3],
    /// Covariance in (m/s²)².
    pub linear_acceleration_covariance: [f64; 9],
}
