// SPDX-License-Identifier: Apache-2.0
// Detects obstacles: removes the ground (PCL's RANSAC plane), clusters the remaining points (PCL's
// Euclidean clustering), and computes a box for each tile of an obstacle. With a box for each whole
// obstacle, the box of a winding wall would cover the road.
//
// Parameters: `ground_m` (maximum distance of the ground from the plane), `tolerance_m` (between
// points of one obstacle), `least_points` (of an obstacle), `tile_m` (side of a square tile on the
// ground).
#include <pcl/filters/extract_indices.h>
#include <pcl/kdtree/kdtree.h>
#include <pcl/search/kdtree.h>
#include <pcl/segmentation/extract_clusters.h>
#include <pcl/segmentation/sac_segmentation.h>

#include <map>

#include "pcl_cloud.hpp"

namespace {

constexpr std::size_t most_boxes = 512;

class Perception {
public:
    explicit Perception(const work::Parameters& parameters) {
        plane_.setModelType(pcl::SACMODEL_PERPENDICULAR_PLANE);
        plane_.setAxis(Eigen::Vector3f::UnitZ());
        plane_.setEpsAngle(0.2);
        plane_.setMethodType(pcl::SAC_RANSAC);
        plane_.setMaxIterations(100);
        plane_.setDistanceThreshold(parameters.get("ground_m", 0.25, 0.01, 2.0));
        clusters_.setClusterTolerance(parameters.get("tolerance_m", 0.7, 0.05, 10.0));
        tile_ = static_cast<float>(parameters.get("tile_m", 3.0, 0.1, 1000.0));
        clusters_.setMinClusterSize(
            static_cast<int>(parameters.get<std::int64_t>("least_points", 12, 1, 100'000)));
    }

    std::optional<std::size_t> process(work_call& call) {
        street::CloudHead head;
        street::read_cloud(work::input(call, 0), head, points_);
        const auto cloud = street::to_pcl(points_);
        std::vector<street::Box> boxes;
        if (!cloud->empty()) find(cloud, boxes);
        ++clouds_;
        boxes_ += boxes.size();
        work::Writer out(call);
        out.value(street::BoxesHead{head.estimate, boxes.size()});
        out.values(std::span<const street::Box>(boxes));
        return out.written();
    }

    work::Report report() const {
        const auto mean = [&](std::uint64_t sum) { return clouds_ == 0 ? 0 : sum / clouds_; };
        return {{"obstacles_mean", mean(obstacles_)}, {"boxes_mean", mean(boxes_)}};
    }

private:
    void find(const street::Cloud::Ptr& cloud, std::vector<street::Box>& boxes) {
        pcl::ModelCoefficients coefficients;
        auto ground = pcl::PointIndices::Ptr(new pcl::PointIndices);
        plane_.setInputCloud(cloud);
        plane_.segment(*ground, coefficients);
        auto rest = street::Cloud::Ptr(new street::Cloud);
        pcl::ExtractIndices<pcl::PointXYZI> extract;
        extract.setInputCloud(cloud);
        extract.setIndices(ground);
        extract.setNegative(true);
        extract.filter(*rest);
        if (rest->empty()) return;
        auto tree =
            pcl::search::KdTree<pcl::PointXYZI>::Ptr(new pcl::search::KdTree<pcl::PointXYZI>);
        tree->setInputCloud(rest);
        std::vector<pcl::PointIndices> found;
        clusters_.setSearchMethod(tree);
        clusters_.setInputCloud(rest);
        clusters_.extract(found);
        obstacles_ += found.size();
        for (const auto& cluster : found) enclose(*rest, cluster, boxes);
    }

    void enclose(const street::Cloud& cloud, const pcl::PointIndices& cluster,
                 std::vector<street::Box>& boxes) const {
        std::map<std::pair<int, int>, street::Box> tiles;
        for (const auto index : cluster.indices) {
            const auto& p = cloud[static_cast<std::size_t>(index)];
            const std::pair tile{static_cast<int>(std::floor(p.x / tile_)),
                                 static_cast<int>(std::floor(p.y / tile_))};
            auto& box = tiles.try_emplace(tile, street::Box{{p.x, p.y, p.z}, {p.x, p.y, p.z}, 0})
                            .first->second;
            ++box.points;
            for (std::size_t k = 0; k < 3; ++k) {
                box.min[k] = std::min(box.min[k], p.data[k]);
                box.max[k] = std::max(box.max[k], p.data[k]);
            }
        }
        for (const auto& [tile, box] : tiles) {
            if (boxes.size() < most_boxes) boxes.push_back(box);
        }
    }

    pcl::SACSegmentation<pcl::PointXYZI> plane_;
    pcl::EuclideanClusterExtraction<pcl::PointXYZI> clusters_;
    std::vector<street::Point> points_;
    std::uint64_t clouds_ = 0;
    std::uint64_t obstacles_ = 0;
    std::uint64_t boxes_ = 0;
    float tile_ = 0;
};

}  // namespace

WORK(Perception)
