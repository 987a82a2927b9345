// SPDX-License-Identifier: Apache-2.0
// Bytes as a ROS 1 message, written by hand in place of the output of genmsg for `uint8[] bytes`.
#pragma once

#include <ros/message_traits.h>
#include <ros/serialization.h>

#include <cstring>
#include <vector>

namespace ros1 {

struct Bytes {
    std::vector<std::uint8_t> bytes;
};

}  // namespace ros1

namespace ros::message_traits {

template <>
struct IsMessage<ros1::Bytes> : TrueType {};

template <>
struct MD5Sum<ros1::Bytes> {
    // MD5 of the definition's text, as genmsg computes it.
    static const char* value() { return "d159f2bd8169d3b3339e6f1fce045c6d"; }
    static const char* value(const ros1::Bytes&) { return value(); }
};

template <>
struct DataType<ros1::Bytes> {
    static const char* value() { return "bench/Bytes"; }
    static const char* value(const ros1::Bytes&) { return value(); }
};

template <>
struct Definition<ros1::Bytes> {
    static const char* value() { return "uint8[] bytes\n"; }
    static const char* value(const ros1::Bytes&) { return value(); }
};

}  // namespace ros::message_traits

namespace ros::serialization {

// ROS's own serializer of vectors is not valid C++20.
template <>
struct Serializer<ros1::Bytes> {
    template <typename Stream>
    static void write(Stream& stream, const ros1::Bytes& message) {
        const auto size = static_cast<std::uint32_t>(message.bytes.size());
        stream.next(size);
        std::memcpy(stream.advance(size), message.bytes.data(), size);
    }
    template <typename Stream>
    static void read(Stream& stream, ros1::Bytes& message) {
        std::uint32_t size = 0;
        stream.next(size);
        // Throws if there are fewer bytes.
        const auto* from = stream.advance(size);
        message.bytes.assign(from, from + size);
    }
    static std::uint32_t serializedLength(const ros1::Bytes& message) {
        return static_cast<std::uint32_t>(sizeof(std::uint32_t) + message.bytes.size());
    }
};

}  // namespace ros::serialization
