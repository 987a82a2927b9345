// SPDX-License-Identifier: Apache-2.0
#include "mosse_tracker.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <opencv2/imgproc.hpp>

#include "perception.hpp"

namespace comp {
namespace {

constexpr int kSize = MosseTracker::kFilterSize;
constexpr int kMiddle = kSize / 2;
constexpr int kPeakRadius = 5;  // the 11x11 around the peak is not sidelobe
constexpr float kMinBoxPx = 8.0F;
constexpr double kRegularisation =
    1e-4;  // share of the mean energy that is added to each divisor, which could be near 0
constexpr int kMaxWindowPx = 2048;

// log(1 + v) of every 8-bit value.
const std::array<float, 256>& log_table() {
    static const std::array<float, 256> table = [] {
        std::array<float, 256> t{};
        for (std::size_t v = 0; v < t.size(); ++v) {
            t[v] = std::log1p(static_cast<float>(v));
        }
        return t;
    }();
    return table;
}

// Place of a peak between samples, from it and its neighbours on either side, by a parabola; within
// +-0.5.
double parabola_offset(double before, double peak, double after) {
    const double bend = before - 2.0 * peak + after;
    return bend < 0.0 ? std::clamp(0.5 * (before - after) / bend, -0.5, 0.5) : 0.0;
}

}  // namespace

void check(const MosseOptions& o) {
    const auto require = [](bool ok, const char* what) {
        if (!ok) {
            throw VisionError(std::string("MOSSE tracker: ") + what);
        }
    };
    require(o.learning_rate > 0.0 && o.learning_rate <= 1.0,
            "learning_rate must lie above 0, up to 1");
    require(o.lost_psr >= 0.0 && o.lost_psr < 1000.0, "lost_psr must lie between 0 and 1000");
    require(o.training_views >= 1 && o.training_views <= 64,
            "training_views must lie between 1 and 64");
    require(o.window_scale >= 1.0 && o.window_scale <= 4.0,
            "window_scale must lie between 1 and 4");
    require(o.response_sigma >= 0.5 && o.response_sigma <= 8.0,
            "response_sigma must lie between 0.5 and 8");
}

MosseTracker::MosseTracker(const MosseOptions& options) : options_(options) {
    check(options);
    cv::createHanningWindow(taper_, {kSize, kSize}, CV_32F);
    cv::Mat response(kSize, kSize, CV_32F);
    const double spread = 2.0 * options.response_sigma * options.response_sigma;
    for (int y = 0; y < kSize; ++y) {
        for (int x = 0; x < kSize; ++x) {
            const double dx = x - kMiddle;
            const double dy = y - kMiddle;
            response.at<float>(y, x) = static_cast<float>(std::exp(-(dx * dx + dy * dy) / spread));
        }
    }
    cv::dft(response, goal_, cv::DFT_COMPLEX_OUTPUT);
}

bool MosseTracker::start(const cv::Mat& grey, const cv::Rect2f& box) {
    const cv::Rect2f image(0.0F, 0.0F, static_cast<float>(grey.cols),
                           static_cast<float>(grey.rows));
    const cv::Rect2f target = box & image;
    if (grey.type() != CV_8UC1 || target.width < kMinBoxPx || target.height < kMinBoxPx) {
        return false;
    }
    centre_ = {target.x + target.width / 2, target.y + target.height / 2};
    offset_ = {};
    box_size_ = target.size();
    started_size_ = box_size_;
    const auto side = [&](float length) {
        return std::min(kMaxWindowPx, static_cast<int>(std::lround(options_.window_scale *
                                                                   static_cast<double>(length))));
    };
    window_size_ = {side(target.width), side(target.height)};

    cv::Mat window;
    cv::Mat spectrum;
    sample(grey, centre_, window);
    numerator_ = cv::Mat::zeros(kSize, kSize, CV_32FC2);
    denominator_ = cv::Mat::zeros(kSize, kSize, CV_32FC2);
    to_spectrum(window, spectrum);
    learn(spectrum, 1.0);
    // Further views: slight turns, stretches and shears about the centre. Seeded: the same start
    // gives the same filter.
    cv::RNG rng(0x4d4f535345);
    cv::Mat view;
    for (int i = 1; i < options_.training_views; ++i) {
        const double angle = rng.uniform(-0.1, 0.1);
        const double stretch_x = rng.uniform(0.93, 1.07);
        const double stretch_y = rng.uniform(0.93, 1.07);
        const double c = kSize / 2.0;
        const double m00 = stretch_x * std::cos(angle);
        const double m01 = -stretch_x * std::sin(angle) + rng.uniform(-0.04, 0.04);
        const double m10 = stretch_y * std::sin(angle) + rng.uniform(-0.04, 0.04);
        const double m11 = stretch_y * std::cos(angle);
        const cv::Matx23d warp(m00, m01, c - m00 * c - m01 * c, m10, m11, c - m10 * c - m11 * c);
        cv::warpAffine(window, view, warp, window.size(), cv::INTER_LINEAR, cv::BORDER_REFLECT);
        to_spectrum(view, spectrum);
        learn(spectrum, 1.0 / (i + 1));  // equal weights
    }
    return true;
}

MosseTracker::Result MosseTracker::update(const cv::Mat& grey) {
    Result result;
    if (!started() || grey.type() != CV_8UC1) {
        return result;
    }
    cv::Mat window;
    cv::Mat spectrum;
    sample(grey, centre_, window);
    to_spectrum(window, spectrum);

    // Response = F * conj(H) with conj(H) = A / (B + e), as in the paper's equations 10 to 12.
    const double energy = cv::sum(denominator_)[0] / (kSize * kSize);
    const auto floor = static_cast<float>(kRegularisation * energy + 1e-12);
    cv::Mat answer(kSize, kSize, CV_32FC2);
    for (int y = 0; y < kSize; ++y) {
        const auto* f = spectrum.ptr<cv::Vec2f>(y);
        const auto* a = numerator_.ptr<cv::Vec2f>(y);
        const auto* b = denominator_.ptr<cv::Vec2f>(y);
        auto* r = answer.ptr<cv::Vec2f>(y);
        for (int x = 0; x < kSize; ++x) {
            const float scale = 1.0F / (b[x][0] + floor);
            r[x] = {(f[x][0] * a[x][0] - f[x][1] * a[x][1]) * scale,
                    (f[x][0] * a[x][1] + f[x][1] * a[x][0]) * scale};
        }
    }
    cv::Mat response;
    cv::idft(answer, response, cv::DFT_REAL_OUTPUT | cv::DFT_SCALE);

    cv::Point peak;
    double peak_value = 0.0;
    cv::minMaxLoc(response, nullptr, &peak_value, nullptr, &peak);
    double sum = 0.0;
    double squares = 0.0;
    int count = 0;
    for (int y = 0; y < kSize; ++y) {
        const auto* row = response.ptr<float>(y);
        for (int x = 0; x < kSize; ++x) {
            if (std::abs(x - peak.x) > kPeakRadius || std::abs(y - peak.y) > kPeakRadius) {
                sum += row[x];
                squares += static_cast<double>(row[x]) * row[x];
                ++count;
            }
        }
    }
    const double mean = sum / count;
    const double deviation = std::sqrt(std::max(0.0, squares / count - mean * mean));
    result.psr = deviation > 1e-9 ? (peak_value - mean) / deviation : 0.0;
    result.held = result.psr >= options_.lost_psr;
    if (!result.held) {
        return result;
    }

    const auto at = [&](int x, int y) {
        return static_cast<double>(
            response.at<float>(std::clamp(y, 0, kSize - 1), std::clamp(x, 0, kSize - 1)));
    };
    const double dx = peak.x - kMiddle +
                      parabola_offset(at(peak.x - 1, peak.y), peak_value, at(peak.x + 1, peak.y));
    const double dy = peak.y - kMiddle +
                      parabola_offset(at(peak.x, peak.y - 1), peak_value, at(peak.x, peak.y + 1));
    centre_.x += static_cast<float>(dx * window_size_.width / kSize);
    centre_.y += static_cast<float>(dy * window_size_.height / kSize);

    sample(grey, centre_, window);
    to_spectrum(window, spectrum);
    learn(spectrum, options_.learning_rate);
    return result;
}

cv::Rect2f MosseTracker::box() const {
    const cv::Point2f at = centre_ + offset_;
    return {at.x - box_size_.width / 2, at.y - box_size_.height / 2, box_size_.width,
            box_size_.height};
}

void MosseTracker::report_as(const cv::Rect2f& box) {
    offset_ = cv::Point2f(box.x + box.width / 2, box.y + box.height / 2) - centre_;
    box_size_ = box.size();
}

// The window around `centre`, 64x64 float, log-transformed.
void MosseTracker::sample(const cv::Mat& grey, cv::Point2f centre, cv::Mat& window) const {
    cv::Mat cut;
    cv::getRectSubPix(grey, window_size_, centre, cut);  // repeats the border outside the image
    const bool shrinks = window_size_.width > kSize || window_size_.height > kSize;
    cv::resize(cut, cut, {kSize, kSize}, 0, 0, shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
    window.create(kSize, kSize, CV_32F);
    const auto& log_of = log_table();
    for (int y = 0; y < kSize; ++y) {
        const auto* from = cut.ptr<std::uint8_t>(y);
        auto* to = window.ptr<float>(y);
        for (int x = 0; x < kSize; ++x) {
            to[x] = log_of[from[x]];
        }
    }
}

// Zero mean, unit standard deviation, tapered to zero at the rim, transformed.
void MosseTracker::to_spectrum(const cv::Mat& window, cv::Mat& spectrum) const {
    cv::Scalar mean;
    cv::Scalar deviation;
    cv::meanStdDev(window, mean, deviation);
    cv::Mat ready = (window - mean[0]) / (deviation[0] + 1e-5);
    cv::multiply(ready, taper_, ready);
    cv::dft(ready, spectrum, cv::DFT_COMPLEX_OUTPUT);
}

// A and B move towards this view by `rate`.
void MosseTracker::learn(const cv::Mat& spectrum, double rate) {
    const auto keep = static_cast<float>(1.0 - rate);
    const auto take = static_cast<float>(rate);
    for (int y = 0; y < kSize; ++y) {
        const auto* f = spectrum.ptr<cv::Vec2f>(y);
        const auto* g = goal_.ptr<cv::Vec2f>(y);
        auto* a = numerator_.ptr<cv::Vec2f>(y);
        auto* b = denominator_.ptr<cv::Vec2f>(y);
        for (int x = 0; x < kSize; ++x) {
            const float re = g[x][0] * f[x][0] + g[x][1] * f[x][1];
            const float im = g[x][1] * f[x][0] - g[x][0] * f[x][1];
            a[x] = {keep * a[x][0] + take * re, keep * a[x][1] + take * im};
            b[x] = {keep * b[x][0] + take * (f[x][0] * f[x][0] + f[x][1] * f[x][1]), 0.0F};
        }
    }
}

}  // namespace comp
