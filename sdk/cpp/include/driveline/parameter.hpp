// SPDX-License-Identifier: Apache-2.0
/// Values of parameters: `bool`, whole numbers, real numbers, text.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "driveline/handle.hpp"

namespace driveline {

/// What a parameter can be.
template <class T>
concept ParameterType = std::is_same_v<T, bool> || (std::integral<T> && sizeof(T) <= 8) || std::is_same_v<T, float> ||
                        std::is_same_v<T, double> || std::is_same_v<T, std::string>;

namespace detail {

/// Valid as long as `value`.
template <ParameterType T>
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

/// Fails if name or text would be cut.
template <ParameterType T>
[[nodiscard]] Result<void> check_parameter(const std::string& name, const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
        if (auto done = whole("the value of a parameter", value, DL_ERROR_PARAMETER); !done) return done;
    }
    return whole("parameter", name, DL_ERROR_PARAMETER);
}

[[nodiscard]] inline const char* type_name(std::uint32_t kind) noexcept {
    switch (kind) {
        case DL_PARAMETER_BOOL: return "a boolean";
        case DL_PARAMETER_INTEGER: return "an integer";
        case DL_PARAMETER_FLOAT: return "a number";
        default: return "text";
    }
}

/// Reads a declared parameter of a node.
template <ParameterType T>
[[nodiscard]] Result<T> get_parameter(const dl_node* node, const std::string& name) {
    if (auto done = whole("parameter", name, DL_ERROR_PARAMETER); !done) return std::move(done).error();
    auto c = sized<dl_parameter_value>();
    if (auto done = checked(dl_node_get_parameter(node, name.c_str(), &c)); !done) return std::move(done).error();
    const std::string text = c.text != nullptr ? c.text : "";
    dl_string_drop(&c.text);
    const std::uint32_t wanted = to_c(T{}).kind;
    if (c.kind != wanted) {
        return error(DL_ERROR_PARAMETER, "parameter '" + name + "' is " + type_name(c.kind) + ", but is read as " + type_name(wanted));
    }
    if constexpr (std::is_same_v<T, bool>) {
        return c.integer != 0;
    } else if constexpr (std::is_same_v<T, std::string>) {
        return text;
    } else if constexpr (std::integral<T>) {
        const bool negative = c.integer < 0;
        const bool fits = negative ? std::signed_integral<T> && c.integer >= static_cast<std::int64_t>(std::numeric_limits<T>::min())
                                   : static_cast<std::uint64_t>(c.integer) <= static_cast<std::uint64_t>(std::numeric_limits<T>::max());
        if (!fits) {
            return error(DL_ERROR_PARAMETER, "parameter '" + name + "' = " + std::to_string(c.integer) + " is out of range; " +
                                                 std::to_string(std::numeric_limits<T>::min()) + " to " +
                                                 std::to_string(std::numeric_limits<T>::max()) + " are possible");
        }
        return static_cast<T>(c.integer);
    } else {
        return static_cast<T>(c.number);
    }
}

}  // namespace detail
}  // namespace driveline
