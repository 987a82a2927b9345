// SPDX-License-Identifier: Apache-2.0
// Ends of a stage: its output, and inputs that do not trigger it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "link.hpp"
#include "stage_job.hpp"
#include "work.h"

namespace peers {

/// Counts of received, missing and damaged messages of an edge.
class Tally {
public:
    explicit Tally(std::string topic) { account_.topic = std::move(topic); }
    /// Counts a message and returns its head; nothing if it is damaged or repeated.
    std::optional<MessageHead> note(std::span<const std::byte> payload);
    bool has_ended() const { return has_ended_; }
    const InputAccount& account() const { return account_; }

private:
    InputAccount account_;
    std::uint64_t expected_ = 1;
    bool has_ended_ = false;
};

/// Returns the view of a message for a work.
work_input input_of(std::span<const std::byte> payload, const MessageHead& head);

/// Writes messages directly into the middleware's memory.
class Output {
public:
    Output(std::unique_ptr<Sender> sender, const Edge& edge)
        : sender_(std::move(sender)), edge_(edge) {}

    void await_match();
    /// Returns the memory for the work's result. Throws NotSent if there is none.
    std::span<std::byte> content();
    struct Sent {
        std::uint64_t before_publish;
        std::uint64_t returned;
    };
    /// Publishes the written message. `source_time_ns` 0: this stage is the source. Throws
    /// NotSent.
    Sent publish(std::uint64_t origin, std::uint64_t source_time_ns, std::size_t written);
    void end();
    std::uint64_t published() const { return next_ - 1; }
    std::vector<std::string> unset() const { return sender_->unset(); }

private:
    std::unique_ptr<Sender> sender_;
    Edge edge_;
    /// Kept until it is published: a work need not produce a message each time.
    std::span<std::byte> loan_;
    std::uint64_t next_ = 1;
};

/// An input that contributes its newest message.
class OtherInput final : public Handler {
public:
    OtherInput(std::unique_ptr<Receiver> receiver, const Edge& edge);
    ~OtherInput() override;

    bool on_sample(std::uint64_t woken_ns, std::span<const std::byte> payload,
                   Receiver& receiver) override;
    /// Returns a copy of the newest message; nothing if none has come yet. Valid until the next
    /// call.
    std::optional<work_input> newest();
    /// Reads until the end mark, at most until the deadline.
    void read_to_end(std::uint64_t deadline_ns);
    Receiver& receiver() { return *receiver_; }
    const Tally& tally() const { return tally_; }

private:
    void poll();

    std::unique_ptr<Receiver> receiver_;
    std::mutex mutex_;
    Tally tally_;
    std::vector<std::byte> fresh_;
    std::vector<std::byte> current_;
    bool has_fresh_ = false;
    std::optional<work_input> input_;
};

}  // namespace peers
