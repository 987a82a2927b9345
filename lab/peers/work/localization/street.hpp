// SPDX-License-Identifier: Apache-2.0
// The street, from a PLY file or generated.
#pragma once

#include <string>
#include <vector>

#include "messages.hpp"

namespace street {

/// Loads the points of a binary little-endian PLY. The properties of its vertices are all floats:
/// x, y, z, then, if present, the intensity and others. Points less than 0.5 m from the origin,
/// where nothing was measured, are left out, and so are points that are not finite. An empty path
/// generates a street, the same each time. Throws an error text.
std::vector<Point> load(const std::string& path);

}  // namespace street
