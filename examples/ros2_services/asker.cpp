// SPDX-License-Identifier: Apache-2.0
// Calls /ros/add, which a ROS 2 node serves.
#include "add_two_ints.hpp"

class Asker : public driveline::Component {
    driveline::Parameter<std::uint64_t> calls_{
        *this, "calls", 10, "number of calls, answered or not; then the run ends"};
    std::optional<driveline::Client<driveline::Bytes, driveline::Bytes>> client_;
    std::uint64_t answered_ = 0;
    std::uint64_t unanswered_ = 0;
    bool was_served_ = false;        // a server has existed at least once
    bool reported_missing_ = false;  // the missing server was logged

    driveline::Status init() override {
        auto client = node().client("ros/add", add_two_ints::request, add_two_ints::response,
                                    {.reach = driveline::Reach::host});
        if (!client) return client.error();
        client_ = std::move(*client);
        return {};
    }

    driveline::Status on_trigger(const driveline::Invocation&) override {
        // Does not wait for the server: the next tick calls again.
        const auto there = client_->wait_for_server(std::chrono::nanoseconds(0));
        if (!there) return there.error();
        if (!*there) {
            if (!reported_missing_)
                log_info("no node serves /ros/add ",
                         was_served_ ? "any more: calls get no answer" : "yet");
            reported_missing_ = true;
            // Until a server has existed once, there is nothing to call: the component waits.
            if (was_served_) count(unanswered_);
            return {};
        }
        was_served_ = true;
        reported_missing_ = false;
        const auto a = static_cast<std::int64_t>(answered_);
        const auto response =
            client_->call(add_two_ints::to_cdr<2>({a, 100}), std::chrono::seconds(5));
        if (!response) {
            count(unanswered_);
            return response.error();
        }
        const auto sum = add_two_ints::from_cdr<1>(response->bytes());
        if (!sum) {
            count(unanswered_);
            return driveline::Error{"the response of /ros/add is no AddTwoInts_Response"};
        }
        log_info("ROS 2 says that ", a, " + 100 is ", (*sum)[0]);
        count(answered_);
        return {};
    }

    void count(std::uint64_t& ended) {
        ++ended;
        if (answered_ + unanswered_ != *calls_) return;
        if (unanswered_ > 0)
            log_info(answered_, " calls were answered, ", unanswered_, " were not");
        finish();
    }
};
DRIVELINE_COMPONENT(Asker, "calls /ros/add");
