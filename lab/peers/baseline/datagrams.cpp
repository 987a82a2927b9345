// SPDX-License-Identifier: Apache-2.0
// UDP: payloads are cut into datagrams and reassembled. A payload that lost a datagram is lost.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "files.hpp"
#include "links.hpp"

namespace baseline {
namespace {

using peers::Job;

/// Header of each datagram; a part of the payload follows it.
struct FragmentHead {
    std::uint64_t payload_number;
    std::uint64_t offset;
};

/// Room for several of the largest payloads in flight on a link. The kernel also counts its
/// overhead for each datagram.
constexpr int receive_buffer = 64 << 20;
constexpr int send_buffer = 4 << 20;
/// Maximum time that a datagram waits for room in the queue of the network device.
constexpr std::chrono::seconds full_queue{1};

sockaddr_in socket_address(const std::string& host, unsigned port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr = ip_address(host);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return address;
}

std::filesystem::path port_file(const Job& job, const std::string& topic, std::size_t index) {
    return job.domain_dir / (topic + "." + std::to_string(index));
}

File udp_socket() {
    return File(checked(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "making a UDP socket"));
}

/// Without the privilege to exceed the system's limit, sets the size up to that limit.
void set_buffer(const File& socket, int forced, int option, int bytes, const char* name,
                std::vector<std::string>& unset) {
    if (setsockopt(socket.fd(), SOL_SOCKET, forced, &bytes, sizeof bytes) == 0) return;
    static_cast<void>(setsockopt(socket.fd(), SOL_SOCKET, option, &bytes, sizeof bytes));
    int given = 0;
    socklen_t length = sizeof given;
    checked(getsockopt(socket.fd(), SOL_SOCKET, option, &given, &length),
            "asking for the size of a socket's buffer");
    // The kernel reports twice the requested size.
    if (given / 2 < bytes)
        unset.push_back(std::string(name) + " of " + std::to_string(bytes) +
                        " bytes: " + std::to_string(given / 2) + " are allowed");
}

class DatagramSender final : public peers::Sender {
public:
    DatagramSender(const Job& job, const std::string& topic, std::size_t receivers,
                   std::size_t part_size)
        : part_size_(part_size), other_(job.other_address()), payload_(job.size, std::byte{1}) {
        for (std::size_t i = 0; i < receivers; ++i) ports_.push_back(port_file(job, topic, i));
    }

    bool matched(std::size_t receivers) override {
        while (sockets_.size() < std::min(receivers, ports_.size())) {
            const auto port = read_port(ports_[sockets_.size()]);
            if (port == 0) return false;
            auto socket = udp_socket();
            set_buffer(socket, SO_SNDBUFFORCE, SO_SNDBUF, send_buffer, "send buffer", unset_);
            const auto address = socket_address(other_, port);
            checked(
                connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
                "connecting a UDP socket");
            sockets_.push_back(std::move(socket));
        }
        return true;
    }

    std::span<std::byte> loan() override { return payload_; }

    void publish() override {
        ++number_;
        for (const auto& socket : sockets_) {
            for (std::size_t offset = 0; offset < payload_.size(); offset += part_size_) {
                FragmentHead head{number_, offset};
                std::array<iovec, 2> parts{iovec{&head, sizeof head},
                                           iovec{payload_.data() + offset,
                                                 std::min(part_size_, payload_.size() - offset)}};
                const auto give_up = std::chrono::steady_clock::now() + full_queue;
                while (::writev(socket.fd(), parts.data(), parts.size()) < 0) {
                    // A receiver that has left refuses datagrams. A best-effort sender ignores
                    // that.
                    if (errno == ECONNREFUSED) break;
                    if (errno != EINTR && errno != ENOBUFS) checked(-1, "sending a datagram");
                    // A datagram that finds no room on the device in time is lost; the receiver
                    // counts it.
                    if (std::chrono::steady_clock::now() > give_up) break;
                }
            }
        }
    }

    unsigned end_marks() const override { return 5; }
    std::vector<std::string> unset() const override { return unset_; }

private:
    std::size_t part_size_;
    std::string other_;
    std::vector<std::filesystem::path> ports_;
    std::vector<File> sockets_;
    std::vector<std::byte> payload_;
    std::uint64_t number_ = 0;
    std::vector<std::string> unset_;
};

class DatagramReceiver final : public peers::Receiver {
public:
    DatagramReceiver(const Job& job, const std::string& topic, std::size_t index,
                     std::size_t part_size)
        : part_size_(part_size),
          socket_(udp_socket()),
          payload_(job.size + part_size, std::byte{1}),
          size_(job.size) {
        set_buffer(socket_, SO_RCVBUFFORCE, SO_RCVBUF, receive_buffer, "receive buffer", unset_);
        set_blocking(socket_, false);
        auto address = socket_address(job.own_address(), 0);
        checked(bind(socket_.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
                "binding a UDP socket");
        socklen_t length = sizeof address;
        checked(getsockname(socket_.fd(), reinterpret_cast<sockaddr*>(&address), &length),
                "asking for the port of a UDP socket");
        write_port(port_file(job, topic, index), ntohs(address.sin_port));
    }

    // Datagrams have no connection. It suffices that the sender of the other side found the port.
    bool matched() override { return true; }

    std::span<const std::byte> take() override {
        for (;;) {
            FragmentHead head{};
            // The datagram is read into its final place, which is right if nothing was lost.
            std::array<iovec, 2> parts{iovec{&head, sizeof head},
                                       iovec{payload_.data() + got_, part_size_}};
            const auto n = ::readv(socket_.fd(), parts.data(), parts.size());
            if (n < 0) {
                if (errno == EAGAIN) return {};
                if (errno == EINTR) continue;
                checked(-1, "receiving a datagram");
            }
            if (static_cast<std::size_t>(n) <= sizeof head) continue;
            const auto bytes = static_cast<std::size_t>(n) - sizeof head;
            if (head.offset != got_ || (got_ > 0 && head.payload_number != number_)) {
                const bool begins = head.offset == 0;
                if (begins) std::memmove(payload_.data(), payload_.data() + got_, bytes);
                got_ = 0;
                if (!begins) continue;
            }
            number_ = head.payload_number;
            got_ += bytes;
            if (got_ >= size_) {
                got_ = 0;
                return std::span(payload_).first(size_);
            }
        }
    }

    void wait(std::chrono::nanoseconds limit) override { await(socket_, POLLIN, limit); }
    std::vector<std::string> unset() const override { return unset_; }

private:
    std::size_t part_size_;
    File socket_;
    std::vector<std::byte> payload_;
    std::size_t size_;
    std::size_t got_ = 0;
    std::uint64_t number_ = 0;
    std::vector<std::string> unset_;
};

class DatagramLink final : public peers::Link {
public:
    DatagramLink(const Job& job, std::size_t datagram_size)
        : job_(job), part_size_(datagram_size - sizeof(FragmentHead)) {}
    void resize(std::size_t size) override { job_.size = size; }
    std::unique_ptr<peers::Sender> sender(const std::string& topic,
                                          std::size_t receivers) override {
        return std::make_unique<DatagramSender>(job_, topic, receivers, part_size_);
    }
    std::unique_ptr<peers::Receiver> receiver(const std::string& topic,
                                              std::size_t index) override {
        return std::make_unique<DatagramReceiver>(job_, topic, index, part_size_);
    }

private:
    Job job_;
    std::size_t part_size_;
};

}  // namespace

std::unique_ptr<peers::Link> datagram_link(const Job& job, std::size_t datagram_size) {
    return std::make_unique<DatagramLink>(job, datagram_size);
}

}  // namespace baseline
