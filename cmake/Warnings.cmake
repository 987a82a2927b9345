# SPDX-License-Identifier: Apache-2.0
# Compiler warnings and sanitizers for our own C++; never passed on to those who use the SDK.
add_library(driveline_warnings INTERFACE)
target_compile_options(driveline_warnings INTERFACE
    -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
    -Wold-style-cast)

if(DRIVELINE_SANITIZE)
    # -g1: line numbers are enough for reports of sanitizers, and -g takes half as long again.
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
        -fno-omit-frame-pointer -g1)
    add_link_options(-fsanitize=address,undefined)
endif()
