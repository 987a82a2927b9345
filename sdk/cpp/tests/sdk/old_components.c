// SPDX-License-Identifier: Apache-2.0
// A library of another component ABI.
#include <driveline/driveline.h>

const dl_component_library* driveline_component_entry(void);

const dl_component_library* driveline_component_entry(void) {
    static const dl_component_library library = {DL_COMPONENT_ABI + 41, sizeof library, 0, 1,
                                                 "0.0"};
    return &library;
}
