// SPDX-License-Identifier: Apache-2.0
#include "driveline/points.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <ranges>
#include <string>
#include <type_traits>

// The shape of PCL's own declaration: members in anonymous unions of a base class, constructors,
// 16-byte alignment.
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
        __extension__ struct { float intensity; };
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

// Point types as declared by lidar drivers, Autoware and PCL, and invalid point types.
namespace lidar {
struct alignas(16) Ring {
    float x, y, z, pad;
    float intensity;
    std::uint16_t ring;
    float time;
};
struct Autoware {
    float x, y, z;
    std::uint8_t intensity, return_type;
    std::uint16_t channel;
};
struct Colour {
    float x, y, z;
    union {
        std::uint8_t bgra[4];
        __extension__ struct { std::uint8_t b, g, r, a; };
        float rgb;
        std::uint32_t rgba;
    };
};
// PCL's PointXYZINormal, and a driver's point with angles.
struct alignas(16) Surface {
    float x, y, z, pad;
    union {
        float data_n[4];
        __extension__ struct { float normal_x, normal_y, normal_z; };
    };
    union {
        __extension__ struct { float intensity, curvature; };
        float data_c[4];
    };
};
struct Polar {
    float x, y, z;
    float azimuth, elevation, distance;
    double timestamp;
    std::uint32_t label;
    std::uint16_t reflectivity, ambient;
    std::uint8_t tag, line, laser_id, confidence;
    float velocity;
};
// With the names of Ouster, Livox and radar drivers, and of PCL's keypoints, surfels and
// viewpoints.
struct Ouster {
    float x, y, z, intensity;
    std::uint32_t t, range;
    std::uint16_t near_ir, noise;
};
struct Livox {
    float x, y, z;
    std::uint32_t offset_time, id;
    float strength;
    double time_stamp, stamp;
};
struct Radar {
    float x, y, z, doppler, rcs, snr, power;
    float intensity_variance, height_variance;
};
struct Keypoint {
    float x, y, z, scale, angle, response;
    std::int32_t octave;
    float radius, vp_x, vp_y, vp_z;
};
struct Hues {
    float x, y, z, h, s, v, L;
    std::uint8_t r, g, b, a;
};
enum class Return : std::uint8_t { first, last };
struct Unusual {
    double x, y, z;
    Return return_type;
    std::uint8_t unknown[3];
    std::uint32_t t;
};
struct Listed {
    float x, y, z;
    float beam_angle;
    std::uint16_t echo[2];
    std::uint8_t reserved[4];
};
DRIVELINE_POINT(Listed, x, y, z, beam_angle, echo);
struct Forgotten {
    float x, y, z;
    float beam_angle, dust;
};
DRIVELINE_POINT(Forgotten, x, y, z, beam_angle);
struct Wide {
    float x, y, z;
    float intensity;
    std::uint64_t time;
};
}  // namespace lidar

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
    for (std::size_t i = 0; i < cloud.points().size(); ++i)
        cloud.points()[i].x = static_cast<float>(i);
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
    const auto points = driveline::point_span<PointXyzi>(cloud).value();
    EXPECT_EQ(points[2].x, 2);
    EXPECT_EQ(static_cast<const void*>(points.data()), memory.bytes + 640);
    // A point type of the same size with fewer fields is accepted, as in PCL.
    EXPECT_EQ(driveline::point_span<PointXyzAligned>(cloud).value()[2].x, 2);
}

TEST(Points, TypesLikePclsFit) {
    Payload memory;
    const auto payload = make_cloud<pcl_like::PointXYZI>(memory, 2, 2);
    const auto cloud = CloudView::from(payload).value();
    EXPECT_EQ(cloud.head().point_step, 32u);
    EXPECT_EQ(cloud.fields()[3].offset, 16u);
    EXPECT_EQ(driveline::point_span<pcl_like::PointXYZI>(cloud).value()[3].x, 3);
}

template <class P>
std::string fields_of() {
    const auto& members = driveline::detail::point_fields<P>();
    if (!members) return members.error().message;
    std::string text;
    for (const auto& m : *members)
        text += std::string(m.name) + ' ' + std::string(to_string(m.datatype)) + '@' +
                std::to_string(m.offset) + ' ';
    return text;
}

