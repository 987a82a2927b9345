// SPDX-License-Identifier: Apache-2.0
// Cuts a scan to the surroundings of the vehicle, without the vehicle itself, and thins it out with
// PCL's voxel grid.
//
// Parameters: `range_m` (to each side), `vehicle_m` (half the side of the square that the vehicle
// occupies), `height_m` (maximum z), `leaf_m` (of the grid).
#include <pcl/filters/voxel_grid.h>

#include "pcl_cloud.hpp"

namespace {

class Preprocess {
public:
    explicit Preprocess(const work::Parameters& parameters)
        : range_(static_cast<float>(parameters.get("range_m", 40.0, 1.0, 500.0))),
          vehicle_(static_cast<float>(parameters.get("vehicle_m", 1.5, 0.0, 10.0))),
          height_(static_cast<float>(parameters.get("height_m", 8.0, -10.0, 100.0))) {
        const auto leaf = static_cast<float>(parameters.get("leaf_m", 0.4, 0.05, 10.0));
        grid_.setLeafSize(leaf, leaf, leaf);
    }

    std::optional<std::size_t> process(work_call& call) {
        street::CloudHead head;
        street::read_cloud(work::input(call, 0), head, points_);
        std::erase_if(points_, [&](const street::Point& p) {
            const float x = std::abs(p.x), y = std::abs(p.y);
            return x > range_ || y > range_ || p.z > height_ || (x < vehicle_ && y < vehicle_);
        });
        grid_.setInputCloud(street::to_pcl(points_));
        street::Cloud thin;
        grid_.filter(thin);
        street::from_pcl(thin, points_);
        ++clouds_;
        kept_ += points_.size();
        return street::write_cloud(call, head, points_);
    }

    work::Report report() const { return {{"points_kept", clouds_ == 0 ? 0 : kept_ / clouds_}}; }

private:
    float range_, vehicle_, height_;
    pcl::VoxelGrid<pcl::PointXYZI> grid_;
    std::vector<street::Point> points_;
    std::uint64_t clouds_ = 0;
    std::uint64_t kept_ = 0;
};

}  // namespace

WORK(Preprocess)
