// SPDX-License-Identifier: Apache-2.0
#include "files.hpp"

#include <arpa/inet.h>
#include <fcntl.h>

#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace baseline {

int checked(int result, const std::string& what) {
    if (result < 0) throw std::system_error(errno, std::generic_category(), what);
    return result;
}

short await(const File& file, short events, std::chrono::nanoseconds limit) {
    pollfd p{file.fd(), events, 0};
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
    const timespec timeout{static_cast<time_t>(seconds.count()),
                           static_cast<long>((limit - seconds).count())};
    const int n = ppoll(&p, 1, &timeout, nullptr);
    if (n < 0 && errno != EINTR) checked(n, "waiting for a descriptor");
    return n > 0 ? p.revents : short{0};
}

in_addr ip_address(const std::string& host) {
    in_addr address{};
    if (inet_pton(AF_INET, host.c_str(), &address) != 1)
        throw std::runtime_error("'" + host + "' is no IPv4 address");
    return address;
}

void set_blocking(const File& file, bool blocking) {
    const int flags = checked(fcntl(file.fd(), F_GETFL), "reading the flags of a descriptor");
    checked(fcntl(file.fd(), F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK),
            "setting the flags of a descriptor");
}

void write_port(const std::filesystem::path& path, unsigned port) {
    auto unfinished = path;
    unfinished += ".new";
    {
        std::ofstream file(unfinished);
        file << port;
        file.close();
        if (!file) throw std::runtime_error("cannot write " + unfinished.string());
    }
    std::filesystem::rename(unfinished, path);
}

unsigned read_port(const std::filesystem::path& path) {
    std::ifstream file(path);
    unsigned port = 0;
    file >> port;
    return port;
}

}  // namespace baseline
