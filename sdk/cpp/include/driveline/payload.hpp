// SPDX-License-Identifier: Apache-2.0
/// Payload kind of a C++ type, and its schema.
///
/// - *plain*: declared with `DRIVELINE_PLAIN`; read in place, in this process and others;
/// - *protobuf*: generated from a .proto file (include `driveline/protobuf.hpp`); passed as a
///   pointer inside the process, and serialised once if there are readers in other processes, or if
///   the topic is transient-local;
/// - *bytes*: `driveline::Bytes`, with an encoding that Driveline does not interpret;
/// - *object*: any other movable type; passed as a pointer, only inside the process. Do not use
///   types of anonymous namespaces: two libraries can have different types with the same name.
#pragma once

#include <concepts>
#include <cstdlib>
#include <cxxabi.h>
#include <string>
#include <type_traits>
#include <typeinfo>

#include "driveline/handle.hpp"
#include "driveline/plain.hpp"

#ifndef __cpp_rtti
#error \
    "Driveline's C++ headers need RTTI: compile without -fno-rtti, or use the C interface in driveline/driveline.h"
#endif

namespace driveline {

/// Opaque bytes. As a type argument, it selects the payload kind; as a value, it describes the
/// bytes.
struct Bytes {
    /// `cdr`, `json`, …
    std::string encoding;
    /// Name of the type within the encoding.
    std::string name = "bytes";
    /// Description of the type, such as a message definition.
    std::string definition = {};
};

namespace protobuf {
/// Name and definition of a message; defined in `driveline/protobuf.hpp`.
template <class T>
struct Identity;
}  // namespace protobuf

/// Payload kind of a type.
namespace payload {

// Detected by members of generated code, so that programs without protobuf need none of its
// headers.
template <class T>
concept Protobuf = !plain::Type<T> && requires(const T& message, void* into) {
    { message.ByteSizeLong() } -> std::convertible_to<std::size_t>;
    { message.SerializeToArray(into, 0) } -> std::convertible_to<bool>;
    T::descriptor();
};

template <class T>
concept Opaque = std::is_same_v<T, Bytes>;

template <class T>
concept Object =
    !plain::Type<T> && !Protobuf<T> && !Opaque<T> && std::is_object_v<T> && !std::is_const_v<T>;

/// Payloads in memory that is loaned and filled.
template <class T>
concept Loanable = plain::Type<T> || Opaque<T>;

/// Payloads that are values and are passed as pointers.
template <class T>
concept Value = Protobuf<T> || Object<T>;

}  // namespace payload

namespace detail {

template <class T>
constexpr bool has_protobuf_identity = requires {
    sizeof(protobuf::Identity<T>);
};

[[nodiscard]] inline std::string demangled(const char* name) {
    int status = 0;
    char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
    std::string out = text != nullptr ? text : name;
    std::free(text);
    return out;
}

/// Identity for reading a `T` through a pointer in separately compiled code: its name, its size,
/// its alignment and, for generated messages, the version of the protobuf library that determines
/// their layout and inline functions. Composed once; each library has its own.
template <class T>
[[nodiscard]] __attribute__((visibility("hidden"))) const std::string& type_identity() {
    static const std::string text = [] {
        std::string t = typeid(T).name();
        t.append(" size ")
            .append(std::to_string(sizeof(T)))
            .append(" align ")
            .append(std::to_string(alignof(T)));
        if constexpr (payload::Protobuf<T>)
            t.append(" protobuf ").append(std::to_string(protobuf::Identity<T>::library_version()));
        return t;
    }();
    return text;
}

[[nodiscard]] inline Result<SchemaHandle> make_schema(dl_payload_kind kind, const char* name,
                                                      const char* encoding,
                                                      const char* definition) {
    SchemaHandle schema;
    if (auto made = checked(dl_schema_new(kind, name, encoding, definition, schema.place())); !made)
        return std::move(made).error();
    return schema;
}

[[nodiscard]] inline Result<SchemaHandle> make_schema(const Bytes& bytes) {
    for (const auto* text : {&bytes.name, &bytes.encoding, &bytes.definition}) {
        if (auto done = whole("a text of Bytes", *text, DL_ERROR_SCHEMA); !done)
            return std::move(done).error();
    }
    return make_schema(DL_KIND_BYTES, bytes.name.c_str(), bytes.encoding.c_str(),
                       bytes.definition.c_str());
}

template <class T>
[[nodiscard]] Result<SchemaHandle> make_schema() {
    if constexpr (plain::Type<T>) {
        return make_schema(DL_KIND_PLAIN, nullptr, nullptr, plain::definition<T>().c_str());
    } else if constexpr (payload::Protobuf<T>) {
        static_assert(has_protobuf_identity<T>,
                      "T is a protobuf message: include \"driveline/protobuf.hpp\" before using it "
                      "with Driveline");
        return make_schema(DL_KIND_PROTOBUF, protobuf::Identity<T>::name().c_str(), nullptr,
                           protobuf::Identity<T>::definition().c_str());
    } else {
        static_assert(!payload::Opaque<T>,
                      "Bytes need an encoding: give Bytes{\"encoding\"} after the name");
        return make_schema(DL_KIND_OBJECT, demangled(typeid(T).name()).c_str(), "c++",
                           type_identity<T>().c_str());
    }
}

}  // namespace detail
}  // namespace driveline
