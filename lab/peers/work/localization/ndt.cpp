// SPDX-License-Identifier: Apache-2.0
// Localizes the vehicle in the street: PCL's Normal Distributions Transform of a scan against the
// street's map. Passes the cloud on with the pose.
//
// Parameters: `cloud` (of the map, the same as that of the source), `resolution_m`, `step_m`,
// `iterations` (as in PCL), `epsilon_m` (a shorter step ends the iterations), `map_leaf_m` (grid
// for thinning out the map).
#include <pcl/filters/voxel_grid.h>
#include <pcl/registration/ndt.h>

#include "pcl_cloud.hpp"
#include "street.hpp"

namespace {

class Ndt {
public:
    explicit Ndt(const work::Parameters& parameters) {
        auto map = street::to_pcl(street::load(parameters.get<std::string>("cloud", "")));
        const auto leaf = static_cast<float>(parameters.get("map_leaf_m", 0.1, 0.02, 5.0));
        pcl::VoxelGrid<pcl::PointXYZI> grid;
        grid.setLeafSize(leaf, leaf, leaf);
        grid.setInputCloud(map);
        auto thin = street::Cloud::Ptr(new street::Cloud);
        grid.filter(*thin);
        ndt_.setResolution(static_cast<float>(parameters.get("resolution_m", 1.0, 0.1, 20.0)));
        ndt_.setStepSize(parameters.get("step_m", 0.2, 0.001, 10.0));
        // PCL compares it with the square of a step.
        const double epsilon_m = parameters.get("epsilon_m", 0.01, 1e-6, 1.0);
        ndt_.setTransformationEpsilon(epsilon_m * epsilon_m);
        ndt_.setMaximumIterations(
            static_cast<int>(parameters.get<std::int64_t>("iterations", 30, 1, 1000)));
        ndt_.setInputTarget(thin);
    }

    std::optional<std::size_t> process(work_call& call) {
        street::CloudHead head;
        street::read_cloud(work::input(call, 0), head, points_);
        ndt_.setInputSource(street::to_pcl(points_));
        street::Cloud aligned;
        // Starts from the pose of the last match that converged.
        ndt_.align(aligned, guess_);
        const Eigen::Matrix4f found = ndt_.getFinalTransformation();
        head.estimate = {found(0, 3), found(1, 3), std::atan2(found(1, 0), found(0, 0))};
        if (ndt_.hasConverged() && found.allFinite()) {
            guess_ = found;
        } else {
            ++not_converged_;
        }
        const double error_m = street::distance(head.estimate, head.truth);
        ++matches_;
        iterations_ += static_cast<std::uint64_t>(ndt_.getFinalNumIteration());
        error_sum_m_ += error_m;
        error_max_m_ = std::max(error_max_m_, error_m);
        return street::write_cloud(call, head, points_);
    }

    work::Report report() const {
        if (matches_ == 0) return {{"matches", 0}};
        const auto mm = [](double m) { return static_cast<std::uint64_t>(std::llround(1000 * m)); };
        return {{"matches", matches_},
                {"not_converged", not_converged_},
                {"iterations_mean", iterations_ / matches_},
                {"pose_error_mm", mm(error_sum_m_ / static_cast<double>(matches_))},
                {"pose_error_max_mm", mm(error_max_m_)}};
    }

private:
    pcl::NormalDistributionsTransform<pcl::PointXYZI, pcl::PointXYZI> ndt_;
    Eigen::Matrix4f guess_ = Eigen::Matrix4f::Identity();
    std::vector<street::Point> points_;
    std::uint64_t matches_ = 0;
    std::uint64_t not_converged_ = 0;
    std::uint64_t iterations_ = 0;
    double error_sum_m_ = 0;
    double error_max_m_ = 0;
};

}  // namespace

WORK(Ndt)
