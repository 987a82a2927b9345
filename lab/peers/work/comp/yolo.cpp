// SPDX-License-Identifier: Apache-2.0
// Detects vehicles in frames with a neural network, or with ComP's classical detector if no model
// is given. `network` in the report is 1 or 0 accordingly.
//
// Parameters: `model`, `weights`, `names` (paths, as in ComP's detector), `min_confidence`,
// `opencv_threads`.
#include "messages.hpp"
#include "vehicle_detector.hpp"

namespace {

class Yolo {
public:
    explicit Yolo(const work::Parameters& parameters) {
        comp::set_opencv_threads(parameters.get("opencv_threads", 1, 0, 256));
        comp::DetectorOptions options;
        options.model_path = parameters.get<std::string>("model", "");
        options.weights_path = parameters.get<std::string>("weights", "");
        options.names_path = parameters.get<std::string>("names", "");
        options.min_confidence =
            parameters.get("min_confidence", options.min_confidence, 0.0F, 1.0F);
        detector_ = comp::make_vehicle_detector(options);
    }

    std::optional<std::size_t> process(work_call& call) {
        work::Reader in(work::input(call, 0));
        const auto head = in.value<comp::FrameHead>();
        if (!detector_->detect(comp::frame_of(in, head), found_))
            throw std::runtime_error(detector_->error());
        ++frames_;
        vehicles_ += found_.size();
        work::Writer out(call);
        out.value(comp::ResultHead{head.time_ns, head.width, head.height, found_.size()});
        out.values(std::span<const comp::Detection>(found_));
        return out.written();
    }

    work::Report report() const {
        return {{"frames", frames_},
                {"vehicles_found", vehicles_},
                {"network", detector_->is_classical() ? 0U : 1U}};
    }

private:
    std::unique_ptr<comp::VehicleDetector> detector_;
    std::vector<comp::Detection> found_;
    std::uint64_t frames_ = 0;
    std::uint64_t vehicles_ = 0;
};

}  // namespace

WORK(Yolo)
