// SPDX-License-Identifier: Apache-2.0
#include "fusion.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "loops.hpp"
#include "part.hpp"
#include "recorder.hpp"
#include "stage_job.hpp"

namespace peers {
namespace {

using nlohmann::json;

/// Time for which the fusing part continues after the window, for samples in flight.
constexpr std::uint64_t rest_ns = 200'000'000U;
constexpr auto look = std::chrono::milliseconds(50);

/// Records the samples that reach the fusing node, and its results.
class Probes final : public Fusing {
public:
    explicit Probes(std::size_t channels) : channels_(channels) {}

    void count_in(const Window& window) { window_ = window; }

    void on_sample(std::size_t topic, std::span<const std::byte> payload) override {
        const auto head = head_of(payload);
        auto& channel = channels_.at(topic);
        if (window_.contains(now_ns())) {
            ++received_;
            if (head.number > channel.expected) missed_ += head.number - channel.expected;
        }
        channel.expected = head.number + 1;
    }

    void on_set(std::span<const std::span<const std::byte>> payloads) override {
        const auto now = now_ns();
        if (window_.contains(now)) ++fused_;
        std::vector<MessageHead> heads;
        for (const auto payload : payloads) heads.push_back(head_of(payload));
        const auto [oldest, newest] = std::minmax_element(
            heads.begin(), heads.end(), [](const MessageHead& a, const MessageHead& b) {
                return a.publish_time_ns < b.publish_time_ns;
            });
        if (!window_.contains(newest->source_time_ns)) return;
        latency_.add(now, now - newest->publish_time_ns);
        age_.add(now, now - oldest->publish_time_ns);
        for (std::size_t i = 0; i < heads.size(); ++i)
            channels_.at(i).latency.add(now, now - heads[i].publish_time_ns);
    }

    End finish(const Job& job) const {
        json series{latency_.write(job, "fusion", "latency", 0),
                    age_.write(job, "fusion", "age", 1)};
        for (std::size_t i = 0; i < channels_.size(); ++i)
            series.push_back(
                channels_[i].latency.write(job, "channel " + std::to_string(i), "latency", 2 + i));
        return end_of(job, series,
                      {{"fused", fused_}, {"samples received", received_}, {"drops", missed_}});
    }

private:
    struct Channel {
        std::uint64_t expected = 1;
        Series latency;
    };

    static MessageHead head_of(std::span<const std::byte> payload) {
        const auto head = find_message(payload);
        if (!head) throw std::runtime_error("a sample came that no publisher of this run sent");
        return *head;
    }

    std::vector<Channel> channels_;
    Window window_;
    Series latency_;
    Series age_;
    std::uint64_t fused_ = 0;
    std::uint64_t received_ = 0;
    std::uint64_t missed_ = 0;
};

End fuse(const Job& job, const json& part, Link& link, const std::function<void()>& ready) {
    const auto topics = part.at("topics").get<std::vector<std::string>>();
    Probes probes(topics.size());
    const auto fuser = link.fuser(topics, part.at("trigger").get<std::string>(),
                                  part.at("queue").get<std::size_t>(), probes);
    ready();
    const auto window = await_window();
    probes.count_in(window);
    while (now_ns() < window.until_ns + rest_ns) fuser->work(look);
    return probes.finish(job);
}

/// Publishes on schedule, whatever happens to the samples. A sample is not sent if the next one is
/// already due.
End publish_channel(const Job& job, const json& part, Link& link,
                    const std::function<void()>& ready) {
    if (job.size < message_head_size)
        throw std::runtime_error("a channel carries " + std::to_string(job.size) +
                                 " bytes; the head of a message alone has " +
                                 std::to_string(message_head_size));
    const auto sender = link.sender(job.topic, 1);
    await_match([&] { return sender->matched(1); }, "the fusing node");
    ready();
    const auto window = await_window();
    const auto period_ns = std::max(part.at("period_ns").get<std::uint64_t>(), std::uint64_t{1});
    std::uint64_t scheduled = 0, sent = 0, number = 0;
    // In phase with the window, whatever the start time of this part is.
    auto due = window.from_ns + part.at("phase_ns").get<std::uint64_t>();
    if (const auto now = now_ns(); due > now) due -= (due - now) / period_ns * period_ns;
    for (; due < window.until_ns; due += period_ns) {
        sleep_until(due);
        const bool counts = window.contains(due);
        if (counts) ++scheduled;
        if (now_ns() >= due + period_ns) continue;
        try {
            const auto payload = sender->loan();
            write_message_head(payload,
                               {false, number + 1, number + 1, due, now_ns(), payload.size()});
            sender->publish();
            ++number;
            if (counts) ++sent;
        } catch (const NotSent&) {
        }
    }
    sender->drain(drain_limit);
    std::this_thread::sleep_for(linger);
    return end_of(job, json::array(),
                  {{"messages scheduled", scheduled},
                   {"messages sent", sent},
                   {"messages scheduled but not sent", scheduled - sent}});
}

}  // namespace

End run_fusion_part(const Job& job, const std::string& line, Link& link,
                    const std::function<void()>& ready) {
    const auto part = parse_part(line);
    try {
        return job.role == Role::fusion ? fuse(job, part, link, ready)
                                        : publish_channel(job, part, link, ready);
    } catch (const json::exception& e) {
        throw std::runtime_error(
            std::string("the job is not what docs/protocols/harness.md says: ") + e.what());
    }
}

}  // namespace peers
