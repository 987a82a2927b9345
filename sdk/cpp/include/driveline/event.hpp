// SPDX-License-Identifier: Apache-2.0
/// What happens to publishers and subscriptions besides samples.
#pragma once

#include <optional>
#include <string>

#include "driveline/driveline.h"

namespace driveline {

struct Event {
    enum class Kind {
        matched = DL_EVENT_MATCHED,
        unmatched = DL_EVENT_UNMATCHED,
        /// A peer on the same topic cannot be matched; the text says why and what to do.
        refused = DL_EVENT_REFUSED,
        deadline_missed = DL_EVENT_DEADLINE_MISSED,
        liveliness_lost = DL_EVENT_LIVELINESS_LOST,
        liveliness_gained = DL_EVENT_LIVELINESS_GAINED,
    };
    Kind kind;
    /// For people.
    std::string text;
};

namespace detail {

[[nodiscard]] inline std::optional<Event> from_c(dl_status status, const dl_event& event) {
    if (status != DL_OK || event.kind == DL_EVENT_NONE) return std::nullopt;
    return Event{static_cast<Event::Kind>(event.kind), event.text};
}

}  // namespace detail
}  // namespace driveline
