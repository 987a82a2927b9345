// SPDX-License-Identifier: Apache-2.0
#include <driveline/driveline.hpp>
#include <driveline/msgs/lane_markings.pb.h>
#include <driveline/opencv.hpp>
#include <driveline/protobuf.hpp>
#include <opencv2/imgproc.hpp>

class Lane : public driveline::Component {
    driveline::Input<driveline::Image> image_{*this, "image"};
    driveline::Output<driveline::msgs::LaneMarkings> lanes_{*this, "lanes"};

    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto image = image_.sample();  // the frame, where the camera wrote it
        if (!image) return {};
        cv::Mat edges;
        cv::Canny(image->mat(), edges, 50, 150);  // a cv::Mat over the same memory
        driveline::msgs::LaneMarkings lanes;
        lanes.add_lines()->set_confidence(static_cast<float>(cv::mean(edges)[0] / 255));
        return lanes_.publish(std::move(lanes));
    }
};
DRIVELINE_COMPONENT(Lane, "share of edge pixels in a frame, in place of a lane detector");
