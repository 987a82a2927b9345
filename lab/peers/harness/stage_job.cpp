// SPDX-License-Identifier: Apache-2.0
#include "stage_job.hpp"

#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "payload.hpp"

namespace peers {
namespace {

using nlohmann::json;

Edge edge_of(const json& value) {
    Edge edge;
    edge.topic = value.at("topic").get<std::string>();
    edge.system = value.at("system").get<std::string>();
    edge.size = value.at("size").get<std::size_t>();
    edge.index = value.value("index", std::size_t{0});
    edge.readers = value.value("readers", std::size_t{1});
    if (edge.size < message_head_size) {
        throw std::runtime_error(
            "the edge '" + edge.topic + "' carries " + std::to_string(edge.size) +
            " bytes; the head of a message alone has " + std::to_string(message_head_size));
    }
    return edge;
}

StageJob stage_of(const json& stage) {
    StageJob job;
    job.name = stage.at("name").get<std::string>();
    for (const auto& input : stage.at("inputs")) job.inputs.push_back(edge_of(input));
    if (const auto output = stage.find("output"); output != stage.end() && !output->is_null())
        job.output = edge_of(*output);
    job.work = stage.at("work").get<std::string>();
    job.parameters = stage.value("parameters", json::object()).dump();
    job.cool_down = stage.value("cool_down", std::uint64_t{0});
    if (const auto cpu = stage.find("cpu"); cpu != stage.end() && !cpu->is_null())
        job.cpu = cpu->get<int>();
    if (job.inputs.empty() && !job.output)
        throw std::runtime_error("the stage '" + job.name + "' has neither inputs nor an output");
    return job;
}

/// Returns the result of `read` for the line.
template <typename Read>
auto of_line(const std::string& line, const Read& read) {
    try {
        return read(json::parse(line));
    } catch (const json::exception& e) {
        throw std::runtime_error(
            std::string("the stage's job is not what docs/protocols/chain.md says: ") + e.what());
    }
}

}  // namespace

StageJob StageJob::parse(const std::string& line) {
    return of_line(line, [](const json& value) { return stage_of(value.at("stage")); });
}

std::vector<StageJob> StageJob::parse_all(const std::string& line) {
    return of_line(line, [](const json& value) {
        std::vector<StageJob> all;
        for (const auto& stage : value.at("stages")) all.push_back(stage_of(stage));
        return all;
    });
}

std::optional<MessageHead> find_message(std::span<const std::byte> payload) {
    const auto mark = find_head(payload);
    if (!mark || payload.size() < message_head_size) return std::nullopt;
    std::array<std::uint64_t, 4> words;
    std::memcpy(words.data(), payload.data() + mark_size, sizeof words);
    const MessageHead head{mark->is_end, mark->sequence, words[0], words[1], words[2], words[3]};
    if (head.length < message_head_size || head.length > payload.size()) return std::nullopt;
    return head;
}

void write_message_head(std::span<std::byte> payload, const MessageHead& head) {
    write_mark(payload, head.number, head.is_end);
    const std::array<std::uint64_t, 4> words{head.origin, head.source_time_ns, head.publish_time_ns,
                                             head.length};
    std::memcpy(payload.data() + mark_size, words.data(), sizeof words);
}

std::string stages_done(const std::vector<StageAccount>& accounts) {
    json ends = json::array();
    for (const auto& account : accounts) {
        json inputs = json::array();
        for (const auto& i : account.inputs)
            inputs.push_back({{"topic", i.topic},
                              {"received", i.received},
                              {"missed", i.missed},
                              {"damaged", i.damaged}});
        json not_sent = json::object();
        for (const auto& [reason, count] : account.not_sent) not_sent[reason] = count;
        const json stage{{"rows_file", account.rows_file}, {"inputs", inputs},
                         {"worked", account.worked},       {"skipped", account.skipped},
                         {"no_output", account.no_output}, {"report", json::parse(account.report)}};
        ends.push_back({{"role", "stage"},
                        {"published", account.published},
                        {"not_sent", not_sent},
                        {"unset", account.unset},
                        {"stage", stage}});
    }
    return json{{"event", "done"}, {"ends", ends}}.dump(-1, ' ', false,
                                                        json::error_handler_t::replace);
}

}  // namespace peers
