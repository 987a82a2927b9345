// SPDX-License-Identifier: Apache-2.0
// Common to the parts of workloads (docs/protocols/harness.md, Workloads): the order to begin, and
// observations.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "job.hpp"

namespace peers {

/// Measured time, on CLOCK_MONOTONIC.
struct Window {
    std::uint64_t from_ns = 0;
    std::uint64_t until_ns = 0;

    bool contains(std::uint64_t time_ns) const { return time_ns >= from_ns && time_ns < until_ns; }
};

/// Reads the line of a job or of an order. Throws an error text if it is no JSON.
nlohmann::json parse_part(const std::string& line);

/// Reads the order to begin from standard input; blocks.
Window await_window();

/// Observations in the order of time.
class Series {
public:
    void add(std::uint64_t time_ns, std::uint64_t value) {
        words_.push_back(time_ns);
        words_.push_back(value);
    }
    /// Writes the observations into a file of the job's directory. `number` names the file, so it
    /// differs for each series of a job.
    nlohmann::json write(const Job& job, const std::string& subject, const char* quantity,
                         std::size_t number) const;

private:
    std::vector<std::uint64_t> words_;
};

/// Returns the end of a part with its observations.
End end_of(const Job& job, const nlohmann::json& series, const nlohmann::json& counters);

}  // namespace peers
