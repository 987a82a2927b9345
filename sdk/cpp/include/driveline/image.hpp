// SPDX-License-Identifier: Apache-2.0
/// Images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "driveline/header.hpp"

namespace driveline {

/// Head of an image; the rows follow as `data`.
///
/// Read it through `ImageView`, write it through `ImageMut`: they check that the numbers fit the data.
struct Image {
    Header header;
    /// Columns, in pixels; at most `max_image_side`.
    std::uint32_t width;
    /// Rows, in pixels; at most `max_image_side`.
    std::uint32_t height;
    /// Distance from the start of a row to the start of the next, in bytes.
    std::uint32_t step;
    /// An `Encoding`'s number.
    std::uint32_t encoding;
};
DRIVELINE_PLAIN_WITH_TAIL(Image, "driveline/Image", std::uint8_t, data, header, width, height, step, encoding);

/// Most columns and most rows of an image: what fits the `int` of image libraries.
inline constexpr std::uint32_t max_image_side = 0x7fffffff;

/// How pixels are stored. Names as in ROS.
enum class Encoding : std::uint32_t {
    /// Blue, green, red; one byte each.
    bgr8 = 1,
    /// Red, green, blue; one byte each.
    rgb8 = 2,
    /// Grey; one byte.
    mono8 = 3,
    /// U, Y, V, Y for each two pixels, one byte each (UYVY); the width is even.
    yuv422 = 4,
};

/// The encoding with this number, if there is one.
[[nodiscard]] constexpr std::optional<Encoding> encoding_from_number(std::uint32_t number) noexcept {
    if (number < 1 || number > 4) return std::nullopt;
    return static_cast<Encoding>(number);
}

/// `bgr8`, `rgb8`, `mono8` or `yuv422`.
[[nodiscard]] constexpr std::string_view to_string(Encoding encoding) noexcept {
    switch (encoding) {
        case Encoding::bgr8: return "bgr8";
        case Encoding::rgb8: return "rgb8";
        case Encoding::mono8: return "mono8";
        case Encoding::yuv422: return "yuv422";
    }
    return "unknown";
}

/// The encoding with this name, if there is one.
[[nodiscard]] constexpr std::optional<Encoding> encoding_from_name(std::string_view name) noexcept {
    for (const auto e : {Encoding::bgr8, Encoding::rgb8, Encoding::mono8, Encoding::yuv422}) {
        if (to_string(e) == name) return e;
    }
    return std::nullopt;
}

/// Bytes that a pixel takes.
[[nodiscard]] constexpr std::uint32_t bytes_per_pixel(Encoding encoding) noexcept {
    switch (encoding) {
        case Encoding::bgr8:
        case Encoding::rgb8: return 3;
        case Encoding::mono8: return 1;
        case Encoding::yuv422: return 2;
    }
    return 0;
}

namespace detail {

inline Result<void> check_image(const Image& image, std::size_t data_size) {
    const auto encoding = encoding_from_number(image.encoding);
    const auto number = [](auto n) { return std::to_string(n); };
    if (!encoding) {
        return Error{"image encoding " + number(image.encoding) + " is unknown; known are 1 bgr8, 2 rgb8, 3 mono8, 4 yuv422"};
    }
    if (image.width > max_image_side || image.height > max_image_side) {
        return Error{"an image cannot be " + number(image.width) + " x " + number(image.height) + " pixels large; at most " +
                     number(max_image_side) + " each way"};
    }
    if (*encoding == Encoding::yuv422 && image.width % 2 != 0) {
        return Error{"a yuv422 image cannot be " + number(image.width) + " pixels wide: pixels come in pairs"};
    }
    // All products are of 32-bit numbers.
    const std::uint64_t row_size = std::uint64_t{image.width} * bytes_per_pixel(*encoding);
    if (image.step < row_size) {
        return Error{"image step " + number(image.step) + " bytes is less than a row of " + number(image.width) + " " +
                     std::string(to_string(*encoding)) + " pixels takes (" + number(row_size) + " bytes)"};
    }
    const std::uint64_t needed = std::uint64_t{image.step} * image.height;
    if (needed > data_size) {
        return Error{"image data is " + number(data_size) + " bytes where " + number(image.height) + " rows of " + number(image.step) +
                     " bytes need " + number(needed)};
    }
    return {};
}

}  // namespace detail

/// A head for rows without gaps. Fails if the encoding does not permit the width, or a row is longer than 4 GiB.
[[nodiscard]] inline Result<Image> make_image(const Header& header, std::uint32_t width, std::uint32_t height, Encoding encoding) {
    const std::uint64_t row_size = std::uint64_t{width} * bytes_per_pixel(encoding);
    const Image image{header, width, height, static_cast<std::uint32_t>(row_size), static_cast<std::uint32_t>(encoding)};
    // Rows of more than 4 GiB come out too short here and are refused as such.
    if (auto checked = detail::check_image(image, SIZE_MAX); !checked) return std::move(checked).error();
    return image;
}

/// Length of the payload of an image without gaps between its rows, in bytes: what to loan.
[[nodiscard]] inline Result<std::size_t> image_payload_size(std::uint32_t width, std::uint32_t height, Encoding encoding) {
    auto image = make_image(Header{}, width, height, encoding);
    if (!image) return std::move(image).error();
    return plain::payload_size<Image>(std::size_t{image->step} * image->height);
}

/// An image whose numbers fit its data. Valid as long as the payload; copying it copies no pixels.
///
/// The head was copied before it was checked: whatever another process writes into the payload afterwards, rows and pixels
/// stay inside it. Only their values can change.
class ImageView {
public:
    /// Looks at a payload as an image; fails if its numbers do not fit its data.
    [[nodiscard]] static Result<ImageView> from(plain::Ref<Image> payload) {
        const Image head = payload.copy_head();
        if (auto checked = detail::check_image(head, payload.tail().size()); !checked) return std::move(checked).error();
        return ImageView(head, payload.tail());
    }
    [[nodiscard]] static Result<ImageView> from(std::span<const std::byte> payload) {
        auto ref = plain::Ref<Image>::from(payload);
        if (!ref) return std::move(ref).error();
        return from(*ref);
    }

