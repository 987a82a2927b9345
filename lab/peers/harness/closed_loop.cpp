// SPDX-License-Identifier: Apache-2.0
// Closed loop: ping, pong, and half of the round trip. One stamp at each end of the round trip. A
// lost message is counted, and the next round begins.
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "loops.hpp"
#include "payload.hpp"
#include "recorder.hpp"

namespace peers {
namespace {

/// Time-out for the other process: for the greeting, and for the first question.
constexpr std::uint64_t greeting_limit_ns = 60'000'000'000U;
/// Time-out for a later question: longer than the asking end waits for an answer.
constexpr std::uint64_t question_limit_ns = 25'000'000'000U;
/// Total time that the asking end waits without an answer, in all rounds, before it stops.
constexpr std::uint64_t patience_ns = 15'000'000'000U;
constexpr auto between_end_marks = std::chrono::milliseconds(20);

/// Common part of both ends of a ping-pong.
class Side : public Loop {
public:
    Side(const Job& job, Sender& sender)
        : job_(job),
          sender_(sender),
          sent_(job),
          received_(job),
          buffer_(job.copies ? job.size : 0, std::byte{1}) {
        if (job.filled) source_.emplace(job.size);
        end_.role = job.role;
        end_.first_sequence = 1;
        give_up_at(now_ns() + greeting_limit_ns);
    }

    End finish(const Receiver& receiver) {
        verdict_.report_to(end_);
        end_.sent_file =
            sent_.write(job_, std::string(job_.role == Role::ping ? "ping" : "echo") + "-sent");
        end_.received_file = received_.write(
            job_, std::string(job_.role == Role::ping ? "ping" : "echo") + "-received");
        end_.unset = sender_.unset();
        const auto more = receiver.unset();
        end_.unset.insert(end_.unset.end(), more.begin(), more.end());
        return std::move(end_);
    }

protected:
    struct Arrived {
        std::span<const std::byte> payload;
        std::uint64_t sequence;
        std::uint64_t in_hand;
        std::uint64_t copied;
    };

    void prepare() {
        if (source_) source_->prepare(next_);
    }

    /// Returns the stamp before publishing; 0 if the payload was not filled.
    std::uint64_t send() {
        const auto payload = sender_.loan();
        std::uint64_t before_publish = 0;
        if (source_) {
            source_->fill(payload);
            before_publish = now_ns();
        } else {
            write_mark(payload, next_, false);
        }
        sender_.publish();
        ++next_;
        ++end_.published;
        return before_publish;
    }

    /// Returns true if an arrived question or answer is to be dropped on purpose.
    bool loses() { return job_.lose_every > 0 && ++arrivals_ % job_.lose_every == 0; }

    /// Copies the payload if the job counts copying as a part of receiving. The stamps are 0 if the
    /// job neither copies nor verifies payloads.
    Arrived arrive(std::span<const std::byte> payload) {
        Arrived a{payload, 0, 0, 0};
        if (!buffer_.empty() && payload.size() <= buffer_.size()) {
            a.in_hand = now_ns();
            std::memcpy(buffer_.data(), payload.data(), payload.size());
            a.copied = now_ns();
            a.payload = std::span(buffer_).first(payload.size());
        } else if (source_) {
            a.in_hand = now_ns();
        }
        a.sequence = read_head(a.payload).sequence;
        ++end_.received;
        return a;
    }

    void verify(const Arrived& a) {
        if (source_) verdict_.check(a.payload, a.sequence);
    }

    /// Leaves the processor time out if payloads are verified, because it would include the wait
    /// for the other end's verification, and if the middleware calls back on its own threads.
    void count_cpu(bool calls_back) {
        if (source_ || calls_back || round_ <= job_.warm_up) return;
        end_.cpu_ns = cpu_ns(job_) - cpu_;
        end_.cpu_samples = round_ - job_.warm_up;
    }

    void begin_counting() {
        if (round_ != job_.warm_up) return;
        cpu_ = cpu_ns(job_);
        end_.counted_from = next_;
    }

    const Job& job_;
    Sender& sender_;
    Recorder sent_;
    Recorder received_;
    Verdict verdict_;
    std::optional<Source> source_;
    std::vector<std::byte> buffer_;
    End end_;
    std::uint64_t next_ = 1;
    std::uint64_t round_ = 0;
    std::uint64_t arrivals_ = 0;
    std::uint64_t cpu_ = 0;
};

class Ping final : public Side {
public:
    using Side::Side;

    bool on_sample(std::uint64_t, std::span<const std::byte> payload, Receiver& receiver) override {
        if (!end_.first_sample_ns) {
            end_.first_sample_ns = now_ns();
            end_.unanswered = 0;
            ++end_.received;
            calls_back_ = receiver.calls_back();
            receiver.release();
            return ask();
        }
        // Taken first, because it is the end of the round.
        const auto came = source_ || !buffer_.empty() ? 0 : now_ns();
        const auto answered = read_head(payload).sequence - 1;
        if (answered > asked_sequence_) {
            throw std::runtime_error("an answer came to question " + std::to_string(answered) +
                                     ", and only " + std::to_string(asked_sequence_) +
                                     " were asked: it is torn or not ours");
        }
        if (answered < asked_sequence_ || loses()) {
            // The greeting may arrive again; it is not counted at either end.
            if (answered > 0 && answered < asked_sequence_) {
                ++end_.received;
                ++end_.late;
            }
            receiver.release();
            return true;
        }
        const auto a = arrive(payload);
        const auto end = a.copied > 0 ? a.copied : a.in_hand > 0 ? a.in_hand : came;
        verify(a);
        receiver.release();
        std::uint64_t read = 0;
        if (source_) {
            // The other end verifies at the same time. The next round waits until it must have
            // finished.
            read = now_ns();
            const auto resume = read + 2 * (read - end) + 20'000U;
            while (now_ns() < resume) {
            }
        }
        sent_.push({asked_sequence_, 0, asked_, before_publish_, 0});
        received_.push({a.sequence, 0, a.in_hand > 0 ? a.in_hand : end, a.copied, read});
        ++round_;
        return ask();
    }

