// SPDX-License-Identifier: Apache-2.0
// Writers and readers of Fast DDS, and their state.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "link.hpp"

namespace fast {

inline constexpr std::string_view udp = "udp", udp_1500 = "udp_1500", udp_500 = "udp_500",
                                  shm = "shm", data_sharing = "data_sharing";
/// How variants end whose readers are called back.
inline constexpr std::string_view listener_end = "_listener";

/// Whether readers are called back on the thread that receives.
bool is_listener(const peers::Job& job);
/// The same with the variant that is varied by that.
peers::Job of_carrier(peers::Job job);
/// The settings of a job's ends as the XML profiles of LatencyTest.
std::string profiles(const peers::Job& job);

std::unique_ptr<peers::Link> make_link(const peers::Job& job);

/// Keeps a domain number that no other run uses, and removes the shared memory of ends that were
/// killed.
std::unique_ptr<peers::Keeper> make_keeper(const peers::Job& job);
/// The domain number that the keeper of this run keeps.
unsigned kept_domain(const peers::Job& job);
/// Writes down which shared memory this process has, so that the keeper finds it.
void note_segments(const peers::Job& job);

}  // namespace fast
