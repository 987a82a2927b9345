// SPDX-License-Identifier: Apache-2.0
/// A type that two component libraries exchange as an object.
#pragma once

#include <sstream>
#include <string>

namespace testing_components {

struct Plan {
    std::string own_address;
};

inline std::string address(const void* pointer) {
    std::ostringstream text;
    text << pointer;
    return text.str();
}

}  // namespace testing_components
