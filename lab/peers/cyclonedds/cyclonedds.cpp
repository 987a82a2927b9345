// SPDX-License-Identifier: Apache-2.0
// Eclipse Cyclone DDS over UDP, on the loopback interface or between two hosts.
#include <dds/dds.h>
#include <dds/version.h>

#include <fstream>
#include <utility>

#include "callbacks.hpp"
#include "ddsperf.hpp"
#include "link.hpp"
#include "payload.h"

namespace {

using peers::Job;
using peers::Reliability;
using peers::Setting;

/// Maximum time that a reliable writer waits before a sample counts as not sent. Cyclone DDS makes
/// no keep-last writer wait for slow readers: it replaces samples.
constexpr dds_duration_t max_blocking = DDS_SECS(1);
/// Ports of a domain must stay below the kernel's ephemeral ports: 7400 + 250 × domain.
constexpr std::uint32_t domains = 90;

/// Throws an error text if `result` is an error.
dds_return_t checked(dds_return_t result, const std::string& what) {
    if (result < 0) throw std::runtime_error(what + ": " + dds_strretcode(-result));
    return result;
}

class Entity {
public:
    explicit Entity(dds_entity_t handle) : handle_(handle) {}
    Entity(Entity&& other) noexcept : handle_(std::exchange(other.handle_, 0)) {}
    Entity& operator=(Entity&&) = delete;
    ~Entity() {
        if (handle_ > 0) dds_delete(handle_);
    }
    dds_entity_t operator*() const { return handle_; }

private:
    dds_entity_t handle_;
};

std::vector<Setting> common_settings() {
    return {{"General/Interfaces", "lo; between hosts, the one with the host's address",
             "samples take this interface and no other"},
            {"General/AllowMulticast", "false",
             "the loopback interface has none by default; samples go to each reader separately, "
             "between hosts as well"},
            {"Discovery/ParticipantIndex", "auto, peer 127.0.0.1, or the other host",
             "discovery without multicast"},
            {"Discovery/Tag", "unique to the run", "runs do not meet"},
            {"history", "KEEP_LAST, the job's depth", "as all systems"},
            {"type", "sequence<octet>, @final",
             "no per-field cost; one copy into the writer's history, one out of the reader's"},
            {"dds_take", "into the same memory each time",
             "as ddsperf does; memory on loan is allocated for each sample"}};
}

/// Returns the kernel's limit for the buffer of a socket, in bytes.
std::string receive_limit() {
    std::ifstream file("/proc/sys/net/core/rmem_max");
    std::string bytes;
    file >> bytes;
    return bytes.empty() ? "unknown" : bytes;
}

std::string configuration(const Job& job) {
    const bool tuned = job.variant != "udp_default";
    const std::string datagrams =
        job.variant == "udp_500"
            ? "<MaxMessageSize>500B</MaxMessageSize><FragmentSize>400B</FragmentSize>"
        : job.variant == "udp_1500" ? "<MaxMessageSize>1472B</MaxMessageSize>"
        : tuned                     ? "<MaxMessageSize>65500B</MaxMessageSize>"
                                    : "";
    return "<Domain><General><Interfaces><NetworkInterface address=\"" + job.own_address() +
           "\"/></Interfaces><AllowMulticast>false</AllowMulticast>" + datagrams +
           "</General><Discovery><Tag>" + job.run_name() +
           "</Tag><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>99</"
           "MaxAutoParticipantIndex>"
           "<Peers><Peer address=\"" +
           job.other_address() + "\"/></Peers></Discovery>" +
           (tuned ? "<Internal><SocketReceiveBufferSize "
                    "max=\"10MB\"/><Watermarks><WhcHigh>500kB</WhcHigh></Watermarks></Internal>"
                  : "") +
           "</Domain>";
}

dds_domainid_t domain_of(const Job& job) {
    return static_cast<dds_domainid_t>(std::hash<std::string>{}(job.run_name()) % domains);
}

using Qos = std::unique_ptr<dds_qos_t, void (*)(dds_qos_t*)>;

Qos qos_of(const Job& job) {
    Qos qos(dds_create_qos(), dds_delete_qos);
    dds_qset_history(qos.get(), DDS_HISTORY_KEEP_LAST, static_cast<std::int32_t>(job.depth));
    const auto kind = job.reliability == Reliability::reliable ? DDS_RELIABILITY_RELIABLE
                                                               : DDS_RELIABILITY_BEST_EFFORT;
    dds_qset_reliability(qos.get(), kind, max_blocking);
    dds_qset_durability(qos.get(), DDS_DURABILITY_VOLATILE);
    return qos;
}

class Writer final : public peers::Sender {
public:
    Writer(const Job& job, dds_entity_t participant, dds_entity_t topic)
        : reliable_(job.reliability == Reliability::reliable),
          writer_(checked(dds_create_writer(participant, topic, qos_of(job).get(), nullptr),
                          "creating a writer")),
          payload_(job.size, std::byte{1}),
          length_(job.size) {}

