// SPDX-License-Identifier: Apache-2.0
/// Values of parameters: `bool`, whole numbers, real numbers, text, lists of these, and maps.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "driveline/handle.hpp"

namespace driveline {

/// A map, or a list of lists or maps, as JSON text. To read values in it without a JSON library,
/// use their path: `node().parameter<double>("pid/gains/0")`.
struct ParameterTree {
    /// A JSON object or array.
    std::string json = "{}";
};

/// Types of a parameter, or of an item of a list.
template <class T>
concept ParameterScalar =
    std::is_same_v<T, bool> ||(std::integral<T> && sizeof(T) <= 8) || std::is_same_v<T, float> ||
    std::is_same_v<T, double> || std::is_same_v<T, std::string>;

namespace detail {

template <class T>
inline constexpr bool is_parameter_list = false;
template <ParameterScalar T>
inline constexpr bool is_parameter_list<std::vector<T>> = true;

}  // namespace detail

/// Types of a parameter.
template <class T>
concept ParameterType =
    ParameterScalar<T> || detail::is_parameter_list<T> || std::is_same_v<T, ParameterTree>;

namespace detail {

[[nodiscard]] inline std::string json_text(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        const auto code = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (code < 0x20) {
            constexpr const char* digits = "0123456789abcdef";
            out += std::string("\\u00") + digits[code >> 4U] + digits[code & 15U];
        } else {
            out += c;
        }
    }
    return out + '"';
}

template <ParameterScalar T>
[[nodiscard]] std::string json_of(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
        return value ? "true" : "false";
    } else if constexpr (std::is_same_v<T, std::string>) {
        return json_text(value);
    } else if constexpr (std::integral<T>) {
        return std::to_string(value);
    } else {
        // 2 is written as `2.0`, not as `2`: the first item determines the type of all items of a
        // list.
        std::array<char, 64> text{};
        const auto end =
            std::to_chars(text.data(), text.data() + text.size(), static_cast<double>(value)).ptr;
        std::string out(text.data(), end);
        return out.find_first_of(".en") == std::string::npos ? out + ".0" : out;
    }
}

/// A value in the form of the C library.
struct GivenParameter {
    dl_parameter_value c = sized<dl_parameter_value>();
    std::string json;  // JSON text of a list or map, to which `c.text` points

    /// Valid as long as this object and the value from which it was made.
    [[nodiscard]] const dl_parameter_value* get() noexcept {
        if (c.kind == DL_PARAMETER_LIST || c.kind == DL_PARAMETER_MAP) c.text = json.data();
        return &c;
    }
};

/// Valid as long as `value`.
template <ParameterScalar T>
[[nodiscard]] dl_parameter_value to_c(const T& value) noexcept {
    auto c = sized<dl_parameter_value>();
    if constexpr (std::is_same_v<T, bool>) {
        c.kind = DL_PARAMETER_BOOL;
        c.integer = value ? 1 : 0;
    } else if constexpr (std::integral<T>) {
        c.kind = DL_PARAMETER_INTEGER;
        c.integer = static_cast<std::int64_t>(value);
    } else if constexpr (std::is_same_v<T, std::string>) {
        c.kind = DL_PARAMETER_TEXT;
        c.text = const_cast<char*>(value.c_str());  // the C library only reads arguments
    } else {
        c.kind = DL_PARAMETER_FLOAT;
        c.number = static_cast<double>(value);
    }
    return c;
}

/// Valid as long as `value`.
template <ParameterType T>
[[nodiscard]] GivenParameter given(const T& value) {
    GivenParameter out;
    if constexpr (ParameterScalar<T>) {
        out.c = to_c(value);
    } else if constexpr (std::is_same_v<T, ParameterTree>) {
        const auto first = value.json.find_first_not_of(" \t\r\n");
        const bool list = first != std::string::npos && value.json[first] == '[';
        out.c.kind = list ? DL_PARAMETER_LIST : DL_PARAMETER_MAP;
        out.json = value.json;
    } else {
        out.c.kind = DL_PARAMETER_LIST;
        out.json = "[";
        for (std::size_t i = 0; i < value.size(); ++i) {
            if (i > 0) out.json += ',';
            out.json += json_of(static_cast<typename T::value_type>(value[i]));
        }
        out.json += ']';
    }
    return out;
}

/// Fails if the name or the text contains a zero byte, which would cut it.
template <ParameterType T>
[[nodiscard]] Result<void> check_parameter(const std::string& name, const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
        if (auto done = whole("the value of a parameter", value, DL_ERROR_PARAMETER); !done)
            return done;
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
        for (const auto& item : value) {
            if (auto done = whole("an item of a parameter", item, DL_ERROR_PARAMETER); !done)
                return done;
        }
    }
    return whole("parameter", name, DL_ERROR_PARAMETER);
}

