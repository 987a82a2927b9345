// SPDX-License-Identifier: Apache-2.0
// Messages of docs/protocols/chain.md: a stage's job, its messages, its account.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace peers {

struct Edge {
    std::string topic;
    std::string system;
    std::size_t size = 0;
    std::size_t index = 0;
    std::size_t readers = 1;
};

struct StageJob {
    std::string name;
    std::vector<Edge> inputs;
    std::optional<Edge> output;
    std::filesystem::path work;
    /// JSON.
    std::string parameters;
    /// Number of samples of the source after the measured ones.
    std::uint64_t cool_down = 0;
    /// For the role `stages`: the CPU of its thread.
    std::optional<int> cpu;

    /// Reads the line of the job. Throws an error text if it is invalid.
    static StageJob parse(const std::string& line);
    /// For the role `stages`: returns the stages in the order of their start.
    static std::vector<StageJob> parse_all(const std::string& line);
};

/// Fields at the beginning of every message.
struct MessageHead {
    bool is_end = false;
    std::uint64_t number = 0;
    std::uint64_t origin = 0;
    std::uint64_t source_time_ns = 0;
    std::uint64_t publish_time_ns = 0;
    std::uint64_t length = 0;
};

inline constexpr std::size_t message_head_size = 48;

/// Returns nothing if it is not one of our messages, or shorter than its length field.
std::optional<MessageHead> find_message(std::span<const std::byte> payload);
void write_message_head(std::span<std::byte> payload, const MessageHead& head);

/// Stamps of one message: origin, source, published, in_hand, work_start, work_end, before_publish,
/// returned.
using StageRow = std::array<std::uint64_t, 8>;

struct InputAccount {
    std::string topic;
    std::uint64_t received = 0;
    std::uint64_t missed = 0;
    std::uint64_t damaged = 0;
};

struct StageAccount {
    std::string rows_file;
    std::vector<InputAccount> inputs;
    std::uint64_t worked = 0;
    std::uint64_t skipped = 0;
    std::uint64_t no_output = 0;
    std::uint64_t published = 0;
    std::map<std::string, std::uint64_t> not_sent;
    std::vector<std::string> unset;
    /// JSON.
    std::string report;
};

/// The event that ends a process of stages, as one line.
std::string stages_done(const std::vector<StageAccount>& accounts);

}  // namespace peers
