// SPDX-License-Identifier: Apache-2.0
// The street that is driven through: from a PLY file, or made up.
#pragma once

#include <string>
#include <vector>

#include "messages.hpp"

namespace street {

/// Points of a binary little-endian PLY whose vertices begin with x, y, z as floats; a fourth float
/// is taken as intensity. Points at the origin, where nothing was measured, are left out. An empty
/// path makes a street up, the same each time. Throws what is wrong.
std::vector<Point> load(const std::string& path);

}  // namespace street
