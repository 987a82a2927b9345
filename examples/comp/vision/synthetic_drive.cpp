// SPDX-License-Identifier: Apache-2.0
#include "synthetic_drive.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include <opencv2/imgproc.hpp>

#include "perception.hpp"
#include "synthetic_scene.hpp"

namespace comp {
namespace {

using synthetic::Car;
using synthetic::Colour;
using synthetic::Scene;

constexpr double kTau = 2.0 * std::numbers::pi;
constexpr double kHorizonFraction = 0.54;
constexpr double kEgoSpeedMps = 27.0;
constexpr int kPitchMarginRows = 4;
constexpr int kNoiseMargin = 64;
constexpr std::size_t kNoiseRows = 256;

constexpr std::array<Colour, 8> kPaints{{{178, 178, 176},
                                         {42, 34, 150},
                                         {118, 66, 36},
                                         {222, 224, 224},
                                         {96, 98, 100},
                                         {60, 92, 44},
                                         {40, 120, 172},
                                         {128, 52, 92}}};

// A small integer hash (splitmix-style finaliser). The scene needs scattered values that are always
// the same.
std::uint32_t scatter(std::uint32_t v) {
    v ^= v >> 16;
    v *= 0x7feb352dU;
    v ^= v >> 15;
    v *= 0x846ca68bU;
    return v ^ (v >> 16);
}

// Returns the metres of paint in [0, z) of a dashed line.
double dashed_paint_before(double z_m) {
    const double whole = std::floor(z_m / synthetic::kDashPeriodM);
    return whole * synthetic::kDashLengthM +
           std::min(z_m - whole * synthetic::kDashPeriodM, synthetic::kDashLengthM);
}

// Blends a span with fractional ends into one row; `cover` is 0..1.
void blend_span(std::uint8_t* row, int width, double left, double right, const Colour& colour,
                double cover) {
    // Pixel i reaches from i - 0.5 to i + 0.5.
    const int first = std::max(0, static_cast<int>(std::floor(left + 0.5)));
    const int last = std::min(width - 1, static_cast<int>(std::floor(right + 0.5)));
    for (int i = first; i <= last; ++i) {
        const double share = std::min(right, i + 0.5) - std::max(left, i - 0.5);
        const double alpha = std::clamp(share, 0.0, 1.0) * cover;
        std::uint8_t* p = row + 3 * i;
        p[0] = static_cast<std::uint8_t>(p[0] + alpha * (colour.b - p[0]));
        p[1] = static_cast<std::uint8_t>(p[1] + alpha * (colour.g - p[1]));
        p[2] = static_cast<std::uint8_t>(p[2] + alpha * (colour.r - p[2]));
    }
}

cv::Mat make_backdrop(cv::Size size) {
    const double horizon = kHorizonFraction * size.height;
    const int rows = static_cast<int>(horizon) + 2 + 2 * kPitchMarginRows;
    cv::Mat sky(rows, size.width, CV_8UC3);
    for (int y = 0; y < rows; ++y) {
        const double t = std::min(1.0, y / horizon);
        sky.row(y).setTo(cv::Scalar(206 + 24 * t, 150 + 66 * t, 96 + 110 * t));
    }
    // Clouds, blurred until they have no edge.
    cv::Mat clouds = cv::Mat::zeros(sky.size(), CV_8UC1);
    for (std::uint32_t i = 0; i < 46; ++i) {
        const std::uint32_t h = scatter(i + 7);
        const std::uint32_t group = scatter(i / 6 + 91);
        const double cx =
            (group % 1000) / 1000.0 * size.width + ((h % 200) / 100.0 - 1.0) * 0.09 * size.width;
        const double cy = (0.08 + ((group >> 10) % 100) / 100.0 * 0.55) * horizon +
                          ((h >> 8) % 100 / 100.0 - 0.5) * 0.05 * horizon;
        const cv::Size axes(static_cast<int>(size.width * (0.03 + (h >> 16) % 100 / 2200.0)),
                            static_cast<int>(horizon * 0.035) + 1);
        cv::ellipse(clouds, cv::Point(static_cast<int>(cx), static_cast<int>(cy)), axes, 0, 0, 360,
                    cv::Scalar(150), cv::FILLED);
    }
    cv::GaussianBlur(clouds, clouds, {}, std::max(1.0, size.width / 75.0),
                     std::max(1.0, size.width / 160.0));
    for (int y = 0; y < rows; ++y) {
        auto* p = sky.ptr<std::uint8_t>(y);
        const auto* c = clouds.ptr<std::uint8_t>(y);
        for (int x = 0; x < size.width; ++x) {
            for (int k = 0; k < 3; ++k) {
                p[3 * x + k] =
                    static_cast<std::uint8_t>(p[3 * x + k] + (246 - p[3 * x + k]) * c[x] / 255);
            }
        }
    }
    // Two ranges of hills and a line of distant trees, as columns up from the horizon.
    for (int x = 0; x < size.width; ++x) {
        const double u = static_cast<double>(x) / size.width;
        const double far_range =
            0.085 + 0.03 * std::sin(7.0 * u + 0.6) + 0.014 * std::sin(19.0 * u + 2.0);
        const double near_range =
            0.05 + 0.02 * std::sin(9.0 * u + 4.0) + 0.008 * std::sin(31.0 * u);
        const double trees = 0.022 + 0.006 * std::sin(97.0 * u) + 0.005 * std::sin(211.0 * u + 1.0);
        const auto column = [&](double height, const cv::Scalar& colour) {
            const int top =
                std::max(0, static_cast<int>(horizon * (1.0 - height)) + kPitchMarginRows);
            sky(cv::Rect(x, top, 1, rows - top)).setTo(colour);
        };
        column(far_range, cv::Scalar(176, 152, 128));
        column(near_range, cv::Scalar(120, 128, 104));
        column(trees, cv::Scalar(64, 88, 66));
    }
    cv::GaussianBlur(sky, sky, {3, 3}, 0);
    return sky;
}

// The ground below the horizon, row by row. A row covers the depths [near, far]; dashes are
// integrated over that range, so that distant ones fade instead of flickering.
struct Ground {
    const Scene& scene;
    const std::vector<std::int8_t>& noise;
    const std::vector<std::uint8_t>& asphalt;
    const std::vector<std::uint8_t>& verge;

