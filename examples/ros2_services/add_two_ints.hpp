// SPDX-License-Identifier: Apache-2.0
// example_interfaces/srv/AddTwoInts in CDR: four bytes with the byte order, then the fields. For
// types with strings and sequences, use a CDR library such as Fast-CDR.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <driveline/driveline.hpp>
#include <optional>
#include <span>

namespace add_two_ints {

// The name and the fields of the definition, in the form of docs/protocols/ros2-schema.md. Another
// name or definition does not match.
inline const driveline::Bytes request{"cdr", "example_interfaces/srv/AddTwoInts_Request",
                                      "int64 a\nint64 b\n"};
inline const driveline::Bytes response{"cdr", "example_interfaces/srv/AddTwoInts_Response",
                                       "int64 sum\n"};

// Byte order of this host; a ROS 2 node may use the other one.
inline constexpr std::byte own_order{std::endian::native == std::endian::little};
inline constexpr std::size_t header = 4;

template <std::size_t N>
std::array<std::byte, header + 8 * N> to_cdr(const std::array<std::int64_t, N>& numbers) {
    std::array<std::byte, header + 8 * N> bytes{std::byte{0}, own_order};
    std::memcpy(bytes.data() + header, numbers.data(), 8 * N);
    return bytes;
}

// Returns nothing if the bytes are not N numbers. Data from other programs must be checked.
template <std::size_t N>
std::optional<std::array<std::int64_t, N>> from_cdr(std::span<const std::byte> bytes) {
    if (bytes.size() != header + 8 * N || bytes[0] != std::byte{0} || bytes[1] > std::byte{1})
        return std::nullopt;
    std::array<std::int64_t, N> numbers{};
    std::memcpy(numbers.data(), bytes.data() + header, 8 * N);
    if (bytes[1] != own_order) {
        for (auto& number : numbers)
            number =
                static_cast<std::int64_t>(__builtin_bswap64(static_cast<std::uint64_t>(number)));
    }
    return numbers;
}

}  // namespace add_two_ints
