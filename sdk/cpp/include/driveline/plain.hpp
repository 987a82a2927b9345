// SPDX-License-Identifier: Apache-2.0
/// Plain types: C-layout structs, optionally followed by one array, that are read in place.
///
/// ```cpp
/// namespace demo {
/// struct WheelSpeeds {
///     std::uint64_t source_time_ns;
///     float speed_m_s[4];
/// };
/// DRIVELINE_PLAIN(WheelSpeeds, "demo/WheelSpeeds", source_time_ns, speed_m_s);
///
/// struct Blob {
///     std::uint64_t source_time_ns;
/// };
/// DRIVELINE_PLAIN_WITH_TAIL(Blob, "demo/Blob", std::uint8_t, data, source_time_ns);
/// }
/// ```
///
/// Use the macros in the namespace of the type, and list all of its fields in order. Fields are
/// integers of 8 to 64 bits, `float`, `double`, plain structs without a trailing array, and fixed
/// arrays of all these. `char` and `std::byte` are bytes (`u8`). Padding is refused: add explicit
/// fields instead. The rules are in `docs/protocols/plain-types.md`.
///
/// Nothing in this header allocates, blocks or throws, except that errors and definition texts are
/// strings.
#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "driveline/result.hpp"

namespace driveline::plain {

/// Alignment of the trailing array in a payload, and of payloads, in bytes.
inline constexpr std::size_t tail_align = 64;

/// Maximum number of fields of a plain type after flattening.
inline constexpr std::size_t max_fields = 256;

/// The absence of a trailing array. No payload ever holds one.
struct NoTail {
    unsigned char none;
};

/// One field after flattening: nested structs as `outer.inner`, arrays of structs as
/// `outer[0].inner`.
struct Field {
    std::string name;
    /// `u8` … `f64`.
    std::string_view primitive;
    /// 1, or the length of a fixed array.
    std::size_t count;
    /// In bytes.
    std::size_t offset;
};

namespace detail {

// Selected by size and sign, because `long` and `long long` are both 64 bits wide and both in use.
template <class T>
constexpr std::string_view primitive_name() {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, char> || std::is_same_v<U, std::byte>) {
        return "u8";
    } else if constexpr (std::is_same_v<U, bool> || std::is_same_v<U, wchar_t> ||
                         std::is_same_v<U, char8_t> || std::is_same_v<U, char16_t> ||
                         std::is_same_v<U, char32_t>) {
        return {};
    } else if constexpr (std::is_integral_v<U> && sizeof(U) <= 8) {
        constexpr bool with_sign = std::is_signed_v<U>;
        switch (sizeof(U)) {
            case 1:
                return with_sign ? "i8" : "u8";
            case 2:
                return with_sign ? "i16" : "u16";
            case 4:
                return with_sign ? "i32" : "u32";
            default:
                return with_sign ? "i64" : "u64";
        }
    } else if constexpr (std::is_same_v<U, float>) {
        return "f32";
    } else if constexpr (std::is_same_v<U, double>) {
        return "f64";
    } else {
        return {};
    }
}

template <class T>
concept Primitive = !primitive_name<T>().empty();

template <class T>
struct ArrayOf {
    static constexpr bool is_array = false;
};
template <class T, std::size_t N>
struct ArrayOf<T[N]> {
    static constexpr bool is_array = true;
    static constexpr std::size_t length = N;
    using Element = T;
};
template <class T, std::size_t N>
struct ArrayOf<std::array<T, N>> : ArrayOf<T[N]> {};

template <class T>
concept Array = ArrayOf<T>::is_array;

/// One field in the list of the macro.
struct Entry {
    std::string_view name;
    std::size_t offset;
    std::size_t size;
    std::size_t field_count;
    void (*describe)(std::string_view name, std::size_t offset, std::vector<Field>& out);
};

template <class T, class TailType, std::size_t N>
struct Description {
    using Tail = TailType;
    std::string_view name;
    std::string_view tail_name;
    std::array<Entry, N> entries;
};

template <class T>
concept Described = requires(const T* type) {
    {driveline_plain_description(type)};
};

template <Described T>
using DescriptionOf = decltype(driveline_plain_description(static_cast<const T*>(nullptr)));

template <Described T>
inline constexpr DescriptionOf<T> description =
    driveline_plain_description(static_cast<const T*>(nullptr));

template <class T>
concept PlainWithoutTail = Described<T> && std::is_same_v<typename DescriptionOf<T>::Tail, NoTail>;

// An array of primitives, of any number of dimensions, is one field.
template <class T>
constexpr bool is_primitive_field() {
    if constexpr (Array<T>) {
        return is_primitive_field<typename ArrayOf<T>::Element>();
    } else {
        return Primitive<T>;
    }
}

template <class T>
constexpr std::size_t field_count() {
    if constexpr (is_primitive_field<T>()) {
        return 1;
    } else if constexpr (Array<T>) {
        return ArrayOf<T>::length * field_count<typename ArrayOf<T>::Element>();
    } else {
        std::size_t sum = 0;
        for (const Entry& entry : description<T>.entries) sum += entry.field_count;
        return sum;
    }
}

template <class T>
void describe_field(std::string_view name, std::size_t offset, std::vector<Field>& out) {
    if constexpr (Primitive<T>) {
        out.push_back({std::string(name), primitive_name<T>(), 1, offset});
    } else if constexpr (is_primitive_field<T>()) {
        describe_field<typename ArrayOf<T>::Element>(name, offset, out);
        out.back().count *= ArrayOf<T>::length;
    } else if constexpr (Array<T>) {
        using Element = typename ArrayOf<T>::Element;
        for (std::size_t i = 0; i < ArrayOf<T>::length; ++i) {
            describe_field<Element>(std::string(name) + '[' + std::to_string(i) + ']',
                                    offset + i * sizeof(Element), out);
        }
    } else {
        const std::string prefix = name.empty() ? std::string() : std::string(name) + '.';
        for (const Entry& entry : description<T>.entries)
            entry.describe(prefix + std::string(entry.name), offset + entry.offset, out);
    }
}

// Reports the wrong type at the field, without further errors about types that contain it.
template <class T>
constexpr bool check_field_type() {
    if constexpr (Array<T>) {
        return check_field_type<typename ArrayOf<T>::Element>();
    } else if constexpr (!Primitive<T> && !PlainWithoutTail<T>) {
        static_assert(
            !std::is_same_v<T, bool>,
            "a peer can send other bytes than 0 and 1 for a bool: use std::uint8_t, and != 0");
        static_assert(!std::is_enum_v<T>,
                      "a peer can send any number for an enum: use its integer type, and a checked "
                      "conversion");
        static_assert(!std::is_pointer_v<T> && !std::is_reference_v<T>,
                      "an address means nothing in another process");
        static_assert(Primitive<T> || PlainWithoutTail<T>,
                      "a field of a plain type is an integer of 8 to 64 bits, float, double, a "
                      "plain struct without a trailing array, declared before with "
                      "DRIVELINE_PLAIN, or a fixed array of these");
        return false;
    } else {
        return true;
    }
}

template <class T>
constexpr Entry entry(std::string_view name, std::size_t offset) {
    if constexpr (check_field_type<T>()) {
        return {name, offset, sizeof(T), field_count<T>(), &describe_field<T>};
    } else {
        return {name, offset, sizeof(T), 1, nullptr};
    }
}

template <class T, class Tail, class... Entries>
constexpr auto describe(std::string_view name, std::string_view tail_name, Entries... entries) {
    return Description<T, Tail, sizeof...(Entries)>{name, tail_name, {entries...}};
}

constexpr bool is_word(std::string_view text) {
    for (const char c : text) {
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_'))
            return false;
    }
    return !text.empty();
}

constexpr bool is_type_name(std::string_view text) {
    const auto slash = text.find('/');
    return slash != std::string_view::npos && is_word(text.substr(0, slash)) &&
           is_word(text.substr(slash + 1)) && text.size() <= 200;
}

inline constexpr std::size_t no_gap = std::numeric_limits<std::size_t>::max();

/// Returns the number (from 0) of the first field that does not begin at the end of the previous
/// field, or the number of fields if bytes remain at the end; `no_gap` if the fields fill the type.
template <class T>
constexpr std::size_t first_gap() {
    std::size_t end = 0;
    for (std::size_t i = 0; i < description<T>.entries.size(); ++i) {
        if (description<T>.entries[i].offset != end) return i;
        end += description<T>.entries[i].size;
    }
    return end == sizeof(T) ? no_gap : description<T>.entries.size();
}

template <class T, std::size_t FieldNumber>
constexpr bool no_gap_before_field() {
    static_assert(
        FieldNumber == no_gap,
        "the listed fields do not fill the plain type: before the field with this number (from 0) "
        "in the list, or at the end, "
        "one is missing, out of order, or the compiler put padding, whose bytes would be "
        "undefined. List every field in order; "
        "sort them by size, largest first, or add fields such as `std::uint8_t reserved[N]`");
    return true;
}

template <class T>
constexpr bool check() {
    static_assert(Described<T>, "DRIVELINE_PLAIN stands in the namespace of the type");
    static_assert(std::is_trivially_copyable_v<T>,
                  "a plain type is trivially copyable: no virtual functions, no owning members");
    static_assert(
        std::is_standard_layout_v<T>,
        "a plain type has standard layout: one access level, and no fields in base classes");
    static_assert(alignof(T) <= tail_align, "a plain type is aligned to at most 64 bytes");
    if constexpr (Described<T>) {
        using Tail = typename DescriptionOf<T>::Tail;
        static_assert(is_type_name(description<T>.name),
                      "a plain type's name is \"package/Type\", of letters, digits and '_'");
        static_assert(no_gap_before_field<T, first_gap<T>()>());
        static_assert(field_count<T>() <= max_fields,
                      "a plain type has more than 256 fields, counting each element of arrays of "
                      "structs: use a trailing array");
        if constexpr (!std::is_same_v<Tail, NoTail>) {
            static_assert(Primitive<Tail> || PlainWithoutTail<Tail>,
                          "an element of a trailing array is an integer of 8 to 64 bits, float, "
                          "double, or a plain struct without a "
                          "trailing array");
            static_assert(alignof(Tail) <= tail_align,
                          "an element of a trailing array is aligned to at most 64 bytes");
        }
    }
    return true;
}

inline void write_fields(std::string& text, std::string_view word,
                         const std::vector<Field>& fields) {
    for (const Field& field : fields) {
        text.append(word).append(" ").append(field.name).append(" ").append(field.primitive);
        if (field.count != 1) text.append("[").append(std::to_string(field.count)).append("]");
        text.append(" offset ").append(std::to_string(field.offset)).append("\n");
    }
}

template <Described T>
void write_struct(std::string& text) {
    text.append(description<T>.name).append(" size ").append(std::to_string(sizeof(T)));
    text.append(" align ").append(std::to_string(alignof(T))).append("\n");
}

template <Described T>
std::vector<Field> fields() {
    std::vector<Field> out;
    out.reserve(field_count<T>());
    describe_field<T>("", 0, out);
    return out;
}

}  // namespace detail

