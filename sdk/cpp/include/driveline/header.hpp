// SPDX-License-Identifier: Apache-2.0
/// The header of the plain messages.
#pragma once

#include <cstdint>
#include <string_view>

#include "driveline/plain.hpp"

namespace driveline {

/// Time and place of the measurement of a message's data.
struct Header {
    /// Time of the measurement, in nanoseconds of the source host's CLOCK_MONOTONIC.
    std::uint64_t source_time_ns;
    /// Number of the source frame, from 0; data derived from it keeps this number.
    std::uint64_t frame_index;
    /// Coordinate frame that the data refers to: at most 47 bytes of UTF-8, then zeros.
    char frame_id[48];

    [[nodiscard]] std::string_view frame() const noexcept { return plain::fixed_text(frame_id); }
    /// Fails if `frame` is longer than 47 bytes.
    [[nodiscard]] Result<void> set_frame(std::string_view frame) {
        return plain::set_fixed_text(frame_id, frame);
    }

    /// A header; fails if `frame` is longer than 47 bytes.
    [[nodiscard]] static Result<Header> make(std::uint64_t source_time_ns, std::string_view frame,
                                             std::uint64_t frame_index) {
        Header header{source_time_ns, frame_index, {}};
        if (auto set = header.set_frame(frame); !set) return std::move(set).error();
        return header;
    }
};
DRIVELINE_PLAIN(Header, "driveline/Header", source_time_ns, frame_index, frame_id);

}  // namespace driveline
