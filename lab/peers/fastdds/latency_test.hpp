// SPDX-License-Identifier: Apache-2.0
// Fast DDS's own latency tool. `make peers` fetches its source from Debian's source package, and
// the build compiles it unchanged.
#pragma once

#include "job.hpp"

namespace fast {

/// Returns true if LatencyTest is in `tools` next to this program. It is missing if its source was
/// not available.
bool has_latency_test();

/// Two processes of LatencyTest, publisher and subscriber, with the settings of the job's own ends.
/// Blocks for 2 to 10 s.
peers::OwnTool run_latency_test(const peers::Job& job);

}  // namespace fast
