// SPDX-License-Identifier: Apache-2.0
// Clouds in PCL's types.
#pragma once

#include <pcl/point_cloud.h>
#include <pcl/point_types.h>

#include "messages.hpp"

namespace street {

using Cloud = pcl::PointCloud<pcl::PointXYZI>;

inline Cloud::Ptr to_pcl(std::span<const Point> points) {
    auto cloud = Cloud::Ptr(new Cloud);
    cloud->resize(points.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
        auto& to = (*cloud)[i];
        to.x = points[i].x;
        to.y = points[i].y;
        to.z = points[i].z;
        to.intensity = points[i].intensity;
    }
    return cloud;
}

inline void from_pcl(const Cloud& cloud, std::vector<Point>& points) {
    points.clear();
    for (const auto& p : cloud) points.push_back({p.x, p.y, p.z, p.intensity});
}

}  // namespace street
