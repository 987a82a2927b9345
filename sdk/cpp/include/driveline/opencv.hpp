// SPDX-License-Identifier: Apache-2.0
/// `cv::Mat` views onto images, without copying pixels. Needs OpenCV's core module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <opencv2/core/mat.hpp>

#include "driveline/image.hpp"
#include "driveline/publisher.hpp"

namespace driveline {

/// Returns OpenCV's type of a matrix with pixels of this encoding. For `nv12` and `nv21` the matrix
/// has 3/2 times as many rows as the image, as in OpenCV's own conversions.
[[nodiscard]] constexpr int opencv_type(Encoding encoding) noexcept {
    const std::uint32_t channel = bytes_per_channel(encoding);
    const int depth = channel == 1 ? CV_8U : channel == 2 ? CV_16U : CV_32F;
    return CV_MAKETYPE(depth, static_cast<int>(bytes_per_pixel(encoding) / channel));
}

/// Returns the usual encoding of a matrix of this OpenCV type: `mono8`, `8UC2`, `bgr8`, `bgra8`,
/// `16UC1` or `32FC1`; nothing for other types.
[[nodiscard]] constexpr std::optional<Encoding> usual_encoding(int opencv_type) noexcept {
    switch (opencv_type) {
        case CV_8UC1:
            return Encoding::mono8;
        case CV_8UC2:
            return Encoding::type_8UC2;
        case CV_8UC3:
            return Encoding::bgr8;
        case CV_8UC4:
            return Encoding::bgra8;
        case CV_16UC1:
            return Encoding::type_16UC1;
        case CV_32FC1:
            return Encoding::type_32FC1;
        default:
            return std::nullopt;
    }
}

namespace detail {

/// Formats OpenCV's type as ROS names it, such as `32FC3`.
[[nodiscard]] inline std::string type_text(int opencv_type) {
    constexpr std::string_view depths[] = {"8U", "8S", "16U", "16S", "32S", "32F", "64F", "16F"};
    return std::string(depths[CV_MAT_DEPTH(opencv_type)]) + "C" +
           std::to_string(CV_MAT_CN(opencv_type));
}

[[nodiscard]] inline std::string size_text(const cv::Mat& mat) {
    std::string text;
    // As in OpenCV: columns before rows for two dimensions, otherwise the order of `mat.size`.
    if (mat.dims <= 2) return std::to_string(mat.cols) + " x " + std::to_string(mat.rows);
    for (int i = 0; i < mat.dims; ++i) text += (i == 0 ? "" : " x ") + std::to_string(mat.size[i]);
    return text;
}

/// Returns the height of the image in a matrix, in pixels; fails if the matrix contains no such
/// image.
[[nodiscard]] inline Result<std::uint32_t> image_height(const cv::Mat& mat, Encoding encoding) {
    if (mat.dims > 2) {
        return Error{"a matrix of " + std::to_string(mat.dims) + " dimensions (" + size_text(mat) +
                     ") is no image, which has two: take a plane of it"};
    }
    if (!mat.empty() && mat.type() != opencv_type(encoding)) {
        return Error{"a matrix of " + type_text(mat.type()) + " holds no " +
                     std::string(to_string(encoding)) + " pixels, which are " +
                     type_text(opencv_type(encoding)) + ": convert it first"};
    }
    const auto rows = static_cast<std::uint32_t>(mat.rows);
    if (!has_planes(encoding)) return rows;
    if (rows % 3 != 0) {
        return Error{"a matrix of " + std::to_string(rows) + " rows is no " +
                     std::string(to_string(encoding)) +
                     " image: its matrix has 3 rows for each 2 rows of pixels, so the number "
                     "of rows must be a multiple of 3"};
    }
    return rows / 3 * 2;
}

[[nodiscard]] inline cv::Mat matrix(std::uint32_t width, std::uint32_t rows, std::uint32_t step,
                                    Encoding encoding, void* data) {
    // Width and rows are at most `max_image_side`. An empty matrix must not have a step, because
    // OpenCV would throw.
    const cv::Size size(static_cast<int>(width), static_cast<int>(rows));
    return size.empty() ? cv::Mat(size, opencv_type(encoding))
                        : cv::Mat(size, opencv_type(encoding), data, step);
}

}  // namespace detail

/// A matrix for reading. Its memory is shared by all readers of a sample, and is mapped read-only
/// if the sample came from another process. It converts to `cv::InputArray` and `const cv::Mat&`,
/// but not to a `cv::Mat`, to which a program could write by mistake. To change pixels, use
/// `view->clone()` or `view->copyTo(...)`. Copying a `ConstMat` copies no pixels.
///
/// OpenCV itself has no constant matrices: a `cv::Mat` copied from `*view` shares the memory and is
/// writable. Writing to it terminates the program if the sample came from another process, and
/// otherwise changes the data of other readers.
class ConstMat {
public:
    explicit ConstMat(cv::Mat mat) noexcept : mat_(std::move(mat)) {}

