// SPDX-License-Identifier: Apache-2.0
// Open loop: the sender keeps its schedule whatever the receivers do, so that waiting never hides
// latency.
#include <cstring>
#include <optional>
#include <thread>

#include "loops.hpp"
#include "payload.hpp"
#include "recorder.hpp"

namespace peers {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t second_ns = 1'000'000'000U;
/// A sender gives up this long after twice the planned duration of its schedule. The remaining
/// samples count as not sent.
constexpr std::uint64_t patience_ns = 5 * second_ns;
constexpr auto after_first = milliseconds(50);
/// Rest before the end mark, so that it replaces no unread sample.
constexpr auto before_end = milliseconds(100);
constexpr auto between_end_marks = milliseconds(20);
/// Maximum wait of a subscriber for its first sample: every process has to be started until then.
constexpr std::uint64_t first_limit_ns = 60 * second_ns;
constexpr std::uint64_t end_limit_ns = 10 * second_ns;

class Outgoing {
public:
    Outgoing(const Job& job, Sender& sender) : sender_(sender) {
        if (job.filled) source_.emplace(job.size);
    }

    std::uint64_t next() const { return next_; }

    /// `scheduled` 0 sends at once.
    Recorder::Row send(std::uint64_t scheduled) {
        if (source_) source_->prepare(next_);
        sleep_until(scheduled);
        const auto before_fill = now_ns();
        const auto payload = sender_.loan();
        if (source_) {
            source_->fill(payload);
        } else {
            write_mark(payload, next_, false);
        }
        const auto before_publish = now_ns();
        sender_.publish();
        const auto returned = now_ns();
        return {next_++, scheduled, before_fill, before_publish, returned};
    }

    void send_end() {
        write_mark(sender_.loan(), next_, true);
        sender_.publish();
    }

private:
    Sender& sender_;
    std::optional<Source> source_;
    std::uint64_t next_ = 1;
};

class Subscriber final : public Loop {
public:
    explicit Subscriber(const Job& job)
        : job_(job), rows_(job), buffer_(job.copies ? job.size : 0, std::byte{1}) {
        end_.role = job.role;
        end_.index = job.index;
        give_up_at(now_ns() + first_limit_ns);
    }

    bool on_sample(std::uint64_t woken, std::span<const std::byte> payload,
                   Receiver& receiver) override {
        const auto in_hand = now_ns();
        const auto found = find_head(payload);
        // Without a mark, the head is damaged as well as the payload, and the number is unknown:
        // the sample counts as the expected one, and as damaged.
        const auto head = found.value_or(Head{false, expected_});
        if (!found && !job_.filled) verdict_.reject(head.sequence);
        ++end_.received;
        if (head.sequence > expected_) end_.missed += head.sequence - expected_;
        expected_ = head.sequence + 1;
        if (head.is_end) {
            receiver.release();
            return false;
        }
        Recorder::Row row{head.sequence, woken == 0 ? in_hand : woken, in_hand, 0, 0};
        if (!buffer_.empty() && payload.size() <= buffer_.size()) {
            std::memcpy(buffer_.data(), payload.data(), payload.size());
            row[3] = now_ns();
            payload = std::span(buffer_).first(payload.size());
            receiver.release();
        }
        if (job_.filled) {
            verdict_.check(payload, head.sequence);
            row[4] = now_ns();
        }
        const bool holds = row[3] == 0;
        if (!end_.first_sample_ns) {
            if (holds) receiver.release();
            end_.first_sample_ns = in_hand;
            counted_from_ = head.sequence + 1 + job_.warm_up;
            const double schedule_s =
                static_cast<double>(job_.total() + 1) / job_.rate_hz.value_or(1);
            // Some middleware never replaces unread samples. Then the subscriber processes every
            // sample, however late.
            const double processing_s = static_cast<double>(job_.total() + job_.depth + 1) *
                                        static_cast<double>(job_.processing_us) / 1e6;
            give_up_at(in_hand + static_cast<std::uint64_t>((2 * schedule_s + processing_s) * 1e9) +
                       patience_ns + end_limit_ns);
            return true;
        }
        rows_.push(row);
        const bool counts = head.sequence >= counted_from_;
        if (counts && end_.cpu_samples++ == 0) cpu_ = cpu_ns(job_);
        // A sample that is read in place is held meanwhile.
        if (counts) burn(job_.processing_us);
        if (holds) receiver.release();
        return true;
    }

