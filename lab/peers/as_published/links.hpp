// SPDX-License-Identifier: Apache-2.0
// Two designs from papers, implemented from their descriptions.
#pragma once

#include <memory>

#include "link.hpp"

namespace published {

/// SIM's two buffers between processes. `second_buffer_distance`: offset of the second buffer from
/// the first, in bytes; 0 means behind it.
std::unique_ptr<peers::Link> two_buffer_link(const peers::Job& job,
                                             std::size_t second_buffer_distance);

/// FastCycle's broker within a process.
std::unique_ptr<peers::Link> broker_link(const peers::Job& job);

/// Number of threads of the broker's pool, and the sleep of its main thread between polls if
/// readers need not spin.
inline constexpr unsigned pool_threads = 2;
inline constexpr std::chrono::microseconds poll_interval{100};

}  // namespace published
