// SPDX-License-Identifier: Apache-2.0
/// `cv::Mat` views onto images, without copying pixels. Needs OpenCV's core module.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <opencv2/core/mat.hpp>

#include "driveline/image.hpp"
#include "driveline/publisher.hpp"

namespace driveline {

/// OpenCV's type of a matrix that holds pixels of this encoding.
[[nodiscard]] constexpr int opencv_type(Encoding encoding) noexcept {
    switch (encoding) {
        case Encoding::bgr8:
        case Encoding::rgb8: return CV_8UC3;
        case Encoding::mono8: return CV_8UC1;
        case Encoding::yuv422: return CV_8UC2;
    }
    return -1;
}

namespace detail {

[[nodiscard]] inline cv::Mat matrix(std::uint32_t width, std::uint32_t height, std::uint32_t step, Encoding encoding, void* data) {
    // Both are at most `max_image_side`. An empty matrix must not have a step; OpenCV would refuse it by throwing.
    const cv::Size size(static_cast<int>(width), static_cast<int>(height));
    return size.empty() ? cv::Mat(size, opencv_type(encoding)) : cv::Mat(size, opencv_type(encoding), data, step);
}

}  // namespace detail

/// A matrix for reading: its memory belongs to all readers of a sample, and is mapped read-only if the sample came from
/// another process. Goes wherever a `cv::InputArray` or a `const cv::Mat&` is asked for, but becomes no `cv::Mat` that could
/// be written to by accident: `view->clone()` or `view->copyTo(...)` what is to be changed. Copying it copies no pixels.
///
/// OpenCV itself has no constant data: a copy of `*view` shares the memory and can be written to. Doing so ends the program
/// if the sample came from another process, and otherwise changes what the other readers see.
class ConstMat {
public:
    explicit ConstMat(cv::Mat mat) noexcept : mat_(std::move(mat)) {}

    [[nodiscard]] const cv::Mat& operator*() const& noexcept { return mat_; }
    [[nodiscard]] const cv::Mat* operator->() const noexcept { return &mat_; }
    operator const cv::Mat&() const& noexcept { return mat_; }
    operator cv::_InputArray() const noexcept { return mat_; }

    // Would be gone before it can be used; name the view.
    const cv::Mat& operator*() const&& = delete;
    operator const cv::Mat&() const&& = delete;
    // Could be written to.
    operator cv::Mat() const = delete;

private:
    cv::Mat mat_;
};

/// The image as a matrix over the same memory. It and what is made from it are valid as long as the image's payload (the
/// sample that holds it).
[[nodiscard]] inline ConstMat view(const ImageView& image) {
    // Constant from here on by its type.
    auto* data = const_cast<std::uint8_t*>(image.data().data());
    return ConstMat(detail::matrix(image.width(), image.height(), image.step(), image.encoding(), data));
}

/// The image under construction as a matrix over the same memory: what is drawn into it is in the loan. Valid as long as
/// the loan; whoever draws into it after the loan was published draws into what others read. OpenCV functions that write to
/// it keep its memory as long as they produce the same size and type.
[[nodiscard]] inline cv::Mat view(const ImageMut& image) {
    return detail::matrix(image.width(), image.height(), image.step(), image.encoding(), image.data().data());
}

/// Length of the payload that holds `mat` in this encoding, in bytes: what to loan.
[[nodiscard]] inline Result<std::size_t> image_payload_size(const cv::Mat& mat, Encoding encoding) {
    return image_payload_size(static_cast<std::uint32_t>(mat.cols), static_cast<std::uint32_t>(mat.rows), encoding);
}

/// Copies the pixels of `mat` into an image of the same size and pixel size.
[[nodiscard]] inline Result<void> copy(const cv::Mat& mat, const ImageMut& image) {
    cv::Mat target = view(image);
    if (mat.size() != target.size() || mat.type() != target.type()) {
        return Error{"a matrix of " + std::to_string(mat.cols) + " x " + std::to_string(mat.rows) + " elements of OpenCV type " +
                     std::to_string(mat.type()) + " does not fit an image of " + std::to_string(image.width()) + " x " +
                     std::to_string(image.height()) + " " + std::string(to_string(image.encoding())) + " pixels (type " +
                     std::to_string(target.type()) + "): resize or convert it first"};
    }
    mat.copyTo(target);
    return {};
}

/// Copies `mat` (three channels of 8 bits as `bgr8`, one as `mono8`) into a loan and publishes it. Drawing into the matrix
/// of a loan saves the copy.
[[nodiscard]] inline Result<std::uint64_t> publish(const PublisherBase<Image>& output, const cv::Mat& mat, const Header& header = {}) {
    if (mat.type() != CV_8UC3 && mat.type() != CV_8UC1) {
        return Error{"a matrix of OpenCV type " + std::to_string(mat.type()) +
                     " is no image that can be published as it is: convert it to CV_8UC3 (bgr8) or CV_8UC1 (mono8)"};
    }
    const auto encoding = mat.type() == CV_8UC3 ? Encoding::bgr8 : Encoding::mono8;
    auto loan = output.loan(static_cast<std::uint32_t>(mat.cols), static_cast<std::uint32_t>(mat.rows), encoding, header);
    if (!loan) return std::move(loan).error();
    cv::Mat target = loan->mat();
    mat.copyTo(target);
    return output.publish(std::move(*loan));
}

}  // namespace driveline
