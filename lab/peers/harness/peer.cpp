// SPDX-License-Identifier: Apache-2.0
// A measured process: gets a job, does it, and reports (docs/protocols/harness.md).
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <exception>
#include <future>
#include <iostream>
#include <mutex>
#include <thread>

#include "callbacks.hpp"
#include "fusion.hpp"
#include "link.hpp"
#include "loops.hpp"
#include "payload.hpp"
#include "recorder.hpp"
#include "stage.hpp"

namespace peers {
namespace {

void emit(const std::string& line) {
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    // If the runner is gone, no process reads this.
    std::cout << line << std::endl;
}

void await_word() {
    std::string line;
    std::getline(std::cin, line);
}

/// Loop that keeps a link open until the end mark comes.
class Quiet final : public Loop {
public:
    Quiet() { give_up_at(now_ns() + 3'600'000'000'000U); }
    bool on_sample(std::uint64_t, std::span<const std::byte> payload, Receiver& receiver) override {
        ++received;
        const bool is_end = read_head(payload).is_end;
        receiver.release();
        return !is_end;
    }
    std::uint64_t received = 0;
};

/// Runs one end of a link, from its endpoints to its account. `ready` is called when its receiving
/// endpoints exist. Endpoints are made under `making`, because middleware need not support that
/// from several threads at once.
End one_end(const Job& job, Link& link, std::mutex& making, const std::function<void()>& ready) {
    const auto there = job.topic + "_ping", back = job.topic + "_pong";
    std::unique_ptr<Receiver> receiver;
    std::unique_ptr<Sender> sender;
    {
        std::lock_guard lock(making);
        switch (job.role) {
            case Role::publisher:
            case Role::idle_publisher:
                sender = link.sender(job.topic, job.subscribers);
                break;
            case Role::subscriber:
            case Role::idle_subscriber:
                receiver = link.receiver(job.topic, job.index);
                break;
            case Role::ping:
                receiver = link.receiver(back, 0);
                sender = link.sender(there, 1);
                break;
            case Role::echo:
                receiver = link.receiver(there, 0);
                sender = link.sender(back, 1);
                break;
            default:
                throw std::runtime_error("this program has no role '" + job.role_name + "'");
        }
    }
    ready();
    End end;
    switch (job.role) {
        case Role::publisher:
            end = publish(job, *sender);
            break;
        case Role::subscriber:
            end = subscribe(job, *receiver);
            break;
        case Role::ping:
            end = ping(job, *sender, *receiver);
            break;
        case Role::echo:
            end = echo(job, *sender, *receiver);
            break;
        case Role::idle_publisher: {
            end.role = job.role;
            await_match([&] { return sender->matched(job.subscribers); },
                        std::to_string(job.subscribers) + " subscriber(s)");
            emit(event("idle"));
            await_word();
            write_end(*sender);
            end.published = end.first_sequence = 1;
            sender->drain(drain_limit);
            break;
        }
        default: {
            Job blocked = job;
            blocked.wait = WaitKind::block;
            Quiet loop;
            drive(blocked, *receiver, loop);
            end.role = job.role;
            end.index = job.index;
            end.received = loop.received;
        }
    }
    // Also under the lock: ends of the same process are destroyed one after the other.
    std::lock_guard lock(making);
    sender.reset();
    receiver.reset();
    return end;
}

std::optional<int> cpu_of(const Job& job) {
    const bool receives =
        job.role == Role::subscriber || job.role == Role::echo || job.role == Role::idle_subscriber;
    return receives ? job.subscriber_cpu() : job.publisher_cpu;
}

End settled_end(const Job& job, Link& link, std::mutex& making, std::vector<std::string> refused,
                const std::function<void()>& ready) {
    auto end = one_end(job, link, making, ready);
    end.unset.insert(end.unset.end(), refused.begin(), refused.end());
    return end;
}

/// Runs all ends in this process, a thread each.
std::vector<End> threads(const Job& job, Link& link) {
    const auto part = [&](Role role, std::size_t index) {
        Job j = job;
        j.role = role;
        j.index = index;
        return j;
    };
    std::vector<Job> jobs;
    for (std::size_t i = 0; i < job.subscribers; ++i)
        jobs.push_back(part(job.rate_hz ? Role::subscriber : Role::echo, i));
    jobs.push_back(part(job.rate_hz ? Role::publisher : Role::ping, 0));
    std::mutex making;
    std::vector<std::future<End>> ends;
    for (auto& j : jobs) {
        std::promise<void> started;
        auto is_started = started.get_future();
        // Never set if the thread fails before it is ready: then the process ends.
        auto promise = std::make_shared<std::promise<void>>(std::move(started));
        ends.push_back(std::async(std::launch::async, [&link, &making, j, promise] {
            try {
                auto refused = settle(j, cpu_of(j));
                return settled_end(j, link, making, std::move(refused),
                                   [&] { promise->set_value(); });
            } catch (const std::exception& e) {
                // The other threads wait for an event that will never come: report the error, and
                // end the process with all of them.
                emit(failed(e.what()));
                std::_Exit(1);
            }
        }));
        // Receivers first, as between processes.
        is_started.wait();
    }
    std::vector<End> all;
    for (auto& e : ends) all.push_back(e.get());
    return all;
}

void keep(Middleware& middleware, const Job& job) {
    // The keeper must clean up after the ends, so it ignores signals that ask programs to end. It
    // ends after a line on its standard input, or when this input is closed.
    for (int s : {SIGINT, SIGTERM, SIGHUP}) signal(s, SIG_IGN);
    auto keeper = middleware.keep(job);
    emit(event("ready"));
    await_word();
    keeper->dismiss();
    emit(done({}));
}

/// A measured process must not outlive its runner, which holds the other end of standard input. The
/// kernel signals the runner's end only to processes that have requested it before.
void end_with_runner() {
    prctl(PR_SET_PDEATHSIG, static_cast<unsigned long>(SIGKILL));
    pollfd input{STDIN_FILENO, 0, 0};
    if (poll(&input, 1, 0) == 1 && (input.revents & POLLHUP) != 0)
        throw std::runtime_error("the process that started this one has ended");
}

void serve(Middleware& middleware) {
    std::string line;
    if (!std::getline(std::cin, line))
        throw std::runtime_error(
            "no job came on standard input: this program is started by the benchmark");
    const auto job = Job::parse(line);
    if (job.role == Role::keeper) return keep(middleware, job);
    end_with_runner();
    if (job.role == Role::stage) {
        emit(run_stage(middleware, job, line, settle(job, cpu_of(job)),
                       [] { emit(event("ready")); }));
        return;
    }
    if (job.role == Role::stages) {
        emit(run_stages(
            middleware, job, line, [] { emit(event("ready")); },
            [](const std::string& why) { emit(failed(why)); }));
        return;
    }
    std::vector<End> ends;
    if (job.role == Role::own_tool) {
        End end;
        end.role = job.role;
        end.unset = settle(job, job.publisher_cpu);
        end.own_tool = middleware.run_own_tool(job);
        ends = {std::move(end)};
    } else if (job.role == Role::fusion || job.role == Role::fusion_publisher) {
        auto refused = settle(job, job.publisher_cpu);
        const auto link = middleware.join(job);
        ends = {run_fusion_part(job, line, *link, [] { emit(event("ready")); })};
        ends.front().unset = std::move(refused);
    } else if (job.role == Role::callbacks) {
        auto refused = settle(job, job.publisher_cpu);
        const auto link = middleware.join(job);
        ends = {run_callbacks(job, line, *link, [] { emit(event("ready")); })};
        ends.front().unset = std::move(refused);
    } else if (job.role == Role::threads) {
        const auto link = middleware.join(job);
        ends = threads(job, *link);
    } else {
        auto refused = settle(job, cpu_of(job));
        const auto link = middleware.join(job);
        std::mutex making;
        ends = {settled_end(job, *link, making, std::move(refused), [] { emit(event("ready")); })};
    }
    emit(done(ends));
}

}  // namespace

std::unique_ptr<Fuser> Link::fuser(const std::vector<std::string>&, const std::string&, std::size_t,
                                   Fusing&) {
    throw std::runtime_error("this program does not run the workload 'fusion'");
}

std::unique_ptr<Keeper> Middleware::keep(const Job& job) {
    throw std::runtime_error("the variant '" + job.variant + "' has no keeper");
}

OwnTool Middleware::run_own_tool(const Job& job) {
    throw std::runtime_error("the variant '" + job.variant + "' has no latency tool of its own");
}

int run_peer(Middleware& middleware, int argc, char** argv) {
    signal(SIGPIPE, SIG_IGN);
    try {
        if (argc == 2 && std::string(argv[1]) == "--describe") {
            std::cout << to_json(middleware.describe()) << std::endl;
            return 0;
        }
        if (argc != 1)
            throw std::runtime_error(
                "usage: --describe, or no argument and a job on standard input "
                "(docs/protocols/harness.md)");
        serve(middleware);
        return 0;
    } catch (const std::exception& e) {
        emit(failed(e.what()));
        return 1;
    }
}

}  // namespace peers
