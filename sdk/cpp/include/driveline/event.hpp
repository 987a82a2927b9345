// SPDX-License-Identifier: Apache-2.0
/// Events of publishers and subscriptions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "driveline/handle.hpp"

namespace driveline {

struct Event {
    enum class Kind : std::uint32_t {
        matched = DL_EVENT_MATCHED,
        unmatched = DL_EVENT_UNMATCHED,
        /// A peer on the same topic cannot be matched; the text says why and what to do.
        refused = DL_EVENT_REFUSED,
        deadline_missed = DL_EVENT_DEADLINE_MISSED,
        liveliness_lost = DL_EVENT_LIVELINESS_LOST,
        liveliness_gained = DL_EVENT_LIVELINESS_GAINED,
        /// A reliable subscription is served best effort from now on; the text says which and why.
        downgraded = DL_EVENT_DOWNGRADED,
        /// Events were lost because they were not polled in time; the text has their number.
        events_lost = DL_EVENT_EVENTS_LOST,
        /// A publish has waited `max_blocking_ms` for a reliable subscription without success; the
        /// text names the subscription and the remedy.
        reliable_timeout = DL_EVENT_RELIABLE_TIMEOUT,
    };
    Kind kind;
    /// Text for users.
    std::string text;
    /// Missed deadline: number of periods without a sample since the previous event of this kind.
    /// Reliable time-out: number of waits for a slow subscription that timed out since the previous
    /// event of this kind. Otherwise 0.
    std::uint64_t missed = 0;
    /// The same number since the endpoint was created; for a reliable time-out at host reach,
    /// number of publishes that timed out, however many subscriptions were slow. Otherwise 0.
    std::uint64_t total = 0;
};

/// An event of an input or output of a component.
struct PortEvent : Event {
    /// Name of the port; empty if events of several ports were lost.
    std::string port;
    bool is_output = false;
};

namespace detail {

/// Requests an event from a function of the C library.
template <class Endpoint>
[[nodiscard]] std::optional<Event> next_event(dl_status (*poll)(const Endpoint*, dl_event*),
                                              const Endpoint* endpoint) {
    std::array<char, 4096> text{};
    auto event = sized<dl_event>();
    event.text = text.data();
    event.text_capacity = text.size();
    if (poll(endpoint, &event) != DL_OK || event.kind == DL_EVENT_NONE) return std::nullopt;
    return Event{static_cast<Event::Kind>(event.kind), text.data(), event.missed, event.total};
}

}  // namespace detail
}  // namespace driveline
