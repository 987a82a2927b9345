// SPDX-License-Identifier: Apache-2.0
/// Fields of point types: found by the names of their members, or listed by a macro.
///
/// Members with the names that PCL, Autoware and drivers of lidars use are found without
/// registration. A type with other members lists all of its fields:
///
/// ```cpp
/// namespace lidar {
/// struct Point {
///     float x, y, z;
///     float snr;
///     std::uint16_t beam;
///     std::uint8_t padding[2];
/// };
/// DRIVELINE_POINT(Point, x, y, z, snr, beam);
/// }
/// ```
///
/// A field is a number of 8 to 32 bits, `float`, `double`, `bool` (as `uint8`), an enum of such a
/// number, or an array of these. Bytes that belong to no field must be padding of the compiler, or
/// members with a name that stands for padding, such as `padding`, `pad0`, `unused`, `reserved` or
/// PCL's `data`. Otherwise the type is refused, because such bytes could be a member that readers
/// would miss. The macros `DRIVELINE_DETAIL_POINT_NAMES` and `DRIVELINE_DETAIL_PADDING_NAMES` below
/// list all known names of fields and of padding.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "driveline/point_cloud.hpp"

namespace driveline {

/// A point type: members `x`, `y`, `z`, all `float` or all `double`, in metres; trivially copyable.
template <class P>
concept Point = std::is_trivially_copyable_v<P> && std::default_initializable<P> && requires(P p) {
    requires std::same_as<decltype(p.x), float> || std::same_as<decltype(p.x), double>;
    requires std::same_as<decltype(p.x), decltype(p.y)>;
    requires std::same_as<decltype(p.x), decltype(p.z)>;
};

namespace detail {

/// A field of a point type.
struct PointMember {
    std::string_view name;
    std::uint32_t offset;
    Datatype datatype;
    std::uint32_t count;

    [[nodiscard]] std::uint32_t end() const noexcept { return offset + size_of(datatype) * count; }
};

/// Returns true for the two names of members of four bytes (`float` or an integer) that hold a
/// colour. PCL treats both names as the same.
[[nodiscard]] constexpr bool is_packed_colour(std::string_view name) noexcept {
    return name == "rgb" || name == "rgba";
}

/// The datatype of a member's elements, if PointField has one.
template <class M>
[[nodiscard]] constexpr std::optional<Datatype> datatype_of() noexcept {
    using T = std::remove_cv_t<std::remove_all_extents_t<M>>;
    if constexpr (std::is_enum_v<T>) {
        return datatype_of<std::underlying_type_t<T>>();
    } else if constexpr (std::is_same_v<T, float>) {
        return Datatype::float32;
    } else if constexpr (std::is_same_v<T, double>) {
        return Datatype::float64;
    } else if constexpr (std::is_integral_v<T>) {
        constexpr bool with_sign = std::is_signed_v<T>;
        if constexpr (sizeof(T) == 1) return with_sign ? Datatype::int8 : Datatype::uint8;
        if constexpr (sizeof(T) == 2) return with_sign ? Datatype::int16 : Datatype::uint16;
        if constexpr (sizeof(T) == 4) return with_sign ? Datatype::int32 : Datatype::uint32;
    }
    return std::nullopt;
}

/// Name of `P` as the compiler writes it, without RTTI.
template <class P>
[[nodiscard]] constexpr std::string_view type_name() noexcept {
    const std::string_view all = __PRETTY_FUNCTION__;
    const auto start = all.find("P = ") + 4;
    return all.substr(start, all.find_first_of(";]", start) - start);
}

/// Collects the members of one point.
class PointMembers {
public:
    PointMembers(const void* point, std::size_t size)
        : point_(reinterpret_cast<std::uintptr_t>(point)), known_(size, false) {}

    /// Adds a field. If it shares memory with an earlier field (a union), both are names of the
    /// same field, and only the earlier name is kept.
    template <class M>
    void field(std::string_view name, const M& member) {
        const auto offset = offset_of(&member, sizeof(M));
        if (!offset || overlaps(*offset, sizeof(M))) return;
        constexpr auto datatype = datatype_of<M>();
        if (!datatype) {
            if (unsuitable_.empty()) unsuitable_ = name;
            return;
        }
        fields_.push_back(
            {name, *offset, *datatype, static_cast<std::uint32_t>(sizeof(M) / size_of(*datatype))});
        cover(*offset, sizeof(M));
    }

    /// Marks the bytes of a member that carries no data.
    template <class M>
    void padding(const M& member) {
        if (const auto offset = offset_of(&member, sizeof(M))) cover(*offset, sizeof(M));
    }

    /// Marks the bytes that the compiler added as padding, or guesses them if `padding` is null,
    /// because the compiler cannot report them. `alignment`: that of the whole point.
    void compiler_padding(const std::vector<bool>* padding, std::size_t alignment) {
        for (std::size_t i = 0; padding != nullptr && i < known_.size(); ++i) {
            if ((*padding)[i]) known_[i] = true;
        }
        if (padding == nullptr) guess_padding(alignment);
    }

