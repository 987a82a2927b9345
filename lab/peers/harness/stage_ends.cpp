// SPDX-License-Identifier: Apache-2.0
#include "stage_ends.hpp"

#include <thread>
#include <utility>

#include "loops.hpp"
#include "recorder.hpp"

namespace peers {
namespace {

constexpr auto between_end_marks = std::chrono::milliseconds(20);
constexpr auto look = std::chrono::milliseconds(50);

}  // namespace

std::optional<MessageHead> Tally::note(std::span<const std::byte> payload) {
    const auto head = find_message(payload);
    if (!head) {
        // A damaged message counts as the expected one.
        ++account_.damaged;
        ++account_.received;
        ++expected_;
        return std::nullopt;
    }
    if (head->number < expected_) return std::nullopt;
    account_.missed += head->number - expected_;
    expected_ = head->number + 1;
    ++account_.received;
    has_ended_ = head->is_end;
    return head;
}

work_input input_of(std::span<const std::byte> payload, const MessageHead& head) {
    const auto content = payload.first(head.length).subspan(message_head_size);
    return {reinterpret_cast<const unsigned char*>(content.data()), content.size(), head.origin,
            head.source_time_ns};
}

void Output::await_match() {
    peers::await_match([&] { return sender_->matched(edge_.readers); },
                       std::to_string(edge_.readers) + " reader(s) of '" + edge_.topic + "'");
}

std::span<std::byte> Output::content() {
    if (loan_.empty()) loan_ = sender_->loan();
    return loan_.subspan(message_head_size);
}

Output::Sent Output::publish(std::uint64_t origin, std::uint64_t source_time_ns,
                             std::size_t written) {
    content();
    const auto length = message_head_size + written;
    const auto payload = std::exchange(loan_, {});
    sender_->shorten(length);
    const auto before = now_ns();
    write_message_head(payload, {false, next_, origin,
                                 source_time_ns == 0 ? before : source_time_ns, before, length});
    sender_->publish();
    ++next_;
    return {before, now_ns()};
}

void Output::end() {
    for (unsigned i = 0; i < sender_->end_marks(); ++i) {
        if (i > 0) std::this_thread::sleep_for(between_end_marks);
        content();
        const auto payload = std::exchange(loan_, {});
        sender_->shorten(message_head_size);
        write_message_head(payload, {true, next_, 0, 0, now_ns(), message_head_size});
        sender_->publish();
    }
    ++next_;
    sender_->drain(drain_limit);
    std::this_thread::sleep_for(linger);
}

OtherInput::OtherInput(std::unique_ptr<Receiver> receiver, const Edge& edge)
    : receiver_(std::move(receiver)), tally_(edge.topic) {
    fresh_.reserve(edge.size);
    current_.reserve(edge.size);
    if (receiver_->calls_back()) receiver_->attach(this);
}

OtherInput::~OtherInput() {
    if (receiver_->calls_back()) receiver_->attach(nullptr);
}

bool OtherInput::on_sample(std::uint64_t, std::span<const std::byte> payload, Receiver& receiver) {
    std::lock_guard lock(mutex_);
    if (const auto head = tally_.note(payload); head && !head->is_end) {
        const auto message = payload.first(head->length);
        fresh_.assign(message.begin(), message.end());
        has_fresh_ = true;
    }
    receiver.release();
    return !tally_.has_ended();
}

void OtherInput::poll() {
    if (receiver_->calls_back()) return;
    for (auto payload = receiver_->take(); !payload.empty(); payload = receiver_->take())
        on_sample(0, payload, *receiver_);
}

std::optional<work_input> OtherInput::newest() {
    poll();
    std::lock_guard lock(mutex_);
    if (has_fresh_) {
        std::swap(fresh_, current_);
        has_fresh_ = false;
        if (const auto head = find_message(current_)) input_ = input_of(current_, *head);
    }
    return input_;
}

void OtherInput::read_to_end(std::uint64_t deadline_ns) {
    const auto ended = [&] {
        std::lock_guard lock(mutex_);
        return tally_.has_ended();
    };
    while (!ended() && now_ns() < deadline_ns) {
        if (receiver_->calls_back()) {
            std::this_thread::sleep_for(look);
        } else {
            receiver_->wait(look);
            poll();
        }
    }
}

}  // namespace peers
