// SPDX-License-Identifier: Apache-2.0
#include "fusion.hpp"

#include <algorithm>
#include <cmath>

namespace comp {
namespace {

constexpr float kMinLanePx =
    4.0F;  // at a smaller distance, the two lines count as met, and no object is between them
constexpr float kFramesToHalve = 25.0F;

struct LaneAtRow {
    float left, width;
};

std::optional<LaneAtRow> lane_at(const LaneEstimate& lanes, float y) {
    const auto left = lane_x_at(lanes.left, y);
    const auto right = lane_x_at(lanes.right, y);
    if (!left || !right || *right - *left < kMinLanePx) {
        return std::nullopt;
    }
    return LaneAtRow{*left, *right - *left};
}

void place(FusedObject& object, const LaneEstimate& lanes, cv::Size image,
           const FusionOptions& options) {
    const float x = object.box.x + object.box.width / 2;
    const float y = object.box.y + object.box.height;
    if (const auto lane = lane_at(lanes, y)) {
        const float offset = (x - lane->left) / lane->width - 0.5F;
        object.lane_offset = offset;
        object.lane = offset < -0.5F  ? LanePosition::left
                      : offset > 0.5F ? LanePosition::right
                                      : LanePosition::ego;
        // The distance follows from the width of the lane in metres and in pixels.
        object.distance_m = static_cast<float>(options.focal_px_per_width * image.width *
                                               options.lane_width_m / lane->width);
        return;
    }
    // With one marking, the lane is known only for objects on the outer side of it.
    if (const auto left = lane_x_at(lanes.left, y); left && x < *left) {
        object.lane = LanePosition::left;
    } else if (const auto right = lane_x_at(lanes.right, y); right && x > *right) {
        object.lane = LanePosition::right;
    }
}

}  // namespace

std::string_view to_string(LanePosition position) {
    switch (position) {
        case LanePosition::left:
            return "left";
        case LanePosition::ego:
            return "ego";
        case LanePosition::right:
            return "right";
        case LanePosition::unknown:
            break;
    }
    return "unknown";
}

FusedScene fuse(const FusionInput& input, const FusionOptions& options) {
    FusedScene scene;
    scene.frame_time_ns = input.frame_time_ns;
    if (input.lanes != nullptr) {
        scene.lanes = *input.lanes;
        scene.lanes_age_ns = input.frame_time_ns - input.lanes_time_ns;
        const auto bottom = static_cast<float>(input.image_size.height - 1);
        if (const auto lane = lane_at(scene.lanes, bottom)) {
            const float centre = lane->left + lane->width / 2;
            scene.lane_offset_m = (0.5F * static_cast<float>(input.image_size.width) - centre) /
                                  lane->width * static_cast<float>(options.lane_width_m);
        }
    }
    if (input.tracks != nullptr) {
        scene.tracks_age_ns = input.frame_time_ns - input.tracks_time_ns;
        const std::size_t count = std::min(input.tracks->size(), kMaxTracks);
        for (std::size_t i = 0; i < count; ++i) {
            const Track& track = (*input.tracks)[i];
            FusedObject object;
            object.track_id = track.id;
            object.state = track.state;
            object.box = track.box;
            object.kind = track.kind;
            object.frames_since_detection = track.frames_since_detection;
            const float unseen =
                std::exp2(-static_cast<float>(track.frames_since_detection) / kFramesToHalve);
            object.confidence =
                track.confidence * unseen * (track.state == TrackState::lost ? 0.5F : 1.0F);
            scene.objects.push_back(object);
        }
    }
    const std::size_t tracked = scene.objects.size();
    if (input.detections != nullptr) {
        scene.detections_age_ns = input.frame_time_ns - input.detections->source_time_ns;
        const std::size_t count = std::min(input.detections->detections.size(), kMaxDetections);
        for (std::size_t i = 0; i < count; ++i) {
            const Detection& detection = input.detections->detections[i];
            const bool covered = std::any_of(
                scene.objects.begin(), scene.objects.begin() + static_cast<std::ptrdiff_t>(tracked),
                [&](const FusedObject& o) {
                    return intersection_over_union(o.box, detection.box) >= options.match_iou;
                });
            if (!covered) {
                FusedObject object;
                object.box = detection.box;
                object.kind = detection.kind;
                object.confidence = detection.confidence;
                scene.objects.push_back(object);
            }
        }
    }
    for (FusedObject& object : scene.objects) {
        place(object, scene.lanes, input.image_size, options);
    }
    std::stable_sort(scene.objects.begin(), scene.objects.end(),
                     [](const FusedObject& a, const FusedObject& b) {
                         return a.box.y + a.box.height > b.box.y + b.box.height;
                     });
    for (std::size_t i = 0; i < scene.objects.size(); ++i) {
        if (scene.objects[i].lane == LanePosition::ego) {
            scene.in_path = i;  // sorted: the first is the closest
            break;
        }
    }
    return scene;
}

}  // namespace comp
