// SPDX-License-Identifier: Apache-2.0
#include "container.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <optional>
#include <string_view>

namespace comp {
namespace {

constexpr int kMaxBoxes = 10'000;  // bounds the work for a file that is not a video

class File {
public:
    explicit File(const std::string& path) : stream_(path, std::ios::binary | std::ios::ate) {
        size_ =
            stream_ ? static_cast<std::uint64_t>(std::max<std::streamoff>(0, stream_.tellg())) : 0;
    }
    [[nodiscard]] std::uint64_t size() const { return size_; }

    // Reads `count` bytes at `at`; fewer at the end of the file.
    [[nodiscard]] std::string bytes(std::uint64_t at, std::size_t count) {
        std::string out(count, '\0');
        stream_.clear();
        stream_.seekg(static_cast<std::streamoff>(std::min(at, size_)));
        stream_.read(out.data(), static_cast<std::streamsize>(count));
        out.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, stream_.gcount())));
        return out;
    }
    // Reads a big-endian number of `count` bytes.
    [[nodiscard]] std::optional<std::uint64_t> big_endian(std::uint64_t at, std::size_t count) {
        const std::string raw = bytes(at, count);
        if (raw.size() != count) {
            return std::nullopt;
        }
        std::uint64_t value = 0;
        for (const char c : raw) {
            value = value << 8 | static_cast<unsigned char>(c);
        }
        return value;
    }

private:
    std::ifstream stream_;
    std::uint64_t size_ = 0;
};

// ---- mp4 and mov: boxes with a length, a name of four letters, and content ----

struct Box {
    std::string name;
    std::uint64_t content = 0;
    std::uint64_t end = 0;  // may be beyond the end of the file
};

std::optional<Box> box_at(File& file, std::uint64_t at) {
    const auto length = file.big_endian(at, 4);
    if (!length || at + 8 > file.size()) {
        return std::nullopt;
    }
    Box box{file.bytes(at + 4, 4), at + 8, at + *length};
    // Any bytes may follow the last box.
    if (!std::all_of(box.name.begin(), box.name.end(),
                     [](unsigned char c) { return (c >= 0x20 && c < 0x7f) || c == 0xa9; })) {
        return std::nullopt;
    }
    if (*length == 1) {
        const auto wide = file.big_endian(at + 8, 8);
        if (!wide || *wide > INT64_MAX - at) {
            return std::nullopt;
        }
        box.content = at + 16;
        box.end = at + *wide;
    } else if (*length == 0) {
        box.end = std::max(box.content, file.size());
    }
    return box.end >= box.content ? std::optional(box) : std::nullopt;
}

// Calls `visit` with each box of [at, end) until it returns false.
template <typename Visit>
void for_each_box(File& file, std::uint64_t at, std::uint64_t end, Visit visit) {
    for (int i = 0; i < kMaxBoxes && at < end; ++i) {
        const auto box = box_at(file, at);
        if (!box || !visit(*box)) {
            return;
        }
        at = box->end;
    }
}

std::optional<Box> find_box(File& file, const Box& in, std::string_view name) {
    std::optional<Box> found;
    for_each_box(file, in.content, std::min(in.end, file.size()), [&](const Box& box) {
        if (box.name == name) {
            found = box;
        }
        return !found;
    });
    return found;
}

// Returns the rotation of the matrix (a b; c d) in a track's header, for the rotations that cameras
// use.
int rotation_of(File& file, const Box& header) {
    const bool wide = file.big_endian(header.content, 1).value_or(0) == 1;
    const std::uint64_t matrix = header.content + (wide ? 52 : 40);
    const auto entry = [&](int index) {
        const auto raw =
            file.big_endian(matrix + 4 * static_cast<std::uint64_t>(index), 4).value_or(0);
        return std::bit_cast<std::int32_t>(static_cast<std::uint32_t>(raw));
    };
    const auto sign = [](std::int32_t v) { return v > 0 ? 1 : v < 0 ? -1 : 0; };
    const std::array<int, 4> turn{sign(entry(0)), sign(entry(1)), sign(entry(3)), sign(entry(4))};
    if (turn == std::array{0, 1, -1, 0}) return 90;
    if (turn == std::array{-1, 0, 0, -1}) return 180;
    if (turn == std::array{0, -1, 1, 0}) return 270;
    return 0;
}

