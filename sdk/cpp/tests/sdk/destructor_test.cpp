// SPDX-License-Identifier: Apache-2.0
// Values whose destructors publish on the topic of the value.
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "domain.hpp"

namespace {

/// Publishes another value of its type when it is destroyed.
struct Farewell {
    using Publisher = driveline::Publisher<Farewell>;

    explicit Farewell(const Publisher* p = nullptr) : publisher(p) {}
    Farewell(const Farewell&) = delete;
    Farewell& operator=(const Farewell&) = delete;
    ~Farewell() {
        if (publisher != nullptr) publisher->publish(std::make_shared<const Farewell>()).value();
    }

    const Publisher* publisher;
};

/// Ends the test program if `work` does not end. A deadlocked thread cannot be ended otherwise.
template <class Work>
void must_end(Work work) {
    std::packaged_task<void()> task(work);
    auto done = task.get_future();
    std::thread thread(std::move(task));
    if (done.wait_for(test::patience) != std::future_status::ready) {
        std::fputs("a destructor that publishes waits for itself\n", stderr);
        std::abort();
    }
    thread.join();
    done.get();
}

TEST(Destructors, MayPublishWithoutAReader) {
    const test::Domain domain;
    const auto publisher = domain.node.publisher<Farewell>("topic").value();
    must_end([&] { publisher.publish(std::make_shared<const Farewell>(&publisher)).value(); });
    EXPECT_EQ(publisher.stats().published, 2u);
}

TEST(Destructors, MayPublishWhenTheirValueIsReplaced) {
    const test::Domain domain;
    auto link = test::Link<Farewell>::make(domain);
    must_end([&] {
        link.publisher.publish(std::make_shared<const Farewell>(&link.publisher)).value();
        link.publisher.publish(std::make_shared<const Farewell>()).value();
    });
    EXPECT_EQ(link.publisher.stats().published, 3u);
    EXPECT_EQ(link.receive().sequence(), 3u);
}

TEST(Destructors, MayPublishWhenTheReaderReleasesTheirValue) {
    const test::Domain domain;
    auto link = test::Link<Farewell>::make(domain);
    link.publisher.publish(std::make_shared<const Farewell>(&link.publisher)).value();
    must_end([&] { link.subscription.latest().value().reset(); });
    EXPECT_EQ(link.receive().sequence(), 2u);
}

}  // namespace
