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
/// Ending of the names of variants whose readers are called back in ping-pongs.
inline constexpr std::string_view listener_end = "_listener";

/// Returns true for variants whose readers, in ping-pongs, are called back on the receiving thread.
bool is_listener(const peers::Job& job);
/// Returns the job with the variant that its listener variant varies: `udp` for `udp_listener`.
/// Other jobs stay as they are.
peers::Job of_carrier(peers::Job job);
/// Returns the settings of a job's ends as XML profiles for LatencyTest.
std::string profiles(const peers::Job& job);

std::unique_ptr<peers::Link> make_link(const peers::Job& job);

/// Keeper that reserves a domain number no other run uses, and removes the shared memory of killed
/// ends.
std::unique_ptr<peers::Keeper> make_keeper(const peers::Job& job);
/// Returns the domain number that the keeper of this run has reserved.
unsigned kept_domain(const peers::Job& job);
/// Records the shared memory of this process in a file, so that the keeper finds it.
void note_segments(const peers::Job& job);

}  // namespace fast
