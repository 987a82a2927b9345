// SPDX-License-Identifier: Apache-2.0
/// The clock of Driveline.
#pragma once

#include <chrono>
#include <cstdint>

#include "driveline/driveline.h"

namespace driveline {

/// A point in time on CLOCK_MONOTONIC, which `std::chrono::steady_clock` reads on Linux.
using MonotonicTime = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

[[nodiscard]] constexpr MonotonicTime from_ns(std::uint64_t nanoseconds) noexcept {
    return MonotonicTime(std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds)));
}

[[nodiscard]] constexpr std::uint64_t to_ns(MonotonicTime time) noexcept {
    return static_cast<std::uint64_t>(time.time_since_epoch().count());
}

/// Returns the current time: of CLOCK_MONOTONIC, or in a test of a component, of the test's clock
/// (`driveline/testing.hpp`). In code under test, use it instead of `std::chrono::steady_clock`.
[[nodiscard]] inline MonotonicTime now() noexcept { return from_ns(dl_now_ns()); }

}  // namespace driveline
