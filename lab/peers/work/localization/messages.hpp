// SPDX-License-Identifier: Apache-2.0
// Messages between the works of this folder. Metres and radians; right-handed, z up; in vehicle
// coordinates unless the street's are named. At yaw 0, the axes of both are parallel, so x is not
// always forward: the generated street runs along y, and the vehicle drives towards -y.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "work.hpp"

namespace street {

struct Point {
    float x, y, z, intensity;
};

/// Pose of the vehicle in the street.
struct Pose {
    double x = 0, y = 0, yaw = 0;
};

inline double distance(const Pose& a, const Pose& b) { return std::hypot(a.x - b.x, a.y - b.y); }

/// Head of a cloud.
struct CloudHead {
    /// Actual pose of the scan, used only to check the result.
    Pose truth;
    /// Estimated pose; zero before the estimate.
    Pose estimate;
    std::uint64_t points = 0;
};

/// Extent of an obstacle.
struct Box {
    float min[3];
    float max[3];
    std::uint32_t points;
};

struct BoxesHead {
    Pose estimate;
    std::uint64_t boxes = 0;
};

/// Next action of the vehicle.
struct Decision {
    Pose estimate;
    double speed_mps = 0;
    double offset_m = 0;
    double clearance_m = 0;
};

inline void read_cloud(const work_input& input, CloudHead& head, std::vector<Point>& points) {
    work::Reader in(input);
    head = in.value<CloudHead>();
    in.values(points, head.points);
}

inline std::size_t write_cloud(const work_call& call, CloudHead head,
                               std::span<const Point> points) {
    work::Writer out(call);
    head.points = points.size();
    out.value(head);
    out.values(points);
    return out.written();
}

}  // namespace street
