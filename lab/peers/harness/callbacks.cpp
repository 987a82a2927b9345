// SPDX-License-Identifier: Apache-2.0
#include "callbacks.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "loops.hpp"
#include "part.hpp"
#include "recorder.hpp"
#include "stage_job.hpp"

namespace peers {
namespace {

using nlohmann::json;

constexpr auto look = std::chrono::milliseconds(50);

/// Description of a callback in the job.
struct Described {
    std::string name;
    /// Topic that the callback reads. Empty: it reads none, but makes the scans.
    std::string input;
    std::string output;
    std::size_t receivers = 0;
    /// Period of a timer; 0: it is called for each message.
    std::uint64_t period_ns = 0;
    std::size_t size = 0;
    std::uint64_t work_us = 0;
    /// It records the scans that reach it.
    bool is_end = false;
};

Described described(const json& part) {
    Described d;
    d.name = part.at("name").get<std::string>();
    d.input = part.value("input", "");
    d.output = part.at("output").get<std::string>();
    d.receivers = part.at("receivers").get<std::size_t>();
    d.period_ns = part.value("period_ns", std::uint64_t{0});
    d.size = part.at("size").get<std::size_t>();
    d.work_us = part.at("work_us").get<std::uint64_t>();
    d.is_end = part.value("is_end", false);
    return d;
}

/// Newest scan that a message descends from, and the parts of the scan's age when the message was
/// published.
struct Past {
    /// 0: none.
    std::uint64_t scan = 0;
    std::uint64_t scan_time_ns = 0;
    std::uint64_t publish_time_ns = 0;
    std::uint64_t idle_ns = 0;
    std::uint64_t communication_ns = 0;
    std::uint64_t computation_ns = 0;
};

/// The parts of the age follow the head of a message.
using Parts = std::array<std::uint64_t, 3>;
constexpr std::size_t smallest = message_head_size + sizeof(Parts);

class Callback {
public:
    Callback(const Described& d, Link& link) : described_(d) {
        if (d.size < smallest)
            throw std::runtime_error("the messages of " + d.name + " have " +
                                     std::to_string(d.size) + " bytes; their head alone has " +
                                     std::to_string(smallest));
        if (!d.input.empty()) receiver_ = link.receiver(d.input, 0);
        link.resize(d.size);
        sender_ = link.sender(d.output, d.receivers);
    }

    void await_reader() {
        await_match([&] { return sender_->matched(described_.receivers); },
                    "the reader of " + described_.output);
    }

    /// Calls the callback, by its timer or for each message, until `stop` is true.
    void run(const std::atomic<bool>& stop) {
        if (described_.period_ns != 0) {
            auto due = now_ns() + described_.period_ns;
            while (!stop) {
                sleep_until(due);
                const auto start = now_ns();
                read();
                call(start, false);
                // Calls missed while the machine stood still are not made later.
                while (due <= now_ns()) due += described_.period_ns;
            }
            return;
        }
        while (!stop) {
            if (read()) {
                call(now_ns(), true);
            } else {
                receiver_->wait(look);
            }
        }
    }