    [[nodiscard]] const cv::Mat& operator*() const& noexcept { return mat_; }
    [[nodiscard]] const cv::Mat* operator->() const noexcept { return &mat_; }
    operator const cv::Mat&() const& noexcept { return mat_; }
    operator cv::_InputArray() const noexcept { return mat_; }

    // Deleted: the matrix would be destroyed before its use. Give the view a name.
    const cv::Mat& operator*() const&& = delete;
    operator const cv::Mat&() const&& = delete;
    // Deleted: the result would be writable.
    operator cv::Mat() const = delete;

private:
    cv::Mat mat_;
};

/// Returns the image as a matrix over the same memory. The matrix and its copies are valid as long
/// as the image's payload (the sample that holds it).
[[nodiscard]] inline ConstMat view(const ImageView& image) {
    // The cast is safe: `ConstMat` gives only read access to this memory.
    auto* data = const_cast<std::uint8_t*>(image.data().data());
    return ConstMat(
        detail::matrix(image.width(), image.rows(), image.step(), image.encoding(), data));
}

/// Returns the image under construction as a matrix over the same memory: drawing into it writes to
/// the loan. Valid as long as the loan. Drawing after the loan was published changes the data of
/// readers. OpenCV functions that write to the matrix keep its memory if their result has the same
/// size and type.
[[nodiscard]] inline cv::Mat view(const ImageMut& image) {
    return detail::matrix(image.width(), image.rows(), image.step(), image.encoding(),
                          image.data().data());
}

/// Returns the length of the payload that holds `mat` in this encoding, in bytes: the size to loan.
/// Fails if the matrix has another type, or if it is no image.
[[nodiscard]] inline Result<std::size_t> image_payload_size(const cv::Mat& mat, Encoding encoding) {
    auto height = detail::image_height(mat, encoding);
    if (!height) return std::move(height).error();
    return image_payload_size(static_cast<std::uint32_t>(mat.cols), *height, encoding);
}

/// Copies the pixels of `mat` into an image of the same size. Their matrix types must be equal.
[[nodiscard]] inline Result<void> copy(const cv::Mat& mat, const ImageMut& image) {
    cv::Mat target = view(image);
    if (mat.dims > 2 || mat.size() != target.size() || mat.type() != target.type()) {
        return Error{"a matrix of " + detail::size_text(mat) + " elements of " +
                     detail::type_text(mat.type()) + " does not fit an image of " +
                     std::to_string(image.width()) + " x " + std::to_string(image.height()) + " " +
                     std::string(to_string(image.encoding())) + " pixels (" +
                     detail::size_text(target) + " of " + detail::type_text(target.type()) +
                     "): resize or convert it first"};
    }
    mat.copyTo(target);
    return {};
}

/// Copies `mat`, whose pixels have this encoding, into a loan and publishes it. To avoid the copy,
/// draw into the matrix of a loan.
[[nodiscard]] inline Result<std::uint64_t> publish(const PublisherBase<Image>& output,
                                                   const cv::Mat& mat, Encoding encoding,
                                                   const Header& header = {}) {
    auto height = detail::image_height(mat, encoding);
    if (!height) return std::move(height).error();
    auto loan = output.loan(static_cast<std::uint32_t>(mat.cols), *height, encoding, header);
    if (!loan) return std::move(loan).error();
    cv::Mat target = loan->mat();
    mat.copyTo(target);
    return output.publish(std::move(*loan));
}

/// The same with the usual encoding for the type of `mat`: see `usual_encoding`. For other
/// encodings, such as `rgb8` or `mono16`, use the function with an encoding.
[[nodiscard]] inline Result<std::uint64_t> publish(const PublisherBase<Image>& output,
                                                   const cv::Mat& mat, const Header& header = {}) {
    const auto encoding = usual_encoding(mat.type());
    if (!encoding && mat.dims <= 2) {
        return Error{"a matrix of " + detail::type_text(mat.type()) +
                     " is no image that can be published: convert it to 8UC1 (mono8), 8UC2, 8UC3 "
                     "(bgr8), 8UC4 (bgra8), 16UC1 or 32FC1"};
    }
    return publish(output, mat, encoding.value_or(Encoding::mono8), header);
}

}  // namespace driveline
