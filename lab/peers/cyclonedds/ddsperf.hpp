// SPDX-License-Identifier: Apache-2.0
// Cyclone DDS's own latency tool.
#pragma once

#include <cstdint>
#include <string>

#include "job.hpp"

namespace cyclone {

/// Two processes of ddsperf, ping and pong, under the same configuration as the job's own ends.
/// Blocks for 2 to 8 s.
peers::OwnTool run_ddsperf(const peers::Job& job, std::uint32_t domain,
                           const std::string& configuration);

}  // namespace cyclone
