// SPDX-License-Identifier: Apache-2.0
// Combines lane markings, detections and tracks of different age into one scene. A pure function of
// its inputs.
//
// The objects are the tracks, plus detections that no track covers. The position of an object
// relative to the ego lane is that of the middle of its box's lower edge between the two markings
// in that row. Distances are estimates: they assume a flat and straight road and a lane of
// lane_width_m, and need both markings.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <opencv2/core.hpp>

#include "perception.hpp"

namespace comp {

struct FusionOptions {
    float match_iou = 0.3F;  // minimum overlap of a detection with its track
    double lane_width_m = 3.6;
    // Focal length, divided by image width. 0.87 is a field of view of 60 degrees.
    double focal_px_per_width = 0.87;
};

enum class LanePosition : std::uint8_t { unknown, left, ego, right };
std::string_view to_string(LanePosition position);

struct FusedObject {
    std::uint32_t track_id = 0;  // 0: a detection without a track
    TrackState state = TrackState::tentative;
    cv::Rect2f box;
    VehicleClass kind = VehicleClass::unknown;
    float confidence = 0.0F;  // of its newest detection, halved for every 25 frames since then, and
                              // halved while the track is lost
    LanePosition lane = LanePosition::unknown;
    std::optional<float> lane_offset;  // distance from the ego lane's centre in lane widths,
                                       // negative to the left: +-0.5 is on a marking
    std::optional<float> distance_m;   // along the road, to the lower edge of the box
    std::uint32_t frames_since_detection = 0;
};

struct FusionInput {
    std::int64_t frame_time_ns = 0;  // time of the frame that the scene describes
    cv::Size image_size;
    // Null: not available yet.
    const LaneEstimate* lanes = nullptr;
    std::int64_t lanes_time_ns = 0;
    const DetectionSet* detections = nullptr;
    const std::vector<Track>* tracks = nullptr;
    std::int64_t tracks_time_ns = 0;
};

struct FusedScene {
    std::int64_t frame_time_ns = 0;
    LaneEstimate lanes;
    // Distance of the camera from the lane centre, positive to the right. Needs both markings.
    std::optional<float> lane_offset_m;
    std::vector<FusedObject>
        objects;  // nearest to the image's lower edge first; at most kMaxTracks + kMaxDetections
    std::optional<std::size_t> in_path;  // index of the closest object in the ego lane
    // Age of each input relative to frame_time_ns. Empty: the input was missing. Negative: the
    // input is of a newer frame.
    std::optional<std::int64_t> lanes_age_ns;
    std::optional<std::int64_t> detections_age_ns;
    std::optional<std::int64_t> tracks_age_ns;
};

// Does not throw for any input; allocates the result.
FusedScene fuse(const FusionInput& input, const FusionOptions& options = {});

}  // namespace comp
