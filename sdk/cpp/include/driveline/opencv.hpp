// SPDX-License-Identifier: Apache-2.0
/// `cv::Mat` views onto images, without copying pixels. Needs OpenCV's core module.
#pragma once

#include <cstdint>
#include <limits>
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

inline Result<cv::Mat> matrix(std::uint32_t width, std::uint32_t height, std::uint32_t step, Encoding encoding, void* data) {
    constexpr auto most = static_cast<std::uint32_t>(std::numeric_limits<int>::max());
    if (width > most || height > most) {
        return Error{"an image of " + std::to_string(width) + " x " + std::to_string(height) + " pixels is larger than OpenCV can hold"};
    }
    // An empty matrix must not have a step; OpenCV would refuse it by throwing.
    if (width == 0 || height == 0) return cv::Mat(static_cast<int>(height), static_cast<int>(width), opencv_type(encoding));
    return cv::Mat(static_cast<int>(height), static_cast<int>(width), opencv_type(encoding), data, step);
}

}  // namespace detail

/// The image as a matrix over the same memory.
///
/// The matrix and all copies of its header are valid as long as the image's payload (the sample that holds it). They are
/// for reading: the memory of a sample from another process is mapped read-only, and writing to it ends the program.
/// `clone()` or `copyTo()` what is to be changed.
[[nodiscard]] inline Result<const cv::Mat> view(const ImageView& image) {
    // cv::Mat knows no constant data; the constness is in the documentation above.
    auto mat = detail::matrix(image.width(), image.height(), image.step(), image.encoding(),
                              const_cast<std::uint8_t*>(image.data().data()));
    if (!mat) return std::move(mat).error();
    return std::move(*mat);
}

/// The image under construction as a matrix over the same memory: what is drawn into it is in the loan. Valid as long as
/// the loan. OpenCV functions that write to it keep its memory as long as they produce the same size and type.
[[nodiscard]] inline Result<cv::Mat> view(const ImageMut& image) {
    return detail::matrix(image.width(), image.height(), image.step(), image.encoding(), image.data().data());
}

/// Length of the payload that holds `mat` in this encoding, in bytes: what to loan.
[[nodiscard]] inline Result<std::size_t> image_payload_size(const cv::Mat& mat, Encoding encoding) {
    return image_payload_size(static_cast<std::uint32_t>(mat.cols), static_cast<std::uint32_t>(mat.rows), encoding);
}

/// Copies the pixels of `mat` into an image of the same size and pixel size.
[[nodiscard]] inline Result<void> copy(const cv::Mat& mat, const ImageMut& image) {
    auto target = view(image);
    if (!target) return std::move(target).error();
    if (mat.size() != target->size() || mat.type() != target->type()) {
        return Error{"a matrix of " + std::to_string(mat.cols) + " x " + std::to_string(mat.rows) + " elements of OpenCV type " +
                     std::to_string(mat.type()) + " does not fit an image of " + std::to_string(image.width()) + " x " +
                     std::to_string(image.height()) + " " + std::string(to_string(image.encoding())) + " pixels (type " +
                     std::to_string(target->type()) + "): resize or convert it first"};
    }
    mat.copyTo(*target);
    return {};
}

/// Copies `mat` (three channels of 8 bits as `bgr8`, one as `mono8`) into a loan and publishes it. Drawing into the matrix
/// of a loan saves the copy.
[[nodiscard]] inline Result<std::uint64_t> publish(const detail::Sender<Image>& output, const cv::Mat& mat, const Header& header = {}) {
    if (mat.type() != CV_8UC3 && mat.type() != CV_8UC1) {
        return Error{"a matrix of OpenCV type " + std::to_string(mat.type()) +
                     " is no image that can be published as it is: convert it to CV_8UC3 (bgr8) or CV_8UC1 (mono8)"};
    }
    const auto encoding = mat.type() == CV_8UC3 ? Encoding::bgr8 : Encoding::mono8;
    auto loan = output.loan(static_cast<std::uint32_t>(mat.cols), static_cast<std::uint32_t>(mat.rows), encoding, header);
    if (!loan) return std::move(loan).error();
    auto target = loan->mat();
    if (!target) return std::move(target).error();
    mat.copyTo(*target);
    return output.publish(std::move(*loan));
}

}  // namespace driveline
