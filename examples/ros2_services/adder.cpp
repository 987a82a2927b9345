// SPDX-License-Identifier: Apache-2.0
// Serves /driveline/add for ROS 2 nodes. A server has its own thread.
#include <thread>

#include "add_two_ints.hpp"

class Adder : public driveline::Component {
    using Service = driveline::Service<driveline::Bytes, driveline::Bytes>;

    std::thread serving_;

    driveline::Status init() override {
        auto service = node().service("driveline/add", add_two_ints::request,
                                      add_two_ints::response, {.reach = driveline::Reach::host});
        if (!service) return service.error();
        serving_ = std::thread([this, service = std::move(*service)]() mutable { serve(service); });
        return {};
    }

    void shutdown() override {
        if (serving_.joinable()) serving_.join();
    }

    void serve(Service& service) {
        while (!is_stopping()) {
            auto ready = service.wait(std::chrono::milliseconds(100));
            if (!ready) return log_error("/driveline/add has ended: ", ready.error().message);
            auto call = service.take();
            if (!call) {
                log_warning("a request was refused: ", call.error().message);
            } else if (*call) {
                if (auto answered = answer(**call); !answered)
                    log_warning("an answer was not sent: ", answered.error().message);
            }
        }
    }

    driveline::Result<void> answer(Service::Call& call) {
        const auto numbers = add_two_ints::from_cdr<2>(call.request.bytes());
        if (!numbers) return call.responder.refuse("this is no AddTwoInts_Request");
        const auto [a, b] = *numbers;
        // Unsigned, because the overflow of signed numbers is undefined behaviour.
        const auto sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(a) +
                                                   static_cast<std::uint64_t>(b));
        log_info("'", call.responder.client(), "' asks for ", a, " + ", b, ": ", sum);
        return call.responder.send(add_two_ints::to_cdr<1>({sum}));
    }
};
DRIVELINE_COMPONENT(Adder, "serves /driveline/add");
