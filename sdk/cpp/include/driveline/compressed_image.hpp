// SPDX-License-Identifier: Apache-2.0
/// Images in a compressed format.
///
/// ```cpp
/// std::vector<std::uint8_t> file;
/// cv::imencode(".jpg", mat, file);
/// // With the member driveline::Output<driveline::CompressedImage> output_:
/// auto loan = output_.loan(file.size());
/// if (!loan) return loan.error();
/// loan->head() = driveline::CompressedImage::make(header, "jpeg").value();
/// std::ranges::copy(file, loan->tail().begin());
/// return output_.publish(std::move(*loan));
/// ```
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "driveline/header.hpp"

namespace driveline {

/// Head of an image in a compressed format; the file's bytes follow as `data`. Corresponds to ROS's
/// `sensor_msgs/CompressedImage`.
struct CompressedImage {
    Header header;
    /// Format as in ROS, such as `jpeg` or `bgr8; jpeg compressed bgr8`: at most 63 bytes of UTF-8,
    /// then zeros.
    char format[64];

    [[nodiscard]] std::string_view format_text() const noexcept {
        return plain::fixed_text(format);
    }

    /// A head; fails if `format` is longer than 63 bytes.
    [[nodiscard]] static Result<CompressedImage> make(const Header& header,
                                                      std::string_view format) {
        CompressedImage image{header, {}};
        if (auto set = plain::set_fixed_text(image.format, format); !set)
            return std::move(set).error();
        return image;
    }
};
DRIVELINE_PLAIN_WITH_TAIL(CompressedImage, "driveline/CompressedImage", std::uint8_t, data, header,
                          format);

}  // namespace driveline
