// SPDX-License-Identifier: Apache-2.0
// The role `callbacks` of docs/protocols/harness.md (Workloads).
#pragma once

#include <functional>
#include <string>

#include "link.hpp"

namespace peers {

/// Returns the entry by which a variant declares that it runs the workload `chain`.
Workload chain_workload();

/// Runs the callbacks of a module, a thread each, from the line of the job to the end of the
/// measured time. `ready` is called once their ends exist and are matched.
End run_callbacks(const Job& job, const std::string& line, Link& link,
                  const std::function<void()>& ready);

}  // namespace peers
