// SPDX-License-Identifier: Apache-2.0
// A drive without files: a rendered three-lane road with traffic, and its ground truth.
//
// Frame i depends only on i, so any frame can be rendered at any time, repeatedly, and on any
// machine, with the same pixels. The scene is a pinhole camera 1.4 m above a flat road in the right
// lane (left marking dashed, right one solid); the road bends gently, the ego vehicle sways in its
// lane and pitches a little, two cars drive ahead and others overtake.
#pragma once

#include <cstdint>
#include <vector>

#include <opencv2/core.hpp>

namespace comp {

struct SyntheticDriveOptions {
    cv::Size size{960, 540};  // at least 160x90, at most 4096x4096
    double fps = 25.0;        // frames per second of scene time
};

struct TruthCar {
    int id = 0;    // constant while the car is visible; a car that comes back gets a new id
    int lane = 0;  // 0: ego lane, -1 and -2: lanes to the left
    float distance_m = 0.0F;  // from the camera to the rear bumper
    cv::Rect2f box;           // extent of the body, clipped to the image
    float visible_fraction =
        0.0F;  // share of the unclipped box that is in the image and in no box of a nearer car
};

struct SyntheticTruth {
    std::vector<cv::Point2f>
        left;  // centre of the ego lane's left marking, near to far, 6 m to 45 m
    std::vector<cv::Point2f> right;  // same rows as `left`
    float lane_offset_m = 0.0F;      // camera to the right of the lane centre
    std::vector<TruthCar> cars;  // nearest first; only those with some of their box in the image
};

// Immutable after construction: const functions may be called from several threads at once.
class SyntheticDrive {
public:
    // Throws VisionError on options out of range. Allocates the static layers (about 5 bytes per
    // pixel).
    explicit SyntheticDrive(const SyntheticDriveOptions& options = {});

    // Renders frame `index` (>= 0) as BGR. A `bgr` of the right size and type is written in place,
    // with any row step; otherwise it is reallocated.
    void render(std::int64_t index, cv::Mat& bgr) const;

    [[nodiscard]] SyntheticTruth truth(std::int64_t index) const;

    [[nodiscard]] cv::Size size() const { return options_.size; }
    [[nodiscard]] double fps() const { return options_.fps; }

private:
    SyntheticDriveOptions options_;
    cv::Mat backdrop_;  // sky and hills, horizon at its nominal row, with spare rows for pitch
    cv::Mat
        sensor_noise_;  // larger than the frame; a different window of it is added to each frame
    std::vector<std::int8_t> ground_noise_;  // one value per pixel, repeated per channel
    std::vector<std::uint8_t> asphalt_;      // one row of plain asphalt
    std::vector<std::uint8_t> verge_;        // one row of dry grass
};

}  // namespace comp
