// SPDX-License-Identifier: Apache-2.0
// Passes messages through the C++ SDK and shared memory, with both ends on one thread. An
// instruction counter measures it. The Rust counterpart is crates/driveline/examples/data_path.rs.
// Usage: data_path [TURNS [BYTES]]; DRIVELINE_DOMAIN_DIR is the domain.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <driveline/driveline.hpp>
#include <thread>

#define KEPT_APART extern "C" __attribute__((noinline))

namespace {
using Publisher = driveline::Publisher<driveline::Bytes>;
using Subscription = driveline::Subscription<driveline::Bytes>;
}  // namespace

KEPT_APART bool loan_and_publish(Publisher& publisher, std::size_t bytes, std::uint64_t number) {
    auto loan = publisher.loan(bytes);
    if (!loan) return false;
    const std::uint64_t head[2] = {number, 0};
    if (bytes >= sizeof head) std::memcpy(loan->bytes().data(), head, sizeof head);
    return publisher.publish(std::move(*loan)).has_value();
}

KEPT_APART bool take_and_give_back(Subscription& subscription, std::byte& first) {
    auto sample = subscription.take();
    if (!sample || !*sample) return false;
    first = (*sample)->bytes()[0];
    return true;
}

int main(int argc, char** argv) {
    const auto number = [&](int i, std::size_t otherwise) {
        return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
    };
    const std::size_t turns = number(1, 200), bytes = number(2, 64);
    auto context = driveline::Context::create("data-path").value();
    auto node = context.node("data-path").value();
    driveline::PublisherOptions offered;
    offered.reach = driveline::Reach::host;
    offered.max_payload = bytes;
    offered.loans = offered.pins = 1;
    driveline::SubscriptionOptions wanted;
    wanted.reach = driveline::Reach::host;
    wanted.max_held = 1;
    auto publisher = node.publisher("data", driveline::Bytes{"raw"}, offered).value();
    auto subscription = node.subscription("data", driveline::Bytes{"raw"}, wanted).value();
    while (publisher.matched() == 0 || subscription.matched() == 0) std::this_thread::yield();
    const auto start = std::chrono::steady_clock::now();
    std::byte first{};
    for (std::size_t i = 0; i < turns; ++i) {
        if (!loan_and_publish(publisher, bytes, i) || !take_and_give_back(subscription, first)) {
            std::fputs("a turn failed\n", stderr);
            return 1;
        }
    }
    const auto spent = std::chrono::steady_clock::now() - start;
    std::printf("%zu turns, %lld ns each\n", turns,
                static_cast<long long>(std::chrono::nanoseconds(spent).count() /
                                       static_cast<long long>(turns)));
}