/// A type declared with `DRIVELINE_PLAIN` or `DRIVELINE_PLAIN_WITH_TAIL`.
template <class T>
concept Type = detail::Described<T>;

/// Element of `T`'s trailing array, or `NoTail`.
template <Type T>
using Tail = typename detail::DescriptionOf<T>::Tail;

/// A type declared with `DRIVELINE_PLAIN`: without a trailing array.
template <class T>
concept Tailless = detail::PlainWithoutTail<T>;

template <Type T>
inline constexpr bool has_tail = !std::is_same_v<Tail<T>, NoTail>;

/// Name, such as `driveline/Image`.
template <Type T>
inline constexpr std::string_view name = detail::description<T>.name;

/// Offset of the trailing array in a payload, or size of the payload of a type without one, in
/// bytes.
template <Type T>
inline constexpr std::size_t tail_offset =
    has_tail<T> ? (sizeof(T) + tail_align - 1) / tail_align* tail_align : sizeof(T);

/// Canonical text of the layout: the same as in Rust, byte for byte. Composed once; lives as long
/// as the program.
template <Type T>
[[nodiscard]] const std::string& definition() {
    static const std::string text = [] {
        std::string t = "driveline plain 1\ntype ";
        detail::write_struct<T>(t);
        detail::write_fields(t, "field", detail::fields<T>());
        if constexpr (has_tail<T>) {
            t.append("tail ").append(detail::description<T>.tail_name).append(" ");
            if constexpr (detail::Primitive<Tail<T>>) {
                t.append(detail::primitive_name<Tail<T>>()).append("\n");
            } else {
                detail::write_struct<Tail<T>>(t);
                detail::write_fields(t, "element", detail::fields<Tail<T>>());
            }
        }
        return t;
    }();
    return text;
}

