// SPDX-License-Identifier: Apache-2.0
#include "driveline/points.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

// The shape of PCL's own declaration: members in anonymous unions of a base class, constructors, 16-byte alignment.
namespace pcl_like {
struct alignas(16) PointXYZIBase {
    union {
        float data[4];
        __extension__ struct {
            float x;
            float y;
            float z;
        };
    };
    union {
        __extension__ struct {
            float intensity;
        };
        float data_c[4];
    };
};
struct PointXYZI : PointXYZIBase {
    PointXYZI() : PointXYZI(0, 0, 0) {}
    PointXYZI(float x_, float y_, float z_) {
        x = x_, y = y_, z = z_, data[3] = 1;
        for (float& value : data_c) value = 0;
    }
};
}  // namespace pcl_like

namespace {

using driveline::CloudMut;
using driveline::CloudView;
using driveline::Header;
using driveline::PointCloud;
using driveline::PointXyz;
using driveline::PointXyzAligned;
using driveline::PointXyzi;

struct alignas(64) Payload {
    std::byte bytes[2048]{};
};

template <class P>
std::span<std::byte> make_cloud(Payload& memory, std::uint32_t width, std::uint32_t height = 1) {
    const auto size = CloudMut<P>::payload_size(std::size_t{width} * height).value();
    const auto payload = std::span(memory.bytes).first(size);
    auto cloud = CloudMut<P>::from(payload, Header{}, width, height).value();
    for (std::size_t i = 0; i < cloud.points().size(); ++i) cloud.points()[i].x = static_cast<float>(i);
    cloud.set_dense();
    return payload;
}

TEST(Points, AreWrittenAndReadInPlace) {
    Payload memory;
    const auto payload = make_cloud<PointXyzi>(memory, 3);
    ASSERT_EQ(payload.size(), 640u + 48u);
    const auto cloud = CloudView::from(payload).value();
    EXPECT_EQ(cloud.size(), 3u);
    EXPECT_EQ(cloud.fields().size(), 4u);
    const auto points = driveline::points<PointXyzi>(cloud).value();
    EXPECT_EQ(points[2].x, 2);
    EXPECT_EQ(static_cast<const void*>(points.data()), memory.bytes + 640);
    // A point of the same size that knows fewer fields is fine, as in PCL.
    EXPECT_EQ(driveline::points<PointXyzAligned>(cloud).value()[2].x, 2);
}

TEST(Points, TypesLikePclsFit) {
    Payload memory;
    const auto payload = make_cloud<pcl_like::PointXYZI>(memory, 2, 2);
    const auto cloud = CloudView::from(payload).value();
    EXPECT_EQ(cloud.head().point_step, 32u);
    EXPECT_EQ(cloud.fields()[3].offset, 16u);
    EXPECT_EQ(driveline::points<pcl_like::PointXYZI>(cloud).value()[3].x, 3);
}

TEST(Points, OfAnotherTypeAreRefusedByField) {
    Payload memory;
    const auto payload = make_cloud<PointXyzi>(memory, 3);
    const auto refused = [](const auto& result, const char* words) {
        ASSERT_FALSE(result.has_value());
        EXPECT_NE(result.error().message.find(words), std::string::npos) << result.error().message;
    };
    const auto cloud = CloudView::from(payload).value();
    refused(driveline::points<PointXyz>(cloud), "16 bytes apart");
    refused(driveline::points<pcl_like::PointXYZI>(cloud),
            "wanted is 'intensity' float32 at offset 16, the cloud has 'intensity' float32 at offset 12");
    auto raw = driveline::plain::Mut<PointCloud>::from(payload).value();
    raw->field_count = 3;
    refused(driveline::points<PointXyzi>(CloudView::from(payload).value()), "no such field; the cloud's fields are 'x' float32 at offset 0");
    raw->field_count = 4;
    raw->fields[1].datatype = 6;
    refused(driveline::points<PointXyzi>(CloudView::from(payload).value()), "the cloud has 'y' uint32 at offset 4");
}

TEST(Points, NumbersThatDoNotFitTheDataAreRefused) {
    Payload memory;
    const auto payload = make_cloud<PointXyz>(memory, 2, 2);
    auto raw = driveline::plain::Mut<PointCloud>::from(payload).value();
    const PointCloud good = *raw;
    const auto refused = [&](auto change, const char* words) {
        *raw = good;
        change(*raw);
        const auto cloud = CloudView::from(payload);
        ASSERT_FALSE(cloud.has_value()) << words;
        EXPECT_NE(cloud.error().message.find(words), std::string::npos) << cloud.error().message;
    };
    constexpr auto most = std::numeric_limits<std::uint32_t>::max();
    refused([](PointCloud& c) { c.height = 3; }, "need 72");
    refused([](PointCloud& c) { c.row_step = 23; }, "row step 23");
    refused([](PointCloud& c) { c.width = most; }, "row step 24");
    refused([](PointCloud& c) { c.field_count = 17; }, "claims 17 fields");
    refused([](PointCloud& c) { c.fields[2].offset = 9; }, "ends at byte 13");
    refused([](PointCloud& c) { c.fields[2].offset = c.fields[2].count = most; }, "of a point of 12 bytes");
    refused([](PointCloud& c) { c.fields[1].datatype = 9; }, "unknown datatype 9");
    refused([](PointCloud& c) { std::fill(std::begin(c.fields[0].name), std::end(c.fields[0].name), 'x'); }, "not zero-terminated");
    EXPECT_FALSE(CloudMut<PointXyz>::from(payload, Header{}, most).has_value());
    EXPECT_FALSE(CloudMut<PointXyz>::payload_size(SIZE_MAX / 4).has_value());
}

}  // namespace
