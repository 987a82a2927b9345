// SPDX-License-Identifier: Apache-2.0
// One scene out of three estimates of different age: lane
// markings, detections, tracks. Pure function of its inputs.
//
// Objects are the tracks, plus detections that no track covers. Each is placed relative to the ego
// lane by where it touches the road (the middle of its box's lower edge) between the two markings
// on that row. Distances are estimates: they take the road as flat and straight and the lane as
// lane_width_m wide, and they are missing where a marking is.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <opencv2/core.hpp>

#include "perception.hpp"

namespace comp {

struct FusionOptions {
    float match_iou = 0.3F;  // a detection overlapping a track this much is that track
    double lane_width_m = 3.6;
    double focal_px_per_width =
        0.87;  // focal length over image width: 0.87 is a 60 degree field of view
};

enum class LanePosition : std::uint8_t { unknown, left, ego, right };
std::string_view to_string(LanePosition position);

struct FusedObject {
    std::uint32_t track_id = 0;  // 0: a detection without a track
    TrackState state = TrackState::tentative;
    cv::Rect2f box;
    VehicleClass kind = VehicleClass::unknown;
    float confidence = 0.0F;  // of the detection behind it, halved every 25 frames without one and
                              // halved while lost
    LanePosition lane = LanePosition::unknown;
    std::optional<float> lane_offset;  // lanes from the ego lane's centre, negative to the left:
                                       // +-0.5 is on a marking
    std::optional<float> distance_m;   // along the road to where the box touches it
};

struct FusionInput {
    std::int64_t frame_time_ns = 0;  // of the frame that the scene is about
    cv::Size image_size;
    // Null: none known yet.
    const LaneEstimate* lanes = nullptr;
    std::int64_t lanes_time_ns = 0;
    const DetectionSet* detections = nullptr;
    const std::vector<Track>* tracks = nullptr;
    std::int64_t tracks_time_ns = 0;
};

struct FusedScene {
    std::int64_t frame_time_ns = 0;
    LaneEstimate lanes;
    std::optional<float>
        lane_offset_m;  // camera to the right of the lane centre; needs both markings
    std::vector<FusedObject>
        objects;  // nearest to the image's lower edge first; at most kMaxTracks + kMaxDetections
    std::optional<std::size_t> in_path;  // index of the closest object in the ego lane
    // Age of each input against frame_time_ns; empty: that input was missing. Negative when it is
    // of a newer frame.
    std::optional<std::int64_t> lanes_age_ns;
    std::optional<std::int64_t> detections_age_ns;
    std::optional<std::int64_t> tracks_age_ns;
};

// Does not throw for any input; allocates the result.
FusedScene fuse(const FusionInput& input, const FusionOptions& options = {});

}  // namespace comp
