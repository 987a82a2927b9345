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
/// Read it through `ImageView` and write it through `ImageMut`, which check it against the size of
/// the data.
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
DRIVELINE_PLAIN_WITH_TAIL(Image, "driveline/Image", std::uint8_t, data, header, width, height, step,
                          encoding);

/// Maximum number of columns and of rows: fits the `int` of image libraries.
inline constexpr std::uint32_t max_image_side = 0x7fffffff;

/// Format of pixels, with names and numbers of bits as in ROS. Numbers of more than one byte are
/// little endian.
enum class Encoding : std::uint32_t {
    /// Blue, green, red; one byte each.
    bgr8 = 1,
    /// Red, green, blue; one byte each.
    rgb8 = 2,
    /// Grey; one byte.
    mono8 = 3,
    /// U, Y, V, Y for each two pixels, one byte each (UYVY); the width is even.
    yuv422 = 4,
    /// Y, U, Y, V for each two pixels, one byte each (YUY2); the width is even.
    yuyv = 5,
    /// Blue, green, red, opacity; one byte each.
    bgra8 = 6,
    /// Red, green, blue, opacity; one byte each.
    rgba8 = 7,
    /// Grey; two bytes.
    mono16 = 8,
    /// One number of 16 bits, such as a depth in millimetres.
    type_16UC1 = 9,
    /// One `float`, such as a depth in metres.
    type_32FC1 = 10,
    /// One byte, whose meaning the encoding does not define.
    type_8UC1 = 11,
    /// Two bytes, whose meaning the encoding does not define.
    type_8UC2 = 12,
    /// Three bytes, whose meaning the encoding does not define.
    type_8UC3 = 13,
    /// Four bytes, whose meaning the encoding does not define.
    type_8UC4 = 14,
    /// A plane of Y, then rows of U, V for each two by two pixels; width and height are even.
    nv12 = 15,
    /// A plane of Y, then rows of V, U for each two by two pixels; width and height are even.
    nv21 = 16,
    /// Bayer pattern RGGB from the first pixel on; one byte.
    bayer_rggb8 = 17,
    /// Bayer pattern BGGR from the first pixel on; one byte.
    bayer_bggr8 = 18,
    /// Bayer pattern GBRG from the first pixel on; one byte.
    bayer_gbrg8 = 19,
    /// Bayer pattern GRBG from the first pixel on; one byte.
    bayer_grbg8 = 20,
    /// Bayer pattern RGGB from the first pixel on; two bytes.
    bayer_rggb16 = 21,
    /// Bayer pattern BGGR from the first pixel on; two bytes.
    bayer_bggr16 = 22,
    /// Bayer pattern GBRG from the first pixel on; two bytes.
    bayer_gbrg16 = 23,
    /// Bayer pattern GRBG from the first pixel on; two bytes.
    bayer_grbg16 = 24,
};

/// Number of encodings; encodings are numbered from 1.
inline constexpr std::uint32_t encoding_count = 24;

/// The encoding with this number, if there is one.
[[nodiscard]] constexpr std::optional<Encoding> encoding_from_number(
    std::uint32_t number) noexcept {
    if (number < 1 || number > encoding_count) return std::nullopt;
    return static_cast<Encoding>(number);
}