    void paint(cv::Mat& bgr) const {
        for (int y = std::max(0, static_cast<int>(std::ceil(scene.horizon_px)));
             y < scene.size.height; ++y) {
            row(bgr.ptr<std::uint8_t>(y), y);
        }
    }

private:
    void row(std::uint8_t* pixels, int y) const {
        const int width = scene.size.width;
        const double below = std::max(0.35, y - scene.horizon_px);
        const double depth = scene.focal_px * scene.camera_height_m / below;
        const double near_m = scene.focal_px * scene.camera_height_m / (below + 0.5);
        const double far_m = scene.focal_px * scene.camera_height_m / std::max(0.3, below - 0.5);
        const auto x_of = [&](double x_m) { return scene.project(x_m, 0.0, depth).x; };
        const double pixels_per_m = scene.focal_px / depth;

        const int road_left =
            std::clamp(static_cast<int>(std::lround(x_of(synthetic::kLeftVergeM))), 0, width);
        const int road_right = std::clamp(
            static_cast<int>(std::lround(x_of(synthetic::kRightVergeM))), road_left, width);
        // The texture is fixed to the road, so it moves towards the camera.
        const auto patch = static_cast<std::uint32_t>((scene.travelled_m + depth) / 0.22);
        const std::size_t texture = 3 * ((scatter(patch) % kNoiseRows) * 7);
        const int strength = static_cast<int>(64.0 * std::min(1.0, 9.0 / depth)) + 6;
        const auto fill = [&](const std::vector<std::uint8_t>& base, int from, int to, int gain) {
            for (int i = 3 * from; i < 3 * to; ++i) {
                const auto k = static_cast<std::size_t>(i);
                pixels[i] = static_cast<std::uint8_t>(
                    base[k] + ((noise[texture + k] * strength * gain) >> 8));
            }
        };
        fill(verge, 0, road_left, 7);
        fill(asphalt, road_left, road_right, 2);
        fill(verge, road_right, width, 7);

        // Tyre tracks: two darker strips per lane.
        for (int lane = 0; lane >= -2; --lane) {
            for (const double side : {-0.85, 0.85}) {
                const double at = lane * synthetic::kLaneWidthM + side;
                blend_span(pixels, width, x_of(at - 0.32), x_of(at + 0.32), {72, 68, 66}, 0.16);
            }
        }
        const auto line = [&](double at_m, const Colour& colour, double cover) {
            const double half = std::max(0.5 * synthetic::kMarkingWidthM * pixels_per_m, 0.25);
            blend_span(pixels, width, x_of(at_m) - half, x_of(at_m) + half, colour, cover);
        };
        const double dash = (dashed_paint_before(scene.travelled_m + far_m) -
                             dashed_paint_before(scene.travelled_m + near_m)) /
                            (far_m - near_m);
        const double haze = 1.0 / (1.0 + std::max(0.0, depth - 60.0) / 90.0);
        const Colour white{226, 228, 228};
        line(synthetic::kRightLineM, white, 0.95 * haze);
        line(synthetic::kLeftLineM, white, 0.95 * haze * dash);
        line(synthetic::kSecondLineM, white, 0.95 * haze * dash);
        line(synthetic::kLeftEdgeM, {70, 178, 214}, 0.9 * haze);
    }
};

}  // namespace

namespace synthetic {

Scene scene_at(cv::Size size, double t) {
    Scene scene;
    scene.size = size;
    scene.focal_px = 0.866 * size.width;  // 60 degrees across
    scene.centre_x_px = 0.5 * size.width;
    scene.horizon_px =
        kHorizonFraction * size.height +
        (0.8 * std::sin(kTau * t / 1.3) + 0.5 * std::sin(kTau * t / 0.57)) * size.height / 540.0;
    scene.camera_height_m = 1.4;
    scene.ego_x_m = 0.25 * std::sin(kTau * t / 11.0);
    scene.curvature_per_m = std::sin(kTau * t / 23.0) / 3200.0;
    scene.travelled_m = kEgoSpeedMps * t;

    const auto add = [&](int id, int lane, double z_m, double sway_phase) {
        const double sway = 0.15 * std::sin(kTau * t / 7.0 + sway_phase);
        scene.cars.push_back({id, lane, lane * kLaneWidthM + sway, z_m,
                              kPaints[static_cast<std::size_t>(id) % kPaints.size()]});
    };
    add(1, 0, 24.0 + 9.0 * std::sin(kTau * t / 14.0), 0.4);
    add(2, 0, 62.0 + 7.0 * std::sin(kTau * t / 19.0 + 1.0), 2.0);
    // A lane of evenly spaced cars that overtake the ego vehicle, and start again behind it with a
    // new id.
    const auto overtaking = [&](int first_id, int lane, double spacing_m, double gain_mps,
                                double phase_m) {
        constexpr int kCars = 3;
        constexpr double kBehindM = -8.0;
        const double span = spacing_m * kCars;
        for (int i = 0; i < kCars; ++i) {
            const double run = i * spacing_m + phase_m + gain_mps * t;
            const auto lap = static_cast<int>(std::floor(run / span));
            add(first_id + i + 10 * lap, lane, kBehindM + run - lap * span, 0.9 * i + lap);
        }
    };
    overtaking(1003, -1, 44.0, 3.0, 20.0);
    overtaking(2006, -2, 50.0, 6.0, 33.0);
    std::sort(scene.cars.begin(), scene.cars.end(),
              [](const Car& a, const Car& b) { return a.z_m > b.z_m; });
    return scene;
}

}  // namespace synthetic

SyntheticDrive::SyntheticDrive(const SyntheticDriveOptions& options) : options_(options) {
    const cv::Size size = options.size;
    if (size.width < 160 || size.height < 90 || size.width > 4096 || size.height > 4096) {
        throw VisionError("synthetic drive: size " + std::to_string(size.width) + "x" +
                          std::to_string(size.height) +
                          " is out of range; use 160x90 to 4096x4096");
    }
    if (!(options.fps > 0.0 && options.fps <= 1000.0)) {
        throw VisionError("synthetic drive: fps " + std::to_string(options.fps) +
                          " is out of range; use more than 0, up to 1000");
    }
    backdrop_ = make_backdrop(size);
    cv::RNG rng(20100613);  // fixed: the drive is the same everywhere
    sensor_noise_.create(size.height + kNoiseMargin, size.width + kNoiseMargin, CV_8UC3);
    rng.fill(sensor_noise_, cv::RNG::UNIFORM, 0, 6);
    const auto width = static_cast<std::size_t>(size.width);
    ground_noise_.resize(3 * (width + 7 * kNoiseRows));
    for (std::size_t i = 0; i < ground_noise_.size(); i += 3) {
        const auto value = static_cast<std::int8_t>(rng.uniform(-16, 17));
        std::fill_n(ground_noise_.begin() + static_cast<std::ptrdiff_t>(i), 3, value);
    }
    const auto plain = [&](std::array<std::uint8_t, 3> bgr) {
        std::vector<std::uint8_t> row(3 * width);
        for (std::size_t i = 0; i < row.size(); ++i) {
            row[i] = bgr[i % 3];
        }
        return row;
    };
    asphalt_ = plain({98, 93, 91});
    verge_ = plain({86, 138, 146});
}

void SyntheticDrive::render(std::int64_t index, cv::Mat& bgr) const {
    const Scene scene =
        synthetic::scene_at(options_.size, static_cast<double>(index) / options_.fps);
    bgr.create(options_.size, CV_8UC3);

    const int sky_rows =
        std::min(options_.size.height, static_cast<int>(std::ceil(scene.horizon_px)));
    const int pitch =
        static_cast<int>(std::lround(scene.horizon_px - kHorizonFraction * options_.size.height));
    const int first =
        std::clamp(kPitchMarginRows - pitch, 0, std::max(0, backdrop_.rows - sky_rows));
    backdrop_.rowRange(first, first + sky_rows).copyTo(bgr.rowRange(0, sky_rows));

    Ground{scene, ground_noise_, asphalt_, verge_}.paint(bgr);
    synthetic::draw_roadside(bgr, scene);
    for (const Car& car : scene.cars) {
        synthetic::draw_car(bgr, scene, car);
    }
    const std::uint32_t h = scatter(static_cast<std::uint32_t>(index) + 1U);
    const cv::Rect window(
        cv::Point(static_cast<int>(h % kNoiseMargin), static_cast<int>((h >> 8) % kNoiseMargin)),
        options_.size);
    cv::add(bgr, sensor_noise_(window), bgr);
}

SyntheticTruth SyntheticDrive::truth(std::int64_t index) const {
    const Scene scene =
        synthetic::scene_at(options_.size, static_cast<double>(index) / options_.fps);
    SyntheticTruth truth;
    truth.lane_offset_m = static_cast<float>(scene.ego_x_m);
    constexpr int kPoints = 12;
    const double near_y = scene.project(0.0, 0.0, 6.0).y;
    const double far_y = scene.project(0.0, 0.0, 45.0).y;
    for (int i = 0; i < kPoints; ++i) {
        const double y = near_y + (far_y - near_y) * i / (kPoints - 1);
        const double depth = scene.depth_at_row(y);
        truth.left.emplace_back(scene.project(synthetic::kLeftLineM, 0.0, depth));
        truth.right.emplace_back(scene.project(synthetic::kRightLineM, 0.0, depth));
    }
    const cv::Rect2d image(-0.5, -0.5, options_.size.width, options_.size.height);
    std::vector<cv::Rect2d> nearer;
    for (auto car = scene.cars.rbegin(); car != scene.cars.rend(); ++car) {
        const cv::Rect2d whole = synthetic::body_extent(scene, *car);
        const cv::Rect2d seen = whole & image;
        if (seen.empty()) {
            continue;
        }
        double visible = seen.area();
        for (const cv::Rect2d& other : nearer) {
            visible -= (seen & other).area();
        }
        nearer.push_back(seen);
        truth.cars.push_back({car->id, car->lane, static_cast<float>(car->z_m), cv::Rect2f(seen),
                              static_cast<float>(std::max(0.0, visible) / whole.area())});
    }
    return truth;
}

}  // namespace comp
