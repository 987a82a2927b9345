// SPDX-License-Identifier: Apache-2.0
// One of two libraries that use the messages of own.proto.
#include <driveline/driveline.hpp>
#include <driveline/protobuf.hpp>

#include "own.pb.h"

class OwnA : public driveline::Component {
    driveline::Input<sdk_tests::Own> in_{*this, "in"};
    driveline::Output<sdk_tests::Own> out_{*this, "out"};
};
DRIVELINE_COMPONENT(OwnA);
