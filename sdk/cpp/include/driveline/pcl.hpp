// SPDX-License-Identifier: Apache-2.0
/// Whole PCL clouds: publishes and fills them. This header includes no header of PCL. Include PCL's
/// own headers, or use a similar class with `points`, `width`, `height`, `is_dense` and
/// `header.frame_id`.
///
/// ```cpp
/// #include <pcl/point_cloud.h>
/// #include <pcl/point_types.h>
/// #include <driveline/pcl.hpp>
///
/// pcl::PointCloud<pcl::PointXYZI> cloud;
/// if (auto done = driveline::copy(sample.cloud(), cloud); !done) return done;   // in
/// return driveline::publish(output_, cloud, header);                           // out
/// ```
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "driveline/points.hpp"
#include "driveline/publisher.hpp"

namespace driveline {

/// `pcl::PointCloud<P>`, or a class with the same members.
template <class C>
concept PclCloud = requires(C& cloud, const C& constant) {
    requires Point<typename C::PointType>;
    cloud.points.resize(std::size_t{});
    { constant.points.data() } -> std::convertible_to<const typename C::PointType*>;
    { constant.width } -> std::convertible_to<std::uint32_t>;
    { constant.height } -> std::convertible_to<std::uint32_t>;
    { constant.is_dense } -> std::convertible_to<bool>;
    { constant.header.frame_id } -> std::convertible_to<std::string>;
};

/// Copies the points of `cloud` into a loan and publishes it. If the header has no frame, that of
/// the cloud is used. The cloud's `header.stamp` is wall-clock time and is not used: set
/// `header.source_time_ns`. Fails if `width * height` is not the number of points, or if a point
/// has bytes that belong to no field (`driveline/point_fields.hpp`).
template <PclCloud C>
[[nodiscard]] Result<std::uint64_t> publish(const PublisherBase<PointCloud>& output, const C& cloud,
                                            Header header = {}) {
    using P = typename C::PointType;
    const std::uint64_t claimed = std::uint64_t{cloud.width} * cloud.height;
    if (claimed != cloud.points.size()) {
        return Error{"the cloud claims " + std::to_string(cloud.width) + " x " +
                     std::to_string(cloud.height) + " points and has " +
                     std::to_string(cloud.points.size()) + ": set its width and height"};
    }
    if (header.frame().empty()) {
        if (auto set = header.set_frame(cloud.header.frame_id); !set) return std::move(set).error();
    }
    auto loan = output.loan(cloud.points.size() * sizeof(P));
    if (!loan) return std::move(loan).error();
    auto made = CloudMut<P>::from(loan->bytes(), header, cloud.width, cloud.height);
    if (!made) return std::move(made).error();
    std::copy_n(cloud.points.data(), cloud.points.size(), made->points().begin());
    if (cloud.is_dense) made->set_dense();
    if (header.source_time_ns != 0) loan->set_source_time(from_ns(header.source_time_ns));
    return output.publish(std::move(*loan));
}

/// Fills `cloud` with the points, shape and frame of a received cloud of any layout. Allocates if
/// the cloud has too little memory. `header.stamp` stays as it is: the time of the data is
/// `view.header().source_time_ns`, on the monotonic clock.
template <PclCloud C>
[[nodiscard]] Result<void> copy(const CloudView& view, C& cloud) {
    auto points = driveline::points<typename C::PointType>(view);
    if (!points) return std::move(points).error();
    cloud.points.resize(points->size());
    std::size_t i = 0;
    for (const auto& point : *points) cloud.points[i++] = point;
    cloud.width = view.head().width;
    cloud.height = view.head().height;
    cloud.is_dense = view.head().is_dense != 0;
    cloud.header.frame_id = std::string(view.header().frame());
    return {};
}

}  // namespace driveline
