// SPDX-License-Identifier: Apache-2.0
/// Radar.
#pragma once

#include "driveline/header.hpp"

namespace driveline {

/// One return. Fields as in ROS's `radar_msgs/RadarReturn`.
struct RadarReturn {
    /// Distance, in metres.
    float range;
    /// Angle in the radar's xy plane from x towards y, in radians.
    float azimuth;
    /// Angle from the radar's xy plane towards z, in radians.
    float elevation;
    /// Velocity along the ray, positive if moving away, in metres per second.
    float doppler_velocity;
    /// Strength of the return, in decibels.
    float amplitude;
};
DRIVELINE_PLAIN(RadarReturn, "driveline/RadarReturn", range, azimuth, elevation, doppler_velocity,
                amplitude);

/// One sweep of a radar: a header, and the returns as `returns`. Corresponds to ROS's
/// `radar_msgs/RadarScan`.
struct RadarScan {
    Header header;
};
DRIVELINE_PLAIN_WITH_TAIL(RadarScan, "driveline/RadarScan", RadarReturn, returns, header);

}  // namespace driveline