/// Length of a payload with `tail_count` elements in its trailing array (0 for types without one),
/// in bytes.
template <Type T>
[[nodiscard]] Result<std::size_t> payload_size(std::size_t tail_count = 0) {
    constexpr std::size_t most =
        static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
    if (tail_count > (has_tail<T> ? (most - tail_offset<T>) / sizeof(Tail<T>) : 0)) {
        return Error{"a trailing array of " + std::to_string(tail_count) +
                     " elements of plain type '" + std::string(name<T>) +
                     "' is longer than the address space, or the type has no trailing array"};
    }
    return tail_offset<T> + tail_count * (has_tail<T> ? sizeof(Tail<T>) : 0);
}

namespace detail {

template <Type T>
Result<void> check_payload(const void* data, std::size_t size) {
    const auto type = [] { return "plain type '" + std::string(name<T>) + "'"; };
    if (size < tail_offset<T>) {
        return Error{"a payload of " + std::to_string(size) + " bytes is too short for " + type() +
                     ", which needs " + std::to_string(tail_offset<T>) +
                     ": the publisher wrote another type or half a sample"};
    }
    const std::size_t rest = size - tail_offset<T>;
    if (!has_tail<T> && rest != 0) {
        return Error{"a payload of " + std::to_string(size) + " bytes is too long for " + type() +
                     ", which takes " + std::to_string(sizeof(T)) + " bytes here"};
    }
    if (rest % sizeof(Tail<T>) != 0) {
        return Error{std::to_string(rest) + " bytes follow the head of " + type() +
                     ", which is no multiple of its trailing array's element size " +
                     std::to_string(sizeof(Tail<T>))};
    }
    constexpr std::size_t align = alignof(T) > alignof(Tail<T>) ? alignof(T) : alignof(Tail<T>);
    if (reinterpret_cast<std::uintptr_t>(data) % align != 0) {
        return Error{"a payload of " + type() + " lies at an address that is no multiple of " +
                     std::to_string(align) + ": copy it into memory aligned to 64 bytes first"};
    }
    return {};
}

}  // namespace detail

