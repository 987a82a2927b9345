// SPDX-License-Identifier: Apache-2.0
// iceoryx's own latency tool. Debian has it as an example in
// source, which the build compiles as it stands.
#pragma once

#include <filesystem>
#include <vector>

#include "job.hpp"

namespace ice {

/// Its two programs, in this program's directory. They are missing where the system does not
/// install the documentation of packages, which includes examples.
bool has_iceperf();

/// Payloads in bytes, all of which it measures each time.
std::vector<std::size_t> iceperf_sizes();

/// Runs it up to nine times for its average of each. RouDi is there, with chunks for the greatest
/// of its sizes. Blocks for 2 to 8 s, or longer where it alone takes longer.
peers::OwnTool run_iceperf(const peers::Job& job);

}  // namespace ice
