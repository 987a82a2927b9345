// SPDX-License-Identifier: Apache-2.0
#include "recorder.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "payload.hpp"

namespace peers {

void sleep_until(std::uint64_t at_ns) {
    const timespec at{static_cast<time_t>(at_ns / 1'000'000'000U),
                      static_cast<long>(at_ns % 1'000'000'000U)};
    while (now_ns() < at_ns && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) != 0) {
    }
}

std::uint64_t cpu_ns(const Job& job) {
    return clock_ns(job.reach == Reach::process ? CLOCK_THREAD_CPUTIME_ID
                                                : CLOCK_PROCESS_CPUTIME_ID);
}

void burn(std::uint64_t microseconds) {
    if (microseconds == 0) return;
    const auto until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + microseconds * 1000;
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until) {
    }
}

std::vector<std::string> settle(const Job& job, std::optional<int> cpu) {
    std::vector<std::string> refused;
    const auto note = [&](const std::string& what) {
        refused.push_back(what + ": " + std::strerror(errno));
    };
    if (cpu) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(static_cast<std::size_t>(*cpu), &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0) note("CPU " + std::to_string(*cpu));
    }
    if (job.priority > 0) {
        sched_param parameters{};
        parameters.sched_priority = job.priority;
        if (sched_setscheduler(0, SCHED_FIFO, &parameters) != 0)
            note("SCHED_FIFO " + std::to_string(job.priority));
        // As real-time programs do. The Rust ends do the same.
        if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) note("locked memory");
    }
    // The default of 50 µs would be a part of every schedule-relative latency.
    if (prctl(PR_SET_TIMERSLACK, 1UL) != 0) note("timer slack of 1 ns");
    return refused;
}

std::string Recorder::write(const Job& job, const std::string& name) const {
    const auto path = job.raw_dir / (name + "-" + std::to_string(job.index) + ".rows");
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(rows_.data()),
               static_cast<std::streamsize>(rows_.size() * sizeof(Row)));
    file.close();
    if (!file)
        throw std::runtime_error("cannot write the stamps to " + path.string() + ": " +
                                 std::strerror(errno));
    return path.string();
}

void Verdict::check(std::span<const std::byte> payload, std::uint64_t sequence) {
    ++verified_;
    if (auto wrong = verify(payload, sequence)) note(std::move(*wrong));
}

void Verdict::note(std::string wrong) {
    ++mismatched_;
    if (mismatches_.size() < 3) mismatches_.push_back(std::move(wrong));
}

void Verdict::report_to(End& end) const {
    end.verified = verified_;
    end.mismatched = mismatched_;
    end.mismatches = mismatches_;
    if (mismatched_ > mismatches_.size())
        end.mismatches.push_back("and " + std::to_string(mismatched_ - mismatches_.size()) +
                                 " more");
}

}  // namespace peers