/// A plain type read in place in a payload. Valid as long as the payload's memory; copying it
/// copies no data.
template <Type T>
class Ref {
public:
    /// Reads `payload` as a `T`. Checks length and alignment; any content is valid.
    [[nodiscard]] static Result<Ref> from(std::span<const std::byte> payload) {
        if (auto checked = detail::check_payload<T>(payload.data(), payload.size()); !checked)
            return std::move(checked).error();
        std::span<const Tail<T>> tail;
        if constexpr (has_tail<T>) {
            const std::byte* start = payload.data() + tail_offset<T>;
            tail = {reinterpret_cast<const Tail<T>*>(start),
                    (payload.size() - tail_offset<T>) / sizeof(Tail<T>)};
        }
        return Ref(reinterpret_cast<const T*>(payload.data()), tail);
    }

    [[nodiscard]] const T& head() const noexcept { return *head_; }
    [[nodiscard]] const T& operator*() const noexcept { return *head_; }
    [[nodiscard]] const T* operator->() const noexcept { return head_; }
    /// Returns a copy of the head, read once. A hostile or broken process can change its payload at
    /// any time: a number must be checked and used from the same copy.
    [[nodiscard]] T copy_head() const noexcept {
        T copy = *head_;
        // The compiler must not read the payload again where the copy is used.
        std::atomic_signal_fence(std::memory_order_seq_cst);
        return copy;
    }
    /// Returns the trailing array; empty for types without one. Its length is that of the payload,
    /// which no other process can change.
    [[nodiscard]] std::span<const Tail<T>> tail() const noexcept { return tail_; }

private:
    Ref(const T* head, std::span<const Tail<T>> tail) noexcept : head_(head), tail_(tail) {}

