// SPDX-License-Identifier: Apache-2.0
#include "job.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace peers {
namespace {

using nlohmann::json;

constexpr std::array role_names{std::pair{Role::publisher, "publisher"},
                                std::pair{Role::subscriber, "subscriber"},
                                std::pair{Role::ping, "ping"},
                                std::pair{Role::echo, "echo"},
                                std::pair{Role::threads, "threads"},
                                std::pair{Role::idle_publisher, "idle_publisher"},
                                std::pair{Role::idle_subscriber, "idle_subscriber"},
                                std::pair{Role::keeper, "keeper"},
                                std::pair{Role::stage, "stage"},
                                std::pair{Role::stages, "stages"},
                                std::pair{Role::own_tool, "own_tool"},
                                std::pair{Role::fusion, "fusion"},
                                std::pair{Role::fusion_publisher, "fusion_publisher"},
                                std::pair{Role::callbacks, "callbacks"}};

constexpr const char* loopback = "127.0.0.1";
/// Addresses of the host that sends first, and of the host that receives first.
constexpr std::array hosts{"10.98.0.1", "10.98.0.2"};

template <typename T>
T one_of(const json& value, const char* field,
         std::initializer_list<std::pair<const char*, T>> words) {
    const auto text = value.get<std::string>();
    for (const auto& [word, meaning] : words) {
        if (text == word) return meaning;
    }
    throw std::runtime_error("the job's field '" + std::string(field) +
                             "' has the unknown value '" + text + "'");
}

const char* name_of(Role role) {
    for (const auto& [known, name] : role_names) {
        if (known == role) return name;
    }
    return "unknown";
}

const char* name_of(WaitKind wait) {
    switch (wait) {
        case WaitKind::block:
            return "block";
        case WaitKind::spin:
            return "spin";
        case WaitKind::spin_then_block:
            break;
    }
    return "spin_then_block";
}

json to_value(const Variant& v) {
    json reach = json::array(), waits = json::array(), reliability = json::array(),
         own_tool_reliability = json::array(), settings = json::array(), workloads = json::array();
    for (auto r : v.reach)
        reach.push_back(r == Reach::host ? "host" : r == Reach::network ? "network" : "process");
    for (auto w : v.waits) waits.push_back(name_of(w));
    const auto word = [](Reliability r) {
        return r == Reliability::reliable ? "reliable" : "best_effort";
    };
    for (auto r : v.reliability) reliability.push_back(word(r));
    for (auto r : v.own_tool_reliability) own_tool_reliability.push_back(word(r));
    for (const auto& s : v.settings)
        settings.push_back({{"name", s.name}, {"value", s.value}, {"why", s.why}});
    for (const auto& w : v.workloads)
        workloads.push_back(
            {{"name", w.name}, {"only", w.only}, {"why", w.why}, {"missing", w.missing}});
    return {{"name", v.name},
            {"title", v.title},
            {"reach", reach},
            {"waits", waits},
            {"reliability", reliability},
            {"loans", v.loans},
            {"min_size", v.min_size},
            {"max_size", v.max_size},
            {"max_subscribers", v.max_subscribers},
            {"keeper", v.keeper},
            {"note", v.note},
            {"settings", settings},
            {"tuning", v.tuning},
            {"own_tool", v.own_tool},
            {"own_tool_wait", name_of(v.own_tool_wait)},
            {"own_tool_sizes", v.own_tool_sizes},
            {"own_tool_reliability", own_tool_reliability},
            {"usual_at_a_rate", v.usual_at_a_rate},
            {"workloads", workloads}};
}

template <typename T>
json or_null(const std::optional<T>& value) {
    return value ? json(*value) : json(nullptr);
}

json to_value(const End& e) {
    json out{{"role", name_of(e.role)},        {"index", e.index},
             {"published", e.published},       {"first_sequence", e.first_sequence},
             {"counted_from", e.counted_from}, {"not_sent", json::object()},
             {"received", e.received},         {"missed", e.missed},
             {"verified", e.verified},         {"mismatched", e.mismatched},
             {"mismatches", e.mismatches},     {"cpu_ns", e.cpu_ns},
             {"cpu_samples", e.cpu_samples},   {"unset", e.unset}};
    for (const auto& [reason, count] : e.not_sent) out["not_sent"][reason] = count;
    if (e.unanswered) {
        out["unanswered"] = *e.unanswered;
        out["late"] = e.late;
    }
    if (!e.sent_file.empty()) out["sent_file"] = e.sent_file;
    if (!e.received_file.empty()) out["received_file"] = e.received_file;
    if (e.first_sample_ns) out["first_sample_ns"] = *e.first_sample_ns;
    if (const auto& t = e.own_tool) {
        out["own_tool"] = {{"name", t->name},
                           {"version", t->version},
                           {"p50_ns", t->p50_ns},
                           {"p99_ns", or_null(t->p99_ns)},
                           {"mean_ns", or_null(t->mean_ns)},
                           {"n", t->n},
                           {"averages_of", or_null(t->averages_of)}};
    }
    if (!e.observations.empty()) out["observations"] = json::parse(e.observations);
    return out;
}

// Texts of the system may have any encoding. A line must be valid in all cases.
std::string line(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

Job Job::parse(const std::string& text) {
    Job job;
    try {
        const auto value = json::parse(text);
        job.protocol = value.at("protocol").get<unsigned>();
        if (job.protocol != protocol_version) {
            throw std::runtime_error("the job speaks version " + std::to_string(job.protocol) +
                                     " of the harness protocol, this program version " +
                                     std::to_string(protocol_version));
        }
        job.role_name = value.at("role").get<std::string>();
        for (const auto& [role, name] : role_names) {
            if (job.role_name == name) job.role = role;
        }
        job.system = value.at("system").get<std::string>();
        job.variant = job.system.substr(job.system.find('/') + 1);
        job.reach = one_of<Reach>(
            value.at("reach"), "reach",
            {{"process", Reach::process}, {"host", Reach::host}, {"network", Reach::network}});
        job.domain_dir = value.at("domain_dir").get<std::string>();
        job.topic = value.value("topic", "link");
        job.size = value.at("size").get<std::size_t>();
        const auto& wait = value.at("wait");
        if (wait.is_object()) {
            job.wait = WaitKind::spin_then_block;
            job.spin_us = wait.at("spin_then_block").get<std::uint64_t>();
        } else {
            job.wait = one_of<WaitKind>(wait, "wait",
                                        {{"block", WaitKind::block}, {"spin", WaitKind::spin}});
        }
        job.copies = one_of<bool>(value.at("take"), "take", {{"borrow", false}, {"copy", true}});
        job.filled =
            one_of<bool>(value.at("payload"), "payload", {{"untouched", false}, {"filled", true}});
        const auto& pace = value.at("pace");
        if (pace.is_object()) job.rate_hz = pace.at("rate_hz").get<double>();
        job.warm_up = value.at("warm_up").get<std::uint64_t>();
        job.messages = value.at("messages").get<std::uint64_t>();
        job.depth = value.value("depth", 1U);
        if (value.contains("reliability")) {
            job.reliability = one_of<Reliability>(
                value.at("reliability"), "reliability",
                {{"best_effort", Reliability::best_effort}, {"reliable", Reliability::reliable}});
        }
        job.subscribers = value.value("subscribers", std::size_t{1});
        job.index = value.value("index", std::size_t{0});
        if (const auto cpu = value.find("publisher_cpu"); cpu != value.end() && !cpu->is_null())
            job.publisher_cpu = cpu->get<int>();
        job.subscriber_cpus = value.value("subscriber_cpus", std::vector<int>{});
        job.priority = value.value("priority", 0);
        job.processing_us = value.value("processing_us", std::uint64_t{0});
        job.answer_timeout_ms = value.value("answer_timeout_ms", std::uint64_t{10'000});
        job.lose_every = value.value("lose_every", std::uint64_t{0});
        job.raw_dir = value.at("raw_dir").get<std::string>();
    } catch (const json::exception& e) {
        throw std::runtime_error(
            std::string("the job is not what docs/protocols/harness.md says: ") + e.what());
    }
    if (job.rate_hz && !(*job.rate_hz > 0))
        throw std::runtime_error("the job's rate is not above 0 Hz");
    return job;
}

std::optional<int> Job::subscriber_cpu() const {
    if (subscriber_cpus.empty()) return std::nullopt;
    return subscriber_cpus[index % subscriber_cpus.size()];
}

std::string Job::own_address() const {
    return reach == Reach::network ? hosts[is_sending_host() ? 0 : 1] : loopback;
}

std::string Job::other_address() const {
    return reach == Reach::network ? hosts[is_sending_host() ? 1 : 0] : loopback;
}

bool Job::is_sending_host() const { return role == Role::publisher || role == Role::ping; }

std::string Job::run_name() const {
    // The path is unique by construction. Its hash is short enough for limited names.
    return "bench" + std::to_string(std::hash<std::string>{}(domain_dir.string()));
}

std::string to_json(const Description& d) {
    json variants = json::array();
    for (const auto& v : d.variants) variants.push_back(to_value(v));
    return json{{"protocol", protocol_version},
                {"name", d.name},
                {"title", d.title},
                {"version", d.version},
                {"variants", variants}}
        .dump(1);
}

std::string event(const std::string& name) { return line({{"event", name}}); }

std::string failed(const std::string& error) {
    return line({{"event", "failed"}, {"error", error}});
}

std::string done(const std::vector<End>& ends) {
    json list = json::array();
    for (const auto& e : ends) list.push_back(to_value(e));
    return line({{"event", "done"}, {"ends", list}});
}

}  // namespace peers
