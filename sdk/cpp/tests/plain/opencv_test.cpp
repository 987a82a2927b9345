// SPDX-License-Identifier: Apache-2.0
#include "driveline/opencv.hpp"

#include <gtest/gtest.h>

#include <opencv2/core.hpp>

namespace {

using driveline::Encoding;
using driveline::Header;
using driveline::Image;
using driveline::ImageMut;
using driveline::ImageView;

struct alignas(64) Payload {
    std::byte bytes[4096]{};
};

TEST(OpenCv, MatricesShareTheMemoryOfTheImage) {
    Payload memory;
    for (std::uint32_t n = 1; n <= driveline::encoding_count; ++n) {
        const auto encoding = driveline::encoding_from_number(n).value();
        const auto payload =
            std::span(memory.bytes).first(driveline::image_payload_size(8, 4, encoding).value());
        const auto image = ImageMut::from(payload, Header{}, 8, 4, encoding).value();
        cv::Mat drawing = driveline::view(image);
        drawing.setTo(cv::Scalar::all(9));
        EXPECT_EQ(static_cast<void*>(drawing.data), memory.bytes + 128);

        const auto sample = ImageView::from(payload).value();
        const auto seen = driveline::view(sample);
        EXPECT_EQ(static_cast<const void*>(seen->data), memory.bytes + 128) << "pixels were copied";
        EXPECT_EQ(seen->elemSize(), driveline::bytes_per_pixel(encoding));
        EXPECT_EQ(seen->elemSize1(), driveline::bytes_per_channel(encoding));
        EXPECT_EQ(seen->rows, encoding == Encoding::nv12 || encoding == Encoding::nv21 ? 6 : 4);
        EXPECT_EQ(cv::countNonZero(seen->reshape(1) != 9), 0) << driveline::to_string(encoding);
    }
}

TEST(OpenCv, ImagesWithGapsBetweenRowsAndEmptyImagesAreRead) {
    Payload memory;
    const auto payload = std::span(memory.bytes).first(128 + 40);
    auto raw = driveline::plain::Mut<Image>::from(payload).value();
    *raw = Image{Header{}, 3, 4, 10, static_cast<std::uint32_t>(Encoding::bgr8)};
    raw.tail()[10] = 42;
    const auto gaps = driveline::view(ImageView::from(payload).value());
    EXPECT_EQ(gaps->at<cv::Vec3b>(1, 0)[0], 42);
    raw->height = 0;
    EXPECT_TRUE(driveline::view(ImageView::from(payload).value())->empty());
    // The largest possible step, in an image without pixels.
    *raw = Image{Header{}, 0, 0, 0xffffffff, static_cast<std::uint32_t>(Encoding::bgr8)};
    EXPECT_TRUE(driveline::view(ImageView::from(payload).value())->empty());
    raw->width = driveline::max_image_side, raw->step = 0xffffffff,
    raw->encoding = static_cast<std::uint32_t>(Encoding::mono8);
    EXPECT_EQ(driveline::view(ImageView::from(payload).value())->cols, 0x7fffffff);
}

TEST(OpenCv, OnlyMatricesThatFitAreCopied) {
    Payload memory;
    const cv::Mat mat(4, 8, CV_8UC3, cv::Scalar(1, 2, 3));
    const auto payload =
        std::span(memory.bytes).first(driveline::image_payload_size(mat, Encoding::bgr8).value());
    const auto image = ImageMut::from(payload, Header{}, 8, 4, Encoding::bgr8).value();
    ASSERT_TRUE(driveline::copy(mat, image));
    EXPECT_EQ(image.row(3)[5], 3);
    const auto wrong = driveline::copy(cv::Mat(4, 7, CV_8UC3), image);
    ASSERT_FALSE(wrong);
    EXPECT_NE(wrong.error().message.find("7 x 4"), std::string::npos);
    const auto type = driveline::copy(cv::Mat(4, 8, CV_16UC3), image);
    ASSERT_FALSE(type);
    EXPECT_NE(
        type.error().message.find(
            "8 x 4 elements of 16UC3 does not fit an image of 8 x 4 bgr8 pixels (8 x 4 of 8UC3)"),
        std::string::npos)
        << type.error().message;
}

TEST(OpenCv, MatrixTypesThatAreNoImageAreNamedAsInRos) {
    const auto refused = [](const cv::Mat& mat, Encoding encoding, const char* words) {
        const auto size = driveline::image_payload_size(mat, encoding);
        ASSERT_FALSE(size.has_value());
        EXPECT_NE(size.error().message.find(words), std::string::npos) << size.error().message;
    };
    refused(cv::Mat(4, 8, CV_32FC3), Encoding::bgr8,
            "a matrix of 32FC3 holds no bgr8 pixels, which are 8UC3");
    refused(cv::Mat(4, 8, CV_8SC1), Encoding::mono8, "a matrix of 8SC1 holds no mono8 pixels");
    refused(cv::Mat(4, 8, CV_8UC1), Encoding::nv12, "a matrix of 4 rows is no nv12 image");
    const int sizes[3] = {3, 4, 5};
    refused(cv::Mat(3, sizes, CV_8UC1), Encoding::mono8,
            "a matrix of 3 dimensions (3 x 4 x 5) is no image");
    EXPECT_EQ(driveline::image_payload_size(cv::Mat(6, 8, CV_8UC1), Encoding::nv12).value(),
              128u + 48u);
}

}  // namespace