    /// Returns the fields in the order of their offsets, or an error if the type is refused.
    [[nodiscard]] Result<std::vector<PointMember>> finish(std::string_view type) && {
        const std::string name(type);
        if (!unsuitable_.empty()) {
            return Error{"member '" + std::string(unsuitable_) + "' of point type '" + name +
                         "' is of a type that no field of a point cloud can have: use a number of "
                         "8 to 32 bits, float or double"};
        }
        const auto first = std::find(known_.begin(), known_.end(), false);
        if (first != known_.end()) {
            const auto last = std::find(first, known_.end(), true) - 1;
            return Error{
                "bytes " + std::to_string(first - known_.begin()) + " to " +
                std::to_string(last - known_.begin()) + " of point type '" + name + "' (" +
                std::to_string(known_.size()) +
                " bytes) belong to no field that Driveline knows, and readers would not learn of "
                "them: list all fields with "
                "DRIVELINE_POINT(" +
                name +
                ", x, y, z, ...) in the type's namespace, and name unused members 'padding'"};
        }
        if (fields_.size() > max_point_fields) {
            return Error{"point type '" + name + "' has " + std::to_string(fields_.size()) +
                         " fields where a point cloud has at most " +
                         std::to_string(max_point_fields)};
        }
        std::stable_sort(fields_.begin(), fields_.end(),
                         [](const auto& a, const auto& b) { return a.offset < b.offset; });
        return std::move(fields_);
    }

private:
    /// Returns the offset of a member. Returns nothing for a member that is not in the memory of
    /// the point: a static member, or the copy of a bit field.
    [[nodiscard]] std::optional<std::uint32_t> offset_of(const volatile void* member,
                                                         std::size_t size) const noexcept {
        const auto offset = reinterpret_cast<std::uintptr_t>(member) - point_;
        if (offset > known_.size() || size > known_.size() - offset) return std::nullopt;
        return static_cast<std::uint32_t>(offset);
    }
    [[nodiscard]] bool overlaps(std::size_t offset, std::size_t size) const {
        return std::any_of(fields_.begin(), fields_.end(), [&](const auto& f) {
            return f.offset < offset + size && offset < f.end();
        });
    }
    void cover(std::size_t offset, std::size_t size) {
        std::fill_n(known_.begin() + static_cast<std::ptrdiff_t>(offset), size, true);
    }
    /// Marks each gap that can be explained by the alignment of the field after it, or at the end
    /// by the alignment of the point.
    void guess_padding(std::size_t alignment) {
        for (std::size_t start = 0; start < known_.size(); ++start) {
            if (known_[start]) continue;
            std::size_t end = start;
            while (end < known_.size() && !known_[end]) ++end;
            std::size_t align = end == known_.size() ? alignment : 1;
            for (const PointMember& field : fields_) {
                if (field.offset == end) align = size_of(field.datatype);
            }
            if (end - start < align) cover(start, end - start);
            start = end;
        }
    }