    /// Adds the observations of the callback. Counters other than `instances`, and the start-up
    /// time, also cover the time outside the window.
    void report(const Job& job, const Window& window, std::uint64_t started_ns, json& series,
                json& counters) const {
        const char* not_sent = "messages not sent";
        counters[not_sent] = counters.value(not_sent, std::uint64_t{0}) + not_sent_;
        if (described_.input.empty()) counters["scans"] = scans_;
        if (!described_.is_end) return;
        Series latency, idle, communication, computation, first;
        for (const auto& p : reached_) {
            if (!window.contains(p.publish_time_ns)) continue;
            latency.add(p.publish_time_ns, p.publish_time_ns - p.scan_time_ns);
            idle.add(p.publish_time_ns, p.idle_ns);
            communication.add(p.publish_time_ns, p.communication_ns);
            computation.add(p.publish_time_ns, p.computation_ns);
        }
        const auto in_window = std::count_if(reached_.begin(), reached_.end(), [&](const Past& p) {
            return window.contains(p.publish_time_ns);
        });
        counters["instances"] = in_window;
        counters["scans that reached the end"] = reached_.size();
        series.push_back(latency.write(job, "chain", "latency", 0));
        series.push_back(idle.write(job, "chain", "idle", 1));
        series.push_back(communication.write(job, "chain", "communication", 2));
        series.push_back(computation.write(job, "chain", "computation", 3));
        if (!reached_.empty()) {
            const auto time = reached_.front().publish_time_ns;
            first.add(time, time - std::min(time, started_ns));
            series.push_back(first.write(job, "first command", "start_up", 4));
        }
    }

private:
    /// Reads the newest message, if one has come since the last call.
    bool read() {
        bool has_come = false;
        while (receiver_) {
            const auto payload = receiver_->take();
            if (payload.empty()) break;
            const auto head = find_message(payload);
            if (!head || payload.size() < smallest)
                throw std::runtime_error("a message came that no callback of this run sent");
            Parts parts;
            std::memcpy(parts.data(), payload.data() + message_head_size, sizeof parts);
            newest_ = {
                head->origin, head->source_time_ns, head->publish_time_ns, parts[0], parts[1],
                parts[2]};
            has_come = true;
            receiver_->release();
        }
        return has_come;
    }

    void call(std::uint64_t start, bool is_triggered) {
        burn(described_.work_us);
        auto own = newest_;
        if (own.scan != 0) {
            auto& waited = is_triggered ? own.communication_ns : own.idle_ns;
            waited += start - std::min(start, own.publish_time_ns);
        }
        if (described_.input.empty()) own.scan = ++scans_;
        try {
            const auto payload = sender_->loan();
            // Messages are real: their memory is written.
            std::fill(payload.begin(), payload.end(), std::byte{1});
            own.publish_time_ns = now_ns();
            if (described_.input.empty())
                own.scan_time_ns = own.publish_time_ns;
            else if (own.scan != 0)
                own.computation_ns += own.publish_time_ns - start;
            write_message_head(payload, {false, ++number_, own.scan, own.scan_time_ns,
                                         own.publish_time_ns, payload.size()});
            const Parts parts{own.idle_ns, own.communication_ns, own.computation_ns};
            std::memcpy(payload.data() + message_head_size, parts.data(), sizeof parts);
            sender_->publish();
        } catch (const NotSent&) {
            ++not_sent_;
            return;
        }
        if (described_.is_end && own.scan > newest_end_) {
            newest_end_ = own.scan;
            reached_.push_back(own);
        }
    }

    Described described_;
    std::unique_ptr<Receiver> receiver_;
    std::unique_ptr<Sender> sender_;
    Past newest_;
    std::uint64_t number_ = 0;
    std::uint64_t scans_ = 0;
    std::uint64_t not_sent_ = 0;
    std::uint64_t newest_end_ = 0;
    std::vector<Past> reached_;
};

}  // namespace

Workload chain_workload() {
    return {"chain",
            {{"deployment", {"process_per_module"}}},
            "a peer runs a process for each module of the chain; the other nodes are Driveline's",
            ""};
}

End run_callbacks(const Job& job, const std::string& line, Link& link,
                  const std::function<void()>& ready) {
    const auto part = parse_part(line);
    try {
        std::vector<std::unique_ptr<Callback>> callbacks;
        for (const auto& each : part.at("callbacks"))
            callbacks.push_back(std::make_unique<Callback>(described(each), link));
        const auto started_ns = part.at("started_ns").get<std::uint64_t>();
        for (const auto& callback : callbacks) callback->await_reader();
        ready();
        const auto window = await_window();
        std::atomic<bool> stop{false};
        std::vector<std::future<void>> threads;
        for (const auto& callback : callbacks)
            threads.push_back(std::async(std::launch::async, [&] { callback->run(stop); }));
        sleep_until(window.until_ns);
        stop = true;
        for (auto& thread : threads) thread.get();
        auto series = json::array();
        auto counters = json::object();
        for (const auto& callback : callbacks)
            callback->report(job, window, started_ns, series, counters);
        return end_of(job, series, counters);
    } catch (const json::exception& e) {
        throw std::runtime_error(
            std::string("the job is not what docs/protocols/harness.md says: ") + e.what());
    }
}

}  // namespace peers