    bool matched(std::size_t receivers) override {
        dds_publication_matched_status_t status{};
        checked(dds_get_publication_matched_status(*writer_, &status),
                "asking for matched readers");
        return status.current_count >= receivers;
    }

    std::span<std::byte> loan() override {
        length_ = payload_.size();
        return payload_;
    }

    void shorten(std::size_t size) override { length_ = size; }

    void publish() override {
        bench_Payload sample{};
        sample.bytes._buffer = reinterpret_cast<std::uint8_t*>(payload_.data());
        sample.bytes._length = sample.bytes._maximum = static_cast<std::uint32_t>(length_);
        const auto result = dds_write(*writer_, &sample);
        if (result == DDS_RETCODE_TIMEOUT)
            throw peers::NotSent("slow readers kept the reliable writer waiting for 1 s");
        checked(result, "writing");
    }

    unsigned end_marks() const override { return reliable_ ? 1 : 5; }

    void drain(std::chrono::nanoseconds limit) override {
        // A reader that has the end mark may leave without acknowledging it, which is fine.
        if (reliable_) static_cast<void>(dds_wait_for_acks(*writer_, limit.count()));
    }

private:
    bool reliable_;
    Entity writer_;
    std::vector<std::byte> payload_;
    std::size_t length_;
};

class Reader final : public peers::Receiver {
public:
    Reader(const Job& job, dds_entity_t participant, dds_entity_t topic)
        : reader_(checked(dds_create_reader(participant, topic, qos_of(job).get(), nullptr),
                          "creating a reader")),
          condition_(checked(dds_create_readcondition(*reader_, DDS_ANY_STATE),
                             "creating a read condition")),
          waitset_(checked(dds_create_waitset(participant), "creating a wait set")) {
        checked(dds_waitset_attach(*waitset_, *condition_, 0), "attaching to a wait set");
    }
    ~Reader() override { dds_sample_free(&sample_, &bench_Payload_desc, DDS_FREE_CONTENTS); }

    bool matched() override {
        dds_subscription_matched_status_t status{};
        checked(dds_get_subscription_matched_status(*reader_, &status),
                "asking for matched writers");
        return status.current_count > 0;
    }

    std::span<const std::byte> take() override {
        dds_sample_info_t info{};
        void* sample = &sample_;
        // The departure of a writer is delivered as a sample as well.
        do {
            if (checked(dds_take(*reader_, &sample, &info, 1, 1), "taking") == 0) return {};
        } while (!info.valid_data);
        return {reinterpret_cast<const std::byte*>(sample_.bytes._buffer), sample_.bytes._length};
    }

    void wait(std::chrono::nanoseconds limit) override {
        checked(dds_waitset_wait(*waitset_, nullptr, 0, limit.count()), "waiting");
    }

private:
    Entity reader_;
    Entity condition_;
    Entity waitset_;
    // Own memory, reused for each sample: Cyclone DDS would allocate each loan.
    bench_Payload sample_{};
};

class CycloneLink final : public peers::Link {
public:
    explicit CycloneLink(const Job& job)
        : job_(job),
          id_(domain_of(job)),
          domain_(
              checked(dds_create_domain(id_, configuration(job).c_str()), "creating a DDS domain")),
          participant_(
              checked(dds_create_participant(id_, nullptr, nullptr), "joining the DDS domain")) {}

