// SPDX-License-Identifier: Apache-2.0
#include "driveline/image.hpp"

#include "driveline/compressed_image.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using driveline::Encoding;
using driveline::Header;
using driveline::Image;
using driveline::ImageMut;
using driveline::ImageView;

struct alignas(64) Payload {
    std::byte bytes[1024]{};
};

TEST(Image, IsWrittenAndReadInPlace) {
    Payload memory;
    const auto size = driveline::image_payload_size(4, 3, Encoding::bgr8).value();
    ASSERT_EQ(size, 128u + 36u);
    const auto payload = std::span(memory.bytes).first(size);
    const auto header = Header::make(5, "camera_front", 9).value();
    auto image = ImageMut::from(payload, header, 4, 3, Encoding::bgr8).value();
    image.row(2)[0] = 77;
    EXPECT_TRUE(image.row(3).empty());

    const auto view = ImageView::from(payload).value();
    EXPECT_EQ(view.header().frame(), "camera_front");
    EXPECT_EQ(view.width(), 4u);
    EXPECT_EQ(view.step(), 12u);
    EXPECT_EQ(view.encoding(), Encoding::bgr8);
    EXPECT_EQ(view.row(2)[0], 77);
    EXPECT_TRUE(view.row(3).empty());
    EXPECT_FALSE(ImageMut::from(payload, header, 4, 4, Encoding::bgr8).has_value())
        << "4 x 4 pixels are accepted in memory for 4 x 3";
}

TEST(Image, NumbersThatDoNotFitTheDataAreRefused) {
    Payload memory;
    const auto payload = std::span(memory.bytes).first(128 + 36);
    ASSERT_TRUE(ImageMut::from(payload, Header{}, 4, 3, Encoding::rgb8).has_value());
    auto raw = driveline::plain::Mut<Image>::from(payload).value();
    const Image good = *raw;
    const auto refused = [&](auto change, const char* words) {
        *raw = good;
        change(*raw);
        const auto view = ImageView::from(payload);
        ASSERT_FALSE(view.has_value()) << words;
        EXPECT_NE(view.error().message.find(words), std::string::npos) << view.error().message;
    };
    refused([](Image& i) { i.encoding = 0; }, "encoding 0 is unknown");
    refused([](Image& i) { i.encoding = 25; },
            "encoding 25 is unknown; known are 1 (bgr8) to 24 (bayer_grbg16)");
    refused([](Image& i) { i.step = 11; }, "step 11");
    refused([](Image& i) { i.height = 4; }, "need 48");
    refused([](Image& i) { i.height = 0x7fffffff, i.step = 0xffffffff; },
            "need 9223372030412324865");
    refused([](Image& i) { i.width = 0x7fffffff; }, "step 12");
    refused([](Image& i) { i.width = 0x80000000; }, "2147483648 x 3 pixels");
    refused([](Image& i) { i.height = 0x80000000; }, "4 x 2147483648 pixels");
    refused([](Image& i) { i.width = 3, i.encoding = 4; }, "pairs");
    refused([](Image& i) { i.height = 3, i.encoding = 15; },
            "a nv12 image cannot be 4 x 3 pixels large: pixels come in pairs");
    refused([](Image& i) { i.height = 4, i.step = 8, i.encoding = 15; },
            "where 6 rows of 8 bytes need 48");
    refused([](Image& i) { i.step = 13, i.encoding = 9; },
            "step 13 bytes is no multiple of the 2 bytes of a number of 16UC1");
    EXPECT_FALSE(driveline::image_payload_size(3, 2, Encoding::yuv422).has_value());
    EXPECT_FALSE(driveline::image_payload_size(4, driveline::max_image_side - 1, Encoding::nv12)
                     .has_value());
    EXPECT_FALSE(driveline::image_payload_size(0x80000000, 2, Encoding::bgr8).has_value());
}

TEST(Image, EncodingsHaveOneNameAndOneNumberEach) {
    for (std::uint32_t n = 1; n <= driveline::encoding_count; ++n) {
        const auto e = driveline::encoding_from_number(n);
        ASSERT_TRUE(e);
        EXPECT_EQ(driveline::encoding_from_name(driveline::to_string(*e)), e);
    }
    EXPECT_EQ(driveline::encoding_from_name("uyvy"), Encoding::yuv422);
    EXPECT_EQ(driveline::encoding_from_name("yuv422_yuy2"), Encoding::yuyv);
    EXPECT_EQ(driveline::encoding_from_name("16UC1"), Encoding::type_16UC1);
    EXPECT_FALSE(driveline::encoding_from_name("32FC3"));
    EXPECT_FALSE(driveline::encoding_from_name("unknown"));
}

TEST(Image, ChromaRowsFollowThoseOfLuma) {
    Payload memory;
    const auto payload =
        std::span(memory.bytes).first(driveline::image_payload_size(4, 2, Encoding::nv12).value());
    ASSERT_EQ(payload.size(), 128u + 12u);
    const auto image = ImageMut::from(payload, Header{}, 4, 2, Encoding::nv12).value();
    image.row(2)[3] = 9;
    const auto view = ImageView::from(payload).value();
    EXPECT_EQ(view.rows(), 3u);
    EXPECT_EQ(view.data()[11], 9);
    EXPECT_EQ(view.row(2)[3], 9);
    EXPECT_TRUE(view.row(3).empty());
}

TEST(Image, CompressedImagesHaveTheirFormat) {
    const auto head =
        driveline::CompressedImage::make(Header{}, "bgr8; jpeg compressed bgr8").value();
    EXPECT_EQ(head.format_text(), "bgr8; jpeg compressed bgr8");
    EXPECT_FALSE(driveline::CompressedImage::make(Header{}, std::string(64, 'j')).has_value());
}

}  // namespace
