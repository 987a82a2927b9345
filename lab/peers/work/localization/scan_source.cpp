// SPDX-License-Identifier: Apache-2.0
// Scans of a street by a vehicle that drives through it, forth and back. Sample n depends only on
// n.
//
// Parameters: `cloud` (path of a PLY; empty: a generated street), `travel_x_m`, `travel_y_m`
// (travelled distance in the street's coordinates), `turn_deg` (maximum yaw, to both sides),
// `period` (samples for forth and back), `noise_m` (of each coordinate, uniform).
#include <numbers>
#include <random>

#include "street.hpp"

namespace {

class ScanSource {
public:
    explicit ScanSource(const work::Parameters& parameters)
        : points_(street::load(parameters.get<std::string>("cloud", ""))),
          travel_x_(parameters.get("travel_x_m", 0.0, -50.0, 50.0)),
          travel_y_(parameters.get("travel_y_m", -3.0, -50.0, 50.0)),
          turn_(parameters.get("turn_deg", 3.0, -45.0, 45.0) * std::numbers::pi / 180),
          period_(parameters.get<std::uint64_t>("period", 120, 2, 1'000'000)) {
        const auto most = static_cast<float>(parameters.get("noise_m", 0.01, 0.0, 1.0));
        // More values than a scan has coordinates: each scan begins to read them at another one, so
        // that consecutive scans have different noise.
        std::mt19937 random(7);
        noise_.resize(3 * points_.size() + 4096);
        for (auto& n : noise_) n = most * (static_cast<float>(random()) / 2147483648.0F - 1.0F);
    }

    std::optional<std::size_t> process(work_call& call) {
        const double phase = 2 * std::numbers::pi * static_cast<double>(call.origin % period_) /
                             static_cast<double>(period_);
        const double way = (1 - std::cos(phase)) / 2;
        const street::Pose truth{travel_x_ * way, travel_y_ * way, turn_ * std::sin(phase)};
        work::Writer out(call);
        out.value(street::CloudHead{truth, {}, points_.size()});
        const auto place = out.place(points_.size() * sizeof(street::Point));
        const auto c = static_cast<float>(std::cos(truth.yaw)),
                   s = static_cast<float>(std::sin(truth.yaw));
        const auto dx = static_cast<float>(truth.x), dy = static_cast<float>(truth.y);
        const float* noise = &noise_[call.origin * 31 % 4096];
        auto* to = place.data();
        for (const auto& p : points_) {
            const float x = p.x - dx, y = p.y - dy;
            const street::Point seen{c * x + s * y + noise[0], -s * x + c * y + noise[1],
                                     p.z + noise[2], p.intensity};
            std::memcpy(to, &seen, sizeof seen);
            to += sizeof seen;
            noise += 3;
        }
        return out.written();
    }

    work::Report report() const { return {{"points", points_.size()}}; }

private:
    std::vector<street::Point> points_;
    std::vector<float> noise_;
    double travel_x_, travel_y_, turn_;
    std::uint64_t period_;
};

}  // namespace

WORK(ScanSource)
