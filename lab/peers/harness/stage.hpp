// SPDX-License-Identifier: Apache-2.0
// The roles `stage` and `stages` of docs/protocols/chain.md.
#pragma once

#include <functional>
#include <string>

#include "link.hpp"

namespace peers {

/// The whole life of a stage: from its job's line to the event that ends it. CPU and priority are
/// set already; `refused` is what the machine refused. `ready` is called once its inputs exist and
/// its output is matched.
std::string run_stage(Middleware& middleware, const Job& job, const std::string& line,
                      std::vector<std::string> refused, const std::function<void()>& ready);

/// All stages of a chain in this process, a thread each. `ready` is called once all of them are;
/// `fail` when one of them cannot go on, whereupon the process ends.
std::string run_stages(Middleware& middleware, const Job& job, const std::string& line,
                       const std::function<void()>& ready,
                       const std::function<void(const std::string&)>& fail);

}  // namespace peers
