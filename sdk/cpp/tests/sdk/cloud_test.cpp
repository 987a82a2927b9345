// SPDX-License-Identifier: Apache-2.0
// Conversion of PCL clouds, with a class that has the shape of PCL's, so that PCL is not needed.
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <driveline/pcl.hpp>

#include "domain.hpp"

namespace pcl_like {

struct Header {
    std::uint32_t seq = 0;
    std::uint64_t stamp = 0;
    std::string frame_id;
};

template <class P>
struct PointCloud {
    using PointType = P;
    Header header;
    std::vector<P> points;
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    bool is_dense = true;
};

struct alignas(16) PointXYZIRT {
    union {
        float data[4];
        __extension__ struct { float x, y, z; };
    };
    float intensity;
    std::uint16_t ring;
    float time;

    PointXYZIRT() : data{0, 0, 0, 1}, intensity(0), ring(0), time(0) {}
};

struct PointXYZ {
    float x = 0, y = 0, z = 0;
};

struct Secret {
    float x = 0, y = 0, z = 0;
    float colour_of_the_sky = 0;
};

}  // namespace pcl_like

namespace {

using driveline::PointCloud;
using pcl_like::PointXYZIRT;

driveline::PublisherOptions large() { return {.max_payload = 4096}; }

pcl_like::PointCloud<PointXYZIRT> grid() {
    pcl_like::PointCloud<PointXYZIRT> cloud;
    cloud.header.frame_id = "lidar_top";
    cloud.width = 3, cloud.height = 2, cloud.is_dense = false;
    cloud.points.resize(6);
    for (std::size_t i = 0; i < 6; ++i) {
        cloud.points[i].x = static_cast<float>(i);
        cloud.points[i].ring = static_cast<std::uint16_t>(10 * i);
    }
    return cloud;
}

TEST(Clouds, OfPclKeepAllTheirFields) {
    const test::Domain domain;
    auto link = test::Link<PointCloud>::make(domain, large());
    const auto header = driveline::Header::make(7'000, "", 3).value();
    ASSERT_TRUE(driveline::publish(link.publisher, grid(), header));
    const auto sample = link.receive();
    EXPECT_EQ(sample->header.frame(), "lidar_top");
    EXPECT_EQ(sample->header.source_time_ns, 7'000u);
    EXPECT_EQ(sample.cloud().fields().size(), 6u);

    pcl_like::PointCloud<PointXYZIRT> same;
    ASSERT_TRUE(driveline::copy(sample.cloud(), same));
    ASSERT_EQ(same.points.size(), 6u);
    EXPECT_EQ(same.points[5].ring, 50);
    EXPECT_EQ(same.points[5].data[3], 1) << "a member that is not a field keeps its default";
    EXPECT_EQ(same.width, 3u);
    EXPECT_EQ(same.height, 2u);
    EXPECT_FALSE(same.is_dense);
    EXPECT_EQ(same.header.frame_id, "lidar_top");
    // Another point type receives the fields that it has.
    pcl_like::PointCloud<pcl_like::PointXYZ> places;
    ASSERT_TRUE(driveline::copy(sample.cloud(), places));
    EXPECT_EQ(places.points[4].x, 4);
}

TEST(Clouds, ThatDoNotFitTheirShapeOrHaveUnknownMembersAreRefused) {
    const test::Domain domain;
    auto link = test::Link<PointCloud>::make(domain, large());
    auto cloud = grid();
    cloud.width = 4;
    const auto shape = driveline::publish(link.publisher, cloud);
    ASSERT_FALSE(shape);
    EXPECT_NE(shape.error().message.find("claims 4 x 2 points and has 6"), std::string::npos)
        << shape.error().message;

    pcl_like::PointCloud<pcl_like::Secret> secret;
    secret.points.resize(1), secret.width = secret.height = 1;
    const auto unknown = driveline::publish(link.publisher, secret);
    ASSERT_FALSE(unknown);
    EXPECT_NE(unknown.error().message.find("DRIVELINE_POINT(pcl_like::Secret"), std::string::npos)
        << unknown.error().message;
    EXPECT_FALSE(link.subscription.latest().value().has_value()) << "nothing was published";
}

}  // namespace
