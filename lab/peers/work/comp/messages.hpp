// SPDX-License-Identifier: Apache-2.0
// Messages between the works of this folder: the values of the example's algorithms, one after the
// other.
#pragma once

#include <opencv2/core.hpp>

#include "perception.hpp"
#include "work.hpp"

namespace comp {

/// Head of a frame. Its pixels follow: BGR, 8 bits a channel, without gaps.
struct FrameHead {
    /// Time on the recording's own clock, so that skipped frames count as time.
    std::int64_t time_ns = 0;
    std::int32_t width = 0;
    std::int32_t height = 0;
};

inline constexpr int most_pixels_a_side = 16'384;

/// Returns the frame in place, without a copy.
inline cv::Mat frame_of(work::Reader& in, const FrameHead& head) {
    if (head.width <= 0 || head.height <= 0 || head.width > most_pixels_a_side ||
        head.height > most_pixels_a_side) {
        throw std::runtime_error("a frame says that it is " + std::to_string(head.width) + "x" +
                                 std::to_string(head.height));
    }
    const auto pixels = in.bytes(std::size_t{3} * static_cast<std::size_t>(head.width) *
                                 static_cast<std::size_t>(head.height));
    // OpenCV has no matrix of constants; it is never written to.
    return {head.height, head.width, CV_8UC3, const_cast<unsigned char*>(pixels.data())};
}

/// Head of the results of a frame.
struct ResultHead {
    std::int64_t time_ns = 0;
    std::int32_t width = 0;
    std::int32_t height = 0;
    std::uint64_t count = 0;
};

inline void write_line(work::Writer& out, const LaneLine& line) {
    out.value<std::uint32_t>(line.valid ? 1 : 0);
    out.value(line.confidence);
    out.value<std::uint64_t>(line.points.size());
    out.values(std::span<const cv::Point2f>(line.points));
}

inline LaneLine read_line(work::Reader& in) {
    LaneLine line;
    line.valid = in.value<std::uint32_t>() != 0;
    line.confidence = in.value<float>();
    in.values(line.points, in.value<std::uint64_t>());
    return line;
}

}  // namespace comp
