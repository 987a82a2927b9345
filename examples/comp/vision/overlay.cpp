// SPDX-License-Identifier: Apache-2.0
#include "overlay.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <opencv2/imgproc.hpp>

namespace comp {
namespace {

const cv::Scalar kInk(255, 255, 255);
const cv::Scalar kBack(24, 22, 20);

cv::Scalar colour_of(const FusedObject& object) {
    if (object.state == TrackState::lost) {
        return {150, 150, 150};
    }
    switch (object.lane) {
        case LanePosition::ego:
            return {60, 70, 240};
        case LanePosition::left:
        case LanePosition::right:
            return {80, 200, 90};
        case LanePosition::unknown:
            break;
    }
    return {60, 190, 230};
}

std::string decimal(double value, const char* format) {
    char text[48];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

// Draws text on a dark plate inside the frame; `at` is the top left corner of the plate. Returns
// the height of the plate.
int plate(cv::Mat& frame, const std::string& text, cv::Point at, double scale,
          const cv::Scalar& ink, const cv::Scalar& back) {
    const int thickness = scale >= 0.7 ? 2 : 1;
    int baseline = 0;
    const cv::Size size =
        cv::getTextSize(text, cv::FONT_HERSHEY_SIMPLEX, scale, thickness, &baseline);
    const int pad = std::max(2, static_cast<int>(5.0 * scale));
    cv::Rect box(at, cv::Size(size.width + 2 * pad, size.height + baseline + pad));
    box.x = std::clamp(box.x, 0, std::max(0, frame.cols - box.width));
    box.y = std::clamp(box.y, 0, std::max(0, frame.rows - box.height));
    cv::rectangle(frame, box, back, cv::FILLED);
    cv::putText(frame, text, {box.x + pad, box.y + pad / 2 + size.height + 1},
                cv::FONT_HERSHEY_SIMPLEX, scale, ink, thickness, cv::LINE_AA);
    return box.height;
}

std::vector<cv::Point> in_pixels(const LaneLine& line) {
    std::vector<cv::Point> points;
    for (const cv::Point2f& p : line.points) {
        points.emplace_back(static_cast<int>(std::lround(p.x)), static_cast<int>(std::lround(p.y)));
    }
    return points;
}

void draw_lanes(cv::Mat& frame, const LaneEstimate& lanes) {
    const std::vector<cv::Point> left = in_pixels(lanes.left);
    const std::vector<cv::Point> right = in_pixels(lanes.right);
    if (lanes.left.valid && lanes.right.valid) {
        // Tints the lane. Blends only the rows that it covers.
        std::vector<cv::Point> area(left);
        area.insert(area.end(), right.rbegin(), right.rend());
        const cv::Rect rows = cv::boundingRect(area) & cv::Rect({}, frame.size());
        if (!rows.empty()) {
            cv::Mat part = frame(rows);
            cv::Mat tinted = part.clone();
            cv::fillPoly(tinted, std::vector<std::vector<cv::Point>>{area},
                         cv::Scalar(150, 120, 40), cv::LINE_8, 0, -rows.tl());
            cv::addWeighted(tinted, 0.3, part, 0.7, 0.0, part);
        }
    }
    for (const auto& line : {left, right}) {
        if (line.size() >= 2) {
            cv::polylines(frame, line, false, cv::Scalar(40, 220, 255),
                          std::max(2, frame.rows / 200), cv::LINE_AA);
        }
    }
}

void draw_object(cv::Mat& frame, const FusedObject& object, bool in_path, double scale) {
    const cv::Scalar colour = colour_of(object);
    // Far vehicles are close together in the image, so they get thin boxes, labelled only with
    // their number.
    const bool small = object.box.width < 0.045F * static_cast<float>(frame.cols);
    const int thickness = in_path ? 3 : small || object.state == TrackState::tentative ? 1 : 2;
    cv::rectangle(frame, cv::Rect(object.box), colour, thickness, cv::LINE_AA);
    std::string label;
    if (object.track_id != 0) {
        label.append("#").append(std::to_string(object.track_id));
    }
    if (!small || in_path) {
        label.append(" ").append(to_string(object.kind));
        if (object.state == TrackState::lost) {
            label += " lost";
        }
        if (object.distance_m) {
            label += decimal(*object.distance_m, " ~%.0f m");
        }
    }
    if (label.empty()) {
        return;
    }
    const cv::Point corner(static_cast<int>(object.box.x), static_cast<int>(object.box.y));
    plate(frame, label, corner - cv::Point(0, static_cast<int>(34 * scale)), 0.8 * scale, colour,
          kBack);
}

}  // namespace

void draw_overlay(cv::Mat& frame, const FusedScene& scene, const OverlayText& text) {
    if (frame.empty() || frame.type() != CV_8UC3) {
        return;
    }
    const double scale = std::clamp(frame.rows / 1080.0, 0.35, 1.5);
    draw_lanes(frame, scene.lanes);
    // Farthest first, so that labels of near vehicles stay readable.
    for (std::size_t i = scene.objects.size(); i-- > 0;) {
        draw_object(frame, scene.objects[i], scene.in_path == i, scale);
    }

    int y = 6;
    y += plate(frame, "detector: " + text.detector, {6, y}, scale, kInk, kBack) + 3;
    if (!text.status.empty()) {
        y += plate(frame, text.status, {6, y}, scale, kInk, kBack) + 3;
    }
    std::string lane = "lane: ";
    if (scene.lane_offset_m) {
        lane += decimal(*scene.lane_offset_m, "camera %+.2f m from centre");
    } else if (scene.lanes.left.valid || scene.lanes.right.valid) {
        lane += scene.lanes.left.valid ? "left marking only" : "right marking only";
    } else {
        lane += "no marking";
    }
    y += plate(frame, lane, {6, y}, scale, kInk, kBack) + 3;
    if (scene.in_path) {
        const FusedObject& ahead = scene.objects[*scene.in_path];
        std::string line = "ahead: " + std::string(to_string(ahead.kind));
        if (ahead.distance_m) {
            line += decimal(*ahead.distance_m, ", about %.0f m");
        }
        plate(frame, line, {6, y}, scale, kInk, kBack);
    }
    if (text.detector_is_classical) {
        const std::string banner = "CLASSICAL DETECTOR - no neural network loaded";
        int baseline = 0;
        const cv::Size size =
            cv::getTextSize(banner, cv::FONT_HERSHEY_SIMPLEX, 1.7 * scale, 2, &baseline);
        plate(frame, banner,
              {(frame.cols - size.width) / 2, frame.rows - size.height - baseline - 12},
              1.7 * scale, cv::Scalar(20, 20, 20), cv::Scalar(60, 200, 250));
    }
}

}  // namespace comp