/// Name of the encoding in ROS, such as `bgr8` or `16UC1`.
[[nodiscard]] constexpr std::string_view to_string(Encoding encoding) noexcept {
    switch (encoding) {
        case Encoding::bgr8:
            return "bgr8";
        case Encoding::rgb8:
            return "rgb8";
        case Encoding::mono8:
            return "mono8";
        case Encoding::yuv422:
            return "yuv422";
        case Encoding::yuyv:
            return "yuyv";
        case Encoding::bgra8:
            return "bgra8";
        case Encoding::rgba8:
            return "rgba8";
        case Encoding::mono16:
            return "mono16";
        case Encoding::type_16UC1:
            return "16UC1";
        case Encoding::type_32FC1:
            return "32FC1";
        case Encoding::type_8UC1:
            return "8UC1";
        case Encoding::type_8UC2:
            return "8UC2";
        case Encoding::type_8UC3:
            return "8UC3";
        case Encoding::type_8UC4:
            return "8UC4";
        case Encoding::nv12:
            return "nv12";
        case Encoding::nv21:
            return "nv21";
        case Encoding::bayer_rggb8:
            return "bayer_rggb8";
        case Encoding::bayer_bggr8:
            return "bayer_bggr8";
        case Encoding::bayer_gbrg8:
            return "bayer_gbrg8";
        case Encoding::bayer_grbg8:
            return "bayer_grbg8";
        case Encoding::bayer_rggb16:
            return "bayer_rggb16";
        case Encoding::bayer_bggr16:
            return "bayer_bggr16";
        case Encoding::bayer_gbrg16:
            return "bayer_gbrg16";
        case Encoding::bayer_grbg16:
            return "bayer_grbg16";
    }
    return "unknown";
}

/// The encoding with this name of ROS, if there is one; `uyvy` is `yuv422`, `yuv422_yuy2` is
/// `yuyv`.
[[nodiscard]] constexpr std::optional<Encoding> encoding_from_name(std::string_view name) noexcept {
    if (name == "uyvy") return Encoding::yuv422;
    if (name == "yuv422_yuy2") return Encoding::yuyv;
    for (std::uint32_t n = 1; n <= encoding_count; ++n) {
        if (to_string(static_cast<Encoding>(n)) == name) return static_cast<Encoding>(n);
    }
    return std::nullopt;
}

/// Bytes of one pixel in a row of data. For `nv12` and `nv21` this is 1, because each row belongs
/// to one plane.
[[nodiscard]] constexpr std::uint32_t bytes_per_pixel(Encoding encoding) noexcept {
    switch (encoding) {
        case Encoding::bgr8:
        case Encoding::rgb8:
        case Encoding::type_8UC3:
            return 3;
        case Encoding::mono8:
        case Encoding::type_8UC1:
        case Encoding::nv12:
        case Encoding::nv21:
        case Encoding::bayer_rggb8:
        case Encoding::bayer_bggr8:
        case Encoding::bayer_gbrg8:
        case Encoding::bayer_grbg8:
            return 1;
        case Encoding::yuv422:
        case Encoding::yuyv:
        case Encoding::mono16:
        case Encoding::type_16UC1:
        case Encoding::type_8UC2:
        case Encoding::bayer_rggb16:
        case Encoding::bayer_bggr16:
        case Encoding::bayer_gbrg16:
        case Encoding::bayer_grbg16:
            return 2;
        case Encoding::bgra8:
        case Encoding::rgba8:
        case Encoding::type_32FC1:
        case Encoding::type_8UC4:
            return 4;
    }
    return 0;
}

/// Size of each number in a pixel, in bytes. The step from row to row is a multiple of this size.
[[nodiscard]] constexpr std::uint32_t bytes_per_channel(Encoding encoding) noexcept {
    switch (encoding) {
        case Encoding::mono16:
        case Encoding::type_16UC1:
        case Encoding::bayer_rggb16:
        case Encoding::bayer_bggr16:
        case Encoding::bayer_gbrg16:
        case Encoding::bayer_grbg16:
            return 2;
        case Encoding::type_32FC1:
            return 4;
        default:
            return 1;
    }
}

