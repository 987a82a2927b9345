// SPDX-License-Identifier: Apache-2.0
// The measuring loops, the same for every middleware.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "job.hpp"
#include "link.hpp"

namespace peers {

/// Handler with a start and a deadline.
class Loop : public Handler {
public:
    /// Called once, when samples can be received.
    virtual void start() {}
    /// Returns true if it wants to be called during silence, about every 200 ms.
    virtual bool is_restless() const { return false; }
    virtual void on_silence() {}
    /// Decision at the deadline: give up, finish, or continue with a new deadline.
    enum class Next { give_up, finished, go_on };
    virtual Next on_deadline() { return Next::give_up; }
    /// Returns the deadline on CLOCK_MONOTONIC.
    std::uint64_t deadline_ns() const { return deadline_ns_.load(std::memory_order_relaxed); }

protected:
    void give_up_at(std::uint64_t deadline_ns) {
        deadline_ns_.store(deadline_ns, std::memory_order_relaxed);
    }

private:
    std::atomic<std::uint64_t> deadline_ns_{0};
};

/// Passes samples to `loop`, and waits as the job specifies. Returns false if it gave up.
bool drive(const Job& job, Receiver& receiver, Loop& loop);

/// Throws if `matched` does not become true within 20 s.
void await_match(const std::function<bool()>& matched, const std::string& whom);

/// Runs an end from start to finish. `job.role` is its role.
End publish(const Job& job, Sender& sender);
End subscribe(const Job& job, Receiver& receiver);
End ping(const Job& job, Sender& sender, Receiver& receiver);
End echo(const Job& job, Sender& sender, Receiver& receiver);

/// Sends an end mark with number 1.
void write_end(Sender& sender);

/// Time that the last samples may take to be delivered.
inline constexpr std::chrono::seconds drain_limit{5};
/// Time for which a sending end stays after its last sample.
inline constexpr std::chrono::milliseconds linger{100};

}  // namespace peers
