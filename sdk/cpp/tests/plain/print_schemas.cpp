// SPDX-License-Identifier: Apache-2.0
// Prints the definition of every shipped type, and of types
// that use everything a definition can contain. The Rust test `cpp_twins` compares it with its own,
// byte for byte.
#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>

#include "driveline/compressed_image.hpp"
#include "driveline/imu.hpp"
#include "driveline/image.hpp"
#include "driveline/msgs/detections_2d.pb.h"
#include "driveline/msgs/fused_scene.pb.h"
#include "driveline/msgs/header.pb.h"
#include "driveline/msgs/image_geometry.pb.h"
#include "driveline/msgs/lane_markings.pb.h"
#include "driveline/msgs/run_health.pb.h"
#include "driveline/msgs/tracks_2d.pb.h"
#include "driveline/point_cloud.hpp"
#include "driveline/protobuf.hpp"
#include "driveline/radar.hpp"
#include "schema_probe.pb.h"

namespace probe {

struct Point {
    float x;
    float y;
};
DRIVELINE_PLAIN(Point, "probe/Point", x, y);

struct Pair {
    Point first;
    std::array<Point, 2> others;
};
DRIVELINE_PLAIN(Pair, "probe/Pair", first, others);

struct Everything {
    std::uint64_t a_u64;
    long a_long;
    long long a_long_long;
    double matrix[2][3];
    std::array<std::array<double, 2>, 2> nested_matrix;
    Pair pairs[2];
    std::uint32_t a_u32;
    std::int32_t an_i32;
    float one_float[1];
    float a_float;
    std::uint16_t a_u16;
    std::int16_t an_i16;
    std::uint8_t a_u8;
    std::int8_t an_i8;
    char text[3];
    std::byte raw[7];
};
DRIVELINE_PLAIN_WITH_TAIL(Everything, "probe/Everything", Pair, tail, a_u64, a_long, a_long_long,
                          matrix, nested_matrix, pairs, a_u32, an_i32, one_float, a_float, a_u16,
                          an_i16, a_u8, an_i8, text, raw);

struct alignas(32) Aligned {
    float values[8];
};
DRIVELINE_PLAIN_WITH_TAIL(Aligned, "probe/Aligned", double, samples, values);

}  // namespace probe

namespace {

template <driveline::plain::Type T>
void plain() {
    std::cout << "=== " << driveline::plain::name<T> << "\n" << driveline::plain::definition<T>();
}

template <driveline::protobuf::Type T>
void protobuf() {
    std::cout << "=== " << driveline::protobuf::name<T>() << "\n"
              << driveline::protobuf::definition<T>();
}

}  // namespace

int main() {
    plain<driveline::Header>();
    plain<driveline::Image>();
    plain<driveline::CompressedImage>();
    plain<driveline::Imu>();
    plain<driveline::PointField>();
    plain<driveline::PointCloud>();
    plain<driveline::RadarReturn>();
    plain<driveline::RadarScan>();
    plain<probe::Point>();
    plain<probe::Pair>();
    plain<probe::Everything>();
    plain<probe::Aligned>();
    protobuf<driveline::msgs::Header>();
    protobuf<driveline::msgs::ImageSize>();
    protobuf<driveline::msgs::ImagePoint>();
    protobuf<driveline::msgs::BoundingBox2D>();
    protobuf<driveline::msgs::LaneMarking>();
    protobuf<driveline::msgs::LaneMarkings>();
    protobuf<driveline::msgs::Detection2D>();
    protobuf<driveline::msgs::Detections2D>();
    protobuf<driveline::msgs::Track2D>();
    protobuf<driveline::msgs::Tracks2D>();
    protobuf<driveline::msgs::EgoLane>();
    protobuf<driveline::msgs::SceneObject>();
    protobuf<driveline::msgs::FusedScene>();
    protobuf<driveline::msgs::RunHealth>();
    protobuf<driveline::probe::Probe>();
    protobuf<driveline::probe::Probe::Part2D>();
}
