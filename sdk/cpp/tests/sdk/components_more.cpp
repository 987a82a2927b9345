// SPDX-License-Identifier: Apache-2.0
// A second source file of the same library.
#include <driveline/driveline.hpp>

namespace {

/// A class whose constructor cannot succeed when it is described is refused when the library is loaded; this one can.
class Quiet : public driveline::Component {
    driveline::Input<driveline::Bytes> raw_{*this, "raw", driveline::Bytes{"cdr"}, "anything"};
};
DRIVELINE_COMPONENT(Quiet, "does nothing");

}  // namespace
