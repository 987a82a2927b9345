// SPDX-License-Identifier: Apache-2.0
// Draws a fused scene onto its frame.
#pragma once

#include <string>

#include <opencv2/core.hpp>

#include "fusion.hpp"

namespace comp {

struct OverlayText {
    std::string detector;                // VehicleDetector::name()
    bool detector_is_classical = false;  // draws a large banner
    std::string status;  // one more line, such as frame number and latency; may be empty
};

// Draws in place. `frame` is 8-bit BGR; frames of other types and empty frames are not changed.
// Lost tracks are grey, tentative tracks thin, and the closest vehicle in the ego lane is bold.
void draw_overlay(cv::Mat& frame, const FusedScene& scene, const OverlayText& text);

}  // namespace comp
