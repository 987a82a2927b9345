// SPDX-License-Identifier: Apache-2.0
// Detects vehicles without a network, by the dark band under a car. The search goes from the bottom
// of the image upwards. A run of pixels much darker than the road, as wide as a car in that row,
// proposes a vehicle that stands there. The proposal is kept if the pixels above it do not look
// like road. The detector knows no classes, misses cars whose shadow is hidden, and reports dark
// objects of the width of a car as cars. It is good enough to exercise a pipeline, and its output
// is labelled as classical.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include <opencv2/imgproc.hpp>

#include "detector_backends.hpp"

namespace comp::detectors {
namespace {

constexpr double kDarkShare = 0.6;  // darker than this share of the road is shadow or tyre
constexpr double kMinRun = 0.75;    // run length, divided by the expected car width
constexpr double kMaxRun = 1.6;
constexpr double kMinBorderRun = 0.35;  // the same for cars cut off by the image border
constexpr double kMaxGap = 0.12;    // gap between tyres and shadow, divided by the expected width
constexpr double kMaxFlank = 1.3;   // width of a flank, divided by the expected width
constexpr double kFlankGap = 0.04;  // the shadow of a flank has no gaps; tolerates noise
constexpr double kHeightPerWidth = 0.8;
constexpr double kMinWidthPx = 14.0;
constexpr int kOffRoad = 22;  // difference to the road's brightness, in grey levels
// Share of the pixels above the shadow that must differ from the road.
constexpr double kMinBodyShare = 0.3;
constexpr int kMinRoadGrey = 30;  // on a darker road, a shadow cannot be distinguished
constexpr std::size_t kMaxCandidates = 256;

class ClassicalDetector final : public VehicleDetector {
public:
    explicit ClassicalDetector(const DetectorOptions& options) : VehicleDetector(options) {}

    [[nodiscard]] std::string name() const override { return "classical (no model)"; }
    [[nodiscard]] bool is_classical() const override { return true; }

protected:
    void propose(const cv::Mat& bgr, std::vector<Detection>& out) override {
        const double horizon = options_.horizon_fraction * bgr.rows;
        const int first_row =
            static_cast<int>(horizon + kMinWidthPx / options_.car_width_per_row) + 1;
        // The lowest rows show the bonnet on many cameras.
        const int last_row = static_cast<int>(0.97 * bgr.rows);
        if (first_row >= last_row || bgr.cols < 64) {
            return;
        }
        const int top = std::max(0, static_cast<int>(horizon) - bgr.rows / 4);
        cv::cvtColor(bgr.rowRange(top, last_row), grey_, cv::COLOR_BGR2GRAY);
        const int road = road_grey(last_row - top);
        if (road < kMinRoadGrey) {
            return;
        }
        const int dark = static_cast<int>(kDarkShare * road);
        for (int y = last_row - 1; y > first_row && out.size() < kMaxCandidates; --y) {
            scan_row(y, top, options_.car_width_per_row * (y - horizon), dark, road, out);
        }
    }

private:
    // Median brightness of the lane ahead.
    [[nodiscard]] int road_grey(int rows) const {
        std::array<int, 256> histogram{};
        int count = 0;
        for (int y = rows * 7 / 10; y < rows; y += 2) {
            const auto* row = grey_.ptr<std::uint8_t>(y);
            for (int x = grey_.cols * 35 / 100; x < grey_.cols * 65 / 100; x += 2) {
                ++histogram[row[x]];
                ++count;
            }
        }
        int level = 0;
        for (int below = histogram[0]; level < 255 && 2 * below < count;
             below += histogram[static_cast<std::size_t>(level)]) {
            ++level;
        }
        return level;
    }

    void scan_row(int y, int top, double car_width, int dark, int road,
                  std::vector<Detection>& out) const {
        const auto* row = grey_.ptr<std::uint8_t>(y - top);
        const int gap = std::max(1, static_cast<int>(kMaxGap * car_width));
        int start = -1;
        int last_dark = -1;
        int dark_pixels = 0;
        for (int x = 0; x <= grey_.cols; ++x) {
            const bool is_dark = x < grey_.cols && row[x] < dark;
            if (is_dark) {
                if (start < 0) {
                    start = x;
                    dark_pixels = 0;
                }
                last_dark = x;
                ++dark_pixels;
            }
            if (start >= 0 && (x - last_dark > gap || x == grey_.cols)) {
                consider(start, last_dark, dark_pixels, y, top, car_width, road, dark, out);
                start = -1;
            }
        }
    }

