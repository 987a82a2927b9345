// SPDX-License-Identifier: Apache-2.0
/// Point clouds, described as in ROS's `sensor_msgs/PointCloud2`. For points as values of a type,
/// see `driveline/points.hpp`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "driveline/header.hpp"

namespace driveline {

/// One field of a point.
struct PointField {
    /// Name, such as `x` or `intensity`: at most 19 bytes of UTF-8, then zeros.
    char name[20];
    /// Offset in a point, in bytes.
    std::uint32_t offset;
    /// A `Datatype`'s number.
    std::uint32_t datatype;
    /// Number of elements. 0 is read as 1, because some ROS drivers leave it unset.
    std::uint32_t count;
};
DRIVELINE_PLAIN(PointField, "driveline/PointField", name, offset, datatype, count);

/// Maximum number of fields of a point.
inline constexpr std::size_t max_point_fields = 16;

/// Head of a point cloud; the points follow as `data`. Values are little endian.
///
/// Read it through `CloudView` and write it through `CloudMut`, which check it against the size of
/// the data.
struct PointCloud {
    Header header;
    /// Rows: 1 for a list of points, more for a grid in the sensor's order.
    std::uint32_t height;
    /// Points in a row.
    std::uint32_t width;
    /// Distance from the start of a point to the start of the next, in bytes.
    std::uint32_t point_step;
    /// Distance from the start of a row to the start of the next, in bytes.
    std::uint32_t row_step;
    /// 0 if points may have NaN coordinates, anything else if none has.
    std::uint32_t is_dense;
    /// Number of used entries of `fields`.
    std::uint32_t field_count;
    /// Fields of a point; unused entries are zero.
    PointField fields[max_point_fields];
};
DRIVELINE_PLAIN_WITH_TAIL(PointCloud, "driveline/PointCloud", std::uint8_t, data, header, height,
                          width, point_step, row_step, is_dense, field_count, fields);

/// Type of a point's field. Numbers as in ROS's `sensor_msgs/PointField`.
enum class Datatype : std::uint32_t {
    int8 = 1,
    uint8 = 2,
    int16 = 3,
    uint16 = 4,
    int32 = 5,
    uint32 = 6,
    float32 = 7,
    float64 = 8
};

/// The type with this number, if there is one.
[[nodiscard]] constexpr std::optional<Datatype> datatype_from_number(
    std::uint32_t number) noexcept {
    if (number < 1 || number > 8) return std::nullopt;
    return static_cast<Datatype>(number);
}

/// Returns the size of a value of this type, in bytes.
[[nodiscard]] constexpr std::uint32_t size_of(Datatype type) noexcept {
    switch (type) {
        case Datatype::int8:
        case Datatype::uint8:
            return 1;
        case Datatype::int16:
        case Datatype::uint16:
            return 2;
        case Datatype::int32:
        case Datatype::uint32:
        case Datatype::float32:
            return 4;
        case Datatype::float64:
            return 8;
    }
    return 0;
}

[[nodiscard]] constexpr std::string_view to_string(Datatype type) noexcept {
    switch (type) {
        case Datatype::int8:
            return "int8";
        case Datatype::uint8:
            return "uint8";
        case Datatype::int16:
            return "int16";
        case Datatype::uint16:
            return "uint16";
        case Datatype::int32:
            return "int32";
        case Datatype::uint32:
            return "uint32";
        case Datatype::float32:
            return "float32";
        case Datatype::float64:
            return "float64";
    }
    return "unknown";
}

namespace detail {

inline Result<void> check_cloud(const PointCloud& cloud, std::size_t data_size) {
    const auto number = [](auto n) { return std::to_string(n); };
    if (cloud.field_count > max_point_fields) {
        return Error{"point cloud claims " + number(cloud.field_count) + " fields where " +
                     number(max_point_fields) + " fit"};
    }
    for (const PointField& field : std::span(cloud.fields).first(cloud.field_count)) {
        const std::string name(plain::fixed_text(field.name));
        if (name.size() == sizeof(field.name))
            return Error{"a field name of the point cloud, '" + name + "', is not zero-terminated"};
        const auto type = datatype_from_number(field.datatype);
        if (!type) {
            return Error{"field '" + name + "' of the point cloud has the unknown datatype " +
                         number(field.datatype) + "; known are 1 (int8) to 8 (float64)"};
        }
        const std::uint64_t end =
            field.offset + std::uint64_t{field.count == 0 ? 1 : field.count} * size_of(*type);
        if (end > cloud.point_step) {
            return Error{"field '" + name + "' of the point cloud ends at byte " + number(end) +
                         " of a point of " + number(cloud.point_step) + " bytes"};
        }
    }
    if (std::uint64_t{cloud.width} * cloud.point_step > cloud.row_step) {
        return Error{"point cloud row step " + number(cloud.row_step) + " bytes is less than " +
                     number(cloud.width) + " points of " + number(cloud.point_step) +
                     " bytes take"};
    }
    const std::uint64_t needed = std::uint64_t{cloud.row_step} * cloud.height;
    if (needed > data_size) {
        return Error{"point cloud data is " + number(data_size) + " bytes where " +
                     number(cloud.height) + " rows of " + number(cloud.row_step) + " bytes need " +
                     number(needed)};
    }
    return {};
}

}  // namespace detail

/// A point cloud that was checked against the size of its data. Valid as long as the payload;
/// copying it copies no points.
///
/// The head was copied before it was checked. Even if another process writes into the payload
/// afterwards, points and fields stay inside it; only the points' values can change.
class CloudView {
public:
    /// Reads a payload as a point cloud. Fails if the head does not fit the size of the data.
    [[nodiscard]] static Result<CloudView> from(plain::Ref<PointCloud> payload) {
        PointCloud head = payload.copy_head();
        if (auto checked = detail::check_cloud(head, payload.tail().size()); !checked)
            return std::move(checked).error();
        for (PointField& field : std::span(head.fields).first(head.field_count))
            field.count = field.count == 0 ? 1 : field.count;
        return CloudView(head, payload.tail());
    }
    [[nodiscard]] static Result<CloudView> from(std::span<const std::byte> payload) {
        auto ref = plain::Ref<PointCloud>::from(payload);
        if (!ref) return std::move(ref).error();
        return from(*ref);
    }

    /// Returns the copy of the head; it lives as long as this view.
    [[nodiscard]] const PointCloud& head() const& noexcept { return head_; }
    [[nodiscard]] PointCloud head() && noexcept { return head_; }
    [[nodiscard]] const Header& header() const& noexcept { return head_.header; }
    [[nodiscard]] Header header() && noexcept { return head_.header; }
    /// Number of points.
    [[nodiscard]] std::size_t size() const noexcept {
        return std::size_t{head_.width} * head_.height;
    }
    /// Returns the fields of a point; valid as long as this view. Names are zero-terminated,
    /// datatypes are known, and counts are at least 1.
    [[nodiscard]] std::span<const PointField> fields() const& noexcept {
        return std::span(head_.fields).first(head_.field_count);
    }
    std::span<const PointField> fields() && = delete;
    /// All bytes after the head; at least `row_step * height`.
    [[nodiscard]] std::span<const std::uint8_t> data() const noexcept { return data_; }

private:
    CloudView(const PointCloud& head, std::span<const std::uint8_t> data) noexcept
        : head_(head), data_(data) {}

    PointCloud head_;
    std::span<const std::uint8_t> data_;
};

template <>
struct plain::Checked<PointCloud> {
    using View = CloudView;
};

}  // namespace driveline
