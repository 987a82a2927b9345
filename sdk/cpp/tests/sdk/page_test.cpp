// SPDX-License-Identifier: Apache-2.0
// The code of docs/cpp.md, "Unit tests" and "Point clouds", compiled and run. CMake extracts the
// blocks. This file declares the names that they use.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <driveline/pcl.hpp>
#include <driveline/points.hpp>
#include <driveline/protobuf.hpp>

#include "driveline/msgs/lane_markings.pb.h"

using driveline::msgs::LaneMarkings;

#include "page/unit_test.inc"

#include "page/point_type.inc"

namespace pcl {

// These classes have the shape of PCL's.
struct alignas(16) PointXYZI {
    union {
        float data[4];
        __extension__ struct { float x, y, z; };
    };
    union {
        float data_c[4];
        __extension__ struct { float intensity; };
    };

    PointXYZI() : data{0, 0, 0, 1}, data_c{0, 0, 0, 0} {}
};
template <class P>
struct PointCloud {
    using PointType = P;
    struct {
        std::string frame_id;
    } header;
    std::vector<P> points;
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    bool is_dense = true;
};

}  // namespace pcl

namespace {

using driveline::testing::ComponentTest;

// A column that is brighter than the threshold is a marking.
class Lane : public driveline::Component {
    driveline::Input<driveline::Image> image_{*this, "image"};
    driveline::Output<LaneMarkings> lanes_{*this, "lanes"};
    driveline::Parameter<double> low_{*this, "canny_low", 50, "lower threshold"};

    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto image = image_.sample();
        if (!image) return {};
        LaneMarkings lanes;
        for (const std::uint8_t pixel : image->image().row(0)) {
            if (pixel > *low_) lanes.add_lines();
        }
        return lanes_.publish(std::move(lanes));
    }
};
DRIVELINE_COMPONENT(Lane);

TEST(Lane, FindsSomethingInAWhiteOne) {
    auto test = ComponentTest::create("Lane", {.parameters = {{"canny_low", 40}}}).value();
    auto image = test.loan<driveline::Image>("image", 64, 48, driveline::Encoding::mono8).value();
    std::ranges::fill(image.tail(), std::uint8_t{255});
    test.feed("image", std::move(image)).value();
    test.run().value();
    EXPECT_EQ((*test.take<LaneMarkings>("lanes").value())->lines_size(), 64);
}

struct Distance {
    float metres;
};

/// Measures the distance of the nearest point, and publishes the points again.
class Nearest : public driveline::Component {
    driveline::Input<driveline::PointCloud> input_{*this, "cloud"};
    driveline::Output<driveline::PointCloud> output_{*this, "written"};
    driveline::Output<Distance> nearest_{*this, "nearest"};

    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto sample = input_.sample();
        if (!sample) return {};
        float nearest = std::numeric_limits<float>::max();
        if (auto read = measure(sample, nearest); !read) return read;
        return nearest_.publish(Distance{nearest});
    }

    driveline::Status measure(const std::optional<driveline::Sample<driveline::PointCloud>>& sample,
                              float& nearest) {
        const std::uint32_t count = 2;
        const driveline::Header header{};
        const auto fill = [](std::span<pcl::PointXYZI> points) {
            for (std::size_t i = 0; i < points.size(); ++i) {
                points[i] = {};
                points[i].intensity = static_cast<float>(i + 1);
            }
        };
        pcl::PointCloud<pcl::PointXYZI> pcl_cloud;
#include "page/points.inc"
    }
};
DRIVELINE_COMPONENT(Nearest);

TEST(Page, CloudsAreReadAndWrittenAsDescribed) {
    auto test = ComponentTest::create("Nearest").value();
    pcl::PointCloud<driveline::PointXyzi> cloud;
    cloud.points = {{3, 4, 0, 1}, {30, 40, 0, 1}};
    cloud.width = 2, cloud.height = 1;
    test.feed_with<driveline::PointCloud>(
            "cloud", [&](const auto& input) { return driveline::publish(input, cloud); })
        .value();
    EXPECT_EQ(test.run().value(), 1U);
    EXPECT_EQ((*test.take<Distance>("nearest").value())->metres, 5.0F);
    const auto written = test.take<driveline::PointCloud>("written").value();
    ASSERT_TRUE(written);
    const auto points = driveline::points<pcl::PointXYZI>(written->cloud()).value();
    ASSERT_EQ(points.size(), 2U);
    EXPECT_EQ(points[1].intensity, 2);
    EXPECT_EQ((*written)->is_dense, 1U);
}

TEST(Page, APointTypeOfYourOwnHasItsFields) {
    const auto& fields = driveline::detail::point_fields<lidar::Point>();
    ASSERT_TRUE(fields);
    std::string names;
    for (const auto& field : *fields) names += std::string(field.name) + ' ';
    EXPECT_EQ(names, "x y z snr_db beam ");
}

}  // namespace
