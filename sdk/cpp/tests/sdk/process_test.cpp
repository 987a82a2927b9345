// SPDX-License-Identifier: Apache-2.0
// Communication between two processes.
#include <algorithm>
#include <optional>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <driveline/protobuf.hpp>

#include "child.hpp"
#include "driveline/msgs/detections_2d.pb.h"

namespace {

using driveline::Image;
using driveline::msgs::Detections2D;

constexpr driveline::SubscriptionOptions host{.reach = driveline::Reach::host};

TEST(TwoProcesses, ImagesAreWholeAndInOrder) {
    test::Domain domain;
    auto subscription = domain.node.subscription<Image>("topic", host).value();
    test::Child peer({SDK_PEER, domain.directory / "domain", "plain"});
    std::uint64_t last = 0;
    for (int received = 0; received < 50; ++received) {
        const auto sample = subscription.receive(test::patience).value();
        ASSERT_TRUE(sample) << "nothing came";
        const auto frame = (*sample)->header.frame_index;
        ASSERT_EQ(sample->tail().size(), 640u * 480u);
        EXPECT_TRUE(
            std::ranges::all_of(sample->tail(), [&](auto pixel) { return pixel == frame % 256; }))
            << "frame " << frame << " is torn";
        EXPECT_EQ((*sample)->header.frame(), "peer");
        EXPECT_EQ(sample->sequence(), frame + 1);
        EXPECT_GT(sample->sequence(), last);
        if (received > 0) {
            EXPECT_EQ(sample->missed(), sample->sequence() - last - 1);
        }
        last = sample->sequence();
    }
    peer.close_input();
    EXPECT_EQ(peer.wait(), 0);
}

TEST(TwoProcesses, ProtobufComesAsBytesAndIsParsed) {
    test::Domain domain;
    auto subscription = domain.node.subscription<Detections2D>("topic", host).value();
    test::Child peer({SDK_PEER, domain.directory / "domain", "protobuf"});
    std::optional<std::uint64_t> unserialised;
    for (int i = 0; i < 10; ++i) {
        const auto sample = subscription.receive(test::patience).value();
        ASSERT_TRUE(sample) << "nothing came";
        EXPECT_EQ((*sample)->header().frame_id(), "peer");
        // Without a reader, no message is serialised. With a reader, every message is serialised.
        const auto before = (*sample)->header().frame_index() + 1 - sample->sequence();
        EXPECT_EQ(before, unserialised.value_or(before));
        unserialised = before;
    }
}

TEST(TwoProcesses, BytesThatAreNoMessageAreAnErrorAndReadingContinues) {
    test::Domain domain;
    auto subscription = domain.node.subscription<Detections2D>("topic", host).value();
    test::Child peer({SDK_PEER, domain.directory / "domain", "bytes"});
    for (int i = 0; i < 3; ++i) {
        const auto sample = subscription.receive(test::patience);
        ASSERT_FALSE(sample) << "garbage was read as a message, or nothing came";
        EXPECT_EQ(sample.error().status, DL_ERROR_DECODE) << sample.error().message;
        EXPECT_NE(sample.error().message.find("driveline.msgs.Detections2D"), std::string::npos)
            << sample.error().message;
    }
}

TEST(TwoProcesses, APublisherThatDiesLeavesItsLastSampleAndIsReplaced) {
    test::Domain domain;
    auto subscription = domain.node.subscription<Image>("topic", host).value();
    std::optional<driveline::Sample<Image>> kept;
    {
        test::Child peer({SDK_PEER, domain.directory / "domain", "die"});
        kept = subscription.receive(test::patience).value();
        ASSERT_TRUE(kept);
        EXPECT_EQ(peer.wait(), 3);
    }
    const auto frame = (*kept)->header.frame_index;
    EXPECT_TRUE(
        std::ranges::all_of(kept->tail(), [&](auto pixel) { return pixel == frame % 256; }));
    while (subscription.take().value()) {
    }
    test::Child next({SDK_PEER, domain.directory / "domain", "plain"});
    const auto sample = subscription.receive(test::patience).value();
    ASSERT_TRUE(sample) << "the new publisher was not found";
    EXPECT_LT((*sample)->header.frame_index + 1, 1'000'000u);
}

/// Runs `work` in a forked child, which exits with its result. Returns the exit status of the
/// child, or the negative number of the signal that ended it.
template <class Work>
int in_child(Work work) {
    const pid_t pid = fork();
    // _exit(): the child must not run the exit handlers of the test program.
    if (pid == 0) _exit(work());
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(AForkedChild, ReadsZerosWhereItsParentHoldsSamplesAndLoans) {
    test::Domain domain;
    auto link =
        test::Link<Image>::make(domain, {.reach = driveline::Reach::host, .max_payload = 4096});
    auto loan = link.publisher.loan(4, 2, driveline::Encoding::mono8).value();
    std::ranges::fill(loan.image().data(), std::uint8_t{7});
    link.publisher.publish(std::move(loan)).value();
    auto next = link.publisher.loan(4, 2, driveline::Encoding::mono8).value();
    std::optional<driveline::Sample<Image>> sample(link.receive());
    const int code = in_child([&] {
        const bool zeros =
            std::ranges::all_of(sample->tail(), [](auto pixel) { return pixel == 0; }) &&
            sample->image().row(1)[0] == 0;
        next.image().data()[0] = 9;
        if (link.publisher.publish(std::move(next))) return 2;
        if (sample->clone().has_value() || link.subscription.latest().has_value()) return 3;
        sample.reset();
        return zeros ? 0 : 4;
    });
    EXPECT_EQ(code, 0)
        << "in the child: 2: published, 3: read, 4: no zeros, negative: ended by this signal";
    // Sample and loan of the parent are unchanged.
    EXPECT_EQ(sample->tail()[0], 7);
    ASSERT_TRUE(link.publisher.publish(std::move(next)));
}

}  // namespace
