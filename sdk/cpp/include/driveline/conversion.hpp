// SPDX-License-Identifier: Apache-2.0
/// Time of conversions between messages and other forms of their data.
#pragma once

#include <cstdint>

#include "driveline/driveline.h"

namespace driveline {

/// During the lifetime of this object, the time of the callback that runs on this thread counts as
/// communication, not as computation: converting a message to the form in which a component works
/// is part of passing it on.
///
/// The SDK does this for the protobuf messages that it decodes. Use it in components that convert
/// on their own, for example between `Bytes` and a struct. Reads the clock twice; does nothing
/// outside of a callback. Overlapping times count once.
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
