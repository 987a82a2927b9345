# SPDX-License-Identifier: Apache-2.0
# Compiler warnings and sanitizers for this project's C++. Users of the SDK do not get them.
add_library(driveline_warnings INTERFACE)
target_compile_options(driveline_warnings INTERFACE
    -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
    -Wold-style-cast)

if(DRIVELINE_SANITIZE)
    # -g1: reports of sanitizers need only line numbers, and -g takes 50 % longer.
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
        -fno-omit-frame-pointer -g1)
    add_link_options(-fsanitize=address,undefined)
endif()
