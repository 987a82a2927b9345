// SPDX-License-Identifier: Apache-2.0
// iceoryx's daemon, which runs for the time of a run.
#pragma once

#include <memory>

#include "link.hpp"

namespace ice {

/// Starts RouDi with memory for this job. A machine can have only one: our runs wait for each
/// other, and a foreign RouDi is an error.
std::unique_ptr<peers::Keeper> make_keeper(const peers::Job& job);

}  // namespace ice
