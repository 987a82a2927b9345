// SPDX-License-Identifier: Apache-2.0
#include "perception.hpp"

#include <algorithm>

namespace comp {

std::optional<float> lane_x_at(const LaneLine& line, float y) {
    if (!line.valid || line.points.size() < 2) {
        return std::nullopt;
    }
    // Points run from near to far, so y decreases along them. The row y is in the first segment
    // whose far end is not below that row.
    std::size_t far_end = 1;
    while (far_end + 1 < line.points.size() && line.points[far_end].y > y) {
        ++far_end;
    }
    const cv::Point2f near_point = line.points[far_end - 1];
    const cv::Point2f far_point = line.points[far_end];
    const float rows = far_point.y - near_point.y;
    if (rows == 0.0F) {
        return near_point.x;
    }
    return near_point.x + (far_point.x - near_point.x) * (y - near_point.y) / rows;
}

std::string_view to_string(VehicleClass kind) {
    switch (kind) {
        case VehicleClass::car:
            return "car";
        case VehicleClass::motorbike:
            return "motorbike";
        case VehicleClass::bus:
            return "bus";
        case VehicleClass::truck:
            return "truck";
        case VehicleClass::unknown:
            break;
    }
    return "vehicle";
}

std::string_view to_string(TrackState state) {
    switch (state) {
        case TrackState::tentative:
            return "tentative";
        case TrackState::tracking:
            return "tracking";
        case TrackState::lost:
            break;
    }
    return "lost";
}

float intersection_over_union(const cv::Rect2f& a, const cv::Rect2f& b) {
    const float shared = (a & b).area();
    const float total = a.area() + b.area() - shared;
    return total > 0.0F ? shared / total : 0.0F;
}

void set_opencv_threads(int threads) { cv::setNumThreads(threads > 0 ? threads : -1); }

}  // namespace comp