TEST(Points, MembersOfKnownNamesAreFields) {
    EXPECT_EQ(
        fields_of<lidar::Ring>(),
        "x float32@0 y float32@4 z float32@8 intensity float32@16 ring uint16@20 time float32@24 ");
    EXPECT_EQ(fields_of<lidar::Autoware>(),
              "x float32@0 y float32@4 z float32@8 intensity uint8@12 return_type uint8@13 channel "
              "uint16@14 ");
    EXPECT_EQ(fields_of<lidar::Colour>(), "x float32@0 y float32@4 z float32@8 rgb float32@12 ")
        << "names of one memory are one field";
    EXPECT_EQ(fields_of<lidar::Surface>(),
              "x float32@0 y float32@4 z float32@8 normal_x float32@16 normal_y float32@20 "
              "normal_z float32@24 intensity float32@32 curvature float32@36 ");
    EXPECT_EQ(fields_of<lidar::Polar>(),
              "x float32@0 y float32@4 z float32@8 azimuth float32@12 elevation float32@16 "
              "distance float32@20 timestamp float64@24 label uint32@32 reflectivity uint16@36 "
              "ambient uint16@38 tag uint8@40 line uint8@41 laser_id uint8@42 confidence uint8@43 "
              "velocity float32@44 ");
    EXPECT_EQ(fields_of<lidar::Ouster>(),
              "x float32@0 y float32@4 z float32@8 intensity float32@12 t uint32@16 range "
              "uint32@20 near_ir uint16@24 noise uint16@26 ");
    EXPECT_EQ(fields_of<lidar::Livox>(),
              "x float32@0 y float32@4 z float32@8 offset_time uint32@12 id uint32@16 strength "
              "float32@20 time_stamp float64@24 stamp float64@32 ");
    EXPECT_EQ(fields_of<lidar::Radar>(),
              "x float32@0 y float32@4 z float32@8 doppler float32@12 rcs float32@16 snr "
              "float32@20 power float32@24 intensity_variance float32@28 height_variance "
              "float32@32 ");
    EXPECT_EQ(fields_of<lidar::Keypoint>(),
              "x float32@0 y float32@4 z float32@8 scale float32@12 angle float32@16 response "
              "float32@20 octave int32@24 radius float32@28 vp_x float32@32 vp_y float32@36 vp_z "
              "float32@40 ");
    EXPECT_EQ(fields_of<lidar::Hues>(),
              "x float32@0 y float32@4 z float32@8 h float32@12 s float32@16 v float32@20 L "
              "float32@24 r uint8@28 g uint8@29 b uint8@30 a uint8@31 ");
    EXPECT_EQ(fields_of<driveline::PointXyz64>(), "x float64@0 y float64@8 z float64@16 ");
    EXPECT_EQ(fields_of<lidar::Listed>(),
              "x float32@0 y float32@4 z float32@8 beam_angle float32@12 echo uint16@16 ");
}

TEST(Points, BytesWithoutAFieldAreRefusedWithTheRemedy) {
    Payload memory;
    const auto refused = [&]<class P>(std::type_identity<P>, const char* words) {
        const auto cloud = CloudMut<P>::from(std::span<std::byte>(memory.bytes), Header{}, 1);
        ASSERT_FALSE(cloud.has_value());
        EXPECT_NE(cloud.error().message.find(words), std::string::npos) << cloud.error().message;
    };
    refused(std::type_identity<lidar::Unusual>(), "bytes 25 to 27 of point type 'lidar::Unusual'");
    refused(std::type_identity<lidar::Unusual>(), "DRIVELINE_POINT(lidar::Unusual, x, y, z, ...)");
    refused(std::type_identity<lidar::Forgotten>(), "bytes 16 to 19");
    refused(std::type_identity<lidar::Wide>(),
            "member 'time' of point type 'lidar::Wide' is of a type that no field");
    const auto payload = make_cloud<PointXyz>(memory, 1);
    EXPECT_FALSE(driveline::points<lidar::Unusual>(CloudView::from(payload).value()).has_value())
        << "a cloud is read as points with bytes that have no field";
}

/// Cloud with the given fields. All values are zero, except the first field, x: it is the number of
/// the point.
struct Made {
    struct Field {
        const char* name;
        std::uint32_t offset;
        driveline::Datatype type;
        std::uint32_t count = 1;
    };
    Payload memory;
    std::span<std::byte> payload;

    Made(std::initializer_list<Field> fields, std::uint32_t step, std::uint32_t width,
         std::uint32_t height, std::uint32_t row_step) {
        PointCloud head{};
        head.width = width, head.height = height, head.point_step = step, head.row_step = row_step;
        for (const Field& field : fields) {
            auto& entry = head.fields[head.field_count++];
            driveline::plain::set_fixed_text(entry.name, field.name).value();
            entry.offset = field.offset, entry.datatype = static_cast<std::uint32_t>(field.type),
            entry.count = field.count;
        }
        payload =
            std::span(memory.bytes)
                .first(driveline::plain::payload_size<PointCloud>(std::size_t{row_step} * height)
                           .value());
        std::memcpy(memory.bytes, &head, sizeof head);
        for (std::uint32_t i = 0; i < width * height; ++i) {
            const auto x = static_cast<float>(i);
            std::memcpy(payload.data() + 640 + i / width * row_step + i % width * step +
                            fields.begin()->offset,
                        &x, sizeof x);
        }
    }
    [[nodiscard]] CloudView view() const { return CloudView::from(payload).value(); }
};

