// SPDX-License-Identifier: Apache-2.0
// File descriptors that close themselves, and system calls that throw.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

namespace baseline {

class File {
public:
    File() = default;
    explicit File(int fd) : fd_(fd) {}
    File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    File& operator=(File&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~File() {
        if (fd_ >= 0) ::close(fd_);
    }
    explicit operator bool() const { return fd_ >= 0; }
    int fd() const { return fd_; }

private:
    int fd_ = -1;
};

/// Throws std::system_error with `what` if `result` is negative.
int checked(int result, const std::string& what);

/// Sleeps until the descriptor has one of `events`, at most `limit`. Returns the events that it
/// has.
short await(const File& file, short events, std::chrono::nanoseconds limit);

/// Returns the address of an IPv4 host. Throws if `host` is none.
in_addr ip_address(const std::string& host);

void set_blocking(const File& file, bool blocking);

/// Writes the port number of a receiver into a file, which appears whole or not at all.
void write_port(const std::filesystem::path& path, unsigned port);
/// Returns 0 if the file does not exist yet.
unsigned read_port(const std::filesystem::path& path);

}  // namespace baseline