template <class T>
struct ParameterItem : std::type_identity<T> {};
template <class T>
struct ParameterItem<std::vector<T>> : std::type_identity<T> {};

/// An integer type with other bounds than `std::int64_t`, or a list of such integers.
template <class T>
concept NarrowParameter = std::integral<typename ParameterItem<T>::type> &&
                          !std::is_same_v<typename ParameterItem<T>::type, bool> &&
                          (sizeof(typename ParameterItem<T>::type) < 8 ||
                           std::unsigned_integral<typename ParameterItem<T>::type>);

/// Minimum and maximum value. Parameters are `std::int64_t`, so for unsigned 64-bit types only the
/// lower bound applies.
template <NarrowParameter T>
[[nodiscard]] constexpr std::pair<double, double> parameter_range() noexcept {
    using Limits = std::numeric_limits<typename ParameterItem<T>::type>;
    constexpr double max = sizeof(typename ParameterItem<T>::type) == 8
                               ? std::numeric_limits<double>::infinity()
                               : static_cast<double>(Limits::max());
    return {static_cast<double>(Limits::min()), max};
}

[[nodiscard]] inline const char* type_name(std::uint32_t kind) noexcept {
    switch (kind) {
        case DL_PARAMETER_BOOL:
            return "a boolean";
        case DL_PARAMETER_INTEGER:
            return "an integer";
        case DL_PARAMETER_FLOAT:
            return "a number";
        case DL_PARAMETER_LIST:
            return "a list";
        case DL_PARAMETER_MAP:
            return "a map";
        default:
            return "text";
    }
}

/// Reads a declared parameter of a node.
template <ParameterScalar T>
[[nodiscard]] Result<T> get_parameter(const dl_node* node, const std::string& name) {
    if (auto done = whole("parameter", name, DL_ERROR_PARAMETER); !done)
        return std::move(done).error();
    auto c = sized<dl_parameter_value>();
    if (auto done = checked(dl_node_get_parameter(node, name.c_str(), &c)); !done)
        return std::move(done).error();
    const std::string text = c.text != nullptr ? c.text : "";
    dl_string_drop(&c.text);
    const std::uint32_t wanted = to_c(T{}).kind;
    if (c.kind != wanted) {
        return error(DL_ERROR_PARAMETER, "parameter '" + name + "' is " + type_name(c.kind) +
                                             ", but is read as " + type_name(wanted));
    }
    if constexpr (std::is_same_v<T, bool>) {
        return c.integer != 0;
    } else if constexpr (std::is_same_v<T, std::string>) {
        return text;
    } else if constexpr (std::integral<T>) {
        const bool negative = c.integer < 0;
        const bool fits =
            negative ? std::signed_integral<T> &&
                           c.integer >= static_cast<std::int64_t>(std::numeric_limits<T>::min())
                     : static_cast<std::uint64_t>(c.integer) <=
                           static_cast<std::uint64_t>(std::numeric_limits<T>::max());
        if (!fits) {
            return error(DL_ERROR_PARAMETER,
                         "parameter '" + name + "' = " + std::to_string(c.integer) +
                             " is out of range; " + std::to_string(std::numeric_limits<T>::min()) +
                             " to " + std::to_string(std::numeric_limits<T>::max()) +
                             " are possible");
        }
        return static_cast<T>(c.integer);
    } else {
        return static_cast<T>(c.number);
    }
}

/// Reads a declared list or map of a node.
template <ParameterType T>
requires(!ParameterScalar<T>)
    [[nodiscard]] Result<T> get_parameter(const dl_node* node, const std::string& name) {
    if (auto done = whole("parameter", name, DL_ERROR_PARAMETER); !done)
        return std::move(done).error();
    auto c = sized<dl_parameter_value>();
    if (auto done = checked(dl_node_get_parameter(node, name.c_str(), &c)); !done)
        return std::move(done).error();
    std::string json = c.text != nullptr ? c.text : "";
    dl_string_drop(&c.text);
    const bool tree = std::is_same_v<T, ParameterTree>;
    if (c.kind != DL_PARAMETER_LIST && !(tree && c.kind == DL_PARAMETER_MAP)) {
        return error(DL_ERROR_PARAMETER, "parameter '" + name + "' is " + type_name(c.kind) +
                                             ", but is read as " +
                                             (tree ? "a list or map" : "a list"));
    }
    if constexpr (std::is_same_v<T, ParameterTree>) {
        return ParameterTree{std::move(json)};
    } else {
        T out;
        for (std::int64_t i = 0; i < c.integer; ++i) {
            auto item = get_parameter<typename T::value_type>(node, name + "/" + std::to_string(i));
            if (!item) return std::move(item).error();
            out.push_back(std::move(item).value());
        }
        return out;
    }
}

}  // namespace detail
}  // namespace driveline
