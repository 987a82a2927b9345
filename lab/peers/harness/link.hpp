// SPDX-License-Identifier: Apache-2.0
// What a middleware implements to be measured: two ends, how they are made, and what it can do.
// The roles of docs/protocols/harness.md are implemented once, above this.
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

/// Why a sample could not be sent. It is counted under its reason; any other exception ends the
/// job.
struct NotSent : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The sending end. Used by one thread.
class Sender {
public:
    virtual ~Sender() = default;
    /// Whether so many receivers are there; asked again until they are.
    virtual bool matched(std::size_t receivers) = 0;
    /// Memory for a payload of the job's size, valid until publish(). Throws NotSent if there is
    /// none.
    virtual std::span<std::byte> loan() = 0;
    /// Only so many bytes of what loan() gave are to be sent. Payloads that always have the same
    /// size ignore it.
    virtual void shorten(std::size_t size) { static_cast<void>(size); }
    /// Sends what loan() gave. Throws NotSent if that fails.
    virtual void publish() = 0;
    /// How often the end mark is sent; more than once where it may be lost.
    virtual unsigned end_marks() const { return 1; }
    /// Blocks until the published samples are delivered, as far as the middleware can report it, or
    /// `limit` is over.
    virtual void drain(std::chrono::nanoseconds limit) { static_cast<void>(limit); }
    /// What could not be set as the settings say.
    virtual std::vector<std::string> unset() const { return {}; }
};

class Receiver;

/// What is done with samples. on_sample() is called for each, in order, by one thread at a time.
class Handler {
public:
    virtual ~Handler() = default;
    /// `woken_ns`: when the wait returned. The payload is valid until `receiver.release()`, which
    /// is called before this returns. Returns false when no more is wanted.
    virtual bool on_sample(std::uint64_t woken_ns, std::span<const std::byte> payload,
                           Receiver& receiver) = 0;
};

/// The receiving end. Used by one thread.
class Receiver {
public:
    virtual ~Receiver() = default;
    /// Whether the sending end is there; asked again until it is.
    virtual bool matched() = 0;
    /// The oldest unread sample, without blocking; empty if there is none. Valid until release().
    virtual std::span<const std::byte> take() = 0;
    /// Gives the sample of take() back.
    virtual void release() {}
    /// Sleeps until take() may have something, at most `limit`.
    virtual void wait(std::chrono::nanoseconds limit) = 0;
    /// True for middleware that calls back on threads of its own: then attach() is used instead of
    /// take() and wait().
    virtual bool calls_back() const { return false; }
    /// Calls `handler` for each sample from now on, until it returns false; null ends that, and
    /// blocks until no call runs.
    virtual void attach(Handler* handler) { static_cast<void>(handler); }
    /// What could not be set as the settings say.
    virtual std::vector<std::string> unset() const { return {}; }
};

/// What is done with samples of several topics. One thread at a time.
class Fusing {
public:
    virtual ~Fusing() = default;
    /// Called for each sample that has arrived, before it waits for samples of other topics.
    virtual void on_sample(std::size_t topic, std::span<const std::byte> payload) = 0;
    /// Called for each set: a payload of each topic, in the order of the topics.
    virtual void on_set(std::span<const std::span<const std::byte>> payloads) = 0;
};

/// A node that brings samples of several topics together. Used by one thread.
class Fuser {
public:
    virtual ~Fuser() = default;
    /// Calls back for what has arrived, and waits for more, at most `limit`.
    virtual void work(std::chrono::nanoseconds limit) = 0;
};

/// What a process has of the middleware. Ends are made one after the other, and destroyed before
/// it.
class Link {
public:
    virtual ~Link() = default;
    /// Payloads of the ends that are made from now on have this size, which is at most the job's.
    /// Only where links of one process differ in size; ignored by middleware to which the job's
    /// suits all.
    virtual void resize(std::size_t size) { static_cast<void>(size); }
    /// `topic` is unique in the domain for each direction of a link; `receivers`: how many there
    /// will be.
    virtual std::unique_ptr<Sender> sender(const std::string& topic, std::size_t receivers) = 0;
    /// `index`: which of the receivers of the topic this is.
    virtual std::unique_ptr<Receiver> receiver(const std::string& topic, std::size_t index) = 0;
    /// For variants that run the workload `fusion`: samples of the topics that belong together by
    /// `trigger`, each message with a head (stage_job.hpp). `queue`: samples of each topic that it
    /// keeps until their partners come.
    virtual std::unique_ptr<Fuser> fuser(const std::vector<std::string>& topics,
                                         const std::string& trigger, std::size_t queue,
                                         Fusing& fusing);
};

/// Process that runs in addition to the ends of a run (docs/protocols/harness.md, Keeper). Its
/// constructor starts it.
class Keeper {
public:
    virtual ~Keeper() = default;
    /// Ends it and removes what ends left behind.
    virtual void dismiss() = 0;
};

/// A middleware.
class Middleware {
public:
    virtual ~Middleware() = default;
    /// What it is and can do. Starts nothing.
    virtual Description describe() const = 0;
    /// Joins a run's domain. CPU and priority of the calling thread are set already.
    virtual std::unique_ptr<Link> join(const Job& job) = 0;
    /// For variants that say so.
    virtual std::unique_ptr<Keeper> keep(const Job& job);
    /// Runs the middleware's own latency tool; for variants that name one. The process has no other
    /// thread.
    virtual OwnTool run_own_tool(const Job& job);
};

/// main() of a peer.
int run_peer(Middleware& middleware, int argc, char** argv);

}  // namespace peers
