// SPDX-License-Identifier: Apache-2.0
#include "tool.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "recorder.hpp"

namespace peers {
namespace {

constexpr std::uint64_t leave_ns = 2'000'000'000U;
/// Longer lines are cut; no tool of this kind prints one.
constexpr std::size_t longest_line = 4096;
/// Exit status of a shell that does not find a program.
constexpr int not_found = 127;

double weighted_median(std::vector<std::pair<double, std::uint64_t>> values) {
    std::sort(values.begin(), values.end());
    std::uint64_t all = 0, below = 0;
    for (const auto& [value, n] : values) all += n;
    for (const auto& [value, n] : values) {
        below += n;
        if (2 * below >= all) return value;
    }
    return values.back().first;
}

std::uint64_t rounded(double ns) { return static_cast<std::uint64_t>(ns + 0.5); }

}  // namespace

Tool::Tool(const Job& job, std::optional<int> cpu, const std::vector<std::string>& command,
           const std::map<std::string, std::string>& environment, const std::string& package) {
    int ends[2], fails[2];
    if (pipe2(ends, O_CLOEXEC) != 0 || pipe2(fails, O_CLOEXEC) != 0)
        throw std::runtime_error(std::string("making a pipe: ") + std::strerror(errno));
    std::vector<char*> arguments;
    for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const auto parent = getpid();
    pid_ = fork();
    if (pid_ < 0)
        throw std::runtime_error(std::string("starting ") + command.front() + ": " +
                                 std::strerror(errno));
    if (pid_ == 0) {
        prctl(PR_SET_PDEATHSIG, static_cast<unsigned long>(SIGKILL));
        // The parent process may be gone already.
        if (getppid() != parent) _exit(1);
        // Refused settings are not reported here: the parent process has tried the same settings,
        // and reports them.
        static_cast<void>(settle(job, cpu));
        for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execvp(arguments[0], arguments.data());
        const int reason = errno;
        static_cast<void>(!::write(fails[1], &reason, sizeof reason));
        _exit(not_found);
    }
    close(ends[1]);
    close(fails[1]);
    out_ = ends[0];
    int reason = 0;
    const auto n = ::read(fails[0], &reason, sizeof reason);
    close(fails[0]);
    if (n > 0) {
        waitpid(pid_, nullptr, 0);
        close(out_);
        const auto missing = reason == ENOENT ? "it is not installed: apt-get install " + package
                                              : std::string(std::strerror(reason));
        throw std::runtime_error("cannot start " + command.front() + ": " + missing);
    }
}

Tool::~Tool() {
    kill(pid_, SIGTERM);
    const auto deadline = now_ns() + leave_ns;
    // Reads on: a program that prints while it ends must not block on its output.
    while (waitpid(pid_, nullptr, WNOHANG) == 0) {
        if (now_ns() > deadline) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
            break;
        }
        static_cast<void>(line(std::chrono::milliseconds(10)));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    close(out_);
}

std::optional<std::string> Tool::line(std::chrono::nanoseconds limit) {
    const auto deadline = now_ns() + static_cast<std::uint64_t>(limit.count());
    for (;;) {
        if (const auto end = unread_.find('\n'); end != std::string::npos) {
            last_ = unread_.substr(0, end);
            unread_.erase(0, end + 1);
            return last_;
        }
        if (unread_.size() > longest_line) unread_.clear();
        const auto now = now_ns();
        if (now >= deadline) return std::nullopt;
        pollfd readable{out_, POLLIN, 0};
        const auto ms = static_cast<int>((deadline - now) / 1'000'000U + 1);
        const int ready = poll(&readable, 1, ms);
        if (ready < 0 && errno != EINTR)
            throw std::runtime_error(std::string("listening to a tool: ") + std::strerror(errno));
        if (ready <= 0) continue;
        char bytes[1024];
        const auto n = ::read(out_, bytes, sizeof bytes);
        if (n == 0) return std::nullopt;
        if (n > 0) unread_.append(bytes, static_cast<std::size_t>(n));
    }
}

OwnTool summary(const std::string& name, const std::string& version,
                const std::vector<Interval>& intervals) {
    OwnTool tool{name, version, 0, std::nullopt, std::nullopt, 0};
    std::vector<std::pair<double, std::uint64_t>> p50, p99;
    double sum = 0;
    for (const auto& i : intervals) {
        if (i.n == 0) continue;
        tool.n += i.n;
        sum += i.mean_ns * static_cast<double>(i.n);
        p50.emplace_back(i.p50_ns, i.n);
        if (i.p99_ns) p99.emplace_back(*i.p99_ns, i.n);
    }
    if (tool.n == 0) throw std::runtime_error(name + " measured nothing");
    tool.p50_ns = rounded(weighted_median(p50));
    if (!p99.empty()) tool.p99_ns = rounded(weighted_median(p99));
    tool.mean_ns = rounded(sum / static_cast<double>(tool.n));
    return tool;
}

}  // namespace peers
