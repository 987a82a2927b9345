// SPDX-License-Identifier: Apache-2.0
// Records of the loops, and the state of their thread.
#pragma once

#include <time.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "job.hpp"

namespace peers {

inline std::uint64_t clock_ns(clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(t.tv_nsec);
}

/// Returns the current time on CLOCK_MONOTONIC.
inline std::uint64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

void sleep_until(std::uint64_t at_ns);

/// Returns the processor time used so far: of the process, or of the thread if both ends share a
/// process.
std::uint64_t cpu_ns(const Job& job);

/// Keeps the calling thread busy for this much of its own processor time: preemption does not
/// shorten the work.
void burn(std::uint64_t microseconds);

/// Sets CPU, the job's priority and a timer slack of 1 ns for the calling thread and threads that
/// it starts later. With a priority, also locks the process's memory. Returns the settings that the
/// machine refused.
std::vector<std::string> settle(const Job& job, std::optional<int> cpu);

/// Rows of stamps, in memory that is touched before the clock starts.
class Recorder {
public:
    using Row = std::array<std::uint64_t, 5>;
    explicit Recorder(const Job& job) : rows_(job.total() + 2, Row{1, 1, 1, 1, 1}) {
        rows_.clear();
    }
    /// Adds a row without allocating. Rows beyond the announced number of samples are dropped.
    void push(const Row& row) {
        if (rows_.size() < rows_.capacity()) rows_.push_back(row);
    }
    /// Returns the path of the file.
    std::string write(const Job& job, const std::string& name) const;

private:
    std::vector<Row> rows_;
};

/// Counts of verified payloads, and of damaged ones.
class Verdict {
public:
    void check(std::span<const std::byte> payload, std::uint64_t sequence);
    /// Counts a payload that is evidently damaged, without verification.
    void reject(std::uint64_t sequence) {
        note("sample " + std::to_string(sequence) + ": the payload does not begin as one");
    }
    void report_to(End& end) const;

private:
    void note(std::string wrong);

    std::uint64_t verified_ = 0;
    std::uint64_t mismatched_ = 0;
    std::vector<std::string> mismatches_;
};

}  // namespace peers
