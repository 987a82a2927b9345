// SPDX-License-Identifier: Apache-2.0
// Calls /ros/add, which a node of ROS 2 serves.
#include "add_two_ints.hpp"

class Asker : public driveline::Component {
    driveline::Parameter<std::uint64_t> calls_{*this, "calls", 10, "after so many answers its work is done"};
    std::optional<driveline::Client<driveline::Bytes, driveline::Bytes>> client_;
    std::uint64_t answered_ = 0;

    driveline::Status init() override {
        auto client = node().client("ros/add", add_two_ints::request, add_two_ints::response, {.reach = driveline::Reach::host});
        if (!client) return client.error();
        client_ = std::move(*client);
        return {};
    }

    driveline::Status on_trigger(const driveline::Invocation&) override {
        // Waits for nothing: the next tick asks again.
        const auto there = client_->wait_for_server(std::chrono::nanoseconds(0));
        if (!there) return there.error();
        if (!*there) {
            log_info("nobody serves /ros/add yet");
            return {};
        }
        const auto a = static_cast<std::int64_t>(answered_);
        const auto response = client_->call(add_two_ints::to_cdr<2>({a, 100}), std::chrono::seconds(5));
        if (!response) return response.error();
        const auto sum = add_two_ints::from_cdr<1>(response->bytes());
        if (!sum) return driveline::Error{"what came from /ros/add is no AddTwoInts_Response"};
        log_info("ROS 2 says that ", a, " + 100 is ", (*sum)[0]);
        if (++answered_ == *calls_) finish();
        return {};
    }
};
DRIVELINE_COMPONENT(Asker, "calls /ros/add");
