# SPDX-License-Identifier: Apache-2.0
set(DRIVELINE_COMPONENTS_MAP "${CMAKE_CURRENT_LIST_DIR}/components.map")

# driveline_add_messages(NAME PROTO... [IMPORT_DIRS DIR...])
# Adds a shared library with the C++ code of .proto files, for component libraries to link.
# Protobuf accepts the code of a file only once in a process, so component libraries must not
# contain it. The path of a header is that of its file relative to the first of IMPORT_DIRS that
# contains it, or else to the current source directory.
function(driveline_add_messages name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "IMPORT_DIRS")
    if(NOT arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "driveline_add_messages(${name}): name at least one .proto file")
    endif()
    find_package(Protobuf REQUIRED)
    # Not protobuf_generate(): it expects every file at its path below the current source directory.
    set(directories)
    set(import_paths)
    foreach(directory IN LISTS arg_IMPORT_DIRS ITEMS "${CMAKE_CURRENT_SOURCE_DIR}")
        get_filename_component(directory "${directory}" ABSOLUTE)
        list(APPEND directories "${directory}")
        list(APPEND import_paths "--proto_path=${directory}")
    endforeach()
    set(generated "${CMAKE_CURRENT_BINARY_DIR}/${name}")
    file(MAKE_DIRECTORY "${generated}")
    set(sources)
    foreach(proto IN LISTS arg_UNPARSED_ARGUMENTS)
        get_filename_component(path "${proto}" ABSOLUTE)
        set(stem)
        foreach(directory IN LISTS directories)
            cmake_path(IS_PREFIX directory "${path}" inside)
            if(inside)
                file(RELATIVE_PATH stem "${directory}" "${path}")
                string(REGEX REPLACE "\\.proto$" "" stem "${stem}")
                break()
            endif()
        endforeach()
        if(NOT stem)
            list(JOIN directories ", " places)
            message(FATAL_ERROR
                "driveline_add_messages(${name}): ${path} lies below none of ${places}: "
                "name its directory in IMPORT_DIRS")
        endif()
        set(code "${generated}/${stem}.pb.cc" "${generated}/${stem}.pb.h")
        add_custom_command(OUTPUT ${code}
            COMMAND protobuf::protoc "--cpp_out=${generated}" ${import_paths} "${path}"
            DEPENDS "${path}" protobuf::protoc
            COMMENT "C++ code of ${proto}"
            VERBATIM)
        list(APPEND sources "${path}" ${code})
    endforeach()
    add_library(${name} SHARED ${sources})
    target_include_directories(${name} SYSTEM PUBLIC "$<BUILD_INTERFACE:${generated}>")
    target_compile_features(${name} PUBLIC cxx_std_20)
    target_link_libraries(${name} PUBLIC protobuf::libprotobuf)
    # Component libraries need the symbols of the messages, even if the project hides symbols.
    set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET default
        VISIBILITY_INLINES_HIDDEN OFF)
endfunction()

# driveline_add_components(NAME SOURCE...)
# Adds a shared library of components, which a graph file names as `lib<NAME>.so`. Link other
# libraries to it as needed.
function(driveline_add_components name)
    add_library(${name} MODULE ${ARGN})
    target_link_libraries(${name} PRIVATE Driveline::driveline)
    # A missing symbol must fail the build, not the start in the vehicle.
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
    # Libraries of one process must not find each other's symbols: two may have a class of the same
    # name.
    target_link_options(${name} PRIVATE "-Wl,--version-script=${DRIVELINE_COMPONENTS_MAP}")
    set_target_properties(${name} PROPERTIES LINK_DEPENDS "${DRIVELINE_COMPONENTS_MAP}"
        CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()
