// SPDX-License-Identifier: Apache-2.0
// Interface that a middleware implements to be measured: two ends, their construction, and a
// description. The roles of docs/protocols/harness.md are implemented once, on top of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "job.hpp"

namespace peers {

/// Reason why a sample could not be sent. The sample is counted under this text. Any other
/// exception ends the job.
struct NotSent : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The sending end. Used by one thread.
class Sender {
public:
    virtual ~Sender() = default;
    /// Returns true if this many receivers are connected. Polled until it is true.
    virtual bool matched(std::size_t receivers) = 0;
    /// Returns memory for a payload of the job's size, valid until publish(). Throws NotSent if
    /// there is none.
    virtual std::span<std::byte> loan() = 0;
    /// Limits the message to this many bytes of the loan. Middleware whose payloads always have the
    /// same size ignores it.
    virtual void shorten(std::size_t size) { static_cast<void>(size); }
    /// Sends the loan. Throws NotSent if that fails.
    virtual void publish() = 0;
    /// Number of times that the end mark is sent; more than one if it may be lost.
    virtual unsigned end_marks() const { return 1; }
    /// Blocks until the published samples are delivered, as far as the middleware reports it, or
    /// until `limit` has passed.
    virtual void drain(std::chrono::nanoseconds limit) { static_cast<void>(limit); }
    /// Returns the settings that could not be applied.
    virtual std::vector<std::string> unset() const { return {}; }
};

class Receiver;

/// Consumer of samples. on_sample() is called for each sample, in order, by one thread at a time.
class Handler {
public:
    virtual ~Handler() = default;
    /// `woken_ns`: time at which the wait returned; 0 if it is not known. The payload is valid
    /// until `receiver.release()`, which is called before this function returns. Returns false if
    /// no more samples are wanted.
    virtual bool on_sample(std::uint64_t woken_ns, std::span<const std::byte> payload,
                           Receiver& receiver) = 0;
};

/// The receiving end. Used by one thread.
class Receiver {
public:
    virtual ~Receiver() = default;
    /// Returns true if the sending end is connected. Polled until it is true.
    virtual bool matched() = 0;
    /// Returns the oldest unread sample without blocking; empty if there is none. Valid until
    /// release().
    virtual std::span<const std::byte> take() = 0;
    /// Releases the sample of take().
    virtual void release() {}
    /// Sleeps until take() may have something, at most `limit`.
    virtual void wait(std::chrono::nanoseconds limit) = 0;
    /// Returns true for middleware that calls back on its own threads. Then attach() is used
    /// instead of take() and wait().
    virtual bool calls_back() const { return false; }
    /// Calls `handler` for each sample from now on, until it returns false. Null ends the calls,
    /// and blocks until no call runs.
    virtual void attach(Handler* handler) { static_cast<void>(handler); }
    /// Returns the settings that could not be applied.
    virtual std::vector<std::string> unset() const { return {}; }
};

/// Consumer of samples of several topics. Called by one thread at a time.
class Fusing {
public:
    virtual ~Fusing() = default;
    /// Called for each sample that has arrived, before it waits for samples of other topics.
    virtual void on_sample(std::size_t topic, std::span<const std::byte> payload) = 0;
    /// Called for each set: a payload of each topic, in the order of the topics.
    virtual void on_set(std::span<const std::span<const std::byte>> payloads) = 0;
};

/// Node that fuses samples of several topics. Used by one thread.
class Fuser {
public:
    virtual ~Fuser() = default;
    /// Calls back for arrived samples, and waits for more, at most `limit`.
    virtual void work(std::chrono::nanoseconds limit) = 0;
};

/// State of the middleware in one process. Its ends are made one after the other, and destroyed
/// before the link.
class Link {
public:
    virtual ~Link() = default;
    /// Sets the payload size of ends that are made from now on, at most the job's size. Only called
    /// where links of one process differ in size; ignored by middleware for which the job's size
    /// fits all.
    virtual void resize(std::size_t size) { static_cast<void>(size); }
    /// `topic` is unique in the domain for each direction of a link. `receivers`: expected number
    /// of receivers.
    virtual std::unique_ptr<Sender> sender(const std::string& topic, std::size_t receivers) = 0;
    /// `index`: number of this receiver among those of the topic.
    virtual std::unique_ptr<Receiver> receiver(const std::string& topic, std::size_t index) = 0;
    /// For variants that run the workload `fusion`: fuses samples of the topics by `trigger`. Each
    /// message has a head (stage_job.hpp). `queue`: number of samples of each topic that are kept
    /// until their partners arrive.
    virtual std::unique_ptr<Fuser> fuser(const std::vector<std::string>& topics,
                                         const std::string& trigger, std::size_t queue,
                                         Fusing& fusing);
};

/// Process that runs in addition to the ends of a run (docs/protocols/harness.md, Keeper). Its
/// constructor starts it.
class Keeper {
public:
    virtual ~Keeper() = default;
    /// Ends the process and removes the remains of ends.
    virtual void dismiss() = 0;
};

/// A middleware.
class Middleware {
public:
    virtual ~Middleware() = default;
    /// Returns name and capabilities. Starts nothing.
    virtual Description describe() const = 0;
    /// Joins a run's domain. CPU and priority of the calling thread are already set, except for the
    /// role `threads`.
    virtual std::unique_ptr<Link> join(const Job& job) = 0;
    /// For variants that declare a keeper.
    virtual std::unique_ptr<Keeper> keep(const Job& job);
    /// Runs the middleware's own latency tool; for variants that name one. The process has no other
    /// thread.
    virtual OwnTool run_own_tool(const Job& job);
};

/// main() of a peer.
int run_peer(Middleware& middleware, int argc, char** argv);

}  // namespace peers
