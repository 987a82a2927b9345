// SPDX-License-Identifier: Apache-2.0
// ROS 1's name server, which runs for the time of a run.
#pragma once

#include <memory>
#include <string>

#include "link.hpp"

namespace ros1 {

/// Starts a master on a port of its own.
std::unique_ptr<peers::Keeper> make_keeper(const peers::Job& job);
/// Returns the address of this run's master.
std::string master_uri(const peers::Job& job);

}  // namespace ros1
