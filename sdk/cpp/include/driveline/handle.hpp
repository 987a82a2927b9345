// SPDX-License-Identifier: Apache-2.0
/// Owned handles of the C library.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "driveline/driveline.h"
#include "driveline/result.hpp"

namespace driveline::detail {

/// Owns one handle. Move-only; empty after a move.
template <class T, void (*drop)(T**)>
class Handle {
public:
    Handle() noexcept = default;
    explicit Handle(T* handle) noexcept : handle_(handle) {}
    Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Handle& operator=(Handle&& other) noexcept {
        if (this != &other) {
            give_up();
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() { give_up(); }

    [[nodiscard]] T* get() const noexcept { return handle_; }
    /// Returns the place of the handle, for functions that write or consume it.
    [[nodiscard]] T** place() noexcept { return &handle_; }

private:
    /// Drops the handle. Most handles are empty when they are destroyed, because they were moved:
    /// the check avoids a call of the library for them.
    void give_up() noexcept {
        if (handle_ != nullptr) drop(&handle_);
    }

    T* handle_ = nullptr;
};

using SchemaHandle = Handle<dl_schema, dl_schema_drop>;
using SampleHandle = Handle<dl_sample, dl_sample_drop>;
using LoanHandle = Handle<dl_loan, dl_loan_drop>;

/// Returns a struct of the C library with its size set and all other fields zero.
template <class T>
[[nodiscard]] T sized() noexcept {
    T c{};
    c.size = sizeof c;
    return c;
}

/// Returns the failure of the call that has just returned `status` on this thread.
[[nodiscard]] [[gnu::cold]] [[gnu::noinline]] inline Error last_error(dl_status status) {
    return Error{dl_last_error(), static_cast<std::int32_t>(status)};
}

[[nodiscard]] inline Result<void> checked(dl_status status) {
    if (status != DL_OK) return last_error(status);
    return {};
}

[[nodiscard]] inline Error error(dl_status status, std::string message) {
    return Error{std::move(message), static_cast<std::int32_t>(status)};
}

/// Returns a text with its zero bytes written as `\0`, because the C library's texts end at a zero
/// byte.
[[nodiscard]] inline std::string shown(std::string_view text) {
    std::string out;
    for (const char c : text) c == '\0' ? out.append("\\0") : out.append(1, c);
    return out;
}

/// Fails if the text contains a zero byte, at which the C library would cut it. `what`: name of the
/// argument, for users.
[[nodiscard]] inline Result<void> whole(const char* what, std::string_view text,
                                        dl_status status = DL_ERROR_NAME) {
    if (text.find('\0') == std::string_view::npos) return {};
    return error(status, std::string(what) + " '" + shown(text) +
                             "' contains a zero byte, which would end it: leave it out");
}

}  // namespace driveline::detail
