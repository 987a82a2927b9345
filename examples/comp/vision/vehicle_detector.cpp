// SPDX-License-Identifier: Apache-2.0
#include "vehicle_detector.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "detector_backends.hpp"

namespace comp {
namespace {

// Bounds the quadratic suppression, whatever a network reports.
constexpr std::size_t kMaxProposals = 1024;
// Networks often report a vehicle and a part of it, or two neighbours as one. Of two boxes, one
// mostly inside the other, the better one is kept.
constexpr float kContained = 0.75F;

void check(const DetectorOptions& o) {
    const auto require = [](bool ok, const char* what) {
        if (!ok) {
            throw VisionError(std::string("vehicle detector: ") + what);
        }
    };
    require(o.min_confidence > 0.0F && o.min_confidence < 1.0F,
            "min_confidence must lie between 0 and 1");
    require(o.max_overlap > 0.0F && o.max_overlap < 1.0F, "max_overlap must lie between 0 and 1");
    require(o.max_detections > 0 && o.max_detections <= kMaxDetections,
            "max_detections must lie between 1 and 64");
    require(o.region.x >= 0.0F && o.region.y >= 0.0F && o.region.width > 0.02F &&
                o.region.height > 0.02F && o.region.x + o.region.width <= 1.001F &&
                o.region.y + o.region.height <= 1.001F,
            "region must be fractions of the image: x and y from 0, x + width and y + height up to "
            "1, each side above 0.02");
    require(
        o.input_size.empty() || (o.input_size.width % 32 == 0 && o.input_size.height % 32 == 0 &&
                                 o.input_size.width <= 4096 && o.input_size.height <= 4096),
        "input_size must be multiples of 32, at most 4096, or empty");
    require(o.horizon_fraction > 0.05 && o.horizon_fraction < 0.95,
            "horizon_fraction must lie between 0.05 and 0.95");
    require(o.car_width_per_row > 0.1 && o.car_width_per_row < 10.0,
            "car_width_per_row must lie between 0.1 and 10");
}

}  // namespace

bool VehicleDetector::detect(const cv::Mat& bgr, std::vector<Detection>& out) {
    out.clear();
    error_.clear();
    if (bgr.empty()) {
        return true;
    }
    if (bgr.type() != CV_8UC3) {
        error_ = name() + ": needs 8-bit BGR images; convert the frame first";
        return false;
    }
    proposals_.clear();
    try {
        propose(bgr, proposals_);
    } catch (const std::exception& e) {
        error_ = name() + ": failed on a " + std::to_string(bgr.cols) + "x" +
                 std::to_string(bgr.rows) + " frame: " + e.what();
        return false;
    }
    const auto better = [](const Detection& a, const Detection& b) {
        return a.confidence > b.confidence;
    };
    // Stable, so that equal scores keep their order and the result does not depend on the sort.
    std::stable_sort(proposals_.begin(), proposals_.end(), better);
    if (proposals_.size() > kMaxProposals) {
        proposals_.resize(kMaxProposals);
    }
    const cv::Rect2f image(0.0F, 0.0F, static_cast<float>(bgr.cols), static_cast<float>(bgr.rows));
    for (Detection& d : proposals_) {
        if (out.size() == options_.max_detections) {
            break;
        }
        d.box &= image;
        if (d.box.width < 2.0F || d.box.height < 2.0F) {
            continue;
        }
        const bool seen = std::any_of(out.begin(), out.end(), [&](const Detection& kept) {
            const float shared = (kept.box & d.box).area();
            return intersection_over_union(kept.box, d.box) > options_.max_overlap ||
                   shared > kContained * std::min(kept.box.area(), d.box.area());
        });
        if (!seen) {
            out.push_back(d);
        }
    }
    return true;
}

std::unique_ptr<VehicleDetector> make_vehicle_detector(const DetectorOptions& options) {
    check(options);
    if (options.model_path.empty()) {
        if (!options.weights_path.empty() || !options.names_path.empty()) {
            throw VisionError(
                "vehicle detector: weights_path or names_path is given without model_path; give "
                "the model's .cfg or .onnx, or none of them");
        }
        return detectors::make_classical(options);
    }
    std::string ending = std::filesystem::path(options.model_path).extension().string();
    std::transform(ending.begin(), ending.end(), ending.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (ending == ".cfg" || ending == ".weights") {
        return detectors::make_darknet(options);
    }
    if (ending == ".onnx") {
        return detectors::make_onnx(options);
    }
    throw VisionError(
        options.model_path +
        ": unknown kind of model; use a darknet .cfg with its .weights, or an .onnx file "
        "(export a .pt with format=onnx)");
}

}  // namespace comp
