// SPDX-License-Identifier: Apache-2.0
// A second library: receives pointers from the first one, and has a class with the same name as one
// of the first.
#include <driveline/driveline.hpp>
#include <driveline/protobuf.hpp>

#include "driveline/msgs/detections_2d.pb.h"
#include "plan.hpp"

namespace testing_components {

class Camera : public driveline::Component {
    driveline::Parameter<std::string> other_{*this, "other", "yes", "only this Camera has it"};
};

class Watcher : public driveline::Component {
public:
    driveline::Status on_trigger(const driveline::Invocation& invocation) override {
        const auto detections = detections_.read();
        const auto plan = plan_.sample();
        if (!invocation.triggered_by(plan_) || !detections || !plan) return {};
        log_info("plan ", plan->sequence(),
                 (*plan)->own_address == address(&**plan) ? " by pointer" : " by value",
                 ", detections",
                 (*detections)->header().frame_id() == address(&**detections) ? " by pointer"
                                                                              : " by value");
        return {};
    }

private:
    driveline::Input<Plan> plan_{*this, "plan"};
    driveline::Input<driveline::msgs::Detections2D> detections_{*this, "detections"};
};

}  // namespace testing_components

using testing_components::Camera;
DRIVELINE_COMPONENT(Camera, "the other one");
DRIVELINE_COMPONENT(testing_components::Watcher, "looks at what another library publishes");
