// SPDX-License-Identifier: Apache-2.0
// Finds the two markings of the ego lane in one frame: grey image, Canny edges, contours filtered
// by their geometry, a scan of each row for painted stripes, and a robust line fit per side. It
// keeps no state between frames. An image without markings gives two invalid lines.
//
// A line is a marking if painted stripes run along it. Their width must grow with the perspective,
// and be that of paint on a road. This excludes seams, shadows, and edges that the line only
// crosses. Paint is brighter than most of its row. A line without a counterpart on the other side
// needs more paint.
#pragma once

#include <optional>
#include <vector>

#include <opencv2/core.hpp>

#include "perception.hpp"

namespace comp {

struct LaneDetectorOptions {
    // Row of the horizon as a fraction of the image height. Must be accurate to about 0.03.
    double horizon_fraction = 0.55;
    // First searched row below the horizon and last searched row, as fractions of the image height.
    double search_top_fraction = 0.59;
    double search_bottom_fraction = 1.0;
    // Canny thresholds on the 8-bit grey image.
    double canny_low = 40.0;
    double canny_high = 110.0;
    // Paint must be this much brighter than the road on both sides of it (grey levels).
    int min_contrast = 18;
    // Lines with less confidence are not reported.
    double min_confidence = 0.3;
};

// Not thread-safe (it keeps scratch images, allocated with the first frame and reused).
class LaneDetector {
public:
    // Throws VisionError on options out of range.
    explicit LaneDetector(const LaneDetectorOptions& options = {});

    // `image` is BGR or grey with 8 bits per channel. Other types, and images smaller than 64x48,
    // give no lines.
    [[nodiscard]] LaneEstimate detect(const cv::Mat& image);

private:
    struct Stripe {
        float x, y, width;
        bool bright;  // brighter than most of its row
    };
    struct Paint;
    struct Fit;

    void find_edges(const cv::Mat& image);
    void keep_lane_like_contours();
    void scan_rows();
    [[nodiscard]] Fit fit_side(bool left, std::optional<double> meeting_x) const;
    [[nodiscard]] Paint paint_of(const Fit& fit, const std::vector<Stripe>& on) const;
    [[nodiscard]] LaneLine to_line(const Fit& fit) const;

    LaneDetectorOptions options_;
    cv::Size size_;
    int top_ = 0;     // first searched row
    int bottom_ = 0;  // one past the last
    double horizon_ = 0.0;
    cv::Mat grey_, smooth_, dx_, dy_, edges_, mask_;
    std::vector<std::vector<cv::Point>> contours_;
    std::vector<Stripe> stripes_;
};

}  // namespace comp
