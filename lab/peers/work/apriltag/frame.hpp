// SPDX-License-Identifier: Apache-2.0
// Messages of the frame source and of the detector.
#pragma once

#include <array>
#include <cstdint>

#include "work.hpp"

namespace tags {

inline constexpr std::size_t most_tags = 12;

/// Head of a frame. Its pixels follow, row by row without gaps: grey (1 channel) or BGR (3).
struct FrameHead {
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    std::uint32_t channels = 0;
    /// Actual number of tags in the picture, used only to check the result.
    std::uint32_t tags = 0;
    std::array<std::uint32_t, most_tags> ids{};
};

/// A detected mark.
struct Detection {
    std::uint32_t id;
    float x, y;
    float margin;
};

}  // namespace tags
