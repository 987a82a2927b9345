// SPDX-License-Identifier: Apache-2.0
// Payloads that show whether they arrived undamaged (docs/protocols/harness.md, Payload).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace peers {

/// Fields at the beginning of every payload.
struct Head {
    bool is_end = false;
    std::uint64_t sequence = 0;
};

/// Size of the head of an untouched payload, and of a filled one.
inline constexpr std::size_t mark_size = 16;
inline constexpr std::size_t head_size = 32;

/// Returns nothing if the payload does not begin with our mark.
std::optional<Head> find_head(std::span<const std::byte> payload);
/// Throws if find_head() finds nothing.
Head read_head(std::span<const std::byte> payload);
void write_mark(std::span<std::byte> payload, std::uint64_t sequence, bool is_end);

/// Generator of the sender's data.
class Source {
public:
    explicit Source(std::size_t size);
    /// Chooses the bytes of a sample and computes their checksum; before the clock starts.
    void prepare(std::uint64_t sequence);
    /// Writes the prepared sample.
    void fill(std::span<std::byte> payload) const;

private:
    std::span<const std::byte> body() const;

    std::vector<std::byte> bytes_;
    std::size_t body_size_;
    std::size_t start_ = 0;
    std::array<std::byte, head_size> head_{};
};

/// Returns the defect of a filled payload; nothing if it is undamaged.
std::optional<std::string> verify(std::span<const std::byte> payload, std::uint64_t sequence);

}  // namespace peers