    /// Called when no answer came.
    Next on_deadline() override {
        if (!end_.first_sample_ns) return Next::give_up;
        sent_.push({asked_sequence_, 0, asked_, before_publish_, 0});
        ++*end_.unanswered;
        ++round_;
        in_vain_ns_ += answer_limit_ns();
        if (in_vain_ns_ > patience_ns && round_ < job_.total()) {
            end_.not_sent["too many answers did not come"] += job_.total() - round_;
            round_ = job_.total();
        }
        return ask() ? Next::go_on : Next::finished;
    }

private:
    std::uint64_t answer_limit_ns() const { return job_.answer_timeout_ms * 1'000'000U; }

    /// Begins the next round. Returns false after the last one.
    bool ask() {
        for (; round_ < job_.total(); ++round_) {
            begin_counting();
            prepare();
            asked_sequence_ = next_;
            asked_ = now_ns();
            give_up_at(asked_ + answer_limit_ns());
            try {
                before_publish_ = send();
                return true;
            } catch (const NotSent& e) {
                ++end_.not_sent[e.what()];
            }
        }
        count_cpu(calls_back_);
        for (unsigned i = 0; i < sender_.end_marks(); ++i) {
            if (i > 0) std::this_thread::sleep_for(between_end_marks);
            write_mark(sender_.loan(), next_, true);
            sender_.publish();
        }
        ++end_.published;
        return false;
    }

    std::uint64_t asked_sequence_ = 0;
    std::uint64_t asked_ = 0;
    std::uint64_t before_publish_ = 0;
    std::uint64_t in_vain_ns_ = 0;
    bool calls_back_ = false;
};

class Echo final : public Side {
public:
    using Side::Side;

    /// The answering end sends first, a greeting, so that no question is lost while the match is
    /// not complete.
    void start() override {
        prepare();
        send();
        begin_counting();
        prepare();
    }

    /// The other end may not be matched yet. Then the greeting is lost, so it is repeated.
    bool is_restless() const override { return round_ == 0; }
    void on_silence() override {
        next_ = 1;
        --end_.published;
        prepare();
        send();
        prepare();
    }

    /// Called when no question came in time. After the first round, this end finishes normally: its
    /// counts show that questions are missing.
    Next on_deadline() override { return round_ > 0 ? Next::finished : Next::give_up; }

    bool on_sample(std::uint64_t, std::span<const std::byte> payload, Receiver& receiver) override {
        const auto head = read_head(payload);
        if (!head.is_end && loses()) {
            receiver.release();
            return true;
        }
        if (head.sequence > expected_) end_.missed += head.sequence - expected_;
        expected_ = head.sequence + 1;
        if (head.is_end) {
            ++end_.received;
            receiver.release();
            count_cpu(receiver.calls_back());
            return false;
        }
        const auto a = arrive(payload);
        // Only filling is stamped: it is the only part of the answer that is not transport.
        const auto before_fill = source_ ? now_ns() : 0;
        auto sequence = a.sequence + 1;
        if (next_ != sequence) {
            next_ = sequence;
            prepare();
        }
        std::uint64_t before_publish = 0;
        try {
            before_publish = send();
        } catch (const NotSent& e) {
            ++end_.not_sent[e.what()];
            next_ = std::exchange(sequence, 0) + 1;
        }
        verify(a);
        receiver.release();
        sent_.push({sequence, 0, before_fill, before_publish, 0});
        received_.push({a.sequence, 0, a.in_hand, a.copied, 0});
        ++round_;
        begin_counting();
        prepare();
        give_up_at(now_ns() + question_limit_ns);
        return true;
    }

private:
    std::uint64_t expected_ = 1;
};

template <typename Loop>
End play(const Job& job, Sender& sender, Receiver& receiver) {
    Loop loop(job, sender);
    // Both are called each time: with some middleware, this call establishes the connection, and
    // each side would wait for the other's call.
    await_match(
        [&] {
            const bool sends = sender.matched(1), receives = receiver.matched();
            return sends && receives;
        },
        "the other side");
    if (!drive(job, receiver, loop)) {
        throw std::runtime_error(
            "nothing came within " + std::to_string(greeting_limit_ns / 1'000'000'000U) +
            " s from the other end: it has ended, or its samples do not arrive");
    }
    sender.drain(drain_limit);
    // The end mark may still be in flight, and some middleware withdraws it when its sender leaves.
    std::this_thread::sleep_for(linger);
    return loop.finish(receiver);
}

}  // namespace

End ping(const Job& job, Sender& sender, Receiver& receiver) {
    return play<Ping>(job, sender, receiver);
}

End echo(const Job& job, Sender& sender, Receiver& receiver) {
    return play<Echo>(job, sender, receiver);
}

}  // namespace peers
