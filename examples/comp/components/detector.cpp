// SPDX-License-Identifier: Apache-2.0
// Detector: finds vehicles in each frame, with a neural network from a file. Without a file, it
// uses a classical detector, whose name says so.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "driveline/driveline.hpp"
#include "driveline/opencv.hpp"
#include "messages.hpp"
#include "vehicle_detector.hpp"

namespace comp {

class Detector : public driveline::Component {
    driveline::Input<driveline::Image> image_{*this, "image", "frames, bgr8"};
    driveline::Output<msgs::Detections2D> detections_{*this, "detections", "vehicles"};
    driveline::Parameter<std::string> model_{
        *this, "model", "", "darknet .cfg or .weights, or .onnx; empty: a classical detector"};
    driveline::Parameter<std::string> weights_{
        *this, "weights", "",
        "other file of the darknet pair; empty: same name with the other extension"};
    driveline::Parameter<std::string> names_{*this, "names", "",
                                             "class names, one per line; empty: COCO's"};
    driveline::Parameter<double> confidence_{*this, "min_confidence",
                                             DetectorOptions{}.min_confidence,
                                             "detections with less confidence are dropped"};
    driveline::Parameter<std::int64_t> threads_{*this, "opencv_threads", 1,
                                                "threads that OpenCV may use in this process"};

    driveline::Status init() override {
        set_opencv_threads(static_cast<int>(*threads_));
        DetectorOptions options;
        options.model_path = *model_;
        options.weights_path = *weights_;
        options.names_path = *names_;
        options.min_confidence = static_cast<float>(*confidence_);
        detector_ = make_vehicle_detector(options);
        // Written into the report next to the figures.
        add_run_note("detector", detector_->name());
        log_info("runs ", detector_->name());
        return {};
    }

    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto image = image_.sample();
        if (!image) return {};
        const auto mat = image->mat();
        if (!detector_->detect(mat, found_)) return driveline::Error{detector_->error()};
        auto message = std::make_unique<msgs::Detections2D>();
        describe(*message, **image);
        message->set_detector(detector_->name());
        to_message(found_, *message);
        return detections_.publish(std::move(message));
    }

    std::unique_ptr<VehicleDetector> detector_;
    std::vector<Detection> found_;
};
DRIVELINE_COMPONENT(Detector, "finds vehicles with a neural network, or classically without one");

}  // namespace comp