void read_boxes(File& file, ContainerFacts& facts) {
    facts.counts_frames = true;
    facts.stated_size = 0;
    for_each_box(file, 0, file.size(), [&](const Box& box) {
        facts.stated_size = box.end;
        if (box.name != "moov") {
            return true;
        }
        for_each_box(file, box.content, std::min(box.end, file.size()), [&](const Box& track) {
            if (track.name != "trak") {
                return true;
            }
            const auto media = find_box(file, track, "mdia");
            const auto handler = media ? find_box(file, *media, "hdlr") : std::nullopt;
            if (!handler || file.bytes(handler->content + 8, 4) != "vide") {
                return true;
            }
            if (const auto header = find_box(file, track, "tkhd")) {
                facts.rotation = rotation_of(file, *header);
            }
            return false;  // players show the first video track
        });
        return true;
    });
}

// ---- avi: chunks with a name of four letters, a little-endian length, and content ----

void read_chunks(File& file, ContainerFacts& facts) {
    facts.counts_frames = true;
    std::uint64_t at = 0;
    for (int i = 0; i < kMaxBoxes && at < file.size() && file.bytes(at, 4) == "RIFF"; ++i) {
        const auto length = file.big_endian(at + 4, 4);
        if (!length || *length == 0) {
            return;  // the recording was not closed
        }
        at += 8 + __builtin_bswap32(static_cast<std::uint32_t>(*length));
        facts.stated_size = std::max(facts.stated_size, at);
    }
}

// ---- Matroska: elements with an id, a length, and content ----

// An id or a length of an element. It is as many bytes long as the number of zero bits before its
// first set bit, plus 1.
struct Number {
    std::uint64_t value = 0;
    std::uint64_t length = 0;
    bool unknown = false;  // all bits of the value are set: the file does not state it
};

std::optional<Number> number_at(File& file, std::uint64_t at) {
    const auto first = file.big_endian(at, 1);
    if (!first || *first == 0) {
        return std::nullopt;
    }
    Number number;
    number.length =
        static_cast<std::uint64_t>(std::countl_zero(static_cast<std::uint8_t>(*first))) + 1;
    const auto raw = file.big_endian(at, number.length);
    if (!raw) {
        return std::nullopt;
    }
    const std::uint64_t mask = (std::uint64_t{1} << (7 * number.length)) - 1;
    number.value = *raw & mask;
    number.unknown = number.value == mask;
    return number;
}

void read_elements(File& file, ContainerFacts& facts) {
    const auto header = number_at(file, 4);
    if (!header) {
        return;
    }
    const std::uint64_t segment = 4 + header->length + header->value;
    if (file.bytes(segment, 4) != "\x18\x53\x80\x67") {
        return;
    }
    const auto size = number_at(file, segment + 4);
    if (size && !size->unknown) {
        facts.stated_size = segment + 4 + size->length + size->value;
    }
}

}  // namespace

ContainerFacts read_container(const std::string& path) {
    File file(path);
    ContainerFacts facts;
    facts.size = facts.stated_size = file.size();
    const std::string start = file.bytes(0, 12);
    if (start.size() == 12 && start.compare(4, 4, "ftyp") == 0) {
        read_boxes(file, facts);
    } else if (start.starts_with("RIFF")) {
        read_chunks(file, facts);
    } else if (start.starts_with("\x1a\x45\xdf\xa3")) {
        read_elements(file, facts);
    }
    return facts;
}

}  // namespace comp
