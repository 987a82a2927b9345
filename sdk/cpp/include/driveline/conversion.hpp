// SPDX-License-Identifier: Apache-2.0
/// Time spent between messages and other forms of them.
#pragma once

#include <cstdint>

#include "driveline/driveline.h"

namespace driveline {

/// While it lives, the time of the callback that runs on this thread counts as communication and
/// not as computation: getting a message from one component to the next includes bringing it into
/// the form that each works with.
///
/// The SDK does so for protobuf messages that it decodes. It is for components that convert on
/// their own, such as between `Bytes` and a struct. Two clock readings; nothing where no callback
/// runs. What overlaps counts once.
class [[nodiscard]] Conversion {
public:
    Conversion() noexcept : began_(dl_conversion_begin()) {}
    Conversion(const Conversion&) = delete;
    Conversion& operator=(const Conversion&) = delete;
    ~Conversion() { dl_conversion_end(began_); }

private:
    std::uint64_t began_;
};

}  // namespace driveline
