// SPDX-License-Identifier: Apache-2.0
// Plain bytes, up to a fixed number, as a DDS type. Written by hand, because Debian has no
// fastddsgen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fastdds/dds/topic/TopicDataType.hpp>

namespace fast {

class BytesType final : public eprosima::fastdds::dds::TopicDataType {
public:
    explicit BytesType(std::size_t size);

    /// Number of bytes on the wire for samples that this thread writes, at most the type's size.
    /// Samples that are not copied always have the type's size.
    static thread_local std::size_t written_length;

    bool serialize(void* data, eprosima::fastrtps::rtps::SerializedPayload_t* payload) override;
    bool deserialize(eprosima::fastrtps::rtps::SerializedPayload_t* payload, void* data) override;
    std::function<std::uint32_t()> getSerializedSizeProvider(void* data) override;
    void* createData() override;
    void deleteData(void* data) override;
    bool getKey(void* data, eprosima::fastrtps::rtps::InstanceHandle_t* handle,
                bool force_md5) override;
    // Both together permit loans: memory and wire have the same bytes, and always the same number.
    bool is_bounded() const override { return true; }
    bool is_plain() const override { return true; }

private:
    std::size_t size_;
};

}  // namespace fast
