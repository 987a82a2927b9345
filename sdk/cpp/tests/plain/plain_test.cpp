// SPDX-License-Identifier: Apache-2.0
#include "driveline/plain.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace demo {
struct Point {
    float x;
    float y;
};
DRIVELINE_PLAIN(Point, "demo/Point", x, y);

struct Scan {
    std::uint64_t time_ns;
    Point corners[2];
    char label[8];
};
DRIVELINE_PLAIN_WITH_TAIL(Scan, "demo/Scan", Point, points, time_ns, corners, label);
}  // namespace demo

namespace {

using demo::Point;
using demo::Scan;
namespace plain = driveline::plain;

struct alignas(64) Payload {
    std::array<std::byte, 256> bytes{};
    std::span<std::byte> first(std::size_t size) { return std::span(bytes).first(size); }
};

TEST(Plain, TypesAreKnownAtCompileTime) {
    static_assert(plain::Type<Scan>);
    static_assert(!plain::Type<int>);
    static_assert(plain::has_tail<Scan> && !plain::has_tail<Point>);
    static_assert(plain::name<Scan> == "demo/Scan");
    static_assert(plain::tail_offset<Scan> == 64 && plain::tail_offset<Point> == 8);
    EXPECT_EQ(plain::definition<Scan>(),
              "driveline plain 1\n"
              "type demo/Scan size 32 align 8\n"
              "field time_ns u64 offset 0\n"
              "field corners[0].x f32 offset 8\n"
              "field corners[0].y f32 offset 12\n"
              "field corners[1].x f32 offset 16\n"
              "field corners[1].y f32 offset 20\n"
              "field label u8[8] offset 24\n"
              "tail points demo/Point size 8 align 4\n"
              "element x f32 offset 0\n"
              "element y f32 offset 4\n");
}

TEST(Plain, ValuesAreWrittenAndReadInPlace) {
    Payload memory;
    memory.bytes.fill(std::byte{0xaa});
    const auto size = plain::payload_size<Scan>(2).value();
    ASSERT_EQ(size, 64u + 16u);
    auto scan = plain::Mut<Scan>::from(memory.first(size)).value();
    *scan = Scan{7, {{1, 2}, {3, 4}}, {}};
    scan.tail()[1] = {5, 6};
    for (std::size_t i = 32; i < 64; ++i)
        EXPECT_EQ(memory.bytes[i], std::byte{0}) << "the gap is not cleared at byte " << i;

    const auto read = plain::Ref<Scan>::from(memory.first(size)).value();
    EXPECT_EQ(read->time_ns, 7u);
    ASSERT_EQ(read.tail().size(), 2u);
    EXPECT_EQ(read.tail()[1].y, 6);
    EXPECT_EQ(static_cast<const void*>(read.tail().data()), memory.bytes.data() + 64);
}

TEST(Plain, PayloadsThatDoNotFitAreRefusedWithTheReason) {
    Payload memory;
    const auto refused = [](const auto& result, const char* words) {
        ASSERT_FALSE(result.has_value());
        EXPECT_NE(result.error().message.find(words), std::string::npos) << result.error().message;
    };
    refused(plain::Ref<Scan>::from(memory.first(63)),
            "too short for plain type 'demo/Scan', which needs 64");
    refused(plain::Ref<Scan>::from(memory.first(70)), "6 bytes follow the head");
    refused(plain::Ref<Scan>::from(std::span(memory.bytes).subspan(4, 64)), "no multiple of 8");
    refused(plain::Ref<Point>::from(memory.first(9)), "too long");
    refused(plain::Ref<Point>::from({}), "too short");
    refused(plain::Mut<Scan>::from(memory.first(63)), "too short");
    refused(plain::payload_size<Scan>(SIZE_MAX / 4), "longer than the address space");
    refused(plain::payload_size<Point>(1), "no trailing array");
    EXPECT_TRUE(plain::Ref<Scan>::from(memory.first(64)).value().tail().empty());
    EXPECT_TRUE(plain::Ref<Point>::from(memory.first(8)).value().tail().empty());
}

TEST(Plain, AnyLengthAndAddressIsAPayloadOrAnError) {
    Payload memory;
    for (std::size_t start = 0; start < 70; ++start) {
        for (std::size_t size = 0; start + size <= memory.bytes.size(); ++size) {
            const auto scan = plain::Ref<Scan>::from(std::span(memory.bytes).subspan(start, size));
            const bool fits = size >= 64 && size % 8 == 0 && start % 8 == 0;
            ASSERT_EQ(scan.has_value(), fits) << start << " " << size;
            if (scan) {
                ASSERT_EQ(64 + scan->tail().size_bytes(), size);
            }
        }
    }
}

TEST(Plain, TextOfFixedSizeIsBounded) {
    char field[4] = {'a', 'b', 'c', 'd'};
    EXPECT_EQ(plain::fixed_text(field), "abcd");
    EXPECT_TRUE(plain::set_fixed_text(field, "xyz"));
    EXPECT_EQ(plain::fixed_text(field), "xyz");
    EXPECT_TRUE(plain::set_fixed_text(field, ""));
    EXPECT_EQ(plain::fixed_text(field), "");
    EXPECT_EQ(field[1], '\0');
    EXPECT_FALSE(plain::set_fixed_text(field, "four").has_value());
    EXPECT_FALSE(plain::set_fixed_text(field, std::string_view("a\0b", 3)).has_value());
}

TEST(Result, HoldsAValueOrAnError) {
    driveline::Result<std::string> good(std::string("yes"));
    EXPECT_TRUE(good);
    EXPECT_EQ(*good, "yes");
    EXPECT_EQ(good->size(), 3u);
    driveline::Result<std::string> bad(driveline::Error{"no", 5});
    EXPECT_FALSE(bad);
    EXPECT_EQ(bad.error().status, 5);
    EXPECT_THROW(static_cast<void>(bad.value()), std::runtime_error);
    EXPECT_TRUE(driveline::Result<void>());
    EXPECT_THROW(driveline::Result<void>(driveline::Error{"no"}).value(), std::runtime_error);
}

}  // namespace