TEST(Points, AreReadFromAnyLayoutByName) {
    using enum driveline::Datatype;
    const auto last = []<class P>(const Made& cloud, std::type_identity<P>) {
        return driveline::points<P>(cloud.view()).value()[7].x;
    };
    constexpr std::type_identity<PointXyzi> xyzi;
    // Ouster: intensity elsewhere, points of 48 bytes.
    const Made ouster({{"x", 0, float32},
                       {"y", 4, float32},
                       {"z", 8, float32},
                       {"intensity", 16, float32},
                       {"t", 20, uint32},
                       {"ring", 26, uint16}},
                      48, 4, 2, 192);
    EXPECT_EQ(last(ouster, xyzi), 7);
    EXPECT_EQ(last(ouster, std::type_identity<PointXyz>()), 7);
    // PCL's XYZI, rows with gaps, missing counts, and fields in another order.
    EXPECT_EQ(last(Made({{"x", 0, float32},
                         {"y", 4, float32},
                         {"z", 8, float32},
                         {"intensity", 16, float32}},
                        32, 8, 1, 256),
                   xyzi),
              7);
    EXPECT_EQ(
        last(Made({{"x", 0, float32, 0}, {"y", 4, float32, 0}, {"z", 8, float32, 0}}, 12, 4, 2, 64),
             std::type_identity<PointXyz>()),
        7);
    EXPECT_EQ(last(Made({{"x", 8, float32}, {"z", 0, float32}, {"y", 4, float32}}, 12, 4, 2, 48),
                   std::type_identity<PointXyz>()),
              7);
    // Members that are not fields have the default values of the type.
    const auto pcl = driveline::points<pcl_like::PointXYZI>(ouster.view()).value();
    EXPECT_EQ(pcl[7].x, 7);
    EXPECT_EQ(pcl[7].data[3], 1);
    EXPECT_EQ(pcl.at(1, 3).x, 7);
}

TEST(Points, AreARangeOfValues) {
    static_assert(std::ranges::random_access_range<driveline::Points<PointXyz>>);
    using enum driveline::Datatype;
    const Made cloud({{"x", 0, float32}, {"y", 4, float32}, {"z", 8, float32}}, 16, 3, 2, 64);
    const auto points = driveline::points<PointXyz>(cloud.view()).value();
    float sum = 0;
    for (const PointXyz& p : points) sum += p.x;
    EXPECT_EQ(sum, 15);
    EXPECT_EQ(points.end() - points.begin(), 6);
    EXPECT_EQ((*std::ranges::prev(points.end())).x, 5);
    const Made none({{"x", 0, float32}, {"y", 4, float32}, {"z", 8, float32}}, 12, 0, 1, 0);
    EXPECT_TRUE(driveline::points<PointXyz>(none.view()).value().empty());
}

TEST(Points, ValuesAreNotConverted) {
    using enum driveline::Datatype;
    const Made doubles({{"x", 0, float64}, {"y", 8, float64}, {"z", 16, float64}}, 24, 2, 1, 48);
    const auto refused = driveline::points<PointXyz>(doubles.view());
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().message.find(
                  "wanted is 'x' float32 at offset 0, the cloud has 'x' float64"),
              std::string::npos)
        << refused.error().message;
    EXPECT_TRUE(driveline::points<driveline::PointXyz64>(doubles.view()).has_value());
    // A packed colour has either name, as in PCL.
    const Made colour(
        {{"x", 0, float32}, {"y", 4, float32}, {"z", 8, float32}, {"rgba", 12, uint32}}, 16, 2, 1,
        32);
    EXPECT_TRUE(driveline::point_span<lidar::Colour>(colour.view()).has_value());
}

TEST(Points, OfAnotherTypeAreRefusedWithTheField) {
    Payload memory;
    const auto payload = make_cloud<PointXyzi>(memory, 3);
    const auto refused = [](const auto& result, const char* words) {
        ASSERT_FALSE(result.has_value());
        EXPECT_NE(result.error().message.find(words), std::string::npos) << result.error().message;
    };
    const auto cloud = CloudView::from(payload).value();
    refused(driveline::point_span<PointXyz>(cloud), "16 bytes apart");
    refused(driveline::point_span<pcl_like::PointXYZI>(cloud),
            "wanted is 'intensity' float32 at offset 16, the cloud has 'intensity' float32 at "
            "offset 12");
    auto raw = driveline::plain::Mut<PointCloud>::from(payload).value();
    raw->field_count = 3;
    refused(driveline::point_span<PointXyzi>(CloudView::from(payload).value()),
            "no such field; the cloud's fields are 'x' float32 at offset 0");
    raw->field_count = 4;
    raw->fields[1].datatype = 6;
    refused(driveline::point_span<PointXyzi>(CloudView::from(payload).value()),
            "the cloud has 'y' uint32 at offset 4");
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
    refused([](PointCloud& c) { c.fields[2].offset = 9, c.fields[2].count = 0; },
            "ends at byte 13");
    refused([](PointCloud& c) { c.fields[2].offset = c.fields[2].count = most; },
            "of a point of 12 bytes");
    refused([](PointCloud& c) { c.fields[1].datatype = 9; }, "unknown datatype 9");
    refused(
        [](PointCloud& c) {
            std::fill(std::begin(c.fields[0].name), std::end(c.fields[0].name), 'x');
        },
        "not zero-terminated");
    EXPECT_FALSE(CloudMut<PointXyz>::from(payload, Header{}, most).has_value());
    EXPECT_FALSE(CloudMut<PointXyz>::payload_size(SIZE_MAX / 4).has_value());
}

}  // namespace
