// SPDX-License-Identifier: Apache-2.0
// Lane: finds the markings of the ego lane in each frame.
#include <cstdint>
#include <memory>
#include <optional>

#include "driveline/driveline.hpp"
#include "driveline/opencv.hpp"
#include "lane_detector.hpp"
#include "messages.hpp"

namespace comp {

class Lane : public driveline::Component {
    driveline::Input<driveline::Image> image_{*this, "image", "frames, bgr8 or mono8"};
    driveline::Output<msgs::LaneMarkings> lanes_{*this, "lanes", "markings of the ego lane"};
    driveline::Parameter<double> horizon_{*this, "horizon_fraction",
                                          LaneDetectorOptions{}.horizon_fraction,
                                          "row of the horizon as a fraction of the image height"};
    driveline::Parameter<double> low_{*this, "canny_low", LaneDetectorOptions{}.canny_low,
                                      "lower threshold of Canny"};
    driveline::Parameter<double> high_{*this, "canny_high", LaneDetectorOptions{}.canny_high,
                                       "upper threshold of Canny"};
    driveline::Parameter<double> confidence_{*this, "min_confidence",
                                             LaneDetectorOptions{}.min_confidence,
                                             "lines with less confidence are not reported"};
    driveline::Parameter<std::int64_t> threads_{*this, "opencv_threads", 1,
                                                "threads that OpenCV may use in this process"};

    driveline::Status init() override {
        set_opencv_threads(static_cast<int>(*threads_));
        LaneDetectorOptions options;
        options.horizon_fraction = *horizon_;
        options.canny_low = *low_;
        options.canny_high = *high_;
        options.min_confidence = *confidence_;
        detector_.emplace(options);
        return {};
    }

    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto image = image_.sample();
        if (!image) return {};
        const auto mat = image->mat();
        auto message = std::make_unique<msgs::LaneMarkings>();
        describe(*message, **image);
        to_message(detector_->detect(mat), *message);
        return lanes_.publish(std::move(message));
    }

    std::optional<LaneDetector> detector_;
};
DRIVELINE_COMPONENT(Lane, "finds the markings of the ego lane");

}  // namespace comp
