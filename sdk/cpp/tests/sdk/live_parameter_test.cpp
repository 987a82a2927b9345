// SPDX-License-Identifier: Apache-2.0
// Parameters that change while a component runs.
#include <cstdint>
#include <string>
#include <vector>

#include <driveline/driveline.hpp>
#include <driveline/testing.hpp>
#include <gtest/gtest.h>

namespace {

using driveline::Imu;
using driveline::testing::ComponentTest;

/// Publishes the present values of its parameters.
class Tuned : public driveline::Component {
public:
    driveline::Status init() override {
        low_.on_change([this](const int& low) -> driveline::Status {
            if (low == 13) return driveline::Error{"13 is unlucky"};
            // The callback runs before the value changes.
            if (low_.get() == low) return driveline::Error{"too early"};
            ++changes_;
            return {};
        });
        return {};
    }

private:
    driveline::Status publish() {
        Imu value{};
        const auto weights = *weights_;
        value.header.frame_index = static_cast<std::uint64_t>(*low_) * 1000 +
                                   static_cast<std::uint64_t>(changes_) * 100 +
                                   static_cast<std::uint64_t>(weights.at(1));
        return out_.publish(value);
    }

    driveline::Output<Imu> out_{*this, "out"};
    driveline::LiveParameter<int> low_{*this, "low", 50, "lower threshold", {0, 255}};
    driveline::LiveParameter<std::vector<double>> weights_{
        *this, "weights", {1, 2}, "weights", {.max = 9.0}};
    driveline::Parameter<int> fixed_{*this, "fixed", 1};
    driveline::Timer timer_{*this, std::chrono::milliseconds(1),
                            [this](const driveline::TimerTick&) { return publish(); }};
    int changes_ = 0;
};

std::uint64_t next(ComponentTest& test) {
    test.advance(std::chrono::milliseconds(1)).value();
    const auto all = test.outputs<Imu>("out").value();
    return all.back()->header.frame_index;
}

TEST(LiveParameters, AreChangedWithinTheirRangeAndByTheirCallback) {
    auto test = ComponentTest::of<Tuned>({.parameters = {{"low", 40}}}).value();
    EXPECT_EQ(next(test), 40'002u);
    test.set_parameter("low", 70).value();
    EXPECT_EQ(next(test), 70'102u);
    test.set_parameter("weights", std::vector<double>{3, 4}).value();
    EXPECT_EQ(next(test), 70'104u);

    const auto refusal = [&](const char* name, const auto& value) {
        const auto done = test.set_parameter(name, value);
        EXPECT_EQ(done ? 0 : done.error().status, DL_ERROR_PARAMETER);
        return done ? "changed" : done.error().message;
    };
    EXPECT_EQ(refusal("low", 256), "parameter 'low' is not changed: 256 is above 255");
    EXPECT_EQ(refusal("low", -1), "parameter 'low' is not changed: -1 is below 0");
    EXPECT_EQ(refusal("weights", std::vector<double>{1, 10}),
              "parameter 'weights' is not changed: 10 is above 9");
    EXPECT_EQ(refusal("low", std::string("much")),
              "parameter 'low' is an integer, and the new value is text");
    EXPECT_EQ(refusal("fixed", 2), "parameter 'fixed' is not declared as changeable");
    EXPECT_NE(refusal("lo", 2).find("did you mean `low`?"), std::string::npos);
    const std::string unlucky = refusal("low", 13);
    EXPECT_NE(unlucky.find("13 is unlucky"), std::string::npos) << unlucky;
    EXPECT_EQ(next(test), 70'104u) << "a refused value leaves everything as it was";
}

/// Has a default value out of its range.
class Mistaken : public driveline::Component {
    driveline::LiveParameter<int> low_{*this, "low", 5, "", {.min = 6.0}};
};

TEST(LiveParameters, NeedADefaultWithinTheRange) {
    const auto test = ComponentTest::of<Mistaken>();
    ASSERT_FALSE(test);
    EXPECT_NE(test.error().message.find("the default of parameter 'low': 5 is below 6"),
              std::string::npos)
        << test.error().message;
}

}  // namespace
