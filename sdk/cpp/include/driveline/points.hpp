// SPDX-License-Identifier: Apache-2.0
/// Points of a cloud as values of a point type: reads any layout, in place if the layouts agree;
/// writes clouds.
///
/// ```cpp
/// // Instead of driveline::PointXyzi: pcl::PointXYZI, or a type of your own.
/// auto points = driveline::points<driveline::PointXyzi>(sample.cloud());
/// if (!points) return points.error();
/// for (const auto& p : *points) { ... }
/// ```
///
/// Point types are described in `driveline/point_fields.hpp`. PCL is not needed. For whole PCL
/// clouds, see `driveline/pcl.hpp`.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "driveline/point_cloud.hpp"
#include "driveline/point_fields.hpp"

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

/// x, y, z in metres as `double`, for maps in world coordinates: 24 bytes.
struct PointXyz64 {
    double x, y, z;
};

namespace detail {

inline std::string describe(std::string_view name, std::optional<Datatype> type,
                            std::uint32_t count, std::uint32_t offset) {
    return "'" + std::string(name) + "' " + (type ? std::string(to_string(*type)) : "unknown") +
           (count == 1 ? "" : "[" + std::to_string(count) + "]") + " at offset " +
           std::to_string(offset);
}

inline std::string describe(const PointField& field) {
    return describe(plain::fixed_text(field.name), datatype_from_number(field.datatype),
                    field.count, field.offset);
}

/// `remedy`: empty, or a semicolon and a remedy.
inline Error wrong_field(const CloudView& cloud, const PointMember& expected,
                         const PointField* found, std::string_view remedy) {
    std::string all;
    for (const PointField& field : cloud.fields())
        all += (all.empty() ? "" : ", ") + describe(field);
    return Error{"the cloud's points are of another type: wanted is " +
                 describe(expected.name, expected.datatype, expected.count, expected.offset) +
                 ", the cloud has " + (found ? describe(*found) : "no such field") +
                 "; the cloud's fields are " + all + std::string(remedy)};
}

/// Returns the cloud's field with the name of a member. If there is none and the member is `rgb` or
/// `rgba`, returns the field with the other of these two names.
inline const PointField* find_field(const CloudView& cloud, std::string_view name) {
    for (const PointField& field : cloud.fields()) {
        if (plain::fixed_text(field.name) == name) return &field;
    }
    for (const PointField& field : cloud.fields()) {
        if (is_packed_colour(name) && is_packed_colour(plain::fixed_text(field.name)))
            return &field;
    }
    return nullptr;
}

/// Returns true if values of the field can be copied into the member.
inline bool same_values(const PointMember& member, const PointField& field) {
    const auto type = datatype_from_number(field.datatype);
    if (!type || field.count != member.count) return false;
    return *type == member.datatype || (is_packed_colour(member.name) && size_of(*type) == 4);
}

/// Returns true if the points of the cloud follow each other without gaps, each `size` bytes long.
inline bool one_piece(const PointCloud& head, std::size_t size) {
    return head.point_step == size &&
           (head.height <= 1 || head.row_step == std::uint64_t{head.width} * size);
}

}  // namespace detail

/// Returns the points of a cloud in place, as an array of `P`; valid as long as the cloud's
/// payload. The cloud may have more fields than `P`. Fails, naming the field, if a field is
/// absent or has another offset or type; fails if the points are not `sizeof(P)`
/// bytes apart without gaps, or not aligned for `P`. `points` reads clouds of any layout.
template <Point P>
[[nodiscard]] Result<std::span<const P>> point_span(const CloudView& cloud) {
    const auto& members = detail::point_fields<P>();
    if (!members) return members.error();
    for (const detail::PointMember& expected : *members) {
        const PointField* found = detail::find_field(cloud, expected.name);
        if (!found || found->offset != expected.offset || !detail::same_values(expected, *found)) {
            return detail::wrong_field(cloud, expected, found,
                                       "; points<P>() reads fields at other offsets");
        }
    }
    const PointCloud& head = cloud.head();
    if (!detail::one_piece(head, sizeof(P))) {
        return Error{"the cloud's points are no array of points of " + std::to_string(sizeof(P)) +
                     " bytes: they are " + std::to_string(head.point_step) +
                     " bytes apart, and its rows " + std::to_string(head.row_step) +
                     " bytes; points<P>() reads them"};
    }
    const auto* first = cloud.data().data();
    if (reinterpret_cast<std::uintptr_t>(first) % alignof(P) != 0) {
        return Error{"the cloud's points lie at an address that is no multiple of " +
                     std::to_string(alignof(P)) + "; points<P>() reads them"};
    }
    return std::span<const P>(reinterpret_cast<const P*>(first), cloud.size());
}

