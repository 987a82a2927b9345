// SPDX-License-Identifier: Apache-2.0
// A library that was compiled with other headers than the first one: with other headers of
// protobuf, and with another declaration of the type that both exchange as an object.
#include "driveline/msgs/detections_2d.pb.h"

#undef GOOGLE_PROTOBUF_VERSION
#define GOOGLE_PROTOBUF_VERSION 99000000

#include <driveline/driveline.hpp>
#include <driveline/protobuf.hpp>

namespace testing_components {

/// In the first library, this type has no second member.
struct Plan {
    std::string own_address;
    double speed = 0;
};

class Stranger : public driveline::Component {
public:
    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto detections = detections_.sample();
        if (!detections) return {};
        const auto kept = detections->shared();
        if (!kept) return kept.error();
        // The publisher wrote the address of the message into it.
        const bool same =
            (*kept)->header().frame_id().find(address(&**detections)) != std::string::npos;
        log_info("detections of frame ", (*kept)->header().frame_index(),
                 same ? " came as a pointer" : " came as bytes");
        return {};
    }

private:
    static std::string address(const void* pointer) {
        std::ostringstream text;
        text << pointer;
        return text.str();
    }

    driveline::Input<driveline::msgs::Detections2D> detections_{*this, "detections"};
};

class PlanReader : public driveline::Component {
public:
    driveline::Status on_trigger(const driveline::Invocation&) override {
        if (plan_.sample()) log_info("A PLAN WAS READ");
        return {};
    }

private:
    driveline::Input<Plan> plan_{*this, "plan"};
};

}  // namespace testing_components

DRIVELINE_COMPONENT(testing_components::Stranger,
                    "reads what libraries with other headers publish");
DRIVELINE_COMPONENT(testing_components::PlanReader, "cannot read it");
