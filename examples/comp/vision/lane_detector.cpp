// SPDX-License-Identifier: Apache-2.0
#include "lane_detector.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include <opencv2/imgproc.hpp>

namespace comp {
namespace {

// Limits of lines, as fractions of the image width unless stated otherwise. All lane markings meet
// near the middle of the horizon. A line that meets it farther out than kVanishingWindow (half of
// the window) is not a marking of this road.
constexpr double kVanishingWindow = 0.13;
constexpr double kShortContourWindow = 0.22;  // for short contours: their direction is less certain
constexpr double kShortContourPx = 40.0;
// Distance in x between the two ends of a marking, at the horizon and at the bottom row.
constexpr double kMinSpread = 0.14;
constexpr double kMaxSpread = 0.85;
// Variance of a contour across its main axis, divided by the variance along it. Stripes are long.
constexpr double kMaxThickness = 0.22;
// Pixels per row below the horizon: twice the width of a 0.15 m marking, for a camera at 1.2 m.
constexpr double kMaxStripeWidthPerRow = 0.25;
// Reach next to a stripe in which the brightness of the road is measured, in margins. A margin is
// half the width of the stripe, but at least 3 pixels.
constexpr int kRoadReach = 5;
// Share of the best line's support that an inner line needs to be preferred.
constexpr double kInnerShare = 0.35;
constexpr double kLineGap = 0.12;  // minimum distance between two markings at the bottom row
constexpr std::size_t kMaxHypotheses = 1500;  // bounds the search for the line of one side
constexpr std::size_t kMaxStripes = 4096;     // bounds the number of stripes of one frame
// Share of the searched rows that a line needs to give its meeting point to the other side.
constexpr double kLeaderShare = 0.3;
constexpr double kMeetingGap = 0.045;  // maximum distance of the two markings at the horizon
// Weight of the meeting point in the fit. A stripe has the weight 1/tolerance^2.
constexpr double kMeetingWeight = 0.003;
// Stripes at a distance of 1 to kBesideReach tolerances count as next to the line.
constexpr double kBesideReach = 4.0;
// Maximum number of stripes next to the line, divided by the rows with stripes on it.
constexpr double kMaxBeside = 0.4;
// Slope of a marking in columns per row: its distance to the side of the camera, divided by the
// height of the camera. It does not depend on the shape of the image. The minimum is 0.5 m to the
// side of a camera at 1.1 m.
constexpr double kMinSlope = 0.45;
constexpr double kMaxSlope = 3.6;

// Properties of paint on a flat road. A run is a sequence of rows whose stripes follow the line.
constexpr float kRunGap = 2.0F;  // maximum distance in rows between two stripes of a run
// Maximum distance in columns between a stripe and the line's direction from the stripe before.
constexpr double kRunStep = 2.5;
constexpr int kShortestRun = 4;  // minimum number of rows; a shorter run has no direction
// Maximum difference between the slopes of run and line. Short runs may differ more.
constexpr double kRunSlope = 0.12;
constexpr int kFewestPaintRows = 8;
constexpr double kMinOnRuns = 0.5;  // minimum share of the line's rows that belong to runs
// Minimum share of the width that grows with the distance from the horizon: 1 in perspective, 0 for
// a seam.
constexpr double kMinTaper = 0.4;
// The taper is measured if the nearest row is this many times as far below the horizon as the
// farthest row.
constexpr double kTaperReach = 1.5;
constexpr double kMinWidthPerRow = 0.035;  // 0.1 m seen from a camera at 2.8 m
constexpr double kMaxWidthPerRow = 0.2;    // 0.3 m seen from a camera at 1.5 m
// Minimum share of the painted rows in which the paint is brighter than most of its row.
constexpr double kMinBright = 0.5;
// Number of painted rows at which the certainty of a line is 1 - 1/e.
constexpr double kCertainRows = 16.0;
// A line without a counterpart needs at least image height / kLoneRows painted rows.
constexpr int kLoneRows = 20;
constexpr int kMaxRounds = 20;  // bounds the iterations of the final fit
constexpr int kLinePoints = 8;

void require(bool ok, const std::string& what) {
    if (!ok) {
        throw VisionError("lane detector: " + what);
    }
}

// Returns the median brightness of a row.
int median_of(const std::uint8_t* row, int count) {
    std::array<int, 256> histogram{};
    for (int x = 0; x < count; ++x) {
        ++histogram[row[x]];
    }
    int value = 0;
    for (int darker = histogram[0]; 2 * darker < count; ++value) {
        darker += histogram[static_cast<std::size_t>(value) + 1];
    }
    return value;
}

}  // namespace

// The part of a line's support that is paint along the line.
struct LaneDetector::Paint {
    int rows = 0;
    int longest = 0;  // rows of the longest run
    double near_y = 0.0;
    double far_y = 0.0;
    double share = 0.0;          // painted rows, divided by the rows with stripes on the line
    double bright = 0.0;         // see kMinBright
    double taper = 1.0;          // see kMinTaper; 1 if it cannot be measured
    double width_per_row = 0.0;  // width, divided by the rows below the horizon
};

// x = slope * y + offset, in image pixels.
struct LaneDetector::Fit {
    double slope = 0.0;
    double offset = 0.0;
    int rows = 0;      // rows with stripes on the line
    double rms = 0.0;  // root mean square of the distances of these stripes, px
    float far_y = 0.0F;
    Paint paint;