    const T* head_;
    std::span<const Tail<T>> tail_;
};

/// Specialised for types whose head says how to read the trailing array: `Checked<T>::View` has
/// two functions: `from(Ref<T>)` copies the head, checks it, and fails if the head does not fit the
/// data; `head()` returns the checked copy.
/// Samples of such types are checked when they are received.
template <Type T>
struct Checked {};

/// A plain type under construction in a payload. Valid as long as the payload's memory.
template <Type T>
class Mut {
public:
    /// Uses `payload`, whose length comes from `payload_size`, as a `T`, and zeroes the gap between
    /// head and trailing array. Head and array keep their bytes, which may be those of an earlier
    /// sample.
    [[nodiscard]] static Result<Mut> from(std::span<std::byte> payload) {
        if (auto checked = detail::check_payload<T>(payload.data(), payload.size()); !checked)
            return std::move(checked).error();
        std::memset(payload.data() + sizeof(T), 0, tail_offset<T> - sizeof(T));
        std::span<Tail<T>> tail;
        if constexpr (has_tail<T>) {
            std::byte* start = payload.data() + tail_offset<T>;
            tail = {reinterpret_cast<Tail<T>*>(start),
                    (payload.size() - tail_offset<T>) / sizeof(Tail<T>)};
        }
        return Mut(reinterpret_cast<T*>(payload.data()), tail);
    }

    [[nodiscard]] T& head() const noexcept { return *head_; }
    [[nodiscard]] T& operator*() const noexcept { return *head_; }
    [[nodiscard]] T* operator->() const noexcept { return head_; }
    /// The trailing array; empty for types without one.
    [[nodiscard]] std::span<Tail<T>> tail() const noexcept { return tail_; }

private:
    Mut(T* head, std::span<Tail<T>> tail) noexcept : head_(head), tail_(tail) {}

    T* head_;
    std::span<Tail<T>> tail_;
};

/// Returns the text in a zero-terminated field of fixed size; the whole field if it has no zero
/// byte.
template <std::size_t N>
[[nodiscard]] std::string_view fixed_text(const char (&field)[N]) noexcept {
    const std::string_view all(field, N);
    return all.substr(0, all.find('\0'));
}

/// Copies `text`, of at most `N - 1` bytes, into a field and fills the rest with zeros.
template <std::size_t N>
[[nodiscard]] Result<void> set_fixed_text(char (&field)[N], std::string_view text) {
    if (text.size() >= N) {
        return Error{"text is " + std::to_string(text.size()) + " bytes long where at most " +
                     std::to_string(N - 1) + " fit: shorten '" + std::string(text.substr(0, 80)) +
                     "'"};
    }
    if (text.find('\0') != std::string_view::npos)
        return Error{"text contains a zero byte, where its readers would end it"};
    std::memset(field, 0, N);
    if (!text.empty()) std::memcpy(field, text.data(), text.size());
    return {};
}

}  // namespace driveline::plain

