// SPDX-License-Identifier: Apache-2.0
// Order, loss, waiting, held samples, and metadata of samples.
#include <atomic>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>

#include "domain.hpp"

namespace {

using driveline::Imu;
using driveline::Reach;

Imu imu(std::uint64_t index) {
    Imu value{};
    value.header.frame_index = index;
    return value;
}

class Reading : public testing::TestWithParam<Reach> {
protected:
    test::Link<Imu> link(std::uint32_t depth, std::uint32_t max_held = 2) {
        driveline::Qos qos{.depth = depth};
        return test::Link<Imu>::make(domain_, {.reach = GetParam(), .qos = qos},
                                     {.qos = qos, .max_held = max_held});
    }

    test::Domain domain_;
};

INSTANTIATE_TEST_SUITE_P(Reach, Reading, testing::Values(Reach::process, Reach::host),
                         [](const auto& p) {
                             return p.param == Reach::process ? "process" : "host";
                         });

TEST_P(Reading, NewestWinsAndTheOthersCountAsMissed) {
    auto link = this->link(1);
    for (std::uint64_t i = 1; i <= 5; ++i) link.publisher.publish(imu(i)).value();
    const auto sample = link.subscription.latest().value();
    ASSERT_TRUE(sample);
    EXPECT_EQ((*sample)->header.frame_index, 5u);
    EXPECT_EQ(sample->header().sequence, 5u);
    EXPECT_EQ(sample->missed(), 4u);
    EXPECT_FALSE(link.subscription.latest().value());
    EXPECT_EQ(link.subscription.stats().received, 1u);
    EXPECT_EQ(link.subscription.stats().missed, 4u);
    EXPECT_EQ(link.publisher.stats().published, 5u);
}

TEST_P(Reading, TakeGoesInOrder) {
    auto link = this->link(8);
    for (std::uint64_t i = 1; i <= 5; ++i) link.publisher.publish(imu(i)).value();
    for (std::uint64_t i = 1; i <= 5; ++i) {
        const auto sample = link.subscription.take().value();
        ASSERT_TRUE(sample);
        EXPECT_EQ((*sample)->header.frame_index, i);
        EXPECT_EQ(sample->missed(), 0u);
    }
    EXPECT_FALSE(link.subscription.take().value());
}

TEST_P(Reading, HeldSamplesAreBoundedAndARefusalLosesNothing) {
    auto link = this->link(8, 2);
    for (std::uint64_t i = 1; i <= 3; ++i) link.publisher.publish(imu(i)).value();
    auto first = link.subscription.take().value();
    auto second = link.subscription.take().value();
    auto refused = link.subscription.take();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, DL_ERROR_HELD_LIMIT);
    EXPECT_NE(refused.error().message.find("max_held"), std::string::npos)
        << refused.error().message;
    auto copy = first->clone().value();
    first.reset();
    EXPECT_FALSE(link.subscription.take()) << "a clone holds as well";
    EXPECT_EQ(copy->header.frame_index, 1u);
    { const auto gone = std::move(copy); }
    EXPECT_EQ((*link.subscription.take().value())->header.frame_index, 3u);
}

TEST_P(Reading, SamplesOutliveEverythingElse) {
    std::optional<driveline::Sample<Imu>> kept;
    {
        test::Domain domain;
        auto link = test::Link<Imu>::make(domain, {.reach = GetParam()});
        link.publisher.publish(imu(77)).value();
        kept = link.receive();
    }
    EXPECT_EQ((*kept)->header.frame_index, 77u);
}

TEST_P(Reading, WaitReturnsWhenASampleIsPublishedOrAfterTheTimeOut) {
    auto link = this->link(1);
    EXPECT_FALSE(link.subscription.wait(std::chrono::milliseconds(1)).value());
    EXPECT_FALSE(link.subscription.receive(std::chrono::milliseconds(0)).value());
    for (const auto mode : {driveline::WaitMode::block(), driveline::WaitMode::spin(),
                            driveline::WaitMode::spin_then_block(std::chrono::microseconds(10))}) {
        std::thread sender([&] { link.publisher.publish(imu(1)).value(); });
        EXPECT_TRUE(link.subscription.wait(test::patience, mode).value());
        sender.join();
        EXPECT_TRUE(link.subscription.latest().value());
    }
}

