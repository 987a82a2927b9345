// SPDX-License-Identifier: Apache-2.0
#include "master.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include "recorder.hpp"

namespace ros1 {
namespace {

using namespace std::chrono_literals;
using peers::now_ns;

constexpr std::uint64_t start_limit_ns = 20'000'000'000U;
constexpr std::uint64_t end_limit_ns = 5'000'000'000U;

std::filesystem::path uri_file(const peers::Job& job) { return job.domain_dir / "ros-master-uri"; }

sockaddr_in loopback(unsigned port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return address;
}

/// A port that is reserved until the master has it. With SO_REUSEADDR, which the master sets as
/// well, the master may listen on a port that this socket has only bound, and no other process gets
/// the port in between. Otherwise a node of another run could be taken for the master.
class Port {
public:
    Port() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        const int on = 1;
        auto address = loopback(0);
        socklen_t length = sizeof address;
        const bool found = fd_ >= 0 &&
                           setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                           bind(fd_, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
                           getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) == 0;
        const int error = errno;
        if (!found && fd_ >= 0) ::close(fd_);
        if (!found)
            throw std::runtime_error(std::string("no port is free for a ROS master: ") +
                                     std::strerror(error));
        number_ = ntohs(address.sin_port);
    }
    ~Port() { ::close(fd_); }
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;

    unsigned number() const { return number_; }

private:
    int fd_;
    unsigned number_ = 0;
};

bool listens(unsigned port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto address = loopback(port);
    const bool connected =
        fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    if (fd >= 0) ::close(fd);
    return connected;
}

class Master final : public peers::Keeper {
public:
    explicit Master(const peers::Job& job) : log_(job.domain_dir / "rosmaster.log") {
        const Port reserved;
        const auto port = reserved.number();
        start(job, port);
        for (const auto deadline = now_ns() + start_limit_ns; !listens(port);
             std::this_thread::sleep_for(20ms)) {
            if (!has_ended() && now_ns() < deadline) continue;
            std::ifstream file(log_);
            const std::string text{std::istreambuf_iterator<char>(file), {}};
            end();
            throw std::runtime_error("the ROS master did not get ready; it said: " + text);
        }
        std::ofstream file(uri_file(job));
        file << "http://127.0.0.1:" << port << "/";
        file.close();
        if (!file) throw std::runtime_error("cannot write " + uri_file(job).string());
    }
    ~Master() override { end(); }

    void dismiss() override { end(); }

private:
    void start(const peers::Job& job, unsigned port) {
        pid_ = fork();
        if (pid_ < 0)
            throw std::runtime_error(std::string("cannot start a process for the ROS master: ") +
                                     std::strerror(errno));
        if (pid_ > 0) return;
        // The master must not outlive its keeper. It has a process group of its own, so that it
        // gets no signals to the keeper's group.
        prctl(PR_SET_PDEATHSIG, static_cast<unsigned long>(SIGKILL));
        setpgid(0, 0);
        for (int s : {SIGINT, SIGTERM, SIGHUP}) signal(s, SIG_DFL);
        setenv("ROS_HOME", job.domain_dir.c_str(), 1);
        setenv("ROS_LOG_DIR", job.domain_dir.c_str(), 1);
        setenv("ROS_IP", "127.0.0.1", 1);
        unsetenv("ROS_HOSTNAME");
        const int log = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(::open("/dev/null", O_RDONLY), 0);
        dup2(log, 1);
        dup2(log, 2);
        execlp("rosmaster", "rosmaster", "--core", "-p", std::to_string(port).c_str(),
               static_cast<char*>(nullptr));
        dprintf(2, "cannot start rosmaster: %s; install the package python3-rosmaster",
                std::strerror(errno));
        _exit(127);
    }

    bool has_ended() {
        if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
        return pid_ <= 0;
    }

    void end() {
        if (!has_ended()) kill(pid_, SIGTERM);
        for (const auto deadline = now_ns() + end_limit_ns; !has_ended();
             std::this_thread::sleep_for(5ms)) {
            if (now_ns() > deadline) kill(pid_, SIGKILL);
        }
    }

    std::filesystem::path log_;
    pid_t pid_ = -1;
};

}  // namespace

std::unique_ptr<peers::Keeper> make_keeper(const peers::Job& job) {
    return std::make_unique<Master>(job);
}

std::string master_uri(const peers::Job& job) {
    std::ifstream file(uri_file(job));
    std::string uri;
    if (!std::getline(file, uri))
        throw std::runtime_error("there is no keeper: " + uri_file(job).string() + " is missing");
    return uri;
}

}  // namespace ros1
