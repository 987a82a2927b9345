// SPDX-License-Identifier: Apache-2.0
// The workload `fusion` over message_filters, which is a separate package: fusion.cpp is built with
// it, fusion_missing.cpp without it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "link.hpp"

namespace ros1 {

/// Returns the description of the workload as this program can run it.
peers::Workload fusion_workload();
/// Makes a node in the calling process, which has joined the run.
std::unique_ptr<peers::Fuser> make_fuser(const peers::Job& job,
                                         const std::vector<std::string>& topics,
                                         const std::string& trigger, std::size_t queue,
                                         peers::Fusing& fusing);

}  // namespace ros1
