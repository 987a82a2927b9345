// SPDX-License-Identifier: Apache-2.0
// Tests of `driveline/testing.hpp`, with components of this program and of a library.
#include <cstring>
#include <stdexcept>
#include <vector>

#include <driveline/protobuf.hpp>
#include <driveline/testing.hpp>
#include <gtest/gtest.h>

#include "domain.hpp"
#include "driveline/msgs/detections_2d.pb.h"
#include "plan.hpp"

namespace {

using driveline::Image;
using driveline::Imu;
using driveline::msgs::Detections2D;
using driveline::testing::ComponentTest;
using std::chrono::milliseconds;
using testing_components::Plan;

const driveline::Bytes note{"json"};

/// Publishes its inputs again, and the times of its ticks.
class Echo : public driveline::Component {
public:
    driveline::Status init() override {
        if (*text_ == "refused") return driveline::Error{"this text is refused"};
        ready_ = driveline::now();
        return timer_.start(milliseconds(*period_ms_));
    }

    driveline::Status on_trigger(const driveline::Invocation& call) override {
        if (const auto imu = imu_.sample()) {
            if ((*imu)->header.frame_index == 7) throw std::runtime_error("seven");
            if ((*imu)->header.frame_index == 8) return driveline::Error{"eight"};
            if ((*imu)->header.frame_index == 9) finish();
            if (call.start() != driveline::now()) return driveline::Error{"time moved"};
            return imus_.publish(**imu);
        }
        if (const auto image = image_.sample()) {
            auto seen = std::make_unique<Detections2D>();
            seen->set_detector(*text_);
            seen->mutable_header()->set_frame_index(image->tail()[3]);
            return seen_.publish(std::move(seen));
        }
        if (const auto plan = plan_.sample()) return plans_.publish(plan->shared().value());
        if (const auto bytes = note_.sample()) {
            auto loan = notes_.loan(bytes->bytes().size());
            if (!loan) return loan.error();
            std::memcpy(loan->bytes().data(), bytes->bytes().data(), bytes->bytes().size());
            return notes_.publish(std::move(*loan));
        }
        return driveline::Error{"nothing to do"};
    }

    void shutdown() override { (void)imus_.publish(Imu{}); }

private:
    driveline::Status tick(const driveline::TimerTick& tick) {
        Imu value{};
        value.header.frame_index =
            static_cast<std::uint64_t>((tick.scheduled - ready_) / milliseconds(1));
        return ticks_.publish(value);
    }

    driveline::Input<Imu> imu_{*this, "imu"};
    driveline::Input<Image> image_{*this, "image"};
    driveline::Input<Plan> plan_{*this, "plan"};
    driveline::Input<driveline::Bytes> note_{*this, "note", note};
    driveline::Output<Imu> imus_{*this, "imus"};
    driveline::Output<Detections2D> seen_{*this, "seen"};
    driveline::Output<Plan> plans_{*this, "plans"};
    driveline::Output<driveline::Bytes> notes_{*this, "notes", note};
    driveline::Output<Imu> ticks_{*this, "ticks"};
    driveline::Parameter<std::string> text_{*this, "text", "nothing"};
    driveline::Parameter<int> period_ms_{*this, "period_ms", 1000};
    driveline::Timer timer_{*this, [this](const driveline::TimerTick& t) { return tick(t); }};
    driveline::MonotonicTime ready_;
};
DRIVELINE_COMPONENT(Echo, "passes on what it gets");

/// Sets its own tick times: 5 ms, then 1, 40 and 2 ms apart, then by its period.
class Irregular : public driveline::Component {
    driveline::Output<Imu> imus_{*this, "imus"};
    driveline::Timer timer_{*this, milliseconds(5),
                            [this](const driveline::TimerTick& tick) { return publish(tick); }};
    std::size_t count_ = 0;

    driveline::Status publish(const driveline::TimerTick& tick) {
        static constexpr int gaps[] = {1, 40, 2};
        if (count_ < 3) {
            if (auto set = timer_.next(tick.scheduled + milliseconds(gaps[count_])); !set)
                return set;
        }
        ++count_;
        return imus_.publish(Imu{});
    }
};

/// Has parameters with narrow integer types.
class Narrow : public driveline::Component {
    driveline::Input<Imu> imu_{*this, "imu"};
    driveline::Parameter<std::uint32_t> skip_{*this, "skip", 0};
    driveline::Parameter<std::uint64_t> seed_{*this, "seed", 1};
    driveline::Parameter<std::int8_t> level_{*this, "level", -1};
    driveline::Parameter<std::vector<std::uint8_t>> grey_{*this, "grey", {0, 255}};
    driveline::Parameter<std::int64_t> wide_{*this, "wide", 0};

