// SPDX-License-Identifier: Apache-2.0
// Conversion of clouds of the real PCL, if its headers are installed. For other machines,
// `cloud_test.cpp` has a class with the shape of PCL's.
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pcl/point_cloud.h>
#include <pcl/point_types.h>

#include <driveline/pcl.hpp>

#include "domain.hpp"

namespace {

using driveline::PointCloud;

std::string fields_of(const driveline::CloudView& cloud) {
    std::string text;
    for (const auto& field : cloud.fields()) {
        text += std::string(driveline::plain::fixed_text(field.name)) + '@' +
                std::to_string(field.offset) + ' ';
    }
    return text;
}

/// Publishes a cloud of `P`, copies it back, compares all fields, and returns their names and
/// offsets. `set` fills a point from its number.
template <class P, class F>
std::string out_and_in(const F& set) {
    const test::Domain domain;
    auto link = test::Link<PointCloud>::make(domain, {.max_payload = 4096});
    pcl::PointCloud<P> cloud(3, 2);
    cloud.header.frame_id = "lidar_top";
    cloud.is_dense = false;
    for (std::size_t i = 0; i < cloud.size(); ++i) {
        cloud[i].x = static_cast<float>(i);
        cloud[i].z = -1;
        set(cloud[i], i);
    }
    const auto published = driveline::publish(link.publisher, cloud);
    if (!published) return published.error().message;
    const auto sample = link.receive();
    EXPECT_EQ(sample->header.frame(), "lidar_top");
    EXPECT_EQ(sample.cloud().head().point_step, sizeof(P));

    pcl::PointCloud<P> same;
    const auto copied = driveline::copy(sample.cloud(), same);
    if (!copied) return copied.error().message;
    EXPECT_EQ(same.size(), 6u);
    EXPECT_EQ(same.width, 3u);
    EXPECT_EQ(same.height, 2u);
    EXPECT_FALSE(same.is_dense);
    EXPECT_EQ(same.header.frame_id, "lidar_top");
    for (const auto& field : sample.cloud().fields()) {
        const auto size = driveline::size_of(*driveline::datatype_from_number(field.datatype));
        for (std::size_t i = 0; i < same.size(); ++i) {
            const auto* before = reinterpret_cast<const char*>(&cloud[i]) + field.offset;
            const auto* after = reinterpret_cast<const char*>(&same[i]) + field.offset;
            EXPECT_EQ(std::memcmp(before, after, size * field.count), 0)
                << driveline::plain::fixed_text(field.name) << " of point " << i;
        }
    }
    // A reader with another point type receives the coordinates.
    pcl::PointCloud<pcl::PointXYZ> places;
    EXPECT_TRUE(driveline::copy(sample.cloud(), places));
    EXPECT_EQ(places[5].x, 5);
    EXPECT_EQ(places[5].data[3], 1) << "PCL's constructor sets it";
    return fields_of(sample.cloud());
}

TEST(Pcl, PlacesWithAnIntensity) {
    EXPECT_EQ(out_and_in<pcl::PointXYZ>([](auto&, auto) {}), "x@0 y@4 z@8 ");
    const auto intensity = [](auto& point, auto i) { point.intensity = static_cast<float>(7 * i); };
    EXPECT_EQ(out_and_in<pcl::PointXYZI>(intensity), "x@0 y@4 z@8 intensity@16 ");
}

TEST(Pcl, PlacesWithALabel) {
    const auto label = [](auto& point, auto i) { point.label = static_cast<std::uint32_t>(i); };
    EXPECT_EQ(out_and_in<pcl::PointXYZL>(label), "x@0 y@4 z@8 label@16 ");
}

TEST(Pcl, Colours) {
    const auto colour = [](auto& point, auto i) {
        point.r = static_cast<std::uint8_t>(i), point.g = 2, point.b = 3, point.a = 255;
    };
    EXPECT_EQ(out_and_in<pcl::PointXYZRGB>(colour), "x@0 y@4 z@8 rgb@16 ");
    // One field, although the type has both members: PCL treats the two names as the same.
    EXPECT_EQ(out_and_in<pcl::PointXYZRGBA>(colour), "x@0 y@4 z@8 rgb@16 ");
}

TEST(Pcl, Normals) {
    const auto normal = [](auto& point, auto i) {
        point.normal_x = static_cast<float>(i), point.normal_y = 2, point.normal_z = 3;
        point.curvature = 0.5F;
    };
    EXPECT_EQ(out_and_in<pcl::PointNormal>(normal),
              "x@0 y@4 z@8 normal_x@16 normal_y@20 normal_z@24 curvature@32 ");
    EXPECT_EQ(out_and_in<pcl::PointXYZINormal>(normal),
              "x@0 y@4 z@8 normal_x@16 normal_y@20 normal_z@24 intensity@32 curvature@36 ");
    EXPECT_EQ(out_and_in<pcl::PointXYZRGBNormal>(normal),
              "x@0 y@4 z@8 normal_x@16 normal_y@20 normal_z@24 rgb@32 curvature@36 ");
}

}  // namespace