    void consider(int left, int right, int dark_pixels, int y, int top, double car_width, int road,
                  int dark, std::vector<Detection>& out) const {
        const int length = right - left + 1;
        const bool at_border = left <= 2 || right >= grey_.cols - 3;
        if (length > kMaxRun * car_width ||
            length < (at_border ? kMinBorderRun : kMinRun) * car_width ||
            dark_pixels < 0.7 * length) {
            return;
        }
        const auto height = static_cast<float>(kHeightPerWidth * car_width);
        cv::Rect2f box(static_cast<float>(left), static_cast<float>(y) - height,
                       static_cast<float>(length), height);
        // A dark run inside a nearer proposal is a window or bumper of that vehicle, or belongs to
        // a car that it hides.
        for (const Detection& nearer : out) {
            const float shared =
                std::min(box.br().x, nearer.box.br().x) - std::max(box.x, nearer.box.x);
            if (shared > 0.4F * box.width && box.br().y > nearer.box.y) {
                return;
            }
        }
        const double body = body_share(box, top, road);
        const double thickness =
            dark_rows(left, right, y, top, dark) / std::max(2.0, 0.06 * car_width);
        if (body < kMinBodyShare || thickness < 0.5) {
            return;
        }
        // The flank of a car to the side: the shadow under it runs towards the image centre.
        const bool flank_right = box.x + box.width / 2 < static_cast<float>(grey_.cols) / 2;
        const int flank =
            flank_end(flank_right ? right : left, flank_right ? 1 : -1, y, top, car_width, dark);
        if (flank_right) {
            box.width = static_cast<float>(flank - left + 1);
        } else {
            box.width = static_cast<float>(right - flank + 1);
            box.x = static_cast<float>(flank);
        }
        const double confidence =
            std::min(1.0, 0.3 + 0.4 * std::min(1.0, body) + 0.2 * std::min(1.0, thickness));
        out.push_back({box, static_cast<float>(confidence), VehicleClass::unknown});
    }

    // Follows the edge of the shadow upwards and sideways from the corner (x, y). Returns the
    // farthest column reached.
    [[nodiscard]] int flank_end(int x, int direction, int y, int top, double car_width,
                                int dark) const {
        const int gap = static_cast<int>(kFlankGap * car_width);
        const int limit =
            std::clamp(x + direction * static_cast<int>(kMaxFlank * car_width), 0, grey_.cols - 1);
        const int last_row = std::max(top, y - static_cast<int>(0.5 * kHeightPerWidth * car_width));
        for (; y >= last_row; --y) {
            const auto* row = grey_.ptr<std::uint8_t>(y - top);
            int misses = 0;
            for (int at = x; misses <= gap && direction * (limit - at) >= 0; at += direction) {
                if (row[at] < dark) {
                    x = at;
                    misses = 0;
                } else {
                    ++misses;
                }
            }
        }
        return x;
    }

    // Returns the share of the pixels above the shadow that differ from the road.
    [[nodiscard]] double body_share(const cv::Rect2f& box, int top, int road) const {
        const int y0 = std::max(0, static_cast<int>(box.y + 0.25F * box.height) - top);
        const int y1 = std::min(grey_.rows, static_cast<int>(box.y + 0.9F * box.height) - top);
        const int x0 = std::max(0, static_cast<int>(box.x + 0.1F * box.width));
        const int x1 = std::min(grey_.cols, static_cast<int>(box.x + 0.9F * box.width));
        int off = 0;
        int all = 0;
        for (int y = y0; y < y1; ++y) {
            const auto* row = grey_.ptr<std::uint8_t>(y);
            for (int x = x0; x < x1; ++x) {
                off += std::abs(row[x] - road) > kOffRoad ? 1 : 0;
                ++all;
            }
        }
        return all > 0 ? static_cast<double>(off) / all : 0.0;
    }

    // Returns the number of consecutive rows, upwards from y, in which at least half of the run is
    // dark.
    [[nodiscard]] int dark_rows(int left, int right, int y, int top, int dark) const {
        int rows = 0;
        for (; y - top >= 0 && rows < 64; --y, ++rows) {
            const auto* row = grey_.ptr<std::uint8_t>(y - top);
            const auto count = std::count_if(row + left, row + right + 1,
                                             [&](std::uint8_t v) { return v < dark; });
            if (2 * count < right - left + 1) {
                break;
            }
        }
        return rows;
    }

    cv::Mat grey_;
};

}  // namespace

std::unique_ptr<VehicleDetector> make_classical(const DetectorOptions& options) {
    return std::make_unique<ClassicalDetector>(options);
}

}  // namespace comp::detectors