    End finish(const Receiver& receiver) {
        if (end_.cpu_samples > 0 && !receiver.calls_back()) {
            end_.cpu_ns = cpu_ns(job_) - cpu_;
        } else {
            // Threads of the middleware did the work; this thread only waited.
            end_.cpu_samples = 0;
        }
        verdict_.report_to(end_);
        end_.received_file = rows_.write(job_, "received");
        end_.unset = receiver.unset();
        return std::move(end_);
    }

private:
    const Job& job_;
    Recorder rows_;
    Verdict verdict_;
    std::vector<std::byte> buffer_;
    End end_;
    std::uint64_t expected_ = 1;
    std::uint64_t counted_from_ = 0;
    std::uint64_t cpu_ = 0;
};

}  // namespace

End publish(const Job& job, Sender& sender) {
    if (!job.rate_hz) throw std::runtime_error("an open loop needs a rate");
    End end;
    end.role = job.role;
    Recorder rows(job);
    Outgoing out(job, sender);
    await_match([&] { return sender.matched(job.subscribers); },
                std::to_string(job.subscribers) + " subscriber(s)");
    // The first sample is sent as soon as all receivers are matched: it ends the start-up time.
    end.first_sequence = out.next();
    out.send(0);
    end.published = 1;
    std::this_thread::sleep_for(after_first);

    const auto total = job.total();
    const auto start = now_ns() + 1'000'000U;
    const auto due = [&](std::uint64_t i) {
        return start + static_cast<std::uint64_t>(static_cast<double>(i) * 1e9 / *job.rate_hz);
    };
    const auto give_up = start + 2 * (due(total) - start) + patience_ns;
    auto cpu = cpu_ns(job);
    for (std::uint64_t i = 0; i < total; ++i) {
        if (i == job.warm_up) {
            cpu = cpu_ns(job);
            end.counted_from = out.next();
        }
        if (now_ns() > give_up) {
            end.not_sent["the sender fell behind its schedule for too long"] += total - i;
            break;
        }
        try {
            rows.push(out.send(due(i)));
            ++end.published;
            if (i >= job.warm_up) ++end.cpu_samples;
        } catch (const NotSent& e) {
            ++end.not_sent[e.what()];
        }
    }
    end.cpu_ns = end.cpu_samples > 0 ? cpu_ns(job) - cpu : 0;
    // Readers with a processing time must have emptied their queues.
    std::this_thread::sleep_for(before_end +
                                std::chrono::microseconds(job.processing_us) * (job.depth + 1));
    for (unsigned i = 0; i < sender.end_marks(); ++i) {
        if (i > 0) std::this_thread::sleep_for(between_end_marks);
        out.send_end();
    }
    ++end.published;
    sender.drain(drain_limit);
    std::this_thread::sleep_for(linger);
    end.sent_file = rows.write(job, "sent");
    end.unset = sender.unset();
    return end;
}

void write_end(Sender& sender) {
    for (unsigned i = 0; i < sender.end_marks(); ++i) {
        if (i > 0) std::this_thread::sleep_for(between_end_marks);
        write_mark(sender.loan(), 1, true);
        sender.publish();
    }
}

End subscribe(const Job& job, Receiver& receiver) {
    Subscriber loop(job);
    // Giving up is not a failure: received samples are reported, and the account shows missing
    // ones.
    drive(job, receiver, loop);
    return loop.finish(receiver);
}

}  // namespace peers