TEST_P(Reading, ReceivingContinuesWhenOnlyAnExpiredSampleWaits) {
    const driveline::Qos qos{.depth = 1, .lifespan_ms = 1};
    auto link = test::Link<Imu>::make(domain_, {.reach = GetParam(), .qos = qos}, {.qos = qos});
    link.publisher.publish(imu(1)).value();
    const auto expired = driveline::now() + std::chrono::milliseconds(2);
    ASSERT_TRUE(test::eventually([&] { return driveline::now() > expired; }));
    std::atomic<bool> begun = false;
    std::atomic<bool> received = false;
    std::thread sender([&] {
        // Repeated, because on a busy machine a sample may expire before the receiver runs.
        while (!begun) std::this_thread::yield();
        while (!received) {
            link.publisher.publish(imu(2)).value();
            std::this_thread::yield();
        }
    });
    begun = true;
    const auto sample = link.subscription.receive(test::patience);
    received = true;
    sender.join();
    ASSERT_TRUE(sample) << sample.error().message;
    ASSERT_TRUE(*sample) << "returned before the time-out, because of a sample that cannot be read";
    EXPECT_EQ((**sample)->header.frame_index, 2u);
    // If a newer sample replaced the expired one before the first read, it counts as missed.
    const auto stats = link.subscription.stats();
    EXPECT_GE(stats.expired + stats.missed, 1u);
}

TEST_P(Reading, TheDescriptorIsReadableWhileSamplesAreUnread) {
    auto link = this->link(4);
    pollfd fd{link.subscription.fd().value(), POLLIN, 0};
    EXPECT_EQ(poll(&fd, 1, 0), 0);
    for (int round = 0; round < 3; ++round) {
        link.publisher.publish(imu(1)).value();
        ASSERT_EQ(poll(&fd, 1, 60'000), 1);
        while (link.subscription.take().value()) {
        }
        ASSERT_TRUE(test::eventually([&] { return poll(&fd, 1, 0) == 0; }));
    }
}

TEST_P(Reading, LateSubscriptionsGetHistoryIfTheTopicKeepsIt) {
    const driveline::Qos qos{.depth = 3, .durability = driveline::Durability::transient_local};
    auto publisher = domain_.node.publisher<Imu>("kept", {.reach = GetParam(), .qos = qos}).value();
    for (std::uint64_t i = 1; i <= 5; ++i) publisher.publish(imu(i)).value();
    auto subscription =
        domain_.node.subscription<Imu>("kept", {.reach = GetParam(), .qos = qos}).value();
    ASSERT_TRUE(subscription.wait(test::patience).value());
    EXPECT_EQ((*subscription.take().value())->header.frame_index, 3u);
}

TEST_P(Reading, SamplesHaveTheMeasurementTimeOfTheirSource) {
    auto link = this->link(1);
    auto loan = link.publisher.loan().value();
    loan.head() = imu(1);
    const auto source = driveline::now() - std::chrono::milliseconds(40);
    loan.set_source_time(source);
    link.publisher.publish(std::move(loan)).value();
    const auto sample = link.receive();
    const auto header = sample.header();
    ASSERT_EQ(header.origin_count, 1u);
    EXPECT_NE(header.trace_id, 0u);
    const auto origin = sample.origin(0).value();
    EXPECT_EQ(origin.topic_id, driveline::topic_id("topic").value());
    EXPECT_EQ(origin.source_oldest, source);
    EXPECT_EQ(origin.source_newest, source);
    EXPECT_EQ(header.publish_time - source,
              origin.communication + origin.computation + origin.idle);
    EXPECT_FALSE(sample.origin(1));
}

TEST_P(Reading, PeersThatComeAndGoAreEvents) {
    auto link = this->link(1);
    std::vector<driveline::Event::Kind> kinds;
    const auto next = [&] {
        return test::eventually([&] {
            auto event = link.subscription.poll_event();
            if (event) kinds.push_back(event->kind);
            return event.has_value();
        });
    };
    ASSERT_TRUE(next());
    { const auto gone = std::move(link.publisher); }
    ASSERT_TRUE(next());
    EXPECT_EQ(kinds,
              (std::vector{driveline::Event::Kind::matched, driveline::Event::Kind::unmatched}));
}

}  // namespace
