// SPDX-License-Identifier: Apache-2.0
// SIM and FastCycle, as their papers describe them.
#include "links.hpp"

namespace {

/// The published code places the second buffer one element behind the first; an element is a LiDAR
/// point here.
constexpr std::size_t one_element = 16;

class AsPublished final : public peers::Middleware {
public:
    peers::Description describe() const override {
        peers::Variant sim;
        sim.name = "sim";
        sim.title = "SIM: two buffers in shared memory, no check after the copy";
        sim.reliability = {peers::Reliability::best_effort};
        sim.max_size = std::size_t{256} << 20;
        sim.note = "may tear: a reader that is slower than two samples gets a mixture of them";
        sim.settings = {
            {"buffers", "2, the second behind the first", "its paper"},
            {"reading", "copy of the newest buffer, whatever happens meanwhile", "its paper"},
            {"blocking", "futex on the counter",
             "the description leaves open how readers sleep; nothing is faster"}};
        peers::Variant code = sim;
        code.name = "sim_code";
        code.title = "SIM, with the second buffer where its published code has it";
        code.note =
            "tears: the second buffer begins 16 bytes after the first, so both are nearly the same "
            "memory";
        code.settings[0] = {"buffers", "2, the second one element (16 bytes) after the first",
                            "its published code"};
        peers::Variant broker;
        broker.name = "fastcycle";
        broker.title =
            "FastCycle: broker in one process, a queue for each subscriber, polling main thread, "
            "thread pool, shared pointers";
        broker.reach = {peers::Reach::process};
        broker.waits = {peers::WaitKind::block, peers::WaitKind::spin};
        broker.reliability = {peers::Reliability::best_effort};
        broker.loans = true;
        broker.max_size = std::size_t{256} << 20;
        broker.note =
            "memory is allocated for each message; processor time is not reported, because its "
            "threads belong to neither end";
        broker.settings = {{"pool", std::to_string(published::pool_threads) + " threads",
                            "enough for a ping-pong; the paper leaves it open"},
                           {"polling",
                            "every " + std::to_string(published::poll_interval.count()) +
                                " µs; without a pause if readers spin",
                            "the paper leaves it open; its latencies of 0.1 to 0.3 ms with as much "
                            "deviation suggest a pause"},
                           {"queue", "the job's depth, oldest dropped", "as all systems"}};
        return {"as_published",
                "SIM and FastCycle, as their papers describe them",
                "re-implemented",
                {sim, code, broker}};
    }

    std::unique_ptr<peers::Link> join(const peers::Job& job) override {
        if (job.variant == "sim") return published::two_buffer_link(job, 0);
        if (job.variant == "sim_code") return published::two_buffer_link(job, one_element);
        if (job.variant == "fastcycle") return published::broker_link(job);
        throw std::runtime_error("there is no variant '" + job.variant + "'");
    }
};

}  // namespace

int main(int argc, char** argv) {
    AsPublished middleware;
    return peers::run_peer(middleware, argc, argv);
}
