// SPDX-License-Identifier: Apache-2.0
// Plans the next move: chooses among paths with different offsets to the side, and the speed. The
// chosen path has the least cost: loss of speed, lack of distance from obstacles, and offset.
//
// Parameters: `heading_deg` (of the street, in the vehicle's coordinates), `speed_mps` (wanted),
// `brake_mps2`, `width_m` (of the vehicle).
#include <array>
#include <numbers>

#include "messages.hpp"

namespace {

constexpr std::array offsets_m{0.0, -0.5, 0.5, -1.0, 1.0, -1.5, 1.5};
constexpr double horizon_m = 40;
constexpr double step_m = 0.5;
/// Length along which a path reaches its offset.
constexpr double swing_m = 10;
/// More clearance than this makes no path better.
constexpr double enough_m = 1.0;
constexpr double reaction_s = 0.3;

class Planner {
public:
    explicit Planner(const work::Parameters& parameters)
        : heading_(parameters.get("heading_deg", -90.0, -180.0, 180.0) * std::numbers::pi / 180),
          speed_(parameters.get("speed_mps", 13.9, 0.1, 100.0)),
          brake_(parameters.get("brake_mps2", 4.0, 0.1, 20.0)),
          half_width_(parameters.get("width_m", 1.9, 0.1, 10.0) / 2) {}

    std::optional<std::size_t> process(work_call& call) {
        work::Reader in(work::input(call, 0));
        const auto head = in.value<street::BoxesHead>();
        in.values(boxes_, head.boxes);
        street::Decision best;
        double best_cost = std::numeric_limits<double>::infinity();
        for (const double offset : offsets_m) {
            const auto [free_m, clearance_m] = look_along(offset);
            const double stop = std::sqrt(2 * brake_ * std::max(0.0, free_m)) - brake_ * reaction_s;
            const double speed = std::clamp(stop, 0.0, speed_);
            const double cost = (speed_ - speed) + 2 * std::max(0.0, enough_m - clearance_m) +
                                0.5 * std::abs(offset);
            if (cost < best_cost) {
                best_cost = cost;
                best = {head.estimate, speed, offset, clearance_m};
            }
        }
        ++decisions_;
        if (best.speed_mps < speed_) ++slower_;
        if (best.offset_m != 0) ++aside_;
        if (call.output == nullptr) return 0;
        work::Writer out(call);
        out.value(best);
        return out.written();
    }

    work::Report report() const {
        return {{"decisions", decisions_},
                {"decided_to_slow_down", slower_},
                {"decided_to_swing_out", aside_}};
    }

private:
    /// Returns the free length of a path, and the smallest distance between an obstacle and the
    /// side of the vehicle along it: 0 if the path is blocked, and at most twice `enough_m`.
    std::pair<double, double> look_along(double offset) const {
        double clearance = enough_m * 2;
        for (double way = 2; way < horizon_m; way += step_m) {
            const double share = std::min(1.0, way / swing_m);
            const double aside = offset * share * share * (3 - 2 * share);
            const double x = way * std::cos(heading_) - aside * std::sin(heading_),
                         y = way * std::sin(heading_) + aside * std::cos(heading_);
            double nearest = enough_m * 2;
            for (const auto& box : boxes_) {
                // Objects above the vehicle are not obstacles.
                if (box.min[2] > 0.5F) continue;
                const double dx = std::max({box.min[0] - x, x - box.max[0], 0.0}),
                             dy = std::max({box.min[1] - y, y - box.max[1], 0.0});
                nearest = std::min(nearest, std::hypot(dx, dy) - half_width_);
            }
            if (nearest <= 0) return {way, 0.0};
            clearance = std::min(clearance, nearest);
        }
        return {horizon_m, clearance};
    }

    double heading_, speed_, brake_, half_width_;
    std::vector<street::Box> boxes_;
    std::uint64_t decisions_ = 0;
    std::uint64_t slower_ = 0;
    std::uint64_t aside_ = 0;
};

}  // namespace

WORK(Planner)
