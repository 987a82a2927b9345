// SPDX-License-Identifier: Apache-2.0
// The roles `fusion` and `fusion_publisher` of docs/protocols/harness.md (Workloads).
#pragma once

#include <functional>
#include <string>

#include "link.hpp"

namespace peers {

/// Runs a part of the fusion, from the line of its job to its end. `ready` is called once its ends
/// exist; for a publisher, once it is matched.
End run_fusion_part(const Job& job, const std::string& line, Link& link,
                    const std::function<void()>& ready);

}  // namespace peers
