// SPDX-License-Identifier: Apache-2.0
// Programs of a middleware as child processes: its latency tool, and the tool's other end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "job.hpp"

namespace peers {

/// A running program. It does not outlive this process. Used by one thread; made while the process
/// has no other threads.
class Tool {
public:
    /// Starts the program on a CPU (no value: the kernel decides) with the job's priority.
    /// `package` is the Debian package that installs it. Throws if the program does not exist.
    Tool(const Job& job, std::optional<int> cpu, const std::vector<std::string>& command,
         const std::map<std::string, std::string>& environment, const std::string& package);
    Tool(const Tool&) = delete;
    Tool& operator=(const Tool&) = delete;
    /// Ends the program: with SIGTERM, and after 2 s with SIGKILL.
    ~Tool();

    /// Returns the next line of the program's standard output or error; nothing if the program has
    /// ended or `limit` has passed.
    std::optional<std::string> line(std::chrono::nanoseconds limit);
    /// Returns its last line, for error texts.
    const std::string& last_words() const { return last_; }

private:
    pid_t pid_ = -1;
    int out_ = -1;
    std::string unread_;
    std::string last_;
};

/// Latencies of an interval, as many tools print them every second. In nanoseconds, one way.
struct Interval {
    double p50_ns = 0;
    std::optional<double> p99_ns;
    double mean_ns = 0;
    std::uint64_t n = 0;
};

/// Returns the median of each figure over all intervals, weighted with the number of samples, and
/// the mean of the means. Throws if there is no interval.
OwnTool summary(const std::string& name, const std::string& version,
                const std::vector<Interval>& intervals);

}  // namespace peers
