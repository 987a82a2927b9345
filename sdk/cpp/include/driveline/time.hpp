// SPDX-License-Identifier: Apache-2.0
/// The clock that Driveline measures with.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace driveline {

/// A point in time on CLOCK_MONOTONIC, which is what `std::chrono::steady_clock` reads on Linux.
using MonotonicTime = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

[[nodiscard]] constexpr MonotonicTime from_ns(std::uint64_t nanoseconds) noexcept {
    return MonotonicTime(std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds)));
}

[[nodiscard]] constexpr std::uint64_t to_ns(MonotonicTime time) noexcept {
    return static_cast<std::uint64_t>(time.time_since_epoch().count());
}

/// The present.
[[nodiscard]] inline MonotonicTime now() noexcept {
    std::timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return MonotonicTime(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
}

}  // namespace driveline
