// SPDX-License-Identifier: Apache-2.0
#include "iceperf.hpp"

#include <regex>
#include <stdexcept>
#include <string>

#include "iceoryx_versions.hpp"
#include "recorder.hpp"
#include "tool.hpp"

namespace ice {
namespace {

using namespace std::chrono_literals;
using peers::Interval;

constexpr std::size_t kilobyte = 1024;
/// Number of runs. iceperf prints only an average; the median of several is robust against a few
/// slow round trips.
constexpr unsigned times = 9;
constexpr std::uint64_t round_trips = 2000;
/// Limit of the total time. On a busy machine, each run takes seconds.
constexpr std::uint64_t longest_ns = 8'000'000'000U;
/// Time-out for output: iceperf prints nothing while it measures.
constexpr auto silence = 10s;

std::filesystem::path program(const char* name) {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "tools" / name;
}

/// Parses a line of iceperf's table: "|                64 |                 0.88 |". A time is half
/// a round trip.
std::optional<Interval> parse(const std::string& line, std::size_t size) {
    static const std::regex form(R"(^\|\s*(\d+) \|\s*([0-9.e+-]+) \|\s*$)");
    std::smatch found;
    if (!std::regex_match(line, found, form) || std::stoull(found[1]) * kilobyte != size)
        return std::nullopt;
    const double ns = std::stod(found[2]) * 1000;
    return Interval{ns, std::nullopt, ns, round_trips};
}

Interval once(const peers::Job& job) {
    const std::string package = "libiceoryx-posh-dev";
    const std::vector<std::string> what{"-n", std::to_string(round_trips), "-t", "iceoryx-cpp-api"};
    const auto with = [&](const char* name) {
        std::vector<std::string> command{program(name)};
        command.insert(command.end(), what.begin(), what.end());
        return command;
    };
    // The leader waits for the follower, which takes its settings from the leader.
    peers::Tool leader(job, job.publisher_cpu, with("iceperf-bench-leader"), {}, package);
    peers::Tool follower(job, job.subscriber_cpu(), {program("iceperf-bench-follower")}, {},
                         package);
    std::optional<Interval> measured;
    // Both must end by themselves: if they are killed, they leave locks and sockets behind.
    while (const auto line = leader.line(silence)) {
        if (!measured) measured = parse(*line, job.size);
    }
    while (follower.line(silence)) {
    }
    if (measured) return *measured;
    throw std::runtime_error("iceperf did not measure " + std::to_string(job.size) +
                             " bytes; it said last: " + leader.last_words());
}

}  // namespace

bool has_iceperf() {
    return std::filesystem::exists(program("iceperf-bench-leader")) &&
           std::filesystem::exists(program("iceperf-bench-follower"));
}

std::vector<std::size_t> iceperf_sizes() {
    std::vector<std::size_t> sizes;
    for (std::size_t size = kilobyte; size <= 4096 * kilobyte; size *= 2) sizes.push_back(size);
    return sizes;
}

peers::OwnTool run_iceperf(const peers::Job& job) {
    std::vector<Interval> intervals;
    const auto deadline = peers::now_ns() + longest_ns;
    for (unsigned i = 0; i < times && (i == 0 || peers::now_ns() < deadline); ++i)
        intervals.push_back(once(job));
    auto tool = peers::summary("iceperf", ICEORYX_LATEST_RELEASE_VERSION, intervals);
    tool.averages_of = round_trips;
    return tool;
}

}  // namespace ice
