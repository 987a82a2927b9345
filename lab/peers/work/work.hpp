// SPDX-License-Identifier: Apache-2.0
// A work of work.h, from a class:
//
//   class Halve {
//    public:
//     // Throws an error text.
//     explicit Halve(const work::Parameters& parameters);
//     // Returns the number of written bytes, or nothing if there is nothing to publish. Throws an
//     // error text.
//     std::optional<std::size_t> process(work_call& call);
//     work::Report report() const;
//   };
//   WORK(Halve)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "work.h"

namespace work {

/// The parameters of the work, each with a default; finish() refuses unknown names.
class Parameters {
public:
    explicit Parameters(const char* json) : values_(nlohmann::json::parse(json)) {
        if (!values_.is_object()) throw std::runtime_error("the parameters are no JSON object");
    }

    template <typename T>
    T get(const std::string& name, const T& otherwise) const {
        asked_.push_back(name);
        const auto found = values_.find(name);
        if (found == values_.end()) return otherwise;
        try {
            return found->get<T>();
        } catch (const nlohmann::json::exception&) {
            throw std::runtime_error("the parameter '" + name + "' cannot be " + found->dump());
        }
    }

    /// As above, with bounds.
    template <typename T>
    T get(const std::string& name, T otherwise, T least, T most) const {
        const auto value = get<T>(name, otherwise);
        if (!(value >= least && value <= most)) {
            throw std::runtime_error("the parameter '" + name + "' is " +
                                     nlohmann::json(value).dump() + ", which is not between " +
                                     nlohmann::json(least).dump() + " and " +
                                     nlohmann::json(most).dump());
        }
        return value;
    }

    void finish() const {
        for (const auto& [name, value] : values_.items()) {
            if (std::find(asked_.begin(), asked_.end(), name) != asked_.end()) continue;
            std::string known;
            for (const auto& a : asked_) known += (known.empty() ? "" : ", ") + a;
            throw std::runtime_error("there is no parameter '" + name + "': known are " +
                                     (known.empty() ? "none" : known));
        }
    }

private:
    nlohmann::json values_;
    mutable std::vector<std::string> asked_;
};

using Report = std::map<std::string, std::uint64_t>;

/// Reads values one after the other, without alignment.
class Reader {
public:
    explicit Reader(const work_input& input) : rest_(input.data, input.size) {}

    template <typename T>
    T value() {
        static_assert(std::is_trivially_copyable_v<T>);
        T out;
        std::memcpy(&out, bytes(sizeof out).data(), sizeof out);
        return out;
    }

    template <typename T>
    void values(std::vector<T>& out, std::size_t count) {
        static_assert(std::is_trivially_copyable_v<T>);
        if (count > rest_.size() / sizeof(T))
            throw std::runtime_error("a message is shorter than it says");
        const auto from = bytes(count * sizeof(T));
        out.resize(count);
        if (count > 0) std::memcpy(out.data(), from.data(), from.size());
    }

    std::span<const unsigned char> bytes(std::size_t count) {
        if (count > rest_.size()) throw std::runtime_error("a message is shorter than it says");
        const auto out = rest_.first(count);
        rest_ = rest_.subspan(count);
        return out;
    }

private:
    std::span<const unsigned char> rest_;
};

/// Writes values one after the other.
class Writer {
public:
    explicit Writer(const work_call& call) : all_(call.output, call.capacity) {}

    template <typename T>
    void value(const T& in) {
        static_assert(std::is_trivially_copyable_v<T>);
        std::memcpy(place(sizeof in).data(), &in, sizeof in);
    }

    template <typename T>
    void values(std::span<const T> in) {
        static_assert(std::is_trivially_copyable_v<T>);
        const auto to = place(in.size_bytes());
        if (!in.empty()) std::memcpy(to.data(), in.data(), in.size_bytes());
    }

    /// Returns memory of the message, to be written.
    std::span<unsigned char> place(std::size_t count) {
        if (count > all_.size() - used_) {
            throw std::runtime_error("the output needs more than the " +
                                     std::to_string(all_.size()) +
                                     " bytes that its edge has room for: raise the edge's size");
        }
        const auto out = all_.subspan(used_, count);
        used_ += count;
        return out;
    }

    std::size_t written() const { return used_; }

private:
    std::span<unsigned char> all_;
    std::size_t used_ = 0;
};

/// Returns the input at `index`. Throws an error text if the chain has no such input.
inline const work_input& input(const work_call& call, std::size_t index) {
    if (index >= call.input_count)
        throw std::runtime_error("this work needs " + std::to_string(index + 1) +
                                 " input(s), it has " + std::to_string(call.input_count));
    return call.inputs[index];
}

inline void explain(const char* what, char* error, std::size_t size) {
    if (size == 0) return;
    const auto length = std::min(std::strlen(what), size - 1);
    std::memcpy(error, what, length);
    error[length] = '\0';
}

/// Calls a function. If it throws, writes the reason to `error` and returns `otherwise`.
template <typename Result, typename Call>
Result guarded(Result otherwise, char* error, std::size_t size, Call&& call) {
    try {
        return call();
    } catch (const std::exception& e) {
        explain(e.what(), error, size);
    } catch (...) {
        explain("something was thrown that is no std::exception", error, size);
    }
    return otherwise;
}

}  // namespace work

#define WORK(Class)                                                                               \
    extern "C" {                                                                                  \
    std::uint32_t work_abi(void) { return WORK_ABI; }                                             \
    void* work_create(const char* parameters, char* error, std::size_t error_size) {              \
        return work::guarded<void*>(nullptr, error, error_size, [&]() -> void* {                  \
            const work::Parameters given(parameters);                                             \
            auto made = std::make_unique<Class>(given);                                           \
            given.finish();                                                                       \
            return made.release();                                                                \
        });                                                                                       \
    }                                                                                             \
    int work_process(void* object, work_call* call, char* error, std::size_t error_size) {        \
        return work::guarded<int>(WORK_FAILED, error, error_size, [&] {                           \
            const auto written = static_cast<Class*>(object)->process(*call);                     \
            call->written = written.value_or(0);                                                  \
            return written ? WORK_DONE : WORK_NOTHING;                                            \
        });                                                                                       \
    }                                                                                             \
    std::size_t work_report(void* object, char* json, std::size_t size) {                         \
        return work::guarded<std::size_t>(0, json, size, [&] {                                    \
            const auto text = nlohmann::json(static_cast<const Class*>(object)->report()).dump(); \
            work::explain(text.c_str(), json, size);                                              \
            return text.size();                                                                   \
        });                                                                                       \
    }                                                                                             \
    void work_destroy(void* object) { delete static_cast<Class*>(object); }                       \
    }
