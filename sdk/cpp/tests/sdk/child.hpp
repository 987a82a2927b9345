// SPDX-License-Identifier: Apache-2.0
/// Child processes of tests.
#pragma once

#include <array>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "domain.hpp"

extern char** environ;

namespace test {

/// A program with pipes to its standard input and from its outputs. The destructor kills it if it
/// still runs.
class Child {
public:
    explicit Child(const std::vector<std::string>& command,
                   const std::vector<std::string>& environment = {}) {
        std::array<int, 2> in{};
        std::array<int, 2> out{};
        if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0)
            throw std::runtime_error("no pipes");
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
        posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
        posix_spawn_file_actions_adddup2(&actions, out[1], STDERR_FILENO);
        std::vector<char*> argv;
        for (const auto& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
        argv.push_back(nullptr);
        std::vector<char*> env;
        for (char** e = environ; *e != nullptr; ++e) env.push_back(*e);
        for (const auto& e : environment) env.insert(env.begin(), const_cast<char*>(e.c_str()));
        env.push_back(nullptr);
        const int error = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), env.data());
        posix_spawn_file_actions_destroy(&actions);
        close(in[0]);
        close(out[1]);
        input_ = in[1];
        output_ = out[0];
        if (error != 0) throw std::runtime_error("cannot start " + command[0]);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            wait();
        }
        close_input();
        close(output_);
    }

    void close_input() {
        if (input_ >= 0) close(std::exchange(input_, -1));
    }
    void signal(int number) const { kill(pid_, number); }

    /// Waits for its end and returns its output. Its exit status is in `status` afterwards.
    std::string output() {
        std::string text;
        std::array<char, 4096> buffer{};
        const auto end = std::chrono::steady_clock::now() + patience;
        for (;;) {
            pollfd fd{output_, POLLIN, 0};
            poll(&fd, 1, 100);
            if (fd.revents != 0) {
                const auto n = read(output_, buffer.data(), buffer.size());
                if (n <= 0) break;
                text.append(buffer.data(), static_cast<std::size_t>(n));
            } else if (std::chrono::steady_clock::now() > end) {
                kill(pid_, SIGKILL);
                text += "\n(killed: it took too long)";
                break;
            }
        }
        wait();
        return text;
    }

    /// Exit status, or 128 plus the number of the signal that ended it.
    int wait() {
        if (pid_ > 0) {
            int raw = 0;
            waitpid(std::exchange(pid_, 0), &raw, 0);
            status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
        }
        return status;
    }

    int status = -1;

private:
    pid_t pid_ = 0;
    int input_ = -1;
    int output_ = -1;
};

}  // namespace test
