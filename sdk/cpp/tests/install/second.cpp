// SPDX-License-Identifier: Apache-2.0
// Prints the messages that a component of another library publishes.
#include <driveline/driveline.hpp>
#include <driveline/protobuf.hpp>

#include "elsewhere/third.pb.h"
#include "own.pb.h"

class Second : public driveline::Component {
    driveline::Input<install_tests::Own> in_{*this, "in"};

    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto own = in_.sample();
        if (!own) return {};
        install_tests::Third third;
        third.set_text("three libraries");
        log_info("number ", (*own)->number(), ", square ", (*own)->other().square(), ", ",
                 third.text());
        return {};
    }
};
DRIVELINE_COMPONENT(Second);