    std::uintptr_t point_;
    /// For each byte: true if it is part of a field or known to be padding.
    std::vector<bool> known_;
    std::vector<PointMember> fields_;
    std::string_view unsuitable_;
};

// A macro, because the name of a member cannot be a template argument. `rgb` and `rgba` come before
// `b`, `g`, `r` and `a`: of members that share memory, only the first is kept.
// clang-format off
#define DRIVELINE_DETAIL_POINT_NAMES(X) \
    X(x) X(y) X(z) X(rgb) X(rgba) X(intensity) X(ring) X(time) X(t) X(timestamp) X(time_stamp) \
    X(offset_time) X(stamp) X(return_type) X(channel) X(azimuth) X(elevation) X(distance) \
    X(range) X(reflectivity) X(ambient) X(near_ir) X(noise) X(tag) X(line) X(laser_id) X(label) \
    X(id) X(normal_x) X(normal_y) X(normal_z) X(curvature) X(strength) X(confidence) X(radius) \
    X(scale) X(angle) X(octave) X(response) X(h) X(s) X(v) X(L) X(vp_x) X(vp_y) X(vp_z) \
    X(velocity) X(doppler) X(rcs) X(snr) X(power) X(intensity_variance) X(height_variance) X(b) \
    X(g) X(r) X(a)
#define DRIVELINE_DETAIL_PADDING_NAMES(X) \
    X(data) X(data_c) X(data_n) X(data_lab) X(padding) X(pad) X(unused) X(reserved) X(_padding) \
    X(_pad) X(padding_) X(pad_) X(reserved_) X(padding0) X(padding1) X(padding2) X(pad0) X(pad1) \
    X(pad2) X(reserved0) X(reserved1)
// clang-format on

namespace point_member {
#define DRIVELINE_DETAIL_HAS(name)              \
    template <class P>                          \
    concept Has_##name = requires(const P& p) { \
        p.name;                                 \
    };
DRIVELINE_DETAIL_POINT_NAMES(DRIVELINE_DETAIL_HAS)
DRIVELINE_DETAIL_PADDING_NAMES(DRIVELINE_DETAIL_HAS)
#undef DRIVELINE_DETAIL_HAS
}  // namespace point_member

/// A type whose fields `DRIVELINE_POINT` lists.
template <class P>
concept ListedPoint = requires(const P& point, PointMembers& members) {
    driveline_point_fields(point, members);
};

template <class P>
void find_members(const P& point, PointMembers& members) {
    if constexpr (ListedPoint<P>) {
        driveline_point_fields(point, members);
    } else {
#define DRIVELINE_DETAIL_FIND(name) \
    if constexpr (point_member::Has_##name<P>) members.field(#name, point.name);
        DRIVELINE_DETAIL_POINT_NAMES(DRIVELINE_DETAIL_FIND)
#undef DRIVELINE_DETAIL_FIND
    }
#define DRIVELINE_DETAIL_FIND(name) \
    if constexpr (point_member::Has_##name<P>) members.padding(point.name);
    DRIVELINE_DETAIL_PADDING_NAMES(DRIVELINE_DETAIL_FIND)
#undef DRIVELINE_DETAIL_FIND
}
#undef DRIVELINE_DETAIL_POINT_NAMES
#undef DRIVELINE_DETAIL_PADDING_NAMES

/// True if byte `I` of a `P` has a value at compile time. Bytes of padding and of unions have none.
template <class P, std::size_t I>
concept ValueByte = requires {
    typename std::integral_constant<
        unsigned char, __builtin_bit_cast(std::array<unsigned char, sizeof(P)>, P{})[I]>;
};

/// Returns which bytes of a `P` the compiler added as padding; nothing if the compiler cannot
/// report this.
template <class P>
[[nodiscard]] std::optional<std::vector<bool>> compiler_padding() {
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
    alignas(P) unsigned char bytes[sizeof(P)];
    std::memset(bytes, 0xff, sizeof bytes);
    __builtin_clear_padding(reinterpret_cast<P*>(bytes));
    std::vector<bool> padding(sizeof(P));
    for (std::size_t i = 0; i < sizeof(P); ++i) padding[i] = bytes[i] == 0;
    return padding;
#endif
#endif
    // For clang. Each byte is evaluated as a separate constant, so large types are left out.
    if constexpr (sizeof(P) <= 256) {
        std::vector<bool> without_value;
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            (without_value.push_back(!ValueByte<P, I>), ...);
        }
        (std::make_index_sequence<sizeof(P)>());
        if (std::find(without_value.begin(), without_value.end(), false) != without_value.end())
            return without_value;
    }
    return std::nullopt;
}

/// Returns the fields of a point type, or the reason why the type is refused. Composed once.
/// Members may be those of base classes and anonymous unions, as in PCL. `offsetof` does not
/// support these.
template <Point P>
[[nodiscard]] const Result<std::vector<PointMember>>& point_fields() {
    static const Result<std::vector<PointMember>> fields =
        []() -> Result<std::vector<PointMember>> {
        const P point{};
        PointMembers members(&point, sizeof(P));
        find_members(point, members);
        const auto padding = compiler_padding<P>();
        members.compiler_padding(padding ? &*padding : nullptr, alignof(P));
        return std::move(members).finish(type_name<P>());
    }();
    return fields;
}

}  // namespace detail
}  // namespace driveline

#define DRIVELINE_DETAIL_POINT_FIELDS(...) \
    __VA_OPT__(DRIVELINE_DETAIL_EXPAND(DRIVELINE_DETAIL_POINT_STEP(__VA_ARGS__)))
#define DRIVELINE_DETAIL_POINT_STEP(name, ...)            \
    driveline_members.field(#name, driveline_point.name); \
    __VA_OPT__(DRIVELINE_DETAIL_POINT_AGAIN DRIVELINE_DETAIL_PARENS(__VA_ARGS__))
#define DRIVELINE_DETAIL_POINT_AGAIN() DRIVELINE_DETAIL_POINT_STEP

/// Lists all fields of a point type, named as its members:
/// `DRIVELINE_POINT(Type, x, y, z, member...);`, in the namespace of the type.
#define DRIVELINE_POINT(type, ...)                                                           \
    [[maybe_unused]] inline void driveline_point_fields(                                     \
        const type& driveline_point, ::driveline::detail::PointMembers& driveline_members) { \
        DRIVELINE_DETAIL_POINT_FIELDS(__VA_ARGS__)                                           \
    }                                                                                        \
    static_assert(                                                                           \
        ::driveline::Point<type>,                                                            \
        "a point type is trivially copyable and has members x, y, z, all float or all double")
