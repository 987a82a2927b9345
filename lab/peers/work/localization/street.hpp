// SPDX-License-Identifier: Apache-2.0
// The street, from a PLY file or generated.
#pragma once

#include <string>
#include <vector>

#include "messages.hpp"

namespace street {

/// Loads the points of a binary little-endian PLY whose vertices begin with x, y, z as floats; a
/// fourth float is the intensity. Points at the origin, where nothing was measured, are left out.
/// An empty path generates a street, the same each time. Throws an error text.
std::vector<Point> load(const std::string& path);

}  // namespace street
