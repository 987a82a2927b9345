// SPDX-License-Identifier: Apache-2.0
// Messages of docs/protocols/harness.md: jobs, accounts, descriptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace peers {

inline constexpr unsigned protocol_version = 1;

enum class Role {
    publisher,
    subscriber,
    ping,
    echo,
    threads,
    idle_publisher,
    idle_subscriber,
    keeper,
    stage,
    stages,
    own_tool,
    fusion,
    fusion_publisher,
    callbacks,
    unknown
};
enum class Reach { process, host, network };
enum class WaitKind { block, spin, spin_then_block };
enum class Reliability { best_effort, reliable };

/// One process's part of a measurement. Times are in the units of their names, sizes in bytes.
struct Job {
    unsigned protocol = 0;
    Role role = Role::unknown;
    std::string role_name;
    /// `name/variant`.
    std::string system;
    std::string variant;
    Reach reach = Reach::host;
    std::filesystem::path domain_dir;
    std::string topic;
    std::size_t size = 0;
    WaitKind wait = WaitKind::block;
    std::uint64_t spin_us = 0;
    bool copies = false;
    bool filled = false;
    /// No value: closed loop.
    std::optional<double> rate_hz;
    std::uint64_t warm_up = 0;
    std::uint64_t messages = 0;
    std::uint32_t depth = 1;
    Reliability reliability = Reliability::best_effort;
    std::size_t subscribers = 1;
    std::size_t index = 0;
    std::optional<int> publisher_cpu;
    std::vector<int> subscriber_cpus;
    int priority = 0;
    /// Processor time that a subscriber of an open loop spends on each counted sample.
    std::uint64_t processing_us = 0;
    /// Maximum time that the asking end of a closed loop waits for an answer.
    std::uint64_t answer_timeout_ms = 10'000;
    /// For tests of accounts: each end of a closed loop drops every n-th question or answer. 0:
    /// none.
    std::uint64_t lose_every = 0;
    std::filesystem::path raw_dir;

    /// Listening addresses of this end and of the other one. With reach network, each host has its
    /// address.
    std::string own_address() const;
    std::string other_address() const;
    bool is_sending_host() const;

    /// Throws an error text if the line is invalid.
    static Job parse(const std::string& line);

    std::uint64_t total() const { return warm_up + messages; }
    std::optional<int> subscriber_cpu() const;
    /// Returns a name of the run that is unique on this machine.
    std::string run_name() const;
};

/// Result of a middleware's own latency tool: one way, which is half of a round trip.
struct OwnTool {
    std::string name;
    std::string version;
    /// For a tool that prints only averages, the median of the averages.
    std::uint64_t p50_ns = 0;
    std::optional<std::uint64_t> p99_ns;
    std::optional<std::uint64_t> mean_ns;
    std::uint64_t n = 0;
    /// For a tool that prints only averages: number of round trips of each average.
    std::optional<std::uint64_t> averages_of = std::nullopt;
};

/// Result of one end.
struct End {
    Role role = Role::unknown;
    std::size_t index = 0;
    std::string sent_file;
    std::string received_file;
    std::uint64_t published = 0;
    std::uint64_t first_sequence = 0;
    std::uint64_t counted_from = 0;
    std::map<std::string, std::uint64_t> not_sent;
    std::uint64_t received = 0;
    std::uint64_t missed = 0;
    /// Only for the asking end of a closed loop.
    std::optional<std::uint64_t> unanswered;
    std::uint64_t late = 0;
    std::uint64_t verified = 0;
    std::uint64_t mismatched = 0;
    std::vector<std::string> mismatches;
    std::uint64_t cpu_ns = 0;
    std::uint64_t cpu_samples = 0;
    std::optional<std::uint64_t> first_sample_ns;
    std::vector<std::string> unset;
    std::optional<OwnTool> own_tool;
    /// JSON, for a part of a workload.
    std::string observations;
};

struct Setting {
    std::string name;
    std::string value;
    std::string why;
};

/// A workload that a variant runs.
struct Workload {
    std::string name;
    /// Permitted values of parameters that are restricted.
    std::map<std::string, std::vector<std::string>> only;
    /// Reason for the restrictions.
    std::string why;
    /// Reason why this program cannot run it, and the remedy; empty if it can.
    std::string missing;
};

/// Variant of a middleware: one way to carry samples.
struct Variant {
    std::string name;
    std::string title;
    std::vector<Reach> reach{Reach::host};
    std::vector<WaitKind> waits{WaitKind::block, WaitKind::spin, WaitKind::spin_then_block};
    std::vector<Reliability> reliability{Reliability::best_effort, Reliability::reliable};
    bool loans = false;
    std::size_t min_size = 32;
    std::size_t max_size = std::size_t{1} << 30;
    std::size_t max_subscribers = 64;
    bool keeper = false;
    std::string note;
    std::vector<Setting> settings;
    /// Measured only if it is named.
    bool tuning = false;
    /// True if a variant with `tuning` differs from the usual variant only in ping-pongs.
    bool usual_at_a_rate = false;
    /// Name of the middleware's own latency tool, if it can be run.
    std::string own_tool;
    /// Kind of wait of the tool's readers.
    WaitKind own_tool_wait = WaitKind::block;
    /// Sizes that the tool can measure; empty: any.
    std::vector<std::size_t> own_tool_sizes;
    /// Kinds of links that the tool can measure; empty: any.
    std::vector<Reliability> own_tool_reliability;
    /// Graphs of the benchmark that the variant can run as well.
    std::vector<Workload> workloads;
};

struct Description {
    std::string name;
    std::string title;
    std::string version;
    std::vector<Variant> variants;
};

std::string to_json(const Description& description);
/// An event, as one line.
std::string event(const std::string& name);
std::string failed(const std::string& error);
std::string done(const std::vector<End>& ends);

}  // namespace peers
