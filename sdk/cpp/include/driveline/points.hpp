// SPDX-License-Identifier: Apache-2.0
/// Typed spans over the points of a cloud, without copying. Point types of PCL fit as they are; PCL itself is not needed:
///
/// ```cpp
/// auto cloud = driveline::CloudView::from(payload);
/// auto points = driveline::points<pcl::PointXYZ>(*cloud);     // or driveline::PointXyzi
/// for (const pcl::PointXYZ& p : *points) { ... }
/// ```
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "driveline/point_cloud.hpp"

namespace driveline {

/// x, y, z in metres without gaps: 12 bytes.
struct PointXyz {
    float x, y, z;
};

/// x, y, z in metres and one unused float, aligned to 16 bytes: the layout of `pcl::PointXYZ`.
struct alignas(16) PointXyzAligned {
    float x, y, z;
    /// PCL keeps 1 here.
    float unused;
};

/// x, y, z in metres and intensity in the sensor's unit, without gaps: 16 bytes.
struct PointXyzi {
    float x, y, z, intensity;
};

/// A point type with `float` members `x`, `y`, `z`, and `intensity` if it has one.
template <class P>
concept Point = std::is_trivially_copyable_v<P> && std::default_initializable<P> && requires(P p) {
    { p.x } -> std::same_as<float&>;
    { p.y } -> std::same_as<float&>;
    { p.z } -> std::same_as<float&>;
};

namespace detail {

struct FloatField {
    std::string_view name;
    std::uint32_t offset;
};

// A concept of its own: clang 16 crashes on a requires-expression in the lambda below.
template <class P>
concept HasIntensity = requires(P p) {
    { p.intensity } -> std::same_as<float&>;
};

/// The fields of a point type and their offsets. Members may be those of base classes and anonymous unions, as in PCL,
/// which offsetof does not know.
template <Point P>
std::span<const FloatField> point_fields() {
    static const std::vector<FloatField> fields = [] {
        const P point{};
        const auto offset = [&point](const float& member) {
            return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(&member) - reinterpret_cast<std::uintptr_t>(&point));
        };
        std::vector<FloatField> list{{"x", offset(point.x)}, {"y", offset(point.y)}, {"z", offset(point.z)}};
        if constexpr (HasIntensity<P>) {
            list.push_back({"intensity", offset(point.intensity)});
        }
        return list;
    }();
    return fields;
}

inline std::string describe(const PointField& field) {
    const auto type = datatype_from_number(field.datatype);
    return "'" + std::string(plain::fixed_text(field.name)) + "' " + (type ? std::string(to_string(*type)) : "unknown") +
           (field.count == 1 ? "" : "[" + std::to_string(field.count) + "]") + " at offset " + std::to_string(field.offset);
}

inline Error wrong_field(const CloudView& cloud, const FloatField& expected, const PointField* found) {
    std::string all;
    for (const PointField& field : cloud.fields()) all += (all.empty() ? "" : ", ") + describe(field);
    return Error{"the cloud's points are of another type: wanted is '" + std::string(expected.name) + "' float32 at offset " +
                 std::to_string(expected.offset) + ", the cloud has " + (found ? describe(*found) : "no such field") +
                 "; the cloud's fields are " + all};
}

}  // namespace detail

/// The points of a cloud, in place; valid as long as its payload. The cloud may have more fields than `P`, as long as its
/// points are as large. Fails naming the field that differs, or if there are gaps between points or rows.
template <Point P>
[[nodiscard]] Result<std::span<const P>> points(const CloudView& cloud) {
    for (const detail::FloatField& expected : detail::point_fields<P>()) {
        const PointField* found = nullptr;
        for (const PointField& field : cloud.fields()) {
            if (plain::fixed_text(field.name) == expected.name) {
                found = &field;
                break;
            }
        }
        if (!found || found->offset != expected.offset || found->datatype != static_cast<std::uint32_t>(Datatype::float32) ||
            found->count != 1) {
            return detail::wrong_field(cloud, expected, found);
        }
    }
    const PointCloud& head = cloud.head();
    const bool one_piece = head.height <= 1 || head.row_step == std::uint64_t{head.width} * sizeof(P);
    if (head.point_step != sizeof(P) || !one_piece) {
        return Error{"the cloud's points are no array of points of " + std::to_string(sizeof(P)) + " bytes: they are " +
                     std::to_string(head.point_step) + " bytes apart, and its rows " + std::to_string(head.row_step) + " bytes"};
    }
    const auto* first = cloud.data().data();
    if (reinterpret_cast<std::uintptr_t>(first) % alignof(P) != 0) {
        return Error{"the cloud's points lie at an address that is no multiple of " + std::to_string(alignof(P))};
    }
    return std::span<const P>(reinterpret_cast<const P*>(first), cloud.size());
}

/// A point cloud under construction, of points of type `P`. Valid as long as the payload.
template <Point P>
class CloudMut {
public:
    /// Length of the payload of `count` points, in bytes: what to loan.
    [[nodiscard]] static Result<std::size_t> payload_size(std::size_t count) {
        const bool fits = count <= SIZE_MAX / sizeof(P);
        return plain::payload_size<PointCloud>(fits ? count * sizeof(P) : SIZE_MAX);
    }

    /// Writes the head of a cloud of `height` rows of `width` points into a payload of at least `payload_size`. The points
    /// keep what was there; `is_dense` is 0.
    [[nodiscard]] static Result<CloudMut> from(plain::Mut<PointCloud> payload, const Header& header, std::uint32_t width,
                                               std::uint32_t height = 1) {
        PointCloud head{};
        head.header = header;
        head.height = height;
        head.width = width;
        head.point_step = sizeof(P);
        // Rows of more than 4 GiB come out too short here and are refused as such.
        head.row_step = static_cast<std::uint32_t>(std::uint64_t{width} * sizeof(P));
        for (const detail::FloatField& field : detail::point_fields<P>()) {
            PointField& entry = head.fields[head.field_count++];
            if (auto set = plain::set_fixed_text(entry.name, field.name); !set) return std::move(set).error();
            entry.offset = field.offset;
            entry.datatype = static_cast<std::uint32_t>(Datatype::float32);
            entry.count = 1;
        }
        if (auto checked = detail::check_cloud(head, payload.tail().size()); !checked) return std::move(checked).error();
        if (reinterpret_cast<std::uintptr_t>(payload.tail().data()) % alignof(P) != 0) {
            return Error{"the payload lies at an address that is no multiple of " + std::to_string(alignof(P))};
        }
        *payload = head;
        return CloudMut(payload, std::size_t{width} * height);
    }
    [[nodiscard]] static Result<CloudMut> from(std::span<std::byte> payload, const Header& header, std::uint32_t width,
                                               std::uint32_t height = 1) {
        auto mut = plain::Mut<PointCloud>::from(payload);
        if (!mut) return std::move(mut).error();
        return from(*mut, header, width, height);
    }

    /// Declares that no point has NaN coordinates.
    void set_dense() const noexcept { payload_->is_dense = 1; }
    /// The points, row by row.
    [[nodiscard]] std::span<P> points() const noexcept { return {reinterpret_cast<P*>(payload_.tail().data()), count_}; }

private:
    CloudMut(plain::Mut<PointCloud> payload, std::size_t count) noexcept : payload_(payload), count_(count) {}

    plain::Mut<PointCloud> payload_;
    /// What was checked.
    std::size_t count_;
};

}  // namespace driveline
