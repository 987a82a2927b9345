// SPDX-License-Identifier: Apache-2.0
// A library with a global object that throws while the library is loaded.
#include <stdexcept>

#include <driveline/driveline.hpp>

namespace {

struct Global {
    Global() { throw std::runtime_error("no licence"); }
};
const Global global;

}  // namespace

class Never : public driveline::Component {};
DRIVELINE_COMPONENT(Never);