namespace detail {

[[nodiscard]] constexpr bool has_planes(Encoding encoding) noexcept {
    return encoding == Encoding::nv12 || encoding == Encoding::nv21;
}

/// Rows of data that an image of `height` pixels has.
[[nodiscard]] constexpr std::uint64_t data_rows(Encoding encoding, std::uint32_t height) noexcept {
    return std::uint64_t{height} + (has_planes(encoding) ? height / 2 : 0);
}

inline Result<void> check_image(const Image& image, std::size_t data_size) {
    const auto encoding = encoding_from_number(image.encoding);
    const auto number = [](auto n) { return std::to_string(n); };
    if (!encoding) {
        return Error{"image encoding " + number(image.encoding) +
                     " is unknown; known are 1 (bgr8) to " + number(encoding_count) +
                     " (bayer_grbg16)"};
    }
    const std::string name(to_string(*encoding));
    const std::uint64_t rows = data_rows(*encoding, image.height);
    if (image.width > max_image_side || rows > max_image_side) {
        return Error{"an image cannot be " + number(image.width) + " x " + number(image.height) +
                     " pixels large; at most " + number(max_image_side) + " each way"};
    }
    const bool pairs =
        has_planes(*encoding) || *encoding == Encoding::yuv422 || *encoding == Encoding::yuyv;
    if ((pairs && image.width % 2 != 0) || (has_planes(*encoding) && image.height % 2 != 0)) {
        return Error{"a " + name + " image cannot be " + number(image.width) + " x " +
                     number(image.height) + " pixels large: pixels come in pairs"};
    }
    // Both factors of each product are 32-bit numbers, so no product overflows.
    const std::uint64_t row_size = std::uint64_t{image.width} * bytes_per_pixel(*encoding);
    if (image.step < row_size) {
        return Error{"image step " + number(image.step) + " bytes is less than a row of " +
                     number(image.width) + " " + name + " pixels takes (" + number(row_size) +
                     " bytes)"};
    }
    if (image.step % bytes_per_channel(*encoding) != 0) {
        return Error{"image step " + number(image.step) + " bytes is no multiple of the " +
                     number(bytes_per_channel(*encoding)) + " bytes of a number of " + name};
    }
    const std::uint64_t needed = std::uint64_t{image.step} * rows;
    if (needed > data_size) {
        return Error{"image data is " + number(data_size) + " bytes where " + number(rows) +
                     " rows of " + number(image.step) + " bytes need " + number(needed)};
    }
    return {};
}

}  // namespace detail

/// Returns the head of an image without gaps between its rows. Fails if the encoding does not
/// permit the size, if a side is longer than `max_image_side`, or if a row is longer than 4 GiB.
[[nodiscard]] inline Result<Image> make_image(const Header& header, std::uint32_t width,
                                              std::uint32_t height, Encoding encoding) {
    const std::uint64_t row_size = std::uint64_t{width} * bytes_per_pixel(encoding);
    const Image image{header, width, height, static_cast<std::uint32_t>(row_size),
                      static_cast<std::uint32_t>(encoding)};
    // A row of more than 4 GiB gets a wrong, shorter length here and is then refused.
    if (auto checked = detail::check_image(image, SIZE_MAX); !checked)
        return std::move(checked).error();
    return image;
}

/// Returns the length of the payload of an image without gaps between its rows, in bytes: the size
/// to loan.
[[nodiscard]] inline Result<std::size_t> image_payload_size(std::uint32_t width,
                                                            std::uint32_t height,
                                                            Encoding encoding) {
    auto image = make_image(Header{}, width, height, encoding);
    if (!image) return std::move(image).error();
    return plain::payload_size<Image>(std::size_t{image->step} *
                                      detail::data_rows(encoding, height));
}

/// An image that was checked against the size of its data. Valid as long as the payload; copying it
/// copies no pixels.
///
/// The head was copied before it was checked. Even if another process writes into the payload
/// afterwards, rows and pixels stay inside it; only their values can change.
class ImageView {
public:
    /// Reads a payload as an image. Fails if the head does not fit the size of the data.
    [[nodiscard]] static Result<ImageView> from(plain::Ref<Image> payload) {
        const Image head = payload.copy_head();
        if (auto checked = detail::check_image(head, payload.tail().size()); !checked)
            return std::move(checked).error();
        return ImageView(head, payload.tail());
    }
    [[nodiscard]] static Result<ImageView> from(std::span<const std::byte> payload) {
        auto ref = plain::Ref<Image>::from(payload);
        if (!ref) return std::move(ref).error();
        return from(*ref);
    }

