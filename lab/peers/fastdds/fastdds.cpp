// SPDX-License-Identifier: Apache-2.0
// eProsima Fast DDS: UDP, its shared-memory transport, data sharing with loans, and its latency
// tool.
#include <fastrtps/config.h>

#include <string>

#include "fast_link.hpp"
#include "latency_test.hpp"

namespace {

using peers::Setting;
using peers::Variant;

std::vector<Setting> with_common(std::vector<Setting> settings) {
    const std::vector<Setting> common{
        {"history", "KEEP_LAST, the job's depth", "as all systems"},
        {"resource_limits", "the depth, and 2 extra samples (readers: within max_samples, too)",
         "the default reserves a hundred payloads; a reader that holds a sample and has no room "
         "for more refuses newer ones"},
        {"history_memory_policy", "PREALLOCATED",
         "no allocation while it runs; its manual's advice for real time"},
        {"type", "plain bytes of a fixed number, written by hand",
         "no per-field cost; readers look at them in place (take with loan)"},
        {"domain", "one that no other run uses", "runs do not meet"}};
    settings.insert(settings.end(), common.begin(), common.end());
    return settings;
}

class FastDds final : public peers::Middleware {
public:
    peers::Description describe() const override {
        Variant over_udp;
        over_udp.name = fast::udp;
        over_udp.title = "UDP on loopback";
        over_udp.max_size = std::size_t{256} << 20;
        over_udp.keeper = true;
        // A thread of Fast DDS receives. A reader that spins on the same CPU would only delay it.
        over_udp.waits = {peers::WaitKind::block};
        over_udp.note =
            "best effort loses payloads that do not fit the socket's buffer; then rounds of a "
            "ping-pong stay unanswered: make it reliable";
        over_udp.settings = with_common(
            {{"transports", "UDPv4 on 127.0.0.1 only",
              "loopback only; by default, shared memory would be taken"},
             {"send and receive socket buffers", "10 MiB, as far as net.core allows",
              "its manual, large data rates"},
             {"publish_mode", "SYNCHRONOUS up to 60 kB, ASYNCHRONOUS above",
              "fewer threads in between; larger payloads are cut, which needs the latter"}});
        Variant over_shm = over_udp;
        over_shm.name = fast::shm;
        over_shm.title = "shared-memory transport";
        over_shm.note = "one copy into the transport's segment, one out of it";
        over_shm.settings = with_common(
            {{"transports", "SharedMem only", "what is measured"},
             {"max_message_size", "payload + 4 KiB",
              "its manual, large data with shared memory: no fragments"},
             {"segment_size", "(depth + 2) × (subscribers + 1) messages, at least 1 MiB",
              "room for what every subscriber may not have read yet"},
             {"publish_mode", "SYNCHRONOUS", "fewer threads in between"}});
        Variant sharing = over_shm;
        sharing.name = fast::data_sharing;
        sharing.title = "data sharing, with loans";
        sharing.loans = true;
        sharing.note =
            "a best-effort writer may overwrite a sample while a slow reader reads it; "
            "is_sample_valid() reports it afterwards";
        sharing.settings = with_common(
            {{"data_sharing", "ON", "what is measured; its manual, zero-copy communication"},
             {"loan_sample, take with loan", "used", "its manual, zero-copy communication"},
             {"transports", "SharedMem only", "for discovery"},
             {"publish_mode", "SYNCHRONOUS", "fewer threads in between"}});
        const auto with_datagrams = [&](std::string_view name, const char* bytes, const char* why) {
            Variant v = over_udp;
            v.name = name;
            v.title = std::string("UDP on loopback, datagrams of up to ") + bytes + " bytes";
            v.tuning = true;
            v.note += "; the variant udp is the same with datagrams of 64 KiB";
            v.settings[0] = {"maxMessageSize", bytes, why};
            v.settings.insert(v.settings.begin(), over_udp.settings[0]);
            v.settings[3].value =
                std::string("SYNCHRONOUS up to 256 bytes below that, ASYNCHRONOUS above");
            return v;
        };
        const auto with_500 = with_datagrams(fast::udp_500, "500", "what is varied");
        const auto with_1500 =
            with_datagrams(fast::udp_1500, "1472", "what is varied; fits an Ethernet frame");
        // As fixed in LatencyTest: waiting threads would need one more wake-up at each end.
        const auto called_back = [&](const Variant& usual) {
            Variant v = usual;
            v.name += fast::listener_end;
            v.title +=
                ", in ping-pongs read in callbacks of the thread that receives, as its own latency "
                "tool does";
            v.tuning = true;
            v.usual_at_a_rate = true;
            v.settings.push_back({"DataReaderListener, on_data_available",
                                  "answers from there, samples are taken out (take_next_sample)",
                                  "as in LatencyTest, which has no option for it"});
            if (fast::has_latency_test()) v.own_tool = "LatencyTest";
            return v;
        };
        auto with_udp = called_back(over_udp);
        // LatencyTest waits 100 ms for each lost round. If all rounds are lost, it never prints its
        // table, because the table leaves out the first one.
        with_udp.own_tool_reliability = {peers::Reliability::reliable};
        const auto with_shm = called_back(over_shm);
        auto with_sharing = called_back(sharing);
        // With loans, LatencyTest excludes the loan request and the copy from its times. Only data
        // sharing without loans can be compared.
        with_sharing.title =
            "data sharing without loans, in ping-pongs read in callbacks, as its own latency tool "
            "does";
        with_sharing.loans = false;
        with_sharing.note = "one copy into the shared history, one out of it";
        with_sharing.settings[1] = {"loan_sample", "not used",
                                    "LatencyTest leaves what its loans take out of its times"};
        const std::string tool =
            fast::has_latency_test()
                ? "its latency tool, LatencyTest, reads in callbacks: it is compared with "
                : "its latency tool, LatencyTest, was not built (`make peers` says why), and would "
                  "be compared with ";
        for (auto* usual : {&over_udp, &over_shm, &sharing})
            usual->note += "; " + tool + usual->name + std::string(fast::listener_end);
        return {
            "fastdds",
            "eProsima Fast DDS",
            FASTRTPS_VERSION_STR,
            {over_udp, over_shm, sharing, with_500, with_1500, with_udp, with_shm, with_sharing}};
    }

    std::unique_ptr<peers::Link> join(const peers::Job& job) override {
        return fast::make_link(job);
    }
    std::unique_ptr<peers::Keeper> keep(const peers::Job& job) override {
        return fast::make_keeper(job);
    }
    peers::OwnTool run_own_tool(const peers::Job& job) override {
        return fast::run_latency_test(job);
    }
};

}  // namespace

int main(int argc, char** argv) {
    FastDds middleware;
    return peers::run_peer(middleware, argc, argv);
}
