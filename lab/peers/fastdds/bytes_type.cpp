// SPDX-License-Identifier: Apache-2.0
#include "bytes_type.hpp"

#include <algorithm>
#include <cstring>

namespace fast {
namespace {

using Payload = eprosima::fastrtps::rtps::SerializedPayload_t;

/// Size of the field that names the encoding: plain CDR, little-endian.
constexpr std::uint32_t encapsulation_size = 4;
constexpr eprosima::fastrtps::rtps::octet encapsulation[encapsulation_size] = {0, 1, 0, 0};

}  // namespace

thread_local std::size_t BytesType::written_length = SIZE_MAX;

BytesType::BytesType(std::size_t size) : size_(size) {
    m_typeSize = static_cast<std::uint32_t>(size) + encapsulation_size;
    m_isGetKeyDefined = false;
    // There is no type description to send.
    auto_fill_type_object(false);
    auto_fill_type_information(false);
    setName(("bench::Bytes" + std::to_string(size)).c_str());
}

bool BytesType::serialize(void* data, Payload* payload) {
    if (payload->max_size < m_typeSize) return false;
    payload->encapsulation = CDR_LE;
    const auto length = std::min(written_length, size_);
    payload->length = static_cast<std::uint32_t>(length) + encapsulation_size;
    std::memcpy(payload->data, encapsulation, encapsulation_size);
    std::memcpy(payload->data + encapsulation_size, data, length);
    return true;
}

bool BytesType::deserialize(Payload* payload, void* data) {
    if (payload->length < encapsulation_size || payload->length > m_typeSize) return false;
    std::memcpy(data, payload->data + encapsulation_size, payload->length - encapsulation_size);
    return true;
}

std::function<std::uint32_t()> BytesType::getSerializedSizeProvider(void*) {
    return [size = m_typeSize] { return size; };
}

void* BytesType::createData() { return new std::byte[size_]; }

void BytesType::deleteData(void* data) { delete[] static_cast<std::byte*>(data); }

bool BytesType::getKey(void*, eprosima::fastrtps::rtps::InstanceHandle_t*, bool) { return false; }

}  // namespace fast