    /// Returns the copy of the head; it lives as long as this view.
    [[nodiscard]] const Image& head() const& noexcept { return head_; }
    [[nodiscard]] Image head() && noexcept { return head_; }
    [[nodiscard]] const Header& header() const& noexcept { return head_.header; }
    [[nodiscard]] Header header() && noexcept { return head_.header; }
    /// Width, in pixels.
    [[nodiscard]] std::uint32_t width() const noexcept { return head_.width; }
    /// Height, in pixels.
    [[nodiscard]] std::uint32_t height() const noexcept { return head_.height; }
    /// Distance between the starts of rows, in bytes.
    [[nodiscard]] std::uint32_t step() const noexcept { return head_.step; }
    [[nodiscard]] Encoding encoding() const noexcept {
        return static_cast<Encoding>(head_.encoding);
    }
    /// Rows of data: the height, or one and a half times as many for `nv12` and `nv21`.
    [[nodiscard]] std::uint32_t rows() const noexcept {
        return static_cast<std::uint32_t>(detail::data_rows(encoding(), height()));
    }
    /// All bytes after the head; at least `step * rows`.
    [[nodiscard]] std::span<const std::uint8_t> data() const noexcept { return data_; }
    /// The pixels of row `y`, without the gap to the next row; empty from `rows` on.
    [[nodiscard]] std::span<const std::uint8_t> row(std::uint32_t y) const noexcept {
        if (y >= rows()) return {};
        return data_.subspan(std::size_t{y} * step(),
                             std::size_t{width()} * bytes_per_pixel(encoding()));
    }

private:
    ImageView(const Image& head, std::span<const std::uint8_t> data) noexcept
        : head_(head), data_(data) {}

    Image head_;
    std::span<const std::uint8_t> data_;
};

template <>
struct plain::Checked<Image> {
    using View = ImageView;
};

/// An image under construction, checked against the size of its data. Valid as long as the payload.
class ImageMut {
public:
    /// Writes the head of an image without gaps between its rows into a payload of at least
    /// `image_payload_size`. The bytes of the pixels are left as they are.
    [[nodiscard]] static Result<ImageMut> from(plain::Mut<Image> payload, const Header& header,
                                               std::uint32_t width, std::uint32_t height,
                                               Encoding encoding) {
        auto image = make_image(header, width, height, encoding);
        if (!image) return std::move(image).error();
        if (auto checked = detail::check_image(*image, payload.tail().size()); !checked)
            return std::move(checked).error();
        *payload = *image;
        return ImageMut(payload, *image);
    }
    [[nodiscard]] static Result<ImageMut> from(std::span<std::byte> payload, const Header& header,
                                               std::uint32_t width, std::uint32_t height,
                                               Encoding encoding) {
        auto mut = plain::Mut<Image>::from(payload);
        if (!mut) return std::move(mut).error();
        return from(*mut, header, width, height, encoding);
    }

    [[nodiscard]] Header& header() const noexcept { return payload_->header; }
    [[nodiscard]] std::uint32_t width() const noexcept { return shape_.width; }
    [[nodiscard]] std::uint32_t height() const noexcept { return shape_.height; }
    [[nodiscard]] std::uint32_t step() const noexcept { return shape_.step; }
    [[nodiscard]] Encoding encoding() const noexcept {
        return static_cast<Encoding>(shape_.encoding);
    }
    /// Rows of data: the height, or one and a half times as many for `nv12` and `nv21`.
    [[nodiscard]] std::uint32_t rows() const noexcept {
        return static_cast<std::uint32_t>(detail::data_rows(encoding(), height()));
    }
    /// All bytes after the head; rows follow each other without gaps.
    [[nodiscard]] std::span<std::uint8_t> data() const noexcept { return payload_.tail(); }
    /// The pixels of row `y`; empty from `rows` on.
    [[nodiscard]] std::span<std::uint8_t> row(std::uint32_t y) const noexcept {
        if (y >= rows()) return {};
        return data().subspan(std::size_t{y} * step(), step());
    }

private:
    ImageMut(plain::Mut<Image> payload, const Image& shape) noexcept
        : payload_(payload), shape_(shape) {}

    plain::Mut<Image> payload_;
    /// The image, already checked.
    Image shape_;
};

}  // namespace driveline