    /// The copy of the head; it lives as long as this view.
    [[nodiscard]] const Image& head() const& noexcept { return head_; }
    [[nodiscard]] Image head() && noexcept { return head_; }
    [[nodiscard]] const Header& header() const& noexcept { return head_.header; }
    [[nodiscard]] Header header() && noexcept { return head_.header; }
    /// In pixels.
    [[nodiscard]] std::uint32_t width() const noexcept { return head_.width; }
    /// In pixels.
    [[nodiscard]] std::uint32_t height() const noexcept { return head_.height; }
    /// Distance between the starts of rows, in bytes.
    [[nodiscard]] std::uint32_t step() const noexcept { return head_.step; }
    [[nodiscard]] Encoding encoding() const noexcept { return static_cast<Encoding>(head_.encoding); }
    /// All bytes after the head; at least `step * height`.
    [[nodiscard]] std::span<const std::uint8_t> data() const noexcept { return data_; }
    /// The pixels of row `y`, without the gap to the next row; empty from `height` on.
    [[nodiscard]] std::span<const std::uint8_t> row(std::uint32_t y) const noexcept {
        if (y >= height()) return {};
        return data_.subspan(std::size_t{y} * step(), std::size_t{width()} * bytes_per_pixel(encoding()));
    }

private:
    ImageView(const Image& head, std::span<const std::uint8_t> data) noexcept : head_(head), data_(data) {}

    Image head_;
    std::span<const std::uint8_t> data_;
};

template <>
struct plain::Checked<Image> {
    using View = ImageView;
};

/// An image under construction whose numbers fit its data. Valid as long as the payload.
class ImageMut {
public:
    /// Writes the head of an image without gaps between its rows into a payload of at least `image_payload_size`. The
    /// pixels keep what was there.
    [[nodiscard]] static Result<ImageMut> from(plain::Mut<Image> payload, const Header& header, std::uint32_t width,
                                               std::uint32_t height, Encoding encoding) {
        auto image = make_image(header, width, height, encoding);
        if (!image) return std::move(image).error();
        if (auto checked = detail::check_image(*image, payload.tail().size()); !checked) return std::move(checked).error();
        *payload = *image;
        return ImageMut(payload, *image);
    }
    [[nodiscard]] static Result<ImageMut> from(std::span<std::byte> payload, const Header& header, std::uint32_t width,
                                               std::uint32_t height, Encoding encoding) {
        auto mut = plain::Mut<Image>::from(payload);
        if (!mut) return std::move(mut).error();
        return from(*mut, header, width, height, encoding);
    }

    [[nodiscard]] Header& header() const noexcept { return payload_->header; }
    [[nodiscard]] std::uint32_t width() const noexcept { return shape_.width; }
    [[nodiscard]] std::uint32_t height() const noexcept { return shape_.height; }
    [[nodiscard]] std::uint32_t step() const noexcept { return shape_.step; }
    [[nodiscard]] Encoding encoding() const noexcept { return static_cast<Encoding>(shape_.encoding); }
    /// All bytes after the head; rows follow each other without gaps.
    [[nodiscard]] std::span<std::uint8_t> data() const noexcept { return payload_.tail(); }
    /// The pixels of row `y`; empty from `height` on.
    [[nodiscard]] std::span<std::uint8_t> row(std::uint32_t y) const noexcept {
        if (y >= height()) return {};
        return data().subspan(std::size_t{y} * step(), step());
    }

private:
    ImageMut(plain::Mut<Image> payload, const Image& shape) noexcept : payload_(payload), shape_(shape) {}

    plain::Mut<Image> payload_;
    /// What was checked.
    Image shape_;
};

}  // namespace driveline
