// SPDX-License-Identifier: Apache-2.0
// Converts the values of the vision stages to Driveline messages, and back. The stages themselves
// use no messages. The time for conversions counts as communication, as in the experiment that the
// pipeline reproduces.
#pragma once

#include <string>

#include "driveline/conversion.hpp"
#include "driveline/image.hpp"
#include "driveline/msgs/detections_2d.pb.h"
#include "driveline/msgs/fused_scene.pb.h"
#include "driveline/msgs/lane_markings.pb.h"
#include "driveline/msgs/tracks_2d.pb.h"
#include "driveline/protobuf.hpp"
#include "fusion.hpp"
#include "perception.hpp"

namespace comp {

namespace msgs = driveline::msgs;

// Writes header and image size into a message that was derived from `image`.
template <class Message>
void describe(Message& message, const driveline::Image& image) {
    message.mutable_header()->set_source_time_ns(image.header.source_time_ns);
    message.mutable_header()->set_frame_id(std::string(image.header.frame()));
    message.mutable_header()->set_frame_index(image.header.frame_index);
    message.mutable_image_size()->set_width(image.width);
    message.mutable_image_size()->set_height(image.height);
}

void to_message(const LaneEstimate& lanes, msgs::LaneMarkings& message);
LaneEstimate from_message(const msgs::LaneMarkings& message);

void to_message(const std::vector<Detection>& detections, msgs::Detections2D& message);
DetectionSet from_message(const msgs::Detections2D& message);

void to_message(const std::vector<Track>& tracks, msgs::Tracks2D& message);
std::vector<Track> from_message(const msgs::Tracks2D& message);

void to_message(const FusedScene& scene, msgs::FusedScene& message);
// Returns only the data for an overlay.
FusedScene from_message(const msgs::FusedScene& message);

// Returns true for the name of a classical detector. Results derived from its output keep the name.
bool is_classical(const std::string& detector_name);

}  // namespace comp