// Applies a macro to each element of a list. The text is rescanned more often than the longest list
// needs (256 fields).
#define DRIVELINE_DETAIL_PARENS ()
#define DRIVELINE_DETAIL_EXPAND(...) \
    DRIVELINE_DETAIL_EXPAND4(        \
        DRIVELINE_DETAIL_EXPAND4(DRIVELINE_DETAIL_EXPAND4(DRIVELINE_DETAIL_EXPAND4(__VA_ARGS__))))
#define DRIVELINE_DETAIL_EXPAND4(...) \
    DRIVELINE_DETAIL_EXPAND3(DRIVELINE_DETAIL_EXPAND3(DRIVELINE_DETAIL_EXPAND3(__VA_ARGS__)))
#define DRIVELINE_DETAIL_EXPAND3(...) \
    DRIVELINE_DETAIL_EXPAND2(DRIVELINE_DETAIL_EXPAND2(DRIVELINE_DETAIL_EXPAND2(__VA_ARGS__)))
#define DRIVELINE_DETAIL_EXPAND2(...) \
    DRIVELINE_DETAIL_EXPAND1(DRIVELINE_DETAIL_EXPAND1(DRIVELINE_DETAIL_EXPAND1(__VA_ARGS__)))
#define DRIVELINE_DETAIL_EXPAND1(...) \
    DRIVELINE_DETAIL_EXPAND0(DRIVELINE_DETAIL_EXPAND0(DRIVELINE_DETAIL_EXPAND0(__VA_ARGS__)))
#define DRIVELINE_DETAIL_EXPAND0(...) __VA_ARGS__
#define DRIVELINE_DETAIL_FIELDS(type, ...) \
    __VA_OPT__(DRIVELINE_DETAIL_EXPAND(DRIVELINE_DETAIL_FIELDS_STEP(type, __VA_ARGS__)))
#define DRIVELINE_DETAIL_FIELDS_STEP(type, field, ...)                                        \
    , ::driveline::plain::detail::entry<decltype(type::field)>(#field, offsetof(type, field)) \
          __VA_OPT__(DRIVELINE_DETAIL_FIELDS_AGAIN DRIVELINE_DETAIL_PARENS(type, __VA_ARGS__))
#define DRIVELINE_DETAIL_FIELDS_AGAIN() DRIVELINE_DETAIL_FIELDS_STEP

#define DRIVELINE_DETAIL_DESCRIBE(type, type_name, tail_type, tail_name, ...)           \
    [[maybe_unused]] constexpr auto driveline_plain_description(const type*) noexcept { \
        return ::driveline::plain::detail::describe<type, tail_type>(                   \
            type_name, tail_name DRIVELINE_DETAIL_FIELDS(type, __VA_ARGS__));           \
    }                                                                                   \
    static_assert(::driveline::plain::detail::check<type>())

/// Declares a plain type: `DRIVELINE_PLAIN(Type, "package/Type", field, field...);`
#define DRIVELINE_PLAIN(type, type_name, ...) \
    DRIVELINE_DETAIL_DESCRIBE(type, type_name, ::driveline::plain::NoTail, "", __VA_ARGS__)

/// Declares a plain type with a trailing array:
/// `DRIVELINE_PLAIN_WITH_TAIL(Type, "package/Type", ElementType, array_name, field, field...);`
#define DRIVELINE_PLAIN_WITH_TAIL(type, type_name, tail_type, tail_name, ...) \
    DRIVELINE_DETAIL_DESCRIBE(type, type_name, tail_type, #tail_name, __VA_ARGS__)
