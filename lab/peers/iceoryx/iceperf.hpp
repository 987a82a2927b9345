// SPDX-License-Identifier: Apache-2.0
// iceoryx's own latency tool. Debian has its source as an example, and the build compiles it
// unchanged.
#pragma once

#include <filesystem>
#include <vector>

#include "job.hpp"

namespace ice {

/// Returns true if iceperf's two programs are in `tools` next to this program. They are missing if
/// the system does not install the documentation of packages, which includes examples, or if the C
/// interface of iceoryx was not installed.
bool has_iceperf();

/// Returns the payload sizes in bytes. Each run measures all of them.
std::vector<std::size_t> iceperf_sizes();

/// Runs the tool up to nine times for its average at the job's size. Each run measures all sizes,
/// so RouDi must run with chunks for the largest. Blocks for 2 to 8 s, or longer if a single run
/// takes longer.
peers::OwnTool run_iceperf(const peers::Job& job);

}  // namespace ice
