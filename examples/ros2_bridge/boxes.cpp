// SPDX-License-Identifier: Apache-2.0
// Prints the detections of a detector in ROS 2. Its code does not depend on ROS 2.
#include <driveline/driveline.hpp>
#include <driveline/msgs/detections_2d.pb.h>
#include <driveline/protobuf.hpp>

class Boxes : public driveline::Component {
    driveline::Input<driveline::msgs::Detections2D> detections_{*this, "detections"};
    driveline::Parameter<std::uint64_t> every_{*this, "every", 25,
                                               "prints every n-th sample; 0: none"};

    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto sample = detections_.sample();
        if (!sample || *every_ == 0 || sample->sequence() % *every_ != 0) return {};
        const auto picture = sample->origin(0);
        if (!picture) return picture.error();
        const auto age =
            std::chrono::duration<double, std::milli>(driveline::now() - picture->source_oldest)
                .count();
        for (const auto& found : (*sample)->detections()) {
            const auto& box = found.box();
            log_info("sample ", sample->sequence(), " from ROS 2: ", found.class_label(), ", ",
                     box.width(), "x", box.height(), " at (", box.x(), ", ", box.y(), "), seen ",
                     age, " ms ago");
        }
        return {};
    }
};
DRIVELINE_COMPONENT(Boxes, "prints boxes and the age of their picture");
