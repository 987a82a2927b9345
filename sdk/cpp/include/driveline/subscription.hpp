// SPDX-License-Identifier: Apache-2.0
/// Subscription of a topic.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "driveline/event.hpp"
#include "driveline/handle.hpp"
#include "driveline/options.hpp"
#include "driveline/sample.hpp"

namespace driveline {

class NodeView;

/// Subscription of a topic; made by `Node::subscription`. Move-only; one thread at a time. Samples
/// may outlive it.
template <class T>
class [[nodiscard]] Subscription {
public:
    /// Returns the newest unread sample, if there is one; older unread samples count as missed.
    /// Does not block.
    [[nodiscard]] Result<std::optional<Sample<T>>> latest() {
        return read(&dl_subscription_latest);
    }

    /// Returns the oldest unread sample, if there is one. Does not block.
    [[nodiscard]] Result<std::optional<Sample<T>>> take() { return read(&dl_subscription_take); }

    /// Blocks until there is an unread sample (true) or the time-out has passed (false). An expired
    /// sample ends the wait, too, and then the next read returns nothing; `receive` continues to
    /// wait in this case.
    [[nodiscard]] Result<bool> wait(std::chrono::nanoseconds timeout, WaitMode mode = {}) {
        return wait_ns(timeout.count() < 0 ? 0 : timeout.count(), mode);
    }
    /// Blocks until there is an unread sample.
    [[nodiscard]] Result<bool> wait(WaitMode mode = {}) { return wait_ns(-1, mode); }

    /// Blocks until a sample is readable, and returns the newest; nothing if the time-out passes
    /// first. Expired samples are skipped and counted.
    [[nodiscard]] Result<std::optional<Sample<T>>> receive(std::chrono::nanoseconds timeout,
                                                           WaitMode mode = {}) {
        return read([&](const dl_subscription* subscription, dl_sample** sample) {
            return dl_subscription_receive(subscription, timeout.count() < 0 ? 0 : timeout.count(),
                                           mode.kind_,
                                           static_cast<std::uint64_t>(mode.spin_.count()), sample);
        });
    }

    /// A descriptor for `poll`, `epoll` and the like, readable while samples may be unread. When it
    /// is readable, take samples until there is none. Never read from the descriptor itself. Closed
    /// with the subscription. Costs one thread, which sleeps.
    [[nodiscard]] Result<int> fd() {
        int fd = -1;
        if (auto done = detail::checked(dl_subscription_fd(handle_.get(), &fd)); !done)
            return std::move(done).error();
        return fd;
    }

    /// Returns the number of matched publishers.
    [[nodiscard]] std::size_t matched() const noexcept {
        std::size_t count = 0;
        return dl_subscription_matched(handle_.get(), &count) == DL_OK ? count : 0;
    }

    /// Reason why it is unknown how many samples a publisher of another host, or of ROS 2, has
    /// published since the newest one that arrived.
    enum class Uncounted : std::uint64_t {
        none = 0,
        /// The publisher's host is not reachable and may return.
        out_of_reach = 1,
        /// The publisher's host did not return, or returned without the publisher.
        host_gone = 2,
        /// The publisher has ended, and its last sequence number was not announced.
        not_announced = 3,
        /// The gateway of this host forgot the departed publisher, to make room for a new one.
        gave_way = 4,
        /// The gateway of this host has ended, and no other gateway carries the publisher's
        /// samples.
        gateway_gone = 5,
    };

    struct Stats {
        /// Number of samples read.
        std::uint64_t received = 0;
        /// Number of samples that newer ones replaced before they were read.
        std::uint64_t missed = 0;
        /// Number of samples that were older than the lifespan when they were to be read.
        std::uint64_t expired = 0;
        /// Part of `missed` or `superseded`: number of samples that were replaced because the
        /// history was full, not because the newest sample was read instead.
        std::uint64_t overwritten = 0;
        /// As `missed`, for an input that does not trigger its component: the component wants only
        /// the newest sample of such an input.
        std::uint64_t superseded = 0;
        /// Number of samples with an invalid header, checksum or index.
        std::uint64_t corrupt = 0;
        /// Number of samples that did not keep what their publisher had promised at the match: they
        /// have no checksum although it was offered, or are longer than the publisher's
        /// `max_payload`.
        std::uint64_t refused = 0;
        /// Number of samples of other hosts, or of ROS 2, that did not arrive here or that the
        /// gateway here dropped.
        std::uint64_t lost_on_the_way = 0;
        /// Number of samples that can be read now.
        std::uint64_t not_read = 0;
        /// Number of publishers of other hosts, or of ROS 2, that may have published further
        /// samples after the newest one that arrived. The sum at `stats()` does not contain those
        /// samples. This number falls when the publishers are reached again.
        std::uint64_t uncounted = 0;
        /// Reason for one of these publishers. Other values are reasons of a later release.
        Uncounted uncounted_reason = Uncounted::none;
        /// Number of periods of the requested deadline without a sample, since the first sample.
        /// Not part of the sum at `stats()`.
        std::uint64_t deadlines_missed = 0;
        /// Number of samples that arrived while the component was inactive, or were unread when it
        /// became inactive.
        std::uint64_t inactive = 0;
        /// Number of samples of publishers that stood by for a stronger publisher.
        std::uint64_t standby = 0;
    };
    /// Counters since creation. Published after the match = received + missed + superseded +
    /// expired + corrupt + refused + lost_on_the_way + not_read + inactive + standby.
    [[nodiscard]] Stats stats() const noexcept {
        auto c = detail::sized<dl_subscription_stats>();
        if (dl_subscription_get_stats(handle_.get(), &c) != DL_OK) return {};
        return {c.received,
                c.missed,
                c.expired,
                c.overwritten,
                c.superseded,
                c.corrupt,
                c.refused,
                c.lost_on_the_way,
                c.not_read,
                c.uncounted,
                static_cast<Uncounted>(c.uncounted_reason),
                c.deadlines_missed,
                c.inactive,
                c.standby};
    }

    /// Returns the next event, if there is one.
    [[nodiscard]] std::optional<Event> poll_event() {
        return detail::next_event<dl_subscription>(&dl_subscription_poll_event, handle_.get());
    }

private:
    friend class NodeView;

    explicit Subscription(detail::Handle<dl_subscription, dl_subscription_drop> handle) noexcept
        : handle_(std::move(handle)) {}

    template <class Reading>
    [[nodiscard]] Result<std::optional<Sample<T>>> read(Reading reading) {
        detail::SampleHandle handle;
        if (auto done = detail::checked(reading(handle_.get(), handle.place())); !done)
            return std::move(done).error();
        if (handle.get() == nullptr) return std::optional<Sample<T>>();
        auto sample = Sample<T>::adopt(std::move(handle));
        if (!sample) return std::move(sample).error();
        return std::optional<Sample<T>>(std::move(*sample));
    }

    [[nodiscard]] Result<bool> wait_ns(std::int64_t timeout_ns, WaitMode mode) {
        int ready = 0;
        auto done = detail::checked(
            dl_subscription_wait(handle_.get(), timeout_ns, mode.kind_,
                                 static_cast<std::uint64_t>(mode.spin_.count()), &ready));
        if (!done) return std::move(done).error();
        return ready != 0;
    }

    detail::Handle<dl_subscription, dl_subscription_drop> handle_;
};

}  // namespace driveline
