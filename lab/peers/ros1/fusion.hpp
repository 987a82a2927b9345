// SPDX-License-Identifier: Apache-2.0
// The workload `fusion` over message_filters, which is a package of its own: fusion.cpp with it,
// fusion_missing.cpp without.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "link.hpp"

namespace ros1 {

/// What of it this program can run.
peers::Workload fusion_workload();
/// A node of the calling process, which has joined the run.
std::unique_ptr<peers::Fuser> make_fuser(const peers::Job& job,
                                         const std::vector<std::string>& topics,
                                         const std::string& trigger, std::size_t queue,
                                         peers::Fusing& fusing);

}  // namespace ros1
