// SPDX-License-Identifier: Apache-2.0
// Writers and readers of Fast DDS, and what is kept beside them.
#pragma once

#include <memory>
#include <string_view>

#include "link.hpp"

namespace fast {

inline constexpr std::string_view udp = "udp", udp_1500 = "udp_1500", udp_500 = "udp_500", shm = "shm", data_sharing = "data_sharing";

std::unique_ptr<peers::Link> make_link(const peers::Job& job);

/// Keeps a domain number that no other run uses, and removes the shared memory of ends that were killed.
std::unique_ptr<peers::Keeper> make_keeper(const peers::Job& job);
/// The domain number that the keeper of this run keeps.
unsigned kept_domain(const peers::Job& job);
/// Writes down which shared memory this process has, so that the keeper finds it.
void note_segments(const peers::Job& job);

}  // namespace fast