/// Points of a cloud of any layout. Each access copies the fields of one point, by name, into a
/// `P`. Valid as long as the cloud's payload. Members of `P` that are no fields, such as
/// padding, have the values of a `P{}`. Reading does not allocate.
template <Point P>
class Points {
public:
    /// Fails, naming the field, if the cloud lacks the field or has it with another type; values
    /// are not converted.
    [[nodiscard]] static Result<Points> from(const CloudView& cloud) {
        const auto& members = detail::point_fields<P>();
        if (!members) return members.error();
        Points points;
        for (const detail::PointMember& expected : *members) {
            const PointField* found = detail::find_field(cloud, expected.name);
            if (!found || !detail::same_values(expected, *found))
                return detail::wrong_field(cloud, expected, found, "");
            points.add(*found, expected);
        }
        const PointCloud& head = cloud.head();
        points.first_ = cloud.data().data();
        points.width_ = head.width;
        points.size_ = cloud.size();
        points.point_step_ = head.point_step;
        points.row_step_ = head.row_step;
        return points;
    }

    /// Number of points.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    /// Points in a row.
    [[nodiscard]] std::size_t width() const noexcept { return width_; }

    /// Returns point number `index`, row by row; `index` must be less than `size()`.
    [[nodiscard]] P operator[](std::size_t index) const noexcept {
        const std::size_t row = index / width_;
        return read(first_ + row * row_step_ + (index - row * width_) * point_step_);
    }
    /// Returns a point of a grid; row and column must be less than the cloud's height and width.
    [[nodiscard]] P at(std::size_t row, std::size_t column) const noexcept {
        return read(first_ + row * row_step_ + column * point_step_);
    }

    class Iterator {
    public:
        using value_type = P;
        using difference_type = std::ptrdiff_t;
        using reference = P;
        using iterator_concept = std::random_access_iterator_tag;
        using iterator_category = std::input_iterator_tag;

        Iterator() noexcept = default;
        [[nodiscard]] P operator*() const noexcept { return (*points_)[index_]; }
        [[nodiscard]] P operator[](difference_type n) const noexcept { return *(*this + n); }
        Iterator& operator++() noexcept { return *this += 1; }
        Iterator operator++(int) noexcept { return std::exchange(*this, *this + 1); }
        Iterator& operator--() noexcept { return *this -= 1; }
        Iterator operator--(int) noexcept { return std::exchange(*this, *this - 1); }
        Iterator& operator+=(difference_type n) noexcept {
            index_ = static_cast<std::size_t>(static_cast<difference_type>(index_) + n);
            return *this;
        }
        Iterator& operator-=(difference_type n) noexcept { return *this += -n; }
        [[nodiscard]] friend Iterator operator+(Iterator i, difference_type n) noexcept {
            return i += n;
        }
        [[nodiscard]] friend Iterator operator+(difference_type n, Iterator i) noexcept {
            return i += n;
        }
        [[nodiscard]] friend Iterator operator-(Iterator i, difference_type n) noexcept {
            return i -= n;
        }
        [[nodiscard]] friend difference_type operator-(const Iterator& a,
                                                       const Iterator& b) noexcept {
            return static_cast<difference_type>(a.index_) - static_cast<difference_type>(b.index_);
        }
        [[nodiscard]] friend bool operator==(const Iterator& a, const Iterator& b) noexcept {
            return a.index_ == b.index_;
        }
        [[nodiscard]] friend auto operator<=>(const Iterator& a, const Iterator& b) noexcept {
            return a.index_ <=> b.index_;
        }

    private:
        friend class Points;
        Iterator(const Points* points, std::size_t index) noexcept
            : points_(points), index_(index) {}

        const Points* points_ = nullptr;
        std::size_t index_ = 0;
    };

    /// Iterators are valid as long as this view.
    [[nodiscard]] Iterator begin() const noexcept { return {this, 0}; }
    [[nodiscard]] Iterator end() const noexcept { return {this, size_}; }

private:
    struct Piece {
        std::size_t from, to, size;
    };

    Points() noexcept = default;

    /// Adds a member of `P`, and the cloud's field of the same name, to the pieces that `read`
    /// copies. If the member follows the previous member without a gap, in `P` and in the cloud,
    /// both are one piece. There are at most as many pieces as fields (`max_point_fields`).
    void add(const PointField& field, const detail::PointMember& member) noexcept {
        const std::size_t size = member.end() - member.offset;
        if (piece_count_ > 0) {
            Piece& last = pieces_[piece_count_ - 1];
            if (last.from + last.size == field.offset && last.to + last.size == member.offset) {
                last.size += size;
                return;
            }
        }
        pieces_[piece_count_++] = {field.offset, member.offset, size};
    }

