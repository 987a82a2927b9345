// SPDX-License-Identifier: Apache-2.0
/// A value or an error, without exceptions. C++20 has no `std::expected`.
///
/// ```cpp
/// auto loan = output.loan(640, 480, driveline::Encoding::mono8);
/// if (!loan) return loan.error();
/// ```
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#ifndef __cpp_exceptions
#error \
    "Driveline's C++ headers need exceptions: compile without -fno-exceptions, or use the C interface in driveline/driveline.h"
#endif

namespace driveline {

/// Description of a failure, with the remedy.
struct [[nodiscard]] Error {
    /// Text for users.
    std::string message;
    /// A `dl_status`; 0 for errors that the C++ headers find and for which they give no status.
    std::int32_t status = 0;
};

/// A `T` or an `Error`. As thread-safe as `T`.
template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}

    [[nodiscard]] bool has_value() const noexcept { return content_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }

    /// Returns the value. There must be one.
    [[nodiscard]] T& operator*() & noexcept { return *std::get_if<0>(&content_); }
    [[nodiscard]] const T& operator*() const& noexcept { return *std::get_if<0>(&content_); }
    [[nodiscard]] T&& operator*() && noexcept { return std::move(*std::get_if<0>(&content_)); }
    [[nodiscard]] T* operator->() noexcept { return std::get_if<0>(&content_); }
    [[nodiscard]] const T* operator->() const noexcept { return std::get_if<0>(&content_); }

    /// Returns the error. There must be no value.
    [[nodiscard]] const Error& error() const& noexcept { return *std::get_if<1>(&content_); }
    [[nodiscard]] Error&& error() && noexcept { return std::move(*std::get_if<1>(&content_)); }

    /// Returns the value. Throws `std::runtime_error` with the error's message if there is none:
    /// use it in start-up code, not for samples.
    T& value() & {
        require();
        return **this;
    }
    const T& value() const& {
        require();
        return **this;
    }
    T value() && {
        require();
        return std::move(**this);
    }

private:
    void require() const {
        if (!has_value()) throw std::runtime_error(error().message);
    }

    std::variant<T, Error> content_;
};

/// Success or an `Error`.
template <>
class [[nodiscard]] Result<void> {
public:
    Result() noexcept = default;
    Result(Error error) : error_(std::move(error)) {}
    /// Success or failure of a result, without its value: `return output.publish(...);`.
    template <class T>
    requires(!std::is_void_v<T>) Result(Result<T> other)
        : error_(other ? std::nullopt : std::optional<Error>(std::move(other).error())) {}

    [[nodiscard]] bool has_value() const noexcept { return !error_.has_value(); }
    explicit operator bool() const noexcept { return has_value(); }

    /// Returns the error. There must be one.
    [[nodiscard]] const Error& error() const& noexcept { return *error_; }
    [[nodiscard]] Error&& error() && noexcept { return std::move(*error_); }

    /// Throws `std::runtime_error` with the error's message if there is one: use it in start-up
    /// code.
    void value() const {
        if (error_) throw std::runtime_error(error_->message);
    }

private:
    std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace driveline
