// SPDX-License-Identifier: Apache-2.0
/// Identity of protobuf messages. Needs libprotobuf.
#pragma once

#include <algorithm>
#include <concepts>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/common.h>

namespace driveline::protobuf {

/// A generated protobuf message.
template <class T>
concept Type = std::derived_from<T, google::protobuf::Message> && std::default_initializable<T>;

namespace detail {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

inline void write_message(std::string& text, const Descriptor& message) {
    text.append("message ").append(message.full_name()).append("\n");
    std::vector<const FieldDescriptor*> fields;
    for (int i = 0; i < message.field_count(); ++i) fields.push_back(message.field(i));
    std::sort(fields.begin(), fields.end(),
              [](const auto* a, const auto* b) { return a->number() < b->number(); });
    for (const FieldDescriptor* field : fields) {
        const char* label = field->is_repeated()   ? "repeated"
                            : field->is_required() ? "required"
                                                   : "optional";
        text.append("field ")
            .append(std::to_string(field->number()))
            .append(" ")
            .append(field->name());
        text.append(" ").append(label).append(" ").append(field->type_name());
        if (const Descriptor* inner = field->message_type())
            text.append(" ").append(inner->full_name());
        if (const EnumDescriptor* inner = field->enum_type())
            text.append(" ").append(inner->full_name());
        // The parser puts each `optional` field of proto3 into a oneof of its own. The call returns
        // only a oneof that the `.proto` file has.
        if (const auto* oneof = field->real_containing_oneof())
            text.append(" oneof ").append(oneof->name());
        text.append("\n");
    }
}

inline void write_enum(std::string& text, const EnumDescriptor& type) {
    text.append("enum ").append(type.full_name()).append("\n");
    std::vector<std::pair<int, std::string>> values;
    for (int i = 0; i < type.value_count(); ++i)
        values.emplace_back(type.value(i)->number(), type.value(i)->name());
    std::sort(values.begin(), values.end());
    for (const auto& [number, name] : values) {
        text.append("value ").append(std::to_string(number)).append(" ").append(name).append("\n");
    }
}

}  // namespace detail

/// Canonical definition of a message and of all that it refers to: the same text as in Rust, byte
/// for byte (`docs/protocols/protobuf-definition.md`). Allocates.
[[nodiscard]] inline std::string definition(const google::protobuf::Descriptor& root) {
    std::map<std::string, std::pair<const detail::Descriptor*, const detail::EnumDescriptor*>>
        reached;
    std::vector<const detail::Descriptor*> open{&root};
    while (!open.empty()) {
        const detail::Descriptor* message = open.back();
        open.pop_back();
        if (!reached.try_emplace(message->full_name(), message, nullptr).second) continue;
        for (int i = 0; i < message->field_count(); ++i) {
            const detail::FieldDescriptor* field = message->field(i);
            if (const auto* inner = field->message_type()) open.push_back(inner);
            if (const auto* inner = field->enum_type())
                reached.try_emplace(inner->full_name(), nullptr, inner);
        }
    }
    std::string text = "driveline protobuf 1\n";
    detail::write_message(text, root);
    reached.erase(root.full_name());
    for (const auto& [name, type] : reached) {
        if (type.first) detail::write_message(text, *type.first);
        if (type.second) detail::write_enum(text, *type.second);
    }
    return text;
}

/// Canonical definition of `T`. Composed once; lives as long as the program.
template <Type T>
[[nodiscard]] const std::string& definition() {
    static const std::string text = definition(*T::descriptor());
    return text;
}

/// Full name of `T`, such as `driveline.msgs.LaneMarkings`.
template <Type T>
[[nodiscard]] const std::string& name() {
    return T::descriptor()->full_name();
}

/// Used by publishers and subscriptions through `driveline/payload.hpp`, which does not need
/// libprotobuf.
template <class T>
struct Identity;

template <Type T>
struct Identity<T> {
    [[nodiscard]] static const std::string& name() { return protobuf::name<T>(); }
    [[nodiscard]] static const std::string& definition() { return protobuf::definition<T>(); }
    /// Version of the headers that the message was compiled with.
    [[nodiscard]] static constexpr int library_version() noexcept {
        return GOOGLE_PROTOBUF_VERSION;
    }
};

}  // namespace driveline::protobuf
