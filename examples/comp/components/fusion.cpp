// SPDX-License-Identifier: Apache-2.0
// Fusion: combines lanes, detections and tracks into one scene.
#include <cstdint>
#include <memory>

#include "driveline/driveline.hpp"
#include "fusion.hpp"
#include "messages.hpp"

namespace comp {

class Fusion : public driveline::Component {
    driveline::Input<msgs::Tracks2D> tracks_{*this, "tracks",
                                             "followed vehicles; the scene describes their frame"};
    driveline::Input<msgs::LaneMarkings> lanes_{*this, "lanes", "markings of the ego lane"};
    driveline::Input<msgs::Detections2D> detections_{*this, "detections", "vehicles"};
    driveline::Output<msgs::FusedScene> scene_{*this, "scene", "objects and lanes"};
    driveline::Parameter<double> lane_width_m_{*this, "lane_width_m", FusionOptions{}.lane_width_m,
                                               "width of the lane in m, to estimate distances"};

    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto tracks = tracks_.read();
        if (!tracks) return {};
        const auto lanes = lanes_.read();
        const auto detections = detections_.read();

        FusionOptions options;
        options.lane_width_m = *lane_width_m_;
        FusionInput input;
        const auto& size = (*tracks)->image_size();
        input.image_size = {static_cast<int>(size.width()), static_cast<int>(size.height())};
        input.frame_time_ns = static_cast<std::int64_t>((*tracks)->header().source_time_ns());
        const auto followed = from_message(**tracks);
        input.tracks = &followed;
        input.tracks_time_ns = input.frame_time_ns;
        LaneEstimate lane_estimate;
        if (lanes) {
            lane_estimate = from_message(**lanes);
            input.lanes = &lane_estimate;
            input.lanes_time_ns = static_cast<std::int64_t>((*lanes)->header().source_time_ns());
        }
        DetectionSet detection_set;
        if (detections) {
            detection_set = from_message(**detections);
            input.detections = &detection_set;
        }

        auto message = std::make_unique<msgs::FusedScene>();
        *message->mutable_header() = (*tracks)->header();
        *message->mutable_image_size() = size;
        to_message(fuse(input, options), *message);
        message->set_tracks_source_time_ns((*tracks)->header().source_time_ns());
        if (lanes) message->set_lanes_source_time_ns((*lanes)->header().source_time_ns());
        if (detections) message->set_detector((*detections)->detector());
        if (detections)
            message->set_detections_source_time_ns((*detections)->header().source_time_ns());
        return scene_.publish(std::move(message));
    }
};
DRIVELINE_COMPONENT(Fusion, "fuses lanes, detections and tracks into one scene");

}  // namespace comp
