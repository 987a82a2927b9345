// SPDX-License-Identifier: Apache-2.0
#include "ddsperf.hpp"

#include <dds/version.h>

#include <regex>
#include <stdexcept>

#include "recorder.hpp"
#include "tool.hpp"

namespace cyclone {
namespace {

using namespace std::chrono_literals;
using peers::Interval;

constexpr std::uint64_t longest_ns = 8'000'000'000U;
/// Time-out for a line: ddsperf prints every second, the first time after two.
constexpr auto silence = 4s;

/// Parses a line of ddsperf: "[pid] 2.000 host:pid size 64 mean 31.8us min 19.3us 50% 30.5us 90%
/// 34.9us 99% 55.1us max 2029.2us cnt 15643". The times are already halves of round trips.
std::optional<Interval> parse(const std::string& line) {
    static const std::regex form(
        R"( size \d+ mean ([0-9.]+)us min [0-9.]+us 50% ([0-9.]+)us 90% [0-9.]+us 99% ([0-9.]+)us)"
        R"( max [0-9.]+us cnt (\d+)\s*$)");
    std::smatch found;
    if (!std::regex_search(line, found, form)) return std::nullopt;
    const auto ns = [&](std::size_t i) { return std::stod(found[i]) * 1000; };
    return Interval{ns(2), ns(3), ns(1), std::stoull(found[4])};
}

}  // namespace

peers::OwnTool run_ddsperf(const peers::Job& job, std::uint32_t domain,
                           const std::string& configuration) {
    const std::map<std::string, std::string> environment{{"CYCLONEDDS_URI", configuration}};
    std::vector<std::string> common{"ddsperf", "-i", std::to_string(domain)};
    if (job.reliability == peers::Reliability::best_effort) common.push_back("-u");
    const auto with = [&](std::initializer_list<std::string> more) {
        auto command = common;
        command.insert(command.end(), more);
        return command;
    };
    const std::string package = "cyclonedds-tools";
    peers::Tool pong(job, job.subscriber_cpu(), with({"pong", "waitset"}), environment, package);
    peers::Tool ping(job, job.publisher_cpu,
                     with({"ping", "size", std::to_string(job.size), "waitset"}), environment,
                     package);
    std::vector<Interval> intervals;
    // The first interval contains discovery and first use; it counts as warm-up.
    bool warm = false;
    std::uint64_t rounds = 0;
    const auto deadline = peers::now_ns() + longest_ns;
    while (rounds < job.messages && peers::now_ns() < deadline) {
        const auto line = ping.line(silence);
        if (!line) {
            if (!intervals.empty()) break;
            throw std::runtime_error("ddsperf measured nothing within " +
                                     std::to_string(silence.count()) +
                                     " s; it said last: " + ping.last_words());
        }
        const auto interval = parse(*line);
        if (!interval) continue;
        if (warm) {
            intervals.push_back(*interval);
            rounds += interval->n;
        }
        warm = true;
    }
    return peers::summary("ddsperf", DDS_VERSION, intervals);
}

}  // namespace cyclone
