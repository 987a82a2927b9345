# SPDX-License-Identifier: Apache-2.0
set(DRIVELINE_COMPONENTS_MAP "${CMAKE_CURRENT_LIST_DIR}/components.map")

# driveline_add_messages(NAME PROTO... [IMPORT_DIRS DIR...])
# A shared library with the C++ code of .proto files, which component libraries link to. Protobuf
# accepts the code of one file once in a process, so it must be in no component library. Headers are
# included by the files' paths below the first of IMPORT_DIRS that they lie in; without any, below
# the current source directory.
function(driveline_add_messages name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "IMPORT_DIRS")
    if(NOT arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "driveline_add_messages(${name}): name at least one .proto file")
    endif()
    find_package(Protobuf REQUIRED)
    if(NOT arg_IMPORT_DIRS)
        set(arg_IMPORT_DIRS "${CMAKE_CURRENT_SOURCE_DIR}")
    endif()
    list(TRANSFORM arg_IMPORT_DIRS REPLACE "^([^/].*)$" "${CMAKE_CURRENT_SOURCE_DIR}/\\1")
    set(generated "${CMAKE_CURRENT_BINARY_DIR}/${name}")
    file(MAKE_DIRECTORY "${generated}")
    add_library(${name} SHARED ${arg_UNPARSED_ARGUMENTS})
    protobuf_generate(TARGET ${name} LANGUAGE cpp IMPORT_DIRS ${arg_IMPORT_DIRS}
        PROTOC_OUT_DIR "${generated}")
    target_include_directories(${name} SYSTEM PUBLIC "$<BUILD_INTERFACE:${generated}>")
    target_compile_features(${name} PUBLIC cxx_std_20)
    target_link_libraries(${name} PUBLIC protobuf::libprotobuf)
    # Component libraries find the messages' symbols here, whatever the project hides otherwise.
    set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET default
        VISIBILITY_INLINES_HIDDEN OFF)
endfunction()

# driveline_add_components(NAME SOURCE...)
# A shared library of components that a graph file names as `lib<NAME>.so`. Link it to whatever it
# needs besides.
function(driveline_add_components name)
    add_library(${name} MODULE ${ARGN})
    target_link_libraries(${name} PRIVATE Driveline::driveline)
    # A symbol that is missing should fail the build, not the start in the car.
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
    # Libraries of one process must not find each other's symbols: two may have a class of the same
    # name.
    target_link_options(${name} PRIVATE "-Wl,--version-script=${DRIVELINE_COMPONENTS_MAP}")
    set_target_properties(${name} PROPERTIES LINK_DEPENDS "${DRIVELINE_COMPONENTS_MAP}"
        CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()
