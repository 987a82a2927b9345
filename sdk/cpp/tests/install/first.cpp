// SPDX-License-Identifier: Apache-2.0
// Publishes the project's own messages for a component of another library.
#include <driveline/driveline.hpp>
#include <driveline/protobuf.hpp>

#include "more/other.pb.h"
#include "own.pb.h"

class First : public driveline::Component {
    driveline::Output<install_tests::Own> out_{*this, "out"};
    driveline::Timer timer_{*this, std::chrono::milliseconds(10),
                            [this](const driveline::TimerTick&) { return publish(); }};
    std::uint64_t number_ = 0;

    driveline::Status publish() {
        install_tests::Own own;
        own.set_number(++number_);
        own.mutable_other()->set_square(number_ * number_);
        if (number_ == 5) finish();
        return out_.publish(std::move(own));
    }
};
DRIVELINE_COMPONENT(First);