    [[nodiscard]] P read(const std::uint8_t* from) const noexcept {
        P point{};
        auto* to = reinterpret_cast<std::byte*>(&point);
        for (const Piece& piece : std::span(pieces_).first(piece_count_))
            std::memcpy(to + piece.to, from + piece.from, piece.size);
        return point;
    }

    const std::uint8_t* first_ = nullptr;
    std::size_t width_ = 0;
    std::size_t size_ = 0;
    std::size_t point_step_ = 0;
    std::size_t row_step_ = 0;
    std::array<Piece, max_point_fields> pieces_{};
    std::size_t piece_count_ = 0;
};

/// Returns the points of a cloud of any layout as values of type `P`: see `Points`.
template <Point P>
[[nodiscard]] Result<Points<P>> points(const CloudView& cloud) {
    return Points<P>::from(cloud);
}

/// A point cloud under construction, of points of type `P`, without gaps between them. Valid as
/// long as the payload.
///
/// ```cpp
/// auto loan = output_.loan(count * sizeof(Point));
/// if (!loan) return loan.error();
/// auto cloud = driveline::CloudMut<Point>::from(loan->bytes(), header, count);
/// if (!cloud) return cloud.error();
/// std::ranges::copy(points, cloud->points().begin());
/// return output_.publish(std::move(*loan));
/// ```
template <Point P>
class CloudMut {
public:
    /// Returns the length of the payload of `count` points, in bytes: the argument for the loan of
    /// a publisher of bytes. `Output<PointCloud>::loan` takes `count * sizeof(P)`.
    [[nodiscard]] static Result<std::size_t> payload_size(std::size_t count) {
        const bool fits = count <= SIZE_MAX / sizeof(P);
        return plain::payload_size<PointCloud>(fits ? count * sizeof(P) : SIZE_MAX);
    }

    /// Writes the head of a cloud of `height` rows of `width` points into a payload of at least
    /// `payload_size`. The bytes of the points are left as they are; `is_dense` is 0. Fails if the
    /// payload is too short or not aligned for `P`, if a row has 4 GiB or more, or if the point
    /// type is refused (`driveline/point_fields.hpp`).
    [[nodiscard]] static Result<CloudMut> from(plain::Mut<PointCloud> payload, const Header& header,
                                               std::uint32_t width, std::uint32_t height = 1) {
        const auto& members = detail::point_fields<P>();
        if (!members) return members.error();
        PointCloud head{};
        head.header = header;
        head.height = height;
        head.width = width;
        head.point_step = sizeof(P);
        // A row of 4 GiB or more gets a wrong, shorter length here and is then refused.
        head.row_step = static_cast<std::uint32_t>(std::uint64_t{width} * sizeof(P));
        for (const detail::PointMember& field : *members) {
            PointField& entry = head.fields[head.field_count++];
            if (auto set = plain::set_fixed_text(entry.name, field.name); !set)
                return std::move(set).error();
            entry.offset = field.offset;
            entry.datatype = static_cast<std::uint32_t>(field.datatype);
            entry.count = field.count;
        }
        if (auto checked = detail::check_cloud(head, payload.tail().size()); !checked)
            return std::move(checked).error();
        if (reinterpret_cast<std::uintptr_t>(payload.tail().data()) % alignof(P) != 0) {
            return Error{"the payload lies at an address that is no multiple of " +
                         std::to_string(alignof(P))};
        }
        *payload = head;
        return CloudMut(payload, std::size_t{width} * height);
    }
    [[nodiscard]] static Result<CloudMut> from(std::span<std::byte> payload, const Header& header,
                                               std::uint32_t width, std::uint32_t height = 1) {
        auto mut = plain::Mut<PointCloud>::from(payload);
        if (!mut) return std::move(mut).error();
        return from(*mut, header, width, height);
    }

    /// Declares that no point has NaN coordinates.
    void set_dense() const noexcept { payload_->is_dense = 1; }
    /// The points, row by row.
    [[nodiscard]] std::span<P> points() const noexcept {
        return {reinterpret_cast<P*>(payload_.tail().data()), count_};
    }

private:
    CloudMut(plain::Mut<PointCloud> payload, std::size_t count) noexcept
        : payload_(payload), count_(count) {}

    /// Head and points, already checked.
    plain::Mut<PointCloud> payload_;
    /// Number of points.
    std::size_t count_;
};

}  // namespace driveline
