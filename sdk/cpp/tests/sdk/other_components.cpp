// SPDX-License-Identifier: Apache-2.0
// Another library, with a class of a name that the first one has as well.
#include <driveline/driveline.hpp>

namespace testing_components {

class Camera : public driveline::Component {
    driveline::Parameter<std::string> other_{*this, "other", "yes", "only this Camera has it"};
};

}  // namespace testing_components

using testing_components::Camera;
DRIVELINE_COMPONENT(Camera, "the other one");
