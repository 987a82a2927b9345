// SPDX-License-Identifier: Apache-2.0
// Messages with slow conversions. A test checks to which part of the age of data their time is
// added. A part of the first test library.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include <driveline/driveline.hpp>

namespace testing_components {

constexpr std::chrono::milliseconds slow{5};

/// Has the shape of a generated protobuf message for the SDK.
struct Slow {
    std::uint8_t number = 0;

    struct Description {
        [[nodiscard]] std::string full_name() const { return "testing.Slow"; }
    };
    static const Description* descriptor() {
        static const Description description;
        return &description;
    }
    [[nodiscard]] std::size_t ByteSizeLong() const { return 1; }
    [[nodiscard]] bool IsInitialized() const { return true; }
    [[nodiscard]] std::string InitializationErrorString() const { return {}; }
    bool SerializeToArray(void* into, int) const {
        // time: makes a slow conversion; its figures are only compared with each other
        std::this_thread::sleep_for(slow);
        std::memcpy(into, &number, 1);
        return true;
    }
    bool ParseFromArray(const void* from, int) {
        // time: makes a slow conversion; its figures are only compared with each other
        std::this_thread::sleep_for(slow);
        std::memcpy(&number, from, 1);
        return true;
    }
};

}  // namespace testing_components

template <>
struct driveline::protobuf::Identity<testing_components::Slow> {
    static std::string name() { return "testing.Slow"; }
    static std::string definition() { return "driveline protobuf 1\nmessage testing.Slow\n"; }
    static int library_version() { return 1; }
};

namespace testing_components {

/// Publishes slow messages, and subscribes to the results so that the relay must encode them.
class SlowSource : public driveline::Component {
    driveline::Status on_trigger(const driveline::Invocation&) override {
        return out_.publish(Slow{1});
    }

    driveline::Output<Slow> out_{*this, "out"};
    driveline::Input<Slow> back_{*this, "back"};
};

/// Start time of a call, and waiting time of its sample.
struct Call {
    driveline::MonotonicTime start;
    std::chrono::nanoseconds waited;
};

/// Decodes a message, works, converts a message itself, and encodes a message. Logs each step.
class SlowRelay : public driveline::Component {
    driveline::Status on_trigger(const driveline::Invocation& invocation) override {
        const auto in = in_.sample();
        if (!in) return driveline::Error{"the message triggers"};
        if (out_.matched() == 0) return {};
        const auto call = std::make_shared<const Call>(
            Call{invocation.start(), invocation.start() - in->header().publish_time});
        // time: makes a slow callback, likewise
        std::this_thread::sleep_for(slow);
        {
            const driveline::Conversion conversion;
            const driveline::Conversion same_time_again;
            // time: as above
            std::this_thread::sleep_for(slow);
        }
        if (auto done = before_.publish(call); !done) return done.error();
        if (auto done = out_.publish(Slow{2}); !done) return done.error();
        return after_.publish(call);
    }

    driveline::Input<Slow> in_{*this, "in"};
    driveline::Output<Call> before_{*this, "before"};
    driveline::Output<Slow> out_{*this, "out"};
    driveline::Output<Call> after_{*this, "after"};
};

/// Compares the age of the relay's samples with the logged steps of the relay.
class SlowJudge : public driveline::Component {
    driveline::Status on_trigger(const driveline::Invocation&) override {
        if (const auto call = before_.sample()) judge("before", *call, 2);
        if (const auto call = after_.sample()) judge("after", *call, 3);
        if (seen_ == 2) finish();
        return {};
    }

    // Compares times only with each other, so the result does not depend on durations.
    void judge(const char* name, const driveline::Sample<Call>& call, int conversions) {
        const auto origin = call.origin(0).value();
        const auto converted = origin.communication - call->waited;
        const auto rest = call.header().publish_time - call->start - converted;
        log_info(name, ": ",
                 converted >= conversions * slow ? "converting was communication"
                                                 : "NOT ALL WAS COMMUNICATION",
                 ", ",
                 rest == origin.computation && rest >= slow ? "working was computation"
                                                            : "COMPUTATION IS WRONG");
        ++seen_;
    }

    driveline::Input<Call> before_{*this, "before"};
    driveline::Input<Call> after_{*this, "after"};
    int seen_ = 0;
};

}  // namespace testing_components

DRIVELINE_COMPONENT(testing_components::SlowSource);
DRIVELINE_COMPONENT(testing_components::SlowRelay);
DRIVELINE_COMPONENT(testing_components::SlowJudge);