    [[nodiscard]] double x_at(double y) const { return slope * y + offset; }
    [[nodiscard]] bool found() const { return rows > 0; }
};

LaneDetector::LaneDetector(const LaneDetectorOptions& options) : options_(options) {
    require(options.horizon_fraction > 0.0 && options.horizon_fraction < 0.95,
            "horizon_fraction must lie between 0 and 0.95");
    require(options.search_top_fraction > options.horizon_fraction + 0.01,
            "search_top_fraction must lie at least 0.01 below the horizon");
    require(
        options.search_bottom_fraction > options.search_top_fraction + 0.05 &&
            options.search_bottom_fraction <= 1.0,
        "search_bottom_fraction must lie at least 0.05 below search_top_fraction, at most at 1");
    require(options.canny_low > 0.0 && options.canny_high >= options.canny_low,
            "canny_low must be above 0 and not above canny_high");
    require(options.min_confidence >= 0.0 && options.min_confidence <= 1.0,
            "min_confidence must lie between 0 and 1");
    require(options.min_contrast > 0 && options.min_contrast < 255,
            "min_contrast must lie between 1 and 254");
}

LaneEstimate LaneDetector::detect(const cv::Mat& image) {
    LaneEstimate estimate;
    if (image.cols < 64 || image.rows < 48 ||
        (image.type() != CV_8UC3 && image.type() != CV_8UC1)) {
        return estimate;
    }
    size_ = image.size();
    horizon_ = options_.horizon_fraction * size_.height;
    top_ = static_cast<int>(options_.search_top_fraction * size_.height);
    bottom_ = static_cast<int>(options_.search_bottom_fraction * size_.height);

    find_edges(image);
    keep_lane_like_contours();
    scan_rows();
    Fit left = fit_side(true, std::nullopt);
    Fit right = fit_side(false, std::nullopt);
    // Parallel markings meet at the horizon. If they do not, or if one is missing (a single dash
    // has no direction), the other side is fitted again with the meeting point of the better
    // supported side.
    const bool left_leads = left.rows >= right.rows;
    Fit& leader = left_leads ? left : right;
    Fit& other = left_leads ? right : left;
    if (leader.rows >= kLeaderShare * (bottom_ - top_) &&
        (!other.found() ||
         std::abs(left.x_at(horizon_) - right.x_at(horizon_)) > kMeetingGap * size_.width)) {
        other = fit_side(!left_leads, leader.x_at(horizon_));
    }
    if (left.found() && right.found()) {
        const double lane = (right.x_at(size_.height) - left.x_at(size_.height)) / size_.width;
        if (lane < 0.3 || lane > 1.4) {
            // The two lines do not enclose one lane: keep only the better supported one.
            (left.rows < right.rows ? left : right).rows = 0;
        }
    }
    estimate.left = to_line(left);
    estimate.right = to_line(right);
    const auto drop_if_lone = [&](LaneLine& line, const Fit& fit) {
        if (fit.paint.rows < size_.height / kLoneRows) {
            line = {};
        }
    };
    if (!estimate.right.valid) {
        drop_if_lone(estimate.left, left);
    } else if (!estimate.left.valid) {
        drop_if_lone(estimate.right, right);
    }
    return estimate;
}

void LaneDetector::find_edges(const cv::Mat& image) {
    const cv::Mat road = image.rowRange(top_, bottom_);
    if (image.channels() == 3) {
        cv::cvtColor(road, grey_, cv::COLOR_BGR2GRAY);
    } else {
        road.copyTo(grey_);
    }
    cv::GaussianBlur(grey_, smooth_, {3, 3}, 0.0);
    cv::spatialGradient(smooth_, dx_, dy_);
    cv::Canny(dx_, dy_, edges_, options_.canny_low, options_.canny_high);
    // Removes edges along a row. They belong to seams, shadows and bumpers, and would distort the
    // contour of a marking that they touch.
    for (int y = 0; y < edges_.rows; ++y) {
        auto* edge = edges_.ptr<std::uint8_t>(y);
        const auto* gx = dx_.ptr<std::int16_t>(y);
        const auto* gy = dy_.ptr<std::int16_t>(y);
        for (int x = 0; x < edges_.cols; ++x) {
            if (edge[x] != 0 && 3 * std::abs(gx[x]) < std::abs(gy[x])) {
                edge[x] = 0;
            }
        }
    }
}

void LaneDetector::keep_lane_like_contours() {
    mask_.create(edges_.size(), CV_8UC1);
    mask_.setTo(0);
    cv::findContours(edges_, contours_, cv::RETR_LIST, cv::CHAIN_APPROX_NONE);
    for (const auto& contour : contours_) {
        if (contour.size() < 5) {
            continue;
        }
        double mean_x = 0.0;
        double mean_y = 0.0;
        int y_min = contour.front().y;
        int y_max = y_min;
        for (const cv::Point& p : contour) {
            mean_x += p.x;
            mean_y += p.y;
            y_min = std::min(y_min, p.y);
            y_max = std::max(y_max, p.y);
        }
        const auto n = static_cast<double>(contour.size());
        mean_x /= n;
        mean_y /= n;
        double xx = 0.0;
        double xy = 0.0;
        double yy = 0.0;
        for (const cv::Point& p : contour) {
            xx += (p.x - mean_x) * (p.x - mean_x);
            xy += (p.x - mean_x) * (p.y - mean_y);
            yy += (p.y - mean_y) * (p.y - mean_y);
        }
        const double middle = 0.5 * (xx + yy);
        const double spread = std::hypot(0.5 * (xx - yy), xy);
        const double along = middle + spread;
        const double across = middle - spread;
        if (y_max - y_min < 3 || across > kMaxThickness * along) {
            continue;
        }
        // Direction of the main axis, and its slope in columns per row.
        const double angle = 0.5 * std::atan2(2.0 * xy, xx - yy);
        if (std::abs(std::sin(angle)) < 0.1) {
            continue;
        }
        const double slope = std::cos(angle) / std::sin(angle);
        const double at_horizon = mean_x + slope * (horizon_ - (mean_y + top_));
        const double length = std::sqrt(12.0 * along / n);
        const double window = length < kShortContourPx ? kShortContourWindow : kVanishingWindow;
        if (std::abs(at_horizon - 0.5 * size_.width) > window * size_.width) {
            continue;
        }
        for (const cv::Point& p : contour) {
            mask_.at<std::uint8_t>(p) = 255;
        }
    }
}

void LaneDetector::scan_rows() {
    stripes_.clear();
    for (int y = mask_.rows - 1; y >= 0; --y) {
        const auto* mask = mask_.ptr<std::uint8_t>(y);
        const auto* grey = grey_.ptr<std::uint8_t>(y);
        const double below = y + top_ - horizon_;
        const int widest = static_cast<int>(kMaxStripeWidthPerRow * below) + 2;
        const int narrowest = std::max(2, static_cast<int>(0.02 * below));
        const auto mean = [&](int from, int to) {  // of [from, to]
            from = std::max(from, 0);
            to = std::min(to, mask_.cols - 1);
            int sum = 0;
            for (int x = from; x <= to; ++x) {
                sum += grey[x];
            }
            return to >= from ? sum / (to - from + 1) : -1;
        };
        const int road = median_of(grey, mask_.cols);
        int previous = -1;
        for (int x = 0; x < mask_.cols && stripes_.size() < kMaxStripes; ++x) {
            if (mask[x] == 0) {
                continue;
            }
            const int width = x - previous;
            if (previous >= 0 && width >= narrowest && width <= widest) {
                const int paint = mean(previous + 1, x - 1);
                const int margin = std::max(3, width / 2);
                const int road_left = mean(previous - 1 - margin, previous - 2);
                const int road_right = mean(x + 2, x + 1 + margin);
                // The gap between two dark seams is brighter than they are, and as bright as the
                // road behind them.
                const int far_left =
                    mean(previous - 2 - kRoadReach * margin, previous - 2 - margin);
                const int far_right = mean(x + 2 + margin, x + 2 + kRoadReach * margin);
                // A missing neighbour (image border) counts as road.
                if (paint - road_left >= options_.min_contrast &&
                    paint - road_right >= options_.min_contrast &&
                    2 * (paint - far_left) >= options_.min_contrast &&
                    2 * (paint - far_right) >= options_.min_contrast) {
                    stripes_.push_back({0.5F * static_cast<float>(previous + x),
                                        static_cast<float>(y + top_), static_cast<float>(width),
                                        2 * (paint - road) >= options_.min_contrast});
                }
            }
            previous = x;
        }
    }
}

LaneDetector::Fit LaneDetector::fit_side(bool left, std::optional<double> meeting_x) const {
    const double width = size_.width;
    const double height = size_.height;
    const auto tolerance = [&](double y) {
        return 1.5 + 0.008 * width * (y - horizon_) / (height - horizon_);
    };
    const auto plausible = [&](const Fit& fit) {
        const double at_horizon = fit.x_at(horizon_);
        const double spread =
            (left ? at_horizon - fit.x_at(height) : fit.x_at(height) - at_horizon) / width;
        return std::abs(at_horizon - 0.5 * width) < kVanishingWindow * width &&
               spread > kMinSpread && spread < kMaxSpread && std::abs(fit.slope) > kMinSlope &&
               std::abs(fit.slope) < kMaxSlope;
    };
    // Stripes that a plausible line of this side can reach.
    std::vector<Stripe> mine;
    for (const Stripe& s : stripes_) {
        const double way = (s.y - horizon_) / (height - horizon_);
        const double outwards = (left ? 0.5 * width - s.x : s.x - 0.5 * width) / width;
        if (outwards > kMinSpread * way - kVanishingWindow) {
            mine.push_back(s);
        }
    }
    // Counts the rows with a stripe on the line, each row once. The stripes are sorted by row.
    // Stripes that lie on `other` do not count.
    const auto support = [&](const Fit& fit, const Fit* other) {
        int rows = 0;
        float last_row = -1.0F;
        for (const Stripe& s : mine) {
            const bool taken =
                other != nullptr && std::abs(s.x - other->x_at(s.y)) < tolerance(s.y);
            if (s.y != last_row && !taken && std::abs(s.x - fit.x_at(s.y)) < tolerance(s.y)) {
                ++rows;
                last_row = s.y;
            }
        }
        return rows;
    };

    const int rows_needed =
        meeting_x ? std::max(6, size_.height / 68) : std::max(10, size_.height / 36);
    const float span_needed = static_cast<float>(size_.height) / 16.0F;
    const std::size_t n = mine.size();
    if (n < static_cast<std::size_t>(rows_needed)) {
        return {};
    }
    std::vector<Fit> candidates;
    int best = 0;
    const auto propose = [&](const Stripe& near, const Stripe& far) {
        Fit fit;
        fit.slope = (near.x - far.x) / (near.y - far.y);
        fit.offset = near.x - fit.slope * near.y;
        if (!plausible(fit)) {
            return;
        }
        fit.rows = support(fit, nullptr);
        if (fit.rows >= rows_needed) {
            best = std::max(best, fit.rows);
            candidates.push_back(fit);
        }
    };
    // Each pair of an evenly thinned set of stripes proposes a line. With a meeting point, each
    // stripe proposes the line through that point. The search is deterministic, and bounded by
    // kMaxHypotheses.
    const std::size_t samples =
        std::min(n, static_cast<std::size_t>(std::sqrt(2.0 * kMaxHypotheses)));
    for (std::size_t i = 0; i < samples; ++i) {
        const Stripe& near = mine[i * n / samples];
        if (meeting_x) {
            propose(near,
                    {static_cast<float>(*meeting_x), static_cast<float>(horizon_), 0.0F, false});
            continue;
        }
        for (std::size_t j = i + 1; j < samples; ++j) {
            const Stripe& far = mine[j * n / samples];
            if (near.y - far.y >= 12.0F) {
                propose(near, far);
            }
        }
    }
    if (candidates.empty()) {
        return {};
    }
    // The ego lane's marking is the innermost line that has enough support of its own. The search
    // starts at the best supported line and steps inwards, by at least kLineGap per step.
    const Fit* chosen = nullptr;
    for (;;) {
        const Fit* next = nullptr;
        int next_rows = 0;
        for (const Fit& fit : candidates) {
            if (chosen == nullptr) {
                if (fit.rows > next_rows) {
                    next = &fit;
                    next_rows = fit.rows;
                }
                continue;
            }
            const double inwards =
                (left ? 1.0 : -1.0) * (fit.x_at(height) - chosen->x_at(height)) / width;
            if (inwards < kLineGap || fit.rows < kInnerShare * best) {
                continue;
            }
            const int own = support(fit, chosen);
            if (own >= std::max<double>(rows_needed, kInnerShare * best) && own > next_rows) {
                next = &fit;
                next_rows = own;
            }
        }
        if (next == nullptr) {
            break;
        }
        chosen = next;
    }
    // Fits the line to its stripes by least squares, until the slope no longer changes. A line that
    // crosses a stripe turns into the direction of the stripe, and may then be implausible.
    Fit fit = *chosen;
    float near_y = 0.0F;
    for (int round = 0; round < kMaxRounds; ++round) {
        const double slope_before = fit.slope;
        double sum = 0.0;
        double sum_y = 0.0;
        double sum_x = 0.0;
        double sum_yy = 0.0;
        double sum_xy = 0.0;
        double squares = 0.0;
        const auto take = [&](double x, double y, double weight) {
            sum += weight;
            sum_y += weight * y;
            sum_x += weight * x;
            sum_yy += weight * y * y;
            sum_xy += weight * x * y;
        };
        if (meeting_x) {
            take(*meeting_x, horizon_, kMeetingWeight);
        }
        near_y = 0.0F;
        fit.far_y = static_cast<float>(size_.height);
        float last_row = -1.0F;
        int rows = 0;
        for (const Stripe& s : mine) {
            const double off = s.x - fit.x_at(s.y);
            if (std::abs(off) >= tolerance(s.y)) {
                continue;
            }
            // Far stripes are narrower, so their position is more precise.
            take(s.x, s.y, 1.0 / (tolerance(s.y) * tolerance(s.y)));
            squares += off * off;
            rows += s.y != last_row ? 1 : 0;
            last_row = s.y;
            near_y = std::max(near_y, s.y);
            fit.far_y = std::min(fit.far_y, s.y);
        }
        const double spread = sum * sum_yy - sum_y * sum_y;
        if (rows < rows_needed || spread < 1e-9) {
            return {};
        }
        fit.slope = (sum * sum_xy - sum_y * sum_x) / spread;
        fit.offset = (sum_x - fit.slope * sum_y) / sum;
        fit.rows = rows;
        fit.rms = std::sqrt(squares / rows);
        if (std::abs(fit.slope - slope_before) < 1e-4) {
            break;
        }
    }
    if ((!meeting_x && near_y - fit.far_y < span_needed) || !plausible(fit)) {
        return {};
    }
    // A line that only crosses stripes has more of them next to it than on it.
    const auto beside = std::count_if(mine.begin(), mine.end(), [&](const Stripe& s) {
        const double off = std::abs(s.x - fit.x_at(s.y)) / tolerance(s.y);
        return off >= 1.0 && off < kBesideReach;
    });
    std::vector<Stripe> on;
    for (const Stripe& s : mine) {
        if (std::abs(s.x - fit.x_at(s.y)) >= tolerance(s.y)) {
            continue;
        }
        if (on.empty() || on.back().y != s.y) {
            on.push_back(s);
        } else if (std::abs(s.x - fit.x_at(s.y)) < std::abs(on.back().x - fit.x_at(s.y))) {
            on.back() = s;
        }
    }
    fit.paint = paint_of(fit, on);
    const Paint& paint = fit.paint;
    if (static_cast<double>(beside) > kMaxBeside * fit.rows ||
        paint.rows < std::max(kFewestPaintRows, size_.height / 45) ||
        paint.longest < size_.height / 60 || paint.share < kMinOnRuns ||
        paint.bright < kMinBright || paint.taper < kMinTaper ||
        paint.width_per_row < kMinWidthPerRow || paint.width_per_row > kMaxWidthPerRow) {
        return {};
    }
    return fit;
}

// Finds the runs of a line: sequences of rows whose stripes follow it. A line that only crosses
// edges, seams and shadows has none.
LaneDetector::Paint LaneDetector::paint_of(const Fit& fit, const std::vector<Stripe>& on) const {
    Paint paint;
    double sum_w = 0.0;
    double sum_h = 0.0;
    double sum_hh = 0.0;
    double sum_wh = 0.0;
    double nearest = 0.0;
    double farthest = size_.height;
    for (std::size_t begin = 0; begin < on.size();) {
        std::size_t end = begin + 1;
        while (end < on.size() && on[end - 1].y - on[end].y <= kRunGap &&
               std::abs(on[end].x - on[end - 1].x - fit.slope * (on[end].y - on[end - 1].y)) <=
                   kRunStep) {
            ++end;
        }
        const auto n = static_cast<int>(end - begin);
        double mean_x = 0.0;
        double mean_y = 0.0;
        for (std::size_t i = begin; i < end; ++i) {
            mean_x += on[i].x;
            mean_y += on[i].y;
        }
        mean_x /= n;
        mean_y /= n;
        double yy = 0.0;
        double xy = 0.0;
        for (std::size_t i = begin; i < end; ++i) {
            yy += (on[i].y - mean_y) * (on[i].y - mean_y);
            xy += (on[i].y - mean_y) * (on[i].x - mean_x);
        }
        if (n >= kShortestRun && yy > 0.0 && std::abs(xy / yy - fit.slope) < kRunSlope + 2.0 / n) {
            paint.rows += n;
            paint.longest = std::max(paint.longest, n);
            for (std::size_t i = begin; i < end; ++i) {
                const double h = on[i].y - horizon_;
                sum_w += on[i].width;
                paint.bright += on[i].bright ? 1.0 : 0.0;
                sum_h += h;
                sum_hh += h * h;
                sum_wh += h * on[i].width;
                nearest = std::max(nearest, h);
                farthest = std::min(farthest, h);
            }
        }
        begin = end;
    }
    if (paint.rows == 0) {
        return paint;
    }
    paint.share = static_cast<double>(paint.rows) / static_cast<double>(on.size());
    paint.bright /= paint.rows;
    paint.near_y = horizon_ + nearest;
    paint.far_y = horizon_ + farthest;
    paint.width_per_row = sum_w / sum_h;
    const double spread = paint.rows * sum_hh - sum_h * sum_h;
    if (nearest >= kTaperReach * farthest && spread > 0.0) {
        paint.taper = (paint.rows * sum_wh - sum_w * sum_h) / spread * sum_h / sum_w;
    }
    return paint;
}

LaneLine LaneDetector::to_line(const Fit& fit) const {
    LaneLine line;
    if (!fit.found()) {
        return line;
    }
    const double certainty = 1.0 - std::exp(-fit.paint.rows / kCertainRows);
    const double confidence = certainty * fit.paint.share * std::exp(-fit.rms / 8.0);
    if (confidence < options_.min_confidence) {
        return line;
    }
    line.valid = true;
    line.confidence = static_cast<float>(confidence);
    // Only between the nearest and the farthest paint, because the road may bend outside of it.
    for (int i = 0; i < kLinePoints; ++i) {
        const double y =
            fit.paint.near_y + (fit.paint.far_y - fit.paint.near_y) * i / (kLinePoints - 1);
        line.points.emplace_back(static_cast<float>(fit.x_at(y)), static_cast<float>(y));
    }
    return line;
}

}  // namespace comp
