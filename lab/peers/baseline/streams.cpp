// SPDX-License-Identifier: Apache-2.0
// Pipe, Unix socket and TCP. All payloads of a job have the same size, so they need no length
// field.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "files.hpp"
#include "links.hpp"

namespace baseline {
namespace {

using namespace std::chrono_literals;
using peers::Job;

/// A peer that stops in the middle of a payload for this long counts as gone.
constexpr auto stalled = 10s;

/// Address on which a receiver listens.
class Address {
public:
    Address(const Job& job, Stream kind, const std::string& topic, std::size_t index)
        : kind_(kind),
          path_(job.domain_dir / (topic + "." + std::to_string(index))),
          pipe_size_(std::max<std::size_t>(job.size, 65536)),
          own_(ip_address(job.own_address())),
          other_(ip_address(job.other_address())) {}

    /// Returns the socket for new connections; for a pipe, its reading end itself.
    File listen() const {
        if (kind_ == Stream::pipe) {
            checked(mkfifo(path_.c_str(), 0600), "making the pipe " + path_.string());
            return File(checked(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC),
                                "opening the pipe " + path_.string()));
        }
        if (kind_ == Stream::unix_socket) {
            File socket(checked(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
                                "making a Unix socket"));
            const auto address = unix_address();
            checked(bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
                    "binding the Unix socket " + path_.string());
            checked(::listen(socket.fd(), 1), "listening on the Unix socket " + path_.string());
            return socket;
        }
        File socket(checked(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
                            "making a TCP socket"));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr = own_;
        checked(bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
                "binding a TCP socket");
        checked(::listen(socket.fd(), 1), "listening on a TCP socket");
        socklen_t length = sizeof address;
        checked(getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length),
                "asking for the port of a TCP socket");
        write_port(path_, ntohs(address.sin_port));
        return socket;
    }

    /// Returns nothing while no reader exists.
    std::optional<File> connect() const {
        File file;
        if (kind_ == Stream::pipe) {
            file = File(::open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
            if (!file) return std::nullopt;
            // If the limit for unprivileged users is below 1 MiB, the size may stay unchanged.
            static_cast<void>(fcntl(file.fd(), F_SETPIPE_SZ,
                                    static_cast<int>(std::min<std::size_t>(pipe_size_, 1 << 20))));
        } else if (kind_ == Stream::unix_socket) {
            file = File(
                checked(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "making a Unix socket"));
            const auto address = unix_address();
            if (::connect(file.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
                0)
                return std::nullopt;
        } else {
            const auto port = read_port(path_);
            if (port == 0) return std::nullopt;
            file = File(
                checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "making a TCP socket"));
            sockaddr_in address{};
            address.sin_family = AF_INET;
            address.sin_addr = other_;
            address.sin_port = htons(static_cast<std::uint16_t>(port));
            if (::connect(file.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
                0)
                return std::nullopt;
            const int on = kind_ == Stream::tcp ? 1 : 0;
            checked(setsockopt(file.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on),
                    "setting TCP_NODELAY");
        }
        set_blocking(file, true);
        return file;
    }

    bool is_pipe() const { return kind_ == Stream::pipe; }

private:
    sockaddr_un unix_address() const {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const auto& name = path_.native();
        if (name.size() >= sizeof address.sun_path)
            throw std::runtime_error("the path " + name + " is too long for a Unix socket");
        std::memcpy(address.sun_path, name.c_str(), name.size());
        return address;
    }

    Stream kind_;
    std::filesystem::path path_;
    std::size_t pipe_size_;
    in_addr own_;
    in_addr other_;
};

class StreamSender final : public peers::Sender {
public:
    StreamSender(const Job& job, Stream kind, const std::string& topic, std::size_t receivers)
        : payload_(job.size, std::byte{1}) {
        for (std::size_t i = 0; i < receivers; ++i) addresses_.emplace_back(job, kind, topic, i);
    }

    bool matched(std::size_t receivers) override {
        while (files_.size() < std::min(receivers, addresses_.size())) {
            auto file = addresses_[files_.size()].connect();
            if (!file) return false;
            files_.push_back(std::move(*file));
        }
        return true;
    }

    std::span<std::byte> loan() override { return payload_; }

    void publish() override {
        for (const auto& file : files_) {
            for (std::size_t done = 0; done < payload_.size();) {
                const auto n = ::write(file.fd(), payload_.data() + done, payload_.size() - done);
                if (n < 0 && errno != EINTR) checked(-1, "writing to a subscriber");
                if (n > 0) done += static_cast<std::size_t>(n);
            }
        }
    }

private:
    std::vector<Address> addresses_;
    std::vector<File> files_;
    std::vector<std::byte> payload_;
};

class StreamReceiver final : public peers::Receiver {
public:
    StreamReceiver(const Job& job, Stream kind, const std::string& topic, std::size_t index)
        : address_(job, kind, topic, index), payload_(job.size, std::byte{1}) {
        if (address_.is_pipe()) {
            file_ = address_.listen();
        } else {
            listener_ = address_.listen();
        }
    }

    // A pipe does not report whether it has a writer. It suffices that the sender of the other side
    // found it.
    bool matched() override { return file_ || accept(); }

    std::span<const std::byte> take() override {
        if (!matched()) return {};
        std::size_t got = 0;
        while (got < payload_.size()) {
            const auto n = ::read(file_.fd(), payload_.data() + got, payload_.size() - got);
            if (n > 0) {
                got += static_cast<std::size_t>(n);
            } else if (n == 0) {
                // A pipe also reads as empty before it has a writer.
                if (address_.is_pipe() && !began_) return {};
                throw std::runtime_error("the sending end is gone");
            } else if (errno == EAGAIN) {
                if (got == 0) return {};
                if (await(file_, POLLIN, stalled) == 0)
                    throw std::runtime_error("the sending end stopped in the middle of a payload");
            } else if (errno != EINTR) {
                checked(-1, "reading from the sending end");
            }
        }
        began_ = true;
        return payload_;
    }

    void wait(std::chrono::nanoseconds limit) override {
        if (matched()) {
            await(file_, POLLIN, limit);
        } else {
            await(listener_, POLLIN, limit);
        }
    }

private:
    bool accept() {
        const int fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno != EAGAIN && errno != EINTR) checked(fd, "accepting a connection");
            return false;
        }
        file_ = File(fd);
        return true;
    }

    Address address_;
    File listener_;
    File file_;
    std::vector<std::byte> payload_;
    bool began_ = false;
};

class StreamLink final : public peers::Link {
public:
    StreamLink(const Job& job, Stream kind) : job_(job), kind_(kind) {}
    void resize(std::size_t size) override { job_.size = size; }
    std::unique_ptr<peers::Sender> sender(const std::string& topic,
                                          std::size_t receivers) override {
        return std::make_unique<StreamSender>(job_, kind_, topic, receivers);
    }
    std::unique_ptr<peers::Receiver> receiver(const std::string& topic,
                                              std::size_t index) override {
        return std::make_unique<StreamReceiver>(job_, kind_, topic, index);
    }

private:
    Job job_;
    Stream kind_;
};

}  // namespace

std::unique_ptr<peers::Link> stream_link(const Job& job, Stream kind) {
    return std::make_unique<StreamLink>(job, kind);
}

}  // namespace baseline
