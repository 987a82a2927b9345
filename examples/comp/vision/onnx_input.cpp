// SPDX-License-Identifier: Apache-2.0
// An ONNX file is a protobuf message: fields with a number and a
// wire type. This reader follows the nested messages that lead to
// the shape of an input, and skips all other fields.
#include "onnx_input.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <vector>

namespace comp {
namespace {

// Numbers of fields in onnx.proto.
constexpr std::uint32_t kModelGraph = 7;
constexpr std::uint32_t kGraphInput = 11;
constexpr std::uint32_t kValueType = 2;
constexpr std::uint32_t kTypeTensor = 1;
constexpr std::uint32_t kTensorShape = 2;
constexpr std::uint32_t kShapeDimension = 1;
constexpr std::uint32_t kDimensionValue = 1;

struct Field {
    std::uint32_t number = 0;
    std::uint64_t value = 0;  // of a varint field
    std::uint64_t begin = 0;  // position of the content of any other field
    std::uint64_t end = 0;
};

class Reader {
public:
    explicit Reader(const std::string& path) : stream_(path, std::ios::binary | std::ios::ate) {
        size_ =
            stream_ ? static_cast<std::uint64_t>(std::max<std::streamoff>(0, stream_.tellg())) : 0;
    }
    [[nodiscard]] std::uint64_t size() const { return size_; }

    // Reads the field at `at`, and moves `at` past it. Returns nothing at the end, or if the bytes
    // are not a valid field.
    std::optional<Field> next(std::uint64_t& at, std::uint64_t end) {
        const auto key = at < end ? varint(at) : std::nullopt;
        if (!key || *key >> 3 == 0 || *key >> 3 > UINT32_MAX) {
            return std::nullopt;
        }
        Field field;
        field.number = static_cast<std::uint32_t>(*key >> 3);
        std::uint64_t length = 0;
        switch (*key & 7) {
            case 0: {
                const auto value = varint(at);
                if (!value) return std::nullopt;
                field.value = *value;
                return field;
            }
            case 1:
                length = 8;
                break;
            case 5:
                length = 4;
                break;
            case 2: {
                const auto stated = varint(at);
                if (!stated) return std::nullopt;
                length = *stated;
                break;
            }
            default:
                return std::nullopt;
        }
        if (at > end || length > end - at) {
            return std::nullopt;
        }
        field.begin = at;
        field.end = at += length;
        return field;
    }

    template <typename Visit>
    void each(std::uint64_t begin, std::uint64_t end, std::uint32_t number, Visit visit) {
        while (const auto field = next(begin, end)) {
            if (field->number == number && !visit(*field)) {
                return;
            }
        }
    }

private:
    std::optional<std::uint64_t> varint(std::uint64_t& at) {
        std::uint64_t value = 0;
        stream_.clear();
        stream_.seekg(static_cast<std::streamoff>(at));
        for (unsigned shift = 0; shift < 64; shift += 7) {
            const int byte = stream_.get();
            if (byte < 0) {
                return std::nullopt;
            }
            ++at;
            value |= (static_cast<std::uint64_t>(byte) & 0x7f) << shift;
            if ((byte & 0x80) == 0) {
                return value;
            }
        }
        return std::nullopt;
    }

    std::ifstream stream_;
    std::uint64_t size_ = 0;
};

}  // namespace

cv::Size onnx_input_size(const std::string& path) {
    Reader file(path);
    cv::Size size;
    bool found = false;
    file.each(0, file.size(), kModelGraph, [&](const Field& graph) {
        file.each(graph.begin, graph.end, kGraphInput, [&](const Field& input) {
            std::vector<std::uint64_t> shape;  // 0: left open
            file.each(input.begin, input.end, kValueType, [&](const Field& type) {
                file.each(type.begin, type.end, kTypeTensor, [&](const Field& tensor) {
                    file.each(tensor.begin, tensor.end, kTensorShape, [&](const Field& dimensions) {
                        file.each(dimensions.begin, dimensions.end, kShapeDimension,
                                  [&](const Field& dimension) {
                                      shape.push_back(0);
                                      file.each(dimension.begin, dimension.end, kDimensionValue,
                                                [&](const Field& value) {
                                                    shape.back() = value.value;
                                                    return false;
                                                });
                                      return shape.size() < 16;
                                  });
                        return true;
                    });
                    return true;
                });
                return true;
            });
            found = shape.size() == 4 && shape[1] == 3;
            if (found && shape[2] > 0 && shape[2] <= 4096 && shape[3] > 0 && shape[3] <= 4096) {
                size = cv::Size(static_cast<int>(shape[3]), static_cast<int>(shape[2]));
            }
            return !found;
        });
        return !found;
    });
    return size;
}

}  // namespace comp
