# SPDX-License-Identifier: Apache-2.0
# The Rust part: `cargo build` builds the library with the C ABI and the command-line tools.
# Defines the target Driveline::core. cargo knows which parts are out of date, so it runs in every
# build.

find_program(CARGO cargo HINTS "$ENV{CARGO_HOME}/bin" "$ENV{HOME}/.cargo/bin" REQUIRED)

set(default_cargo_target_dir "${PROJECT_SOURCE_DIR}/target")
if(DEFINED ENV{CARGO_TARGET_DIR})
    get_filename_component(default_cargo_target_dir "$ENV{CARGO_TARGET_DIR}" ABSOLUTE
        BASE_DIR "${PROJECT_SOURCE_DIR}")
endif()
set(DRIVELINE_CARGO_TARGET_DIR "${default_cargo_target_dir}" CACHE
    PATH "Target directory of cargo; shared by all CMake builds")
set(DRIVELINE_CARGO_PROFILE release CACHE
    STRING "Cargo profile: release, or dev for tests without measurements")
# Builds the same packages as `make peers`, and with dev the same targets as the Rust tests. Then
# dependencies have the same features, and cargo does not build them twice.
if(DRIVELINE_CARGO_PROFILE STREQUAL "dev")
    set(cargo_targets --workspace --lib --bins --tests --examples)
else()
    set(cargo_targets -p driveline-capi -p driveline-cli)
endif()
# The directory of this profile has another name.
string(REGEX REPLACE "^dev$" "debug" cargo_profile_dir "${DRIVELINE_CARGO_PROFILE}")
set(cargo_out "${DRIVELINE_CARGO_TARGET_DIR}/${cargo_profile_dir}")

# As in an installation: programs find the library by its SONAME, `driveline` finds `driveline-host`
# in its own directory, and `driveline-host` finds the library in ../lib.
set(DRIVELINE_CORE_SONAME "libdriveline.so.${PROJECT_VERSION_MAJOR}")
set(DRIVELINE_CORE_LIBRARY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${DRIVELINE_CORE_SONAME}")
set(DRIVELINE_TOOL "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/driveline")
set(DRIVELINE_HOST "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/driveline-host")
file(MAKE_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}" "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")

add_custom_target(driveline_core_build ALL
    COMMAND "${CMAKE_COMMAND}" -E env "CARGO_TARGET_DIR=${DRIVELINE_CARGO_TARGET_DIR}"
            "${CARGO}" build --profile "${DRIVELINE_CARGO_PROFILE}" --locked ${cargo_targets}
    COMMAND "${CMAKE_COMMAND}" -E copy_if_different "${cargo_out}/libdriveline.so"
        "${DRIVELINE_CORE_LIBRARY}"
    COMMAND "${CMAKE_COMMAND}" -E copy_if_different "${cargo_out}/driveline"
        "${cargo_out}/driveline-host" "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    BYPRODUCTS "${DRIVELINE_CORE_LIBRARY}" "${DRIVELINE_TOOL}" "${DRIVELINE_HOST}"
    COMMENT "Rust core and tools (cargo)"
    USES_TERMINAL)

add_library(Driveline::core SHARED IMPORTED GLOBAL)
set_target_properties(Driveline::core PROPERTIES
    IMPORTED_LOCATION "${DRIVELINE_CORE_LIBRARY}" IMPORTED_SONAME "${DRIVELINE_CORE_SONAME}")
# Ninja knows from BYPRODUCTS what makes the library, so only linking waits for cargo. Other
# generators need a dependency between targets, and then compilation waits too.
if(NOT CMAKE_GENERATOR MATCHES "Ninja")
    add_dependencies(Driveline::core driveline_core_build)
endif()