    void resize(std::size_t size) override { job_.size = size; }
    std::unique_ptr<peers::Sender> sender(const std::string& topic, std::size_t) override {
        return std::make_unique<Writer>(job_, *participant_, this->topic(topic));
    }
    std::unique_ptr<peers::Receiver> receiver(const std::string& topic, std::size_t) override {
        return std::make_unique<Reader>(job_, *participant_, this->topic(topic));
    }

private:
    /// Deleted with its participant.
    dds_entity_t topic(const std::string& name) {
        return checked(
            dds_create_topic(*participant_, &bench_Payload_desc, name.c_str(), nullptr, nullptr),
            "creating the topic " + name);
    }

    Job job_;
    dds_domainid_t id_;
    Entity domain_;
    Entity participant_;
};

class Cyclone final : public peers::Middleware {
public:
    peers::Description describe() const override {
        peers::Variant tuned;
        tuned.name = "udp";
        tuned.title = "UDP, buffers tuned for large messages";
        tuned.max_size = std::size_t{256} << 20;
        tuned.max_subscribers = 90;
        tuned.reach = {peers::Reach::host, peers::Reach::network};
        // A thread of Cyclone DDS receives. A reader that spins on the same CPU would only delay
        // it.
        tuned.waits = {peers::WaitKind::block};
        tuned.note =
            "best effort loses payloads that do not fit the socket's buffer; then rounds of a "
            "ping-pong stay unanswered: make it reliable";
        tuned.own_tool = "ddsperf";
        tuned.settings = common_settings();
        tuned.workloads = {peers::chain_workload()};
        peers::Variant plain = tuned;
        plain.name = "udp_default";
        plain.title = "UDP, buffers as they come";
        const std::vector<Setting> tuning{
            {"General/MaxMessageSize", "65500B",
             "larger datagrams (default 14720B); what Autoware's guide recommends for large "
             "messages"},
            {"Internal/SocketReceiveBufferSize",
             "max 10MB, limited by net.core.rmem_max = " + receive_limit() + "",
             "same guide: a large message must fit"},
            {"Internal/Watermarks/WhcHigh", "500kB",
             "same guide; it does not slow down keep-last writers"}};
        tuned.settings.insert(tuned.settings.end(), tuning.begin(), tuning.end());
        const auto with_datagrams = [&](const char* name, const char* bytes,
                                        const Setting& fragments) {
            auto v = tuned;
            v.name = name;
            v.title = std::string("UDP, datagrams of up to ") + bytes + " bytes";
            v.tuning = true;
            v.workloads.clear();
            v.note += "; the variant udp is the same with datagrams of up to 65500 bytes";
            v.settings[v.settings.size() - 3] = {"General/MaxMessageSize", std::string(bytes) + "B",
                                                 "what is varied"};
            v.settings.push_back(fragments);
            return v;
        };
        return {"cyclonedds",
                "Eclipse Cyclone DDS",
                DDS_VERSION,
                {tuned, plain,
                 with_datagrams(
                     "udp_500", "500",
                     {"General/FragmentSize", "400B", "parts must fit a datagram (default 1344B)"}),
                 with_datagrams(
                     "udp_1500", "1472",
                     {"General/FragmentSize", "1344B, the default", "fits an Ethernet frame"})}};
    }

    std::unique_ptr<peers::Link> join(const Job& job) override {
        return std::make_unique<CycloneLink>(job);
    }
    peers::OwnTool run_own_tool(const Job& job) override {
        return cyclone::run_ddsperf(job, domain_of(job), configuration(job));
    }
};

}  // namespace

int main(int argc, char** argv) {
    Cyclone middleware;
    return peers::run_peer(middleware, argc, argv);
}
