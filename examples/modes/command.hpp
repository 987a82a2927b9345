// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <driveline/driveline.hpp>

/// A commanded speed in m/s, and the number of the picture that it answers; also stands for the
/// picture itself.
struct Command {
    std::uint64_t number;
    double speed;
};
DRIVELINE_PLAIN(Command, "demo/Command", number, speed);
