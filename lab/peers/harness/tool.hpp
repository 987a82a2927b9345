// SPDX-License-Identifier: Apache-2.0
// Programs that come with a middleware, as child processes: its
// own latency tool, and what answers it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "job.hpp"

namespace peers {

/// A running program. It does not outlive this process. Used by one thread; made before the process
/// has others.
class Tool {
public:
    /// Starts it on a CPU (nothing: the kernel decides) with the job's priority. `package` is what
    /// installs it. Throws if it is not there.
    Tool(const Job& job, std::optional<int> cpu, const std::vector<std::string>& command,
         const std::map<std::string, std::string>& environment, const std::string& package);
    Tool(const Tool&) = delete;
    Tool& operator=(const Tool&) = delete;
    /// Ends it: asked to for 2 s, then killed.
    ~Tool();

    /// The next line that it prints, on either stream; nothing when it has ended or `limit` is
    /// over.
    std::optional<std::string> line(std::chrono::nanoseconds limit);
    /// What it printed last, for errors.
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

/// Of all intervals: the median of each figure, weighted with the number of samples; the mean of
/// the means. Throws if there is none.
OwnTool summary(const std::string& name, const std::string& version,
                const std::vector<Interval>& intervals);

}  // namespace peers
