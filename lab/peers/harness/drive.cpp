// SPDX-License-Identifier: Apache-2.0
// Waiting for samples: blocked, spinning, or called back.
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "loops.hpp"
#include "recorder.hpp"

namespace peers {
namespace {

using std::chrono::nanoseconds;

constexpr std::uint64_t silence_ns = 200'000'000U;
/// Number of polls between two reads of the clock while spinning: reading the clock costs as much
/// as a poll.
constexpr unsigned spins_per_look = 1024;

/// Adapter between a middleware's threads and a loop: one call at a time, and no exception into the
/// middleware.
class Callback : public Handler {
public:
    explicit Callback(Loop& loop) : loop_(loop) {}

    bool on_sample(std::uint64_t woken_ns, std::span<const std::byte> payload,
                   Receiver& receiver) override {
        std::lock_guard lock(mutex_);
        if (finished_) return false;
        try {
            finished_ = !loop_.on_sample(woken_ns, payload, receiver);
        } catch (...) {
            error_ = std::current_exception();
            finished_ = true;
        }
        if (finished_) ended_.notify_all();
        return !finished_;
    }

    bool run(Receiver& receiver) {
        receiver.attach(this);
        bool in_time = true;
        {
            std::unique_lock lock(mutex_);
            loop_.start();
            while (!finished_ && in_time) {
                const auto now = now_ns();
                if (now >= loop_.deadline_ns()) {
                    const auto next = loop_.on_deadline();
                    in_time = next != Loop::Next::give_up;
                    if (next != Loop::Next::go_on) break;
                    continue;
                }
                const bool silent =
                    ended_.wait_for(lock,
                                    nanoseconds(std::min(loop_.deadline_ns() - now, silence_ns))) ==
                    std::cv_status::timeout;
                if (silent && !finished_ && loop_.is_restless()) loop_.on_silence();
            }
            finished_ = true;
        }
        receiver.attach(nullptr);
        if (error_) std::rethrow_exception(error_);
        return in_time;
    }

private:
    Loop& loop_;
    // Recursive, because a middleware may call back from within one of our calls.
    std::recursive_mutex mutex_;
    std::condition_variable_any ended_;
    std::exception_ptr error_;
    bool finished_ = false;
};

/// Spins until there is a sample or `until_ns` has passed.
std::span<const std::byte> spin(Receiver& receiver, std::uint64_t until_ns) {
    for (unsigned i = 1;; ++i) {
        if (auto payload = receiver.take(); !payload.empty()) return payload;
        if (i % spins_per_look == 0 && now_ns() >= until_ns) return {};
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

/// Returns the end of a wait: the loop's deadline, or the time of its next silence report.
std::uint64_t wait_until(const Loop& loop, std::uint64_t silent_at) {
    return loop.is_restless() ? std::min(loop.deadline_ns(), silent_at) : loop.deadline_ns();
}

}  // namespace

bool drive(const Job& job, Receiver& receiver, Loop& loop) {
    if (receiver.calls_back()) return Callback(loop).run(receiver);
    loop.start();
    const bool stamps_wake = job.rate_hz.has_value();
    // Not set anew for each wait: until it has found its sender, some middleware returns from waits
    // earlier than requested.
    auto silent_at = now_ns() + silence_ns;
    for (;;) {
        std::uint64_t woken = 0;
        auto payload = receiver.take();
        if (payload.empty() && job.wait != WaitKind::block) {
            const auto began = now_ns();
            const auto until = wait_until(loop, silent_at);
            payload = spin(receiver, job.wait == WaitKind::spin
                                         ? until
                                         : std::min(until, began + job.spin_us * 1000));
        }
        if (payload.empty()) {
            const auto now = now_ns();
            if (now >= loop.deadline_ns()) {
                const auto next = loop.on_deadline();
                if (next != Loop::Next::go_on) return next == Loop::Next::finished;
                continue;
            }
            const auto until = job.wait == WaitKind::spin ? now : wait_until(loop, silent_at);
            if (until > now) {
                receiver.wait(nanoseconds(until - now));
                if (stamps_wake) woken = now_ns();
            }
            payload = receiver.take();
            if (payload.empty()) {
                if (loop.is_restless() && now_ns() >= silent_at) {
                    loop.on_silence();
                    silent_at = now_ns() + silence_ns;
                }
                continue;
            }
        }
        if (!loop.on_sample(woken, payload, receiver)) return true;
    }
}

void await_match(const std::function<bool()>& matched, const std::string& whom) {
    const auto deadline = now_ns() + 20'000'000'000U;
    while (!matched()) {
        if (now_ns() > deadline) throw std::runtime_error(whom + " did not come within 20 s");
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
}

}  // namespace peers
