// SPDX-License-Identifier: Apache-2.0
#include "latency_test.hpp"

#include <fastrtps/config.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <stdexcept>

#include "fast_link.hpp"
#include "tool.hpp"

namespace fast {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using peers::Interval;

/// Minimum number of rounds, unless `most_bytes` permits fewer. LatencyTest drops only the first
/// round, so its slow start must be a small part of all rounds.
constexpr std::uint64_t fewest = 500;
constexpr std::uint64_t most = 10'000;
/// Maximum number of bytes of all rounds together, so that large payloads take seconds as well. But
/// 100 rounds are always run.
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;
/// Time-out for output: LatencyTest prints its table at the end.
constexpr auto silence = 20s;

fs::path program() {
    return fs::read_symlink("/proc/self/exe").parent_path() / "tools" / "LatencyTest";
}

/// Parses a line of LatencyTest's table:
/// "Bytes, Samples, stdev, mean, min, 50%, 90%, 99%, 99.99%, max". The heading
/// names round trips, but the times are halves of them (LatencyTestPublisher.cpp divides by two).
std::optional<Interval> parse(const std::string& line, std::size_t size) {
    static const std::regex form(
        R"(^\s*(\d+),\s*(\d+),\s*[0-9.]+,\s*([0-9.]+),\s*[0-9.]+,\s*([0-9.]+),)"
        R"(\s*[0-9.]+,\s*([0-9.]+),.*)");
    std::smatch found;
    if (!std::regex_match(line, found, form) || std::stoull(found[1]) != size) return std::nullopt;
    const auto ns = [&](std::size_t i) { return std::stod(found[i]) * 1000; };
    return Interval{ns(4), ns(5), ns(3), std::stoull(found[2])};
}

void write(const fs::path& path, const std::string& text) {
    std::ofstream file(path);
    file << text;
    file.close();
    if (!file) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

bool has_latency_test() { return fs::exists(program()); }

peers::OwnTool run_latency_test(const peers::Job& job) {
    const auto settings = job.domain_dir / "latency-test.xml",
               sizes = job.domain_dir / "latency-test.csv";
    write(settings, profiles(job));
    write(sizes, std::to_string(job.size) + ";\n");
    const auto rounds =
        std::clamp(std::min<std::uint64_t>(std::max(job.messages, fewest), most_bytes / job.size),
                   std::uint64_t{100}, most);
    const auto as = [&](const char* role) {
        // Without loans: with them, LatencyTest excludes the loan request and the copy from its
        // times, and no row does that.
        return std::vector<std::string>{program(),
                                        role,
                                        "--xml=" + settings.string(),
                                        "--file=" + sizes.string(),
                                        "--samples=" + std::to_string(rounds),
                                        "--domain=" + std::to_string(kept_domain(job)),
                                        job.reliability == peers::Reliability::reliable
                                            ? "--reliability=reliable"
                                            : "--reliability=besteffort"};
    };
    const std::string package = "libfastrtps-dev, then `make peers` again";
    peers::Tool subscriber(job, job.subscriber_cpu(), as("subscriber"), {}, package);
    peers::Tool publisher(job, job.publisher_cpu, as("publisher"), {}, package);
    std::optional<Interval> measured;
    // Both must end by themselves: if they are killed, they leave shared memory behind.
    while (const auto line = publisher.line(silence)) {
        if (!measured) measured = parse(*line, job.size);
    }
    while (subscriber.line(silence)) {
    }
    if (!measured)
        throw std::runtime_error("LatencyTest did not measure " + std::to_string(job.size) +
                                 " bytes; it said last: " + publisher.last_words());
    return peers::summary("LatencyTest", FASTRTPS_VERSION_STR, {*measured});
}

}  // namespace fast
