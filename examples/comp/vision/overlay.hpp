// SPDX-License-Identifier: Apache-2.0
// Draws a fused scene onto its frame, for people.
#pragma once

#include <string>

#include <opencv2/core.hpp>

#include "fusion.hpp"

namespace comp {

struct OverlayText {
    std::string detector;                // VehicleDetector::name()
    bool detector_is_classical = false;  // draws a banner that cannot be overlooked
    std::string status;  // one more line, such as frame number and latency; may be empty
};

// Draws in place. `frame` is 8-bit BGR; anything else, or an empty frame, is left alone. A lost
// track is drawn in grey and a tentative one thin; the closest vehicle in the ego lane is drawn
// bold.
void draw_overlay(cv::Mat& frame, const FusedScene& scene, const OverlayText& text);

}  // namespace comp
