// SPDX-License-Identifier: Apache-2.0
#include "roudi.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include "recorder.hpp"

namespace ice {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using peers::now_ns;

constexpr std::uint64_t second_ns = 1'000'000'000U;
/// Limit for the wait for other runs; the benchmark waits 30 s for a keeper.
constexpr std::uint64_t turn_limit_ns = 20 * second_ns;
constexpr std::uint64_t start_limit_ns = 8 * second_ns;
constexpr std::uint64_t end_limit_ns = 8 * second_ns;

/// Room for iceoryx's own head of a chunk.
constexpr std::size_t chunk_head = 256;

/// Name that only one process of the machine can hold, and that is released when the process ends.
/// Waits until it is free.
class Turn {
public:
    Turn() : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        constexpr std::string_view name = "driveline-bench-iceoryx";
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        // The name begins with a zero byte, so it is not a file.
        std::memcpy(address.sun_path + 1, name.data(), name.size());
        const auto length =
            static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
        const auto deadline = now_ns() + turn_limit_ns;
        while (fd_ >= 0 && bind(fd_, reinterpret_cast<const sockaddr*>(&address), length) != 0) {
            if (now_ns() > deadline)
                throw std::runtime_error(
                    "another measurement has been using iceoryx for 20 s, and there can be only "
                    "one RouDi on a machine");
            std::this_thread::sleep_for(20ms);
        }
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
        if (fd_ >= 0) ::close(fd_);
    }

private:
    int fd_;
};

class RouDi final : public peers::Keeper {
public:
    explicit RouDi(const peers::Job& job)
        : run_name_(job.run_name()), log_(job.domain_dir / "roudi.log") {
        const auto configuration = job.domain_dir / "roudi.toml";
        write_configuration(job, configuration);
        start(configuration);
        const auto deadline = now_ns() + start_limit_ns;
        while (said().find("RouDi is ready for clients") == std::string::npos) {
            if (has_ended() || now_ns() > deadline) {
                const auto text = said();
                end();
                throw std::runtime_error(
                    "RouDi did not get ready; is another one running? It said: " +
                    text.substr(text.size() > 2000 ? text.size() - 2000 : 0));
            }
            std::this_thread::sleep_for(5ms);
        }
        ready_ = true;
    }

    ~RouDi() override { end(); }

    void dismiss() override {
        end();
        std::error_code ignored;
        // Sockets and locks of ends that were killed; their names begin with that of the run.
        for (const auto& entry : fs::directory_iterator("/tmp")) {
            if (entry.path().filename().string().rfind(run_name_, 0) == 0)
                fs::remove(entry.path(), ignored);
        }
    }

private:
    static void write_configuration(const peers::Job& job, const fs::path& path) {
        // For both directions of a ping-pong: a queue and a chunk in use for each subscriber, a
        // chunk that is being written, and the last published chunk, which is the history as well.
        const auto chunks = 2 * (job.subscribers * (job.depth + 2) + 4);
        const auto size = (job.size + chunk_head + 63) / 64 * 64;
        std::ofstream file(path);
        file << "[general]\nversion = 1\n\n[[segment]]\n\n[[segment.mempool]]\nsize = " << size
             << "\ncount = " << chunks << "\n";
        file.close();
        if (!file) throw std::runtime_error("cannot write " + path.string());
    }

    void start(const fs::path& configuration) {
        pid_ = fork();
        if (pid_ < 0)
            throw std::runtime_error(std::string("cannot start a process for RouDi: ") +
                                     std::strerror(errno));
        if (pid_ == 0) {
            // RouDi must not outlive its keeper. If the keeper and its process group are killed,
            // RouDi gets SIGTERM instead, because it has a group of its own, and can clean up.
            prctl(PR_SET_PDEATHSIG, static_cast<unsigned long>(SIGTERM));
            setpgid(0, 0);
            for (int s : {SIGINT, SIGTERM, SIGHUP}) signal(s, SIG_DFL);
            const int log = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
            const int nothing = ::open("/dev/null", O_RDONLY);
            dup2(nothing, 0);
            dup2(log, 1);
            dup2(log, 2);
            execlp("iox-roudi", "iox-roudi", "-c", configuration.c_str(), "-m", "off", "-k", "1",
                   static_cast<char*>(nullptr));
            dprintf(2, "cannot start iox-roudi: %s; install the package iceoryx",
                    std::strerror(errno));
            _exit(127);
        }
    }

    std::string said() const {
        std::ifstream file(log_);
        return {std::istreambuf_iterator<char>(file), {}};
    }

    bool has_ended() {
        int status = 0;
        if (pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) {
            pid_ = -1;
            tidied_up_ = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
        return pid_ <= 0;
    }

    void end() {
        if (!has_ended()) kill(pid_, SIGTERM);
        for (const auto deadline = now_ns() + end_limit_ns; !has_ended();
             std::this_thread::sleep_for(5ms)) {
            if (now_ns() > deadline) kill(pid_, SIGKILL);
        }
        // RouDi aborts if it tries to end a process that was killed. If it was ready, it was the
        // only RouDi on the machine, so the remaining files are its own.
        if (ready_ && !tidied_up_) {
            std::error_code ignored;
            fs::remove("/dev/shm/iceoryx_mgmt", ignored);
            if (const auto* group = getgrgid(getgid()))
                fs::remove(fs::path("/dev/shm") / group->gr_name, ignored);
            for (const auto* name : {"roudi", "roudi.lock", "iox-unique-roudi.lock"})
                fs::remove(fs::path("/tmp") / name, ignored);
        }
        ready_ = false;
    }

    Turn turn_;
    std::string run_name_;
    fs::path log_;
    pid_t pid_ = -1;
    bool ready_ = false;
    bool tidied_up_ = false;
};

}  // namespace

std::unique_ptr<peers::Keeper> make_keeper(const peers::Job& job) {
    return std::make_unique<RouDi>(job);
}

}  // namespace ice
