# SPDX-License-Identifier: Apache-2.0

# driveline_add_components(NAME SOURCE...)
# A shared library of components that a graph file names as `lib<NAME>.so`. Link it to whatever it needs besides.
function(driveline_add_components name)
    add_library(${name} MODULE ${ARGN})
    target_link_libraries(${name} PRIVATE Driveline::driveline)
    # A symbol that is missing should fail the build, not the start in the car.
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
    set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()
