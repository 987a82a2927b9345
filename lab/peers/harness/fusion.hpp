// SPDX-License-Identifier: Apache-2.0
// The roles `fusion` and `fusion_publisher` of docs/protocols/harness.md (Workloads).
#pragma once

#include <functional>
#include <string>

#include "link.hpp"

namespace peers {

/// The whole life of a part of the fusion, from its job's line to its end. `ready` is called once
/// its ends exist, of a publisher once it is matched.
End run_fusion_part(const Job& job, const std::string& line, Link& link,
                    const std::function<void()>& ready);

}  // namespace peers
