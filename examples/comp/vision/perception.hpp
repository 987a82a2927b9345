// SPDX-License-Identifier: Apache-2.0
// Values that the vision stages exchange, without OpenCV state and without Driveline.
//
// Image coordinates: pixels, x right, y down, the centre of the top-left pixel is (0, 0). Times:
// nanoseconds of the source frame on the clock of the caller; the stages only compare and subtract
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <opencv2/core.hpp>

namespace comp {

// Maximum numbers of detections and tracks in every stage, so that the maximum size of a message is
// known.
inline constexpr std::size_t kMaxDetections = 64;
inline constexpr std::size_t kMaxTracks = 32;

// Thrown by constructors and factories only (missing file, wrong model, impossible option). The
// text names the file or option and the remedy. Nothing that runs per frame throws it.
class VisionError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// One marking of the ego lane. `points` run from near (largest y) to far and are empty when `valid`
// is false.
struct LaneLine {
    bool valid = false;
    float confidence = 0.0F;  // 0..1: from the amount of paint along the line, the share that
                              // follows the line, and its scatter
    std::vector<cv::Point2f> points;
};

struct LaneEstimate {
    LaneLine left;
    LaneLine right;
};

// Returns x of the line in row y: linear between the points, extended along the end segments. Empty
// for an invalid line.
std::optional<float> lane_x_at(const LaneLine& line, float y);

enum class VehicleClass : std::uint8_t { unknown, car, motorbike, bus, truck };
std::string_view to_string(VehicleClass kind);

struct Detection {
    cv::Rect2f box;  // clipped to the image
    float confidence = 0.0F;
    VehicleClass kind = VehicleClass::unknown;
};

// The detections of one frame; at most kMaxDetections, best first.
struct DetectionSet {
    std::int64_t source_time_ns = 0;
    std::vector<Detection> detections;
};

enum class TrackState : std::uint8_t {
    tentative,  // not confirmed by enough detections yet
    tracking,   // the correlation filter holds the target
    lost,       // the filter's peak is too weak; the box is where it was last seen
};
std::string_view to_string(TrackState state);

struct Track {
    std::uint32_t id = 0;  // starts at 1, never reused by the same tracker
    TrackState state = TrackState::tentative;
    cv::Rect2f box;
    VehicleClass kind = VehicleClass::unknown;
    float confidence = 0.0F;       // of the newest detection of this target
    float psr = 0.0F;              // peak-to-sidelobe ratio of the newest correlation
    std::uint32_t age_frames = 0;  // since the track began
    std::uint32_t frames_since_detection = 0;
    std::int64_t detection_time_ns = 0;  // source time of the newest detection of this target
};

// Returns the intersection over union; 0 for empty boxes.
float intersection_over_union(const cv::Rect2f& a, const cv::Rect2f& b);

// Sets the number of threads that OpenCV uses in this process (0: OpenCV's default, one per core).
// The library never calls this function, because the setting applies to the whole process. Use one
// thread if stages run in parallel.
void set_opencv_threads(int threads);

}  // namespace comp
