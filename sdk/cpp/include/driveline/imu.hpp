// SPDX-License-Identifier: Apache-2.0
/// Inertial measurements.
#pragma once

#include "driveline/header.hpp"

namespace driveline {

/// One measurement of an inertial measurement unit, in its own frame. Fields and rules as in ROS's
/// `sensor_msgs/Imu`.
///
/// Covariances are row-major; all zeros stand for "not known", and -1 in the first element for "the
/// quantity itself is not measured".
struct Imu {
    Header header;
    /// Orientation as a quaternion x, y, z, w.
    double orientation[4];
    /// About x, y, z; in rad².
    double orientation_covariance[9];
    /// About x, y, z; in rad/s.
    double angular_velocity[3];
    /// In (rad/s)².
    double angular_velocity_covariance[9];
    /// Along x, y, z, gravity included; in m/s².
    double linear_acceleration[3];
    /// In (m/s²)².
    double linear_acceleration_covariance[9];
};
DRIVELINE_PLAIN(Imu, "driveline/Imu", header, orientation, orientation_covariance, angular_velocity,
                angular_velocity_covariance, linear_acceleration, linear_acceleration_covariance);

}  // namespace driveline
