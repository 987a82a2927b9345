// SPDX-License-Identifier: Apache-2.0
/// Options of publishers and subscriptions. Every option has a default: `{.reach = Reach::host}` is
/// enough.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "driveline/handle.hpp"

namespace driveline {

/// Reach of a topic. The default is the process.
enum class Reach : std::uint32_t {
    /// Only this process; samples move as pointers.
    process = DL_REACH_PROCESS,
    /// Every process of this host that shares the domain directory and has rights on the topic.
    host = DL_REACH_HOST,
    /// As `host`, and also other hosts if a gateway of the domain carries the topic.
    network = DL_REACH_NETWORK,
};

enum class Reliability : std::uint32_t {
    /// The publisher never waits. A subscription that is too slow misses samples, which are
    /// counted.
    best_effort = DL_BEST_EFFORT,
    /// The publisher waits, at most `Qos::max_blocking_ms`.
    reliable = DL_RELIABLE,
};

enum class Durability : std::uint32_t {
    /// Only samples that are published after the match.
    volatile_ = DL_VOLATILE,
    /// Also the last `Qos::depth` samples before the match.
    transient_local = DL_TRANSIENT_LOCAL,
};

enum class Liveliness : std::uint32_t {
    /// A publisher counts as alive while its process is alive.
    automatic = DL_LIVELINESS_AUTOMATIC,
    /// A publisher counts as alive if it publishes, or asserts its liveliness, at least once per
    /// lease.
    manual_by_topic = DL_LIVELINESS_MANUAL_BY_TOPIC,
};

/// Users whose endpoints may match an endpoint at host reach: for a publisher, users that may
/// subscribe; for a subscription, users whose publishers are accepted.
enum class Access : std::uint32_t {
    /// The endpoint's own user.
    own_user = DL_ACCESS_OWN_USER,
    /// Every process that can reach the domain directory.
    anyone = DL_ACCESS_ANYONE,
    /// The endpoint's own user, and the users listed in `users` of its options.
    users = DL_ACCESS_USERS,
};

/// Quality of service, with DDS's names and its rules for requested and offered policies.
struct Qos {
    /// Keep the last `depth` samples, 1 to 1024; 0 means 1.
    std::uint32_t depth = 1;
    Reliability reliability = Reliability::best_effort;
    /// Maximum wait of a reliable publish, in milliseconds; 0 means 100.
    std::uint32_t max_blocking_ms = 100;
    Durability durability = Durability::volatile_;
    /// Maximum interval between samples, in milliseconds; 0: none.
    std::uint32_t deadline_ms = 0;
    /// Greatest age of a sample that is delivered, in milliseconds; 0: no limit.
    std::uint32_t lifespan_ms = 0;
    Liveliness liveliness = Liveliness::automatic;
    /// Time without a sign of life after which a publisher counts as not alive, in milliseconds; 0:
    /// none.
    std::uint32_t lease_ms = 0;
    /// Publisher: puts an XXH3-64 of the payload into each header. Subscription: matches only such
    /// publishers, and verifies the checksum.
    bool checksum = false;
};

struct PublisherOptions {
    Reach reach = Reach::process;
    Qos qos = {};
    /// Maximum length of a payload, in bytes; 0 means 65536. This much is reserved for every slot
    /// at creation.
    std::size_t max_payload = 64 * 1024;
    /// Maximum number of loans at a time; 0 means 2.
    std::uint32_t loans = 2;
    /// Maximum number of samples that all subscriptions together may hold at host reach; 0 means 8.
    std::uint32_t pins = 8;
    Access access = Access::own_user;
    /// User ids for `Access::users`.
    std::vector<std::uint32_t> users = {};
};

struct SubscriptionOptions {
    Reach reach = Reach::process;
    /// `depth` is the maximum number of unread samples: of this subscription at process reach, of
    /// each publisher at host reach. At host reach, no more samples wait than the publisher's
    /// `depth`; if both ends are reliable, the publisher's `depth` applies.
    Qos qos = {};
    /// Maximum number of samples that the reader may hold at a time; 0 means 2.
    std::uint32_t max_held = 2;
    /// Users whose publishers are accepted at host reach.
    Access access = Access::own_user;
    /// User ids for `Access::users`.
    std::vector<std::uint32_t> users = {};
};

/// Wait strategy of a blocking reader.
class WaitMode {
public:
    /// As `block()`.
    constexpr WaitMode() noexcept = default;

    /// Sleep in the kernel; an idle reader uses no CPU.
    [[nodiscard]] static constexpr WaitMode block() noexcept { return {}; }
    /// Never sleep: lowest latency, one whole CPU.
    [[nodiscard]] static constexpr WaitMode spin() noexcept { return WaitMode(DL_WAIT_SPIN, {}); }
    /// Spin this long, then sleep.
    [[nodiscard]] static constexpr WaitMode spin_then_block(
        std::chrono::nanoseconds spin) noexcept {
        return WaitMode(DL_WAIT_SPIN_THEN_BLOCK, std::max(spin, std::chrono::nanoseconds::zero()));
    }

private:
    template <class>
    friend class Subscription;

    constexpr WaitMode(dl_wait_mode kind, std::chrono::nanoseconds spin) noexcept
        : kind_(kind), spin_(spin) {}

    dl_wait_mode kind_ = DL_WAIT_BLOCK;
    std::chrono::nanoseconds spin_{0};
};

namespace detail {

[[nodiscard]] inline dl_qos to_c(const Qos& qos) noexcept {
    dl_qos c{};
    c.depth = qos.depth;
    c.reliability = static_cast<std::uint32_t>(qos.reliability);
    c.max_blocking_ms = qos.max_blocking_ms;
    c.durability = static_cast<std::uint32_t>(qos.durability);
    c.deadline_ms = qos.deadline_ms;
    c.lifespan_ms = qos.lifespan_ms;
    c.liveliness = static_cast<std::uint32_t>(qos.liveliness);
    c.lease_ms = qos.lease_ms;
    c.checksum = qos.checksum ? 1 : 0;
    return c;
}

/// Valid as long as `options`.
[[nodiscard]] inline dl_publisher_options to_c(const PublisherOptions& options) noexcept {
    auto c = sized<dl_publisher_options>();
    c.reach = static_cast<std::uint32_t>(options.reach);
    c.loans = options.loans;
    c.max_payload = options.max_payload;
    c.pins = options.pins;
    c.access = static_cast<std::uint32_t>(options.access);
    c.users = options.users.data();
    c.user_count = options.users.size();
    c.qos = to_c(options.qos);
    return c;
}

/// Valid as long as `options`.
[[nodiscard]] inline dl_subscription_options to_c(const SubscriptionOptions& options) noexcept {
    auto c = sized<dl_subscription_options>();
    c.reach = static_cast<std::uint32_t>(options.reach);
    c.max_held = options.max_held;
    c.access = static_cast<std::uint32_t>(options.access);
    c.users = options.users.data();
    c.user_count = options.users.size();
    c.qos = to_c(options.qos);
    return c;
}

}  // namespace detail
}  // namespace driveline
