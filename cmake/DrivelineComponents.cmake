# SPDX-License-Identifier: Apache-2.0
set(DRIVELINE_COMPONENTS_MAP "${CMAKE_CURRENT_LIST_DIR}/components.map")

# driveline_add_components(NAME SOURCE...)
# A shared library of components that a graph file names as `lib<NAME>.so`. Link it to whatever it needs besides.
function(driveline_add_components name)
    add_library(${name} MODULE ${ARGN})
    target_link_libraries(${name} PRIVATE Driveline::driveline)
    # A symbol that is missing should fail the build, not the start in the car.
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
    # Libraries of one process must not find each other's symbols: two may have a class of the same name.
    target_link_options(${name} PRIVATE "-Wl,--version-script=${DRIVELINE_COMPONENTS_MAP}")
    set_target_properties(${name} PROPERTIES LINK_DEPENDS "${DRIVELINE_COMPONENTS_MAP}" CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()