    driveline::Status on_trigger(const driveline::Invocation&) override { return {}; }
};
DRIVELINE_COMPONENT(Narrow, "has numbers that its types bound");

Imu imu(std::uint64_t index) {
    Imu value{};
    value.header.frame_index = index;
    return value;
}

std::string failure(const auto& result) { return result ? "no failure" : result.error().message; }

TEST(ComponentTesting, PassesEveryKindOfPayloadInAndOut) {
    const std::string text = "quotes \" and \\, lines\n\t, $ and \xc3\xbc";
    auto test = ComponentTest::of<Echo>({.parameters = {{"text", text}}}).value();

    test.feed("imu", imu(1)).value();
    EXPECT_FALSE(test.take<Imu>("imus").value()) << "the component ran before run()";
    EXPECT_EQ(test.run().value(), 1u);
    EXPECT_EQ((*test.take<Imu>("imus").value())->header.frame_index, 1u);
    EXPECT_FALSE(test.take<Imu>("imus").value());

    auto loan = test.loan<Image>("image", 4U, 2U, driveline::Encoding::mono8).value();
    for (std::size_t i = 0; i < 8; ++i) loan.tail()[i] = static_cast<std::uint8_t>(i * 10);
    test.feed("image", std::move(loan), milliseconds(40)).value();
    test.run().value();
    const auto seen = test.take<Detections2D>("seen").value();
    ASSERT_TRUE(seen);
    EXPECT_EQ((*seen)->detector(), text);
    EXPECT_EQ((*seen)->header().frame_index(), 30u);
    EXPECT_EQ(seen->header().publish_time, test.now());
    EXPECT_EQ(test.now() - seen->origin(0).value().source_oldest, milliseconds(40));

    test.feed("plan", Plan{"seventy"}).value();
    test.run().value();
    EXPECT_EQ((*test.take<Plan>("plans").value())->own_address, "seventy");

    auto bytes = test.loan("note", note, 3).value();
    std::memcpy(bytes.bytes().data(), "abc", 3);
    test.feed("note", std::move(bytes)).value();
    test.run().value();
    const auto out = test.take<driveline::Bytes>("notes", note).value();
    ASSERT_TRUE(out && out->bytes().size() == 3);
    EXPECT_EQ(std::memcmp(out->bytes().data(), "abc", 3), 0);
}

TEST(ComponentTesting, MovesTheTimeOfTheComponentAndOfTheSdk) {
    auto test = ComponentTest::of<Echo>({.parameters = {{"period_ms", 30}}}).value();
    const auto before = test.now();
    EXPECT_EQ(test.advance(milliseconds(100)).value(), 3u);
    EXPECT_EQ(test.now() - before, milliseconds(100));
    const auto ticks = test.outputs<Imu>("ticks").value();
    ASSERT_EQ(ticks.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(ticks[i]->header.frame_index, 30 * (i + 1));
        EXPECT_EQ(ticks[i].header().publish_time, before + milliseconds(30) * (i + 1));
    }
    EXPECT_NE(driveline::now(), test.now()) << "the test does not use the system's clock";
    {
        const auto time = test.time();
        EXPECT_EQ(driveline::now(), test.now());
    }
    EXPECT_NE(driveline::now(), test.now());
    test.feed("imu", imu(9)).value();
    EXPECT_FALSE(test.finished());
    test.run().value();
    EXPECT_TRUE(test.finished());
}

TEST(ComponentTesting, TimersTickAtTimesThatTheComponentSets) {
    auto test = ComponentTest::of<Irregular>().value();
    const auto start = test.now();
    test.advance(milliseconds(60)).value();
    std::vector<std::int64_t> times;
    for (const auto& sample : test.outputs<Imu>("imus").value())
        times.push_back((sample.header().publish_time - start) / milliseconds(1));
    EXPECT_EQ(times, (std::vector<std::int64_t>{5, 6, 46, 48, 53, 58}));
}

TEST(ComponentTesting, TriggersAndQosBehaveAsInAGraph) {
    auto test = ComponentTest::of<Echo>(
                    {.trigger = "{kind: any, on: [imu]}", .inputs = {{"imu", "{qos: {depth: 2}}"}}})
                    .value();
    for (std::uint64_t i = 1; i <= 5; ++i) test.feed("imu", imu(i)).value();
    EXPECT_EQ(test.run().value(), 2u);
    EXPECT_EQ(test.missed("imu").value(), 3u);
    EXPECT_EQ(test.outputs<Imu>("imus").value().size(), 2u);
    test.feed("plan", Plan{}).value();
    EXPECT_EQ(test.run().value(), 0u) << "an input that is no trigger called the component";
}

TEST(ComponentTesting, FailuresAreErrorsOfTheStepAndTheComponentContinues) {
    auto test = ComponentTest::create("Echo", {.inputs = {{"imu", "{qos: {depth: 4}}"}}}).value();
    for (const std::uint64_t i : {7u, 8u, 1u}) test.feed("imu", imu(i)).value();
    const auto failed = test.run();
    EXPECT_EQ(failure(failed),
              "error: component 'component' failed on sample 1 of 'in/imu': Echo: on_trigger threw "
              "std::runtime_error: seven\n"
              "error: component 'component' failed on sample 2 of 'in/imu': Echo: on_trigger "
              "failed: eight");
    EXPECT_EQ(failed.error().status, DL_ERROR_COMPONENT);
    EXPECT_EQ(test.outputs<Imu>("imus").value().size(), 1u);
    test.shutdown().value();
    test.shutdown().value();
    EXPECT_EQ(test.outputs<Imu>("imus").value().size(), 1u) << "shutdown did not publish";
    const auto moved = std::move(test);
    EXPECT_EQ(moved.missed("imu").value(), 0u);
}

TEST(ComponentTesting, ErrorsNameTheValidChoices) {
    const auto has = [](const std::string& text, const char* words) {
        EXPECT_NE(text.find(words), std::string::npos) << text;
    };
    has(failure(ComponentTest::create("Ecko")), "did you mean `Echo`?");
    has(failure(ComponentTest::of<Echo>({.parameters = {{"txt", "a"}}})), "`text`");
    has(failure(ComponentTest::of<Echo>({.parameters = {{"period_ms", "many"}}})), "period_ms");
    has(failure(ComponentTest::of<Echo>({.parameters = {{"text", "refused"}}})),
        "this text is refused");
    // The following values are refused before the start, not only when `init` reads them.
    has(failure(ComponentTest::of<Narrow>({.parameters = {{"skip", -1}}})), "-1 is below 0");
    has(failure(ComponentTest::of<Narrow>({.parameters = {{"seed", -1}}})), "-1 is below 0");
    has(failure(ComponentTest::of<Narrow>({.parameters = {{"level", 128}}})), "128 is above 127");
    has(failure(ComponentTest::of<Narrow>(
            {.parameters = {{"grey", std::vector<std::int64_t>{7, 256}}}})),
        "256 is above 255");
    const auto narrow = ComponentTest::of<Narrow>(
        {.parameters = {
             {"level", -128}, {"skip", 4294967295}, {"seed", INT64_MAX}, {"wide", INT64_MIN}}});
    EXPECT_TRUE(narrow.has_value());
    has(failure(ComponentTest::of<Echo>({.trigger = "{kind: sometimes}"})), "kind");
    has(failure(ComponentTest::load("/nowhere/libx.so", "Echo")), "/nowhere/libx.so");
    auto test = ComponentTest::of<Echo>().value();
    has(failure(test.feed("imus", imu(1))), "has no input 'imus'; did you mean `imu`?");
    has(failure(test.feed("image", imu(1))),
        "input 'image' carries plain 'driveline/Image', not plain 'driveline/Imu'");
    has(failure(test.take<Image>("imus")),
        "output 'imus' carries plain 'driveline/Imu', not plain 'driveline/Image'");
    has(failure(test.take<Image>("image")), "no output 'image'");
    has(failure(test.loan<Image>("image", 4000U, 2000U, driveline::Encoding::bgr8)), "2097152");
}

TEST(ComponentTesting, TestsClassesOfALibrary) {
    auto test = ComponentTest::load(
                    SDK_COMPONENTS, "Camera",
                    {.parameters = {{"count", 3}}, .trigger = "{kind: timer, period_ms: 10}"})
                    .value();
    EXPECT_EQ(test.advance(milliseconds(30)).value(), 3u);
    EXPECT_TRUE(test.finished());
    EXPECT_EQ(test.outputs<Image>("image").value().size(), 3u);
}

}  // namespace
