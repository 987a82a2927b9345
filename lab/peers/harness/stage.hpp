// SPDX-License-Identifier: Apache-2.0
// The roles `stage` and `stages` of docs/protocols/chain.md.
#pragma once

#include <functional>
#include <string>

#include "link.hpp"

namespace peers {

/// Runs a stage from the line of its job to its final event. CPU and priority are already set;
/// `refused` lists the settings that the machine refused. `ready` is called once its inputs exist
/// and its output is matched.
std::string run_stage(Middleware& middleware, const Job& job, const std::string& line,
                      std::vector<std::string> refused, const std::function<void()>& ready);

/// Runs all stages of a chain in this process, a thread each. `ready` is called once all of them
/// are ready; `fail` if one of them cannot continue, after which the process ends.
std::string run_stages(Middleware& middleware, const Job& job, const std::string& line,
                       const std::function<void()>& ready,
                       const std::function<void(const std::string&)>& fail);

}  // namespace peers
