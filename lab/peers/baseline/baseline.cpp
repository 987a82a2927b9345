// SPDX-License-Identifier: Apache-2.0
// The kernel's means for moving bytes between processes: a lower bound for middleware that copies.
#include <sys/utsname.h>

#include "links.hpp"

namespace baseline {
namespace {

using peers::Setting;
using peers::Variant;

/// Largest payload of a UDP datagram over IPv4, of one that fits an Ethernet frame, and of a small
/// one.
constexpr std::size_t largest_datagram = 65507;
constexpr std::size_t ethernet_datagram = 1472;
constexpr std::size_t small_datagram = 500;

Variant stream(const std::string& name, const std::string& title, std::vector<Setting> settings) {
    Variant v;
    v.name = name;
    v.title = title;
    v.note =
        "always reliable: a slow reader slows the sender; one copy into the kernel for each "
        "subscriber, one out of it";
    v.settings = std::move(settings);
    v.settings.push_back({"framing", "none", "every payload of a job has the same size"});
    return v;
}

Variant tuning(Variant v) {
    v.tuning = true;
    return v;
}

Variant between_hosts(Variant v) {
    v.reach.push_back(peers::Reach::network);
    return v;
}

Variant datagrams(const std::string& name, std::size_t size) {
    Variant v;
    v.name = name;
    v.reach = {peers::Reach::host, peers::Reach::network};
    v.title = "bare UDP, datagrams of up to " + std::to_string(size) + " bytes";
    v.reliability = {peers::Reliability::best_effort};
    v.note = "a payload that loses a datagram is lost";
    v.settings = {{"datagram size", std::to_string(size),
                   "payloads above it are cut and put together again, 16 bytes of head each"},
                  {"SO_RCVBUF", "64 MiB",
                   "the default of about 200 kB loses every large payload; beyond "
                   "net.core.rmem_max only with privilege"},
                  {"SO_SNDBUF", "4 MiB", "fewer waits of the sender"}};
    return v;
}

class Baseline final : public peers::Middleware {
public:
    peers::Description describe() const override {
        utsname system{};
        static_cast<void>(uname(&system));
        return {
            "baseline",
            "Kernel baselines",
            std::string("Linux ") + system.release,
            {stream("pipe", "named pipe",
                    {{"F_SETPIPE_SZ", "size of a payload, at least 64 KiB, at most 1 MiB",
                      "fewer waits of the sender; above it privilege is needed"}}),
             stream("unix", "Unix stream socket",
                    {{"SO_SNDBUF", "default", "what applications use"}}),
             between_hosts(stream(
                 "tcp", "bare TCP",
                 {{"TCP_NODELAY", "on", "otherwise small payloads wait for acknowledgements"},
                  {"SO_SNDBUF, SO_RCVBUF", "default",
                   "the kernel adapts them, as tcp(7) recommends"}})),
             datagrams("udp", largest_datagram), tuning(datagrams("udp_1500", ethernet_datagram)),
             tuning(datagrams("udp_500", small_datagram)),
             tuning(stream("tcp_nagle", "bare TCP, without TCP_NODELAY",
                           {{"TCP_NODELAY", "off, the default",
                             "what is varied: Nagle's algorithm holds back small payloads while "
                             "others are unacknowledged"},
                            {"SO_SNDBUF, SO_RCVBUF", "default", "as tcp"}}))}};
    }

    std::unique_ptr<peers::Link> join(const peers::Job& job) override {
        if (job.variant == "pipe") return stream_link(job, Stream::pipe);
        if (job.variant == "unix") return stream_link(job, Stream::unix_socket);
        if (job.variant == "tcp") return stream_link(job, Stream::tcp);
        if (job.variant == "tcp_nagle") return stream_link(job, Stream::tcp_nagle);
        if (job.variant == "udp") return datagram_link(job, largest_datagram);
        if (job.variant == "udp_1500") return datagram_link(job, ethernet_datagram);
        if (job.variant == "udp_500") return datagram_link(job, small_datagram);
        throw std::runtime_error("there is no variant '" + job.variant + "'");
    }
};

}  // namespace
}  // namespace baseline

int main(int argc, char** argv) {
    baseline::Baseline middleware;
    return peers::run_peer(middleware, argc, argv);
}
