// SPDX-License-Identifier: Apache-2.0
// iceoryx's daemon, for the time of a run.
#pragma once

#include <memory>

#include "link.hpp"

namespace ice {

/// Starts RouDi with memory for this job. There can be one on a machine: runs of ours wait for each
/// other, and somebody else's is an error.
std::unique_ptr<peers::Keeper> make_keeper(const peers::Job& job);

}  // namespace ice
