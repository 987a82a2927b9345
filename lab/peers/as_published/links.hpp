// SPDX-License-Identifier: Apache-2.0
// Two designs from papers, written anew from their descriptions.
#pragma once

#include <memory>

#include "link.hpp"

namespace published {

/// SIM's two buffers between processes. `second_buffer_distance`: where the second one begins, in
/// bytes from the first; 0 means behind it.
std::unique_ptr<peers::Link> two_buffer_link(const peers::Job& job,
                                             std::size_t second_buffer_distance);

/// FastCycle's broker within a process.
std::unique_ptr<peers::Link> broker_link(const peers::Job& job);

/// Threads of the broker's pool, and how long its main thread sleeps between looks if readers need
/// not spin.
inline constexpr unsigned pool_threads = 2;
inline constexpr std::chrono::microseconds poll_interval{100};

}  // namespace published
