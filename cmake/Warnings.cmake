# SPDX-License-Identifier: Apache-2.0
# Compiler warnings and sanitizers for this project's C++. Users of the SDK do not get them.
add_library(driveline_warnings INTERFACE)
target_compile_options(driveline_warnings INTERFACE
    -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
    -Wold-style-cast
    # Point types of PCL, and of code like it.
    $<$<CXX_COMPILER_ID:Clang>:-Wno-nested-anon-types>)

if(DRIVELINE_SANITIZE)
    # -g1: reports of sanitizers need only line numbers, and -g takes 50 % longer.
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
        -fno-omit-frame-pointer -g1)
    add_link_options(-fsanitize=address,undefined)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
        # Libraries of components have no undefined symbols, so they need the run-time library too,
        # as g++ links it.
        execute_process(
            COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libclang_rt.asan-x86_64.so
            OUTPUT_VARIABLE sanitizer_library OUTPUT_STRIP_TRAILING_WHITESPACE)
        get_filename_component(sanitizer_dir "${sanitizer_library}" DIRECTORY)
        add_link_options(-shared-libsan "-Wl,-rpath,${sanitizer_dir}")
    endif()
endif()
