// SPDX-License-Identifier: Apache-2.0
// Other components of this example: a source of images, and a reader of lanes.
#include <driveline/driveline.hpp>
#include <driveline/msgs/lane_markings.pb.h>
#include <driveline/opencv.hpp>
#include <driveline/protobuf.hpp>
#include <opencv2/imgproc.hpp>

class Pattern : public driveline::Component {
    driveline::Output<driveline::Image> image_{*this, "image"};
    driveline::Parameter<std::uint64_t> frames_{*this, "frames", 50,
                                                "number of pictures; then the run ends"};
    std::uint64_t frame_ = 0;

    driveline::Status on_trigger(const driveline::Invocation&) override {
        if (frame_ == *frames_) {
            finish();
            return {};
        }
        const auto header =
            driveline::Header::make(driveline::to_ns(driveline::now()), "pattern", frame_);
        if (!header) return header.error();
        auto loan = image_.loan(640, 360, driveline::Encoding::mono8, *header);
        if (!loan) return loan.error();
        cv::Mat canvas = loan->mat();  // readers read this memory without a copy
        canvas.setTo(0);
        const int x = static_cast<int>(frame_ * 8 % 540);
        cv::rectangle(canvas, cv::Rect(x, 100, 100, 160), cv::Scalar(255), cv::FILLED);
        ++frame_;
        return image_.publish(std::move(*loan));
    }
};
DRIVELINE_COMPONENT(Pattern, "pictures of a moving square");

class Printer : public driveline::Component {
    driveline::Input<driveline::msgs::LaneMarkings> lanes_{*this, "lanes"};

    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto lanes = lanes_.sample();
        if (!lanes || (*lanes)->lines().empty()) return {};
        const auto picture = lanes->origin(0);
        if (!picture) return picture.error();
        const auto age = driveline::now() - picture->source_oldest;
        log_info("sample ", lanes->sequence(), ": ", 100 * (*lanes)->lines(0).confidence(),
                 " % edges, picture is ",
                 std::chrono::duration_cast<std::chrono::microseconds>(age).count(), " us old");
        return {};
    }
};
DRIVELINE_COMPONENT(Printer, "prints the share of edges and the age of the picture");
