// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <set>

#include "fast_link.hpp"

namespace fast {
namespace {

namespace fs = std::filesystem;

/// Ports of a domain in the RTPS standard. They must stay below the kernel's ephemeral ports.
constexpr unsigned first_port = 7400;
constexpr unsigned ports_per_domain = 250;
constexpr unsigned domains = 90;

const fs::path& shared_memory() {
    static const fs::path path = "/dev/shm";
    return path;
}

fs::path domain_file(const peers::Job& job) { return job.domain_dir / "dds-domain"; }

/// Prefix of lists of files that the runner removes if no process of this program is left to do it
/// (docs/protocols/harness.md, Keeper).
constexpr auto list_prefix = "shared-memory-";

/// Returns the port number in names such as fastrtps_port7411 and sem.fastrtps_port7411_mutex.
std::optional<unsigned> port_of(const std::string& name) {
    constexpr std::string_view mark = "fastrtps_port";
    const auto at = name.find(mark);
    if (at == std::string::npos) return std::nullopt;
    const auto digits = name.substr(at + mark.size());
    if (digits.empty() || std::isdigit(static_cast<unsigned char>(digits[0])) == 0)
        return std::nullopt;
    return static_cast<unsigned>(std::strtoul(digits.c_str(), nullptr, 10));
}

std::vector<fs::path> port_files(unsigned domain) {
    const auto from = first_port + ports_per_domain * domain;
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(shared_memory())) {
        const auto port = port_of(entry.path().filename());
        if (port && *port >= from && *port < from + ports_per_domain) files.push_back(entry.path());
    }
    return files;
}

/// Name that only one process of the machine can hold, and that is released when the process ends.
class Lock {
public:
    explicit Lock(const std::string& name) : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        // The name begins with a zero byte, so it is not a file.
        std::memcpy(address.sun_path + 1, name.data(), name.size());
        const auto length =
            static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
        held_ = fd_ >= 0 && bind(fd_, reinterpret_cast<const sockaddr*>(&address), length) == 0;
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() {
        if (fd_ >= 0) ::close(fd_);
    }
    bool held() const { return held_; }

private:
    int fd_;
    bool held_;
};

class DomainKeeper final : public peers::Keeper {
public:
    explicit DomainKeeper(const peers::Job& job) : job_(job) {
        const auto from = static_cast<unsigned>(std::hash<std::string>{}(job.run_name()) % domains);
        for (unsigned i = 0; i < domains && !lock_; ++i) {
            domain_ = (from + i) % domains;
            auto lock =
                std::make_unique<Lock>("driveline-bench-dds-domain-" + std::to_string(domain_));
            // Port files show that another run, dead or alive, has used the domain. They are not
            // removed; the next domain is tried.
            if (lock->held() && port_files(domain_).empty()) lock_ = std::move(lock);
        }
        if (!lock_)
            throw std::runtime_error(
                "all DDS domains below " + std::to_string(domains) +
                " are in use; `fastdds shm clean` removes what dead processes left");
        std::ofstream file(domain_file(job));
        file << domain_;
        file.close();
        if (!file) throw std::runtime_error("cannot write " + domain_file(job).string());
        // While one of the first three files of a line is locked, another process uses the port.
        std::ofstream list(job.domain_dir / (std::string(list_prefix) + "ports"));
        for (auto port = first_port + ports_per_domain * domain_;
             port < first_port + ports_per_domain * (domain_ + 1); ++port) {
            const auto name = "fastrtps_port" + std::to_string(port);
            list << name << ' ' << name << "_el " << name << "_sl sem." << name << "_mutex\n";
        }
    }

    void dismiss() override {
        std::error_code ignored;
        for (const auto& entry : fs::directory_iterator(job_.domain_dir)) {
            if (entry.path().filename().string().rfind(list_prefix, 0) != 0) continue;
            std::ifstream names(entry.path());
            for (std::string name; names >> name;) fs::remove(shared_memory() / name, ignored);
        }
    }

private:
    peers::Job job_;
    unsigned domain_ = 0;
    std::unique_ptr<Lock> lock_;
};

}  // namespace

std::unique_ptr<peers::Keeper> make_keeper(const peers::Job& job) {
    return std::make_unique<DomainKeeper>(job);
}

unsigned kept_domain(const peers::Job& job) {
    std::ifstream file(domain_file(job));
    unsigned domain = 0;
    if (!(file >> domain))
        throw std::runtime_error("there is no keeper: " + domain_file(job).string() +
                                 " is missing");
    return domain;
}

void note_segments(const peers::Job& job) {
    std::set<std::string> names;
    std::ifstream maps("/proc/self/maps");
    const auto directory = shared_memory().string() + "/";
    for (std::string line; std::getline(maps, line);) {
        const auto at = line.find(directory + "fast");
        // Files of ports are left out: the keeper lists them by the port numbers of its domain.
        if (at != std::string::npos && !port_of(line))
            names.insert(line.substr(at + directory.size()));
    }
    std::ofstream file(job.domain_dir / (list_prefix + std::to_string(getpid())));
    for (const auto& name : names) file << name << ' ' << name << "_el\n";
}

}  // namespace fast
