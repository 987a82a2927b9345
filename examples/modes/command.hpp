// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <driveline/driveline.hpp>

/// A commanded speed in m/s, and the number of the image to which it reacts. Also used in place of
/// the image itself.
struct Command {
    std::uint64_t number;
    double speed;
};
DRIVELINE_PLAIN(Command, "demo/Command", number, speed);
