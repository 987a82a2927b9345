// SPDX-License-Identifier: Apache-2.0
#include "payload.hpp"

#include <xxhash.h>

#include <cstring>
#include <random>
#include <stdexcept>

namespace peers {
namespace {

// The bytes of a sample are a part of one random buffer. The parts of consecutive samples begin
// `step` bytes apart; after `stretches` samples, they begin at the front again.
constexpr std::size_t step = 64;
constexpr std::size_t stretches = 61;

constexpr std::uint64_t word(const char (&text)[9]) {
    std::uint64_t value = 0;
    for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(text[i]);
    return value;
}
constexpr std::uint64_t sample_mark = word("drvbench");
constexpr std::uint64_t end_mark = word("drvbend!");

std::uint64_t load(std::span<const std::byte> from, std::size_t index) {
    std::uint64_t value;
    std::memcpy(&value, from.data() + index * sizeof value, sizeof value);
    return value;
}

void store(std::span<std::byte> to, std::size_t index, std::uint64_t value) {
    std::memcpy(to.data() + index * sizeof value, &value, sizeof value);
}

}  // namespace

static_assert(static_cast<unsigned char>(sample_mark & 0xff) == 'd', "words are little-endian");

std::optional<Head> find_head(std::span<const std::byte> payload) {
    if (payload.size() < mark_size) return std::nullopt;
    const auto mark = load(payload, 0);
    if (mark != sample_mark && mark != end_mark) return std::nullopt;
    return Head{mark == end_mark, load(payload, 1)};
}

Head read_head(std::span<const std::byte> payload) {
    const auto head = find_head(payload);
    if (!head)
        throw std::runtime_error(
            "a payload of " + std::to_string(payload.size()) +
            " bytes came that does not begin with a mark: it is torn or not ours");
    return *head;
}

void write_mark(std::span<std::byte> payload, std::uint64_t sequence, bool is_end) {
    if (payload.size() < mark_size)
        throw std::runtime_error("a payload of " + std::to_string(payload.size()) +
                                 " bytes has no room for its mark");
    store(payload, 0, is_end ? end_mark : sample_mark);
    store(payload, 1, sequence);
}

Source::Source(std::size_t size) : body_size_(size - head_size) {
    if (size < head_size)
        throw std::runtime_error("a filled payload needs at least 32 bytes, this one has " +
                                 std::to_string(size));
    bytes_.resize((body_size_ + step * stretches + 7) / 8 * 8);
    std::mt19937_64 random(0x6472'6976'656c'696eU);
    for (std::size_t i = 0; i < bytes_.size() / 8; ++i) store(bytes_, i, random());
}

std::span<const std::byte> Source::body() const {
    return std::span(bytes_).subspan(start_, body_size_);
}

void Source::prepare(std::uint64_t sequence) {
    start_ = sequence % stretches * step;
    store(head_, 0, sample_mark);
    store(head_, 1, sequence);
    store(head_, 2, head_size + body_size_);
    store(head_, 3, XXH3_64bits_withSeed(body().data(), body_size_, sequence));
}

void Source::fill(std::span<std::byte> payload) const {
    if (payload.size() != head_size + body_size_)
        throw std::runtime_error("the memory for a payload has not the job's size");
    std::memcpy(payload.data(), head_.data(), head_size);
    std::memcpy(payload.data() + head_size, body().data(), body_size_);
}

std::optional<std::string> verify(std::span<const std::byte> payload, std::uint64_t sequence) {
    const auto of = "sample " + std::to_string(sequence) + ": ";
    if (payload.size() < head_size)
        return of + std::to_string(payload.size()) + " bytes are too few";
    if (load(payload, 0) != sample_mark) return of + "the payload does not begin as one";
    if (load(payload, 1) != sequence)
        return of + "the payload is that of sample " + std::to_string(load(payload, 1));
    if (load(payload, 2) != payload.size())
        return of + std::to_string(payload.size()) + " bytes came of " +
               std::to_string(load(payload, 2));
    const auto body = payload.subspan(head_size);
    if (load(payload, 3) != XXH3_64bits_withSeed(body.data(), body.size(), sequence)) {
        return of + "the checksum does not fit, so the payload is torn or damaged";
    }
    return std::nullopt;
}

}  // namespace peers
