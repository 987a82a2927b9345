# SPDX-License-Identifier: Apache-2.0
# Files that `make install` puts into a prefix, for find_package(Driveline) and pkg-config.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Driveline")

# Programs load the core by its SONAME at run time. The plain name is for linking.
install(PROGRAMS "${DRIVELINE_CORE_LIBRARY}" DESTINATION "${CMAKE_INSTALL_LIBDIR}")
set(core_link "${CMAKE_INSTALL_LIBDIR}/libdriveline.so")
install(CODE "file(CREATE_LINK ${DRIVELINE_CORE_SONAME}
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${core_link}\" SYMBOLIC)")
install(PROGRAMS "${DRIVELINE_TOOL}" "${DRIVELINE_HOST}" DESTINATION "${CMAKE_INSTALL_BINDIR}")
# Programs of `make gateways` and `make lab`, if they were built.
foreach(program driveline-gateway-zenoh driveline-gateway-ros2 driveline-bench driveline-chaos)
  install(PROGRAMS "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${program}"
      DESTINATION "${CMAKE_INSTALL_BINDIR}" OPTIONAL)
endforeach()
install(DIRECTORY sdk/cpp/include/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING
    PATTERN "*.h" PATTERN "*.hpp")
install(DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/proto/driveline"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.pb.h")
install(DIRECTORY proto/driveline DESTINATION "${CMAKE_INSTALL_DATADIR}/driveline/proto"
    FILES_MATCHING PATTERN "*.proto")
set(doc_dir "${CMAKE_INSTALL_DATADIR}/doc/driveline")
install(FILES LICENSE README.md CHANGELOG.md ARCHITECTURE.md CONTRIBUTING.md
    DESTINATION "${doc_dir}")
install(DIRECTORY docs DESTINATION "${doc_dir}")
install(DIRECTORY examples DESTINATION "${doc_dir}" PATTERN "build" EXCLUDE PATTERN "__pycache__"
    EXCLUDE)
# Completions and manual pages: the tool writes them during the installation.
install(CODE "set(driveline_tool \"${DRIVELINE_TOOL}\")")
install(CODE [[
    set(share "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share")
    foreach(shell_file IN ITEMS
            bash:bash-completion/completions/driveline zsh:zsh/site-functions/_driveline
            fish:fish/vendor_completions.d/driveline.fish)
        string(REGEX MATCH "^([a-z]+):(.*)/([^/]+)$" matched "${shell_file}")
        set(shell "${CMAKE_MATCH_1}")
        set(directory "${share}/${CMAKE_MATCH_2}")
        set(file "${directory}/${CMAKE_MATCH_3}")
        file(MAKE_DIRECTORY "${directory}")
        execute_process(COMMAND "${driveline_tool}" completion "${shell}" OUTPUT_FILE "${file}"
            COMMAND_ERROR_IS_FATAL ANY)
    endforeach()
    execute_process(COMMAND "${driveline_tool}" man "${share}/man/man1" COMMAND_ERROR_IS_FATAL ANY)
]])

install(TARGETS driveline_msgs EXPORT driveline_msgs LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT driveline_msgs NAMESPACE Driveline:: FILE DrivelineMessages.cmake
    DESTINATION "${package_dir}")

configure_package_config_file(cmake/DrivelineConfig.cmake.in
    "${CMAKE_CURRENT_BINARY_DIR}/install/DrivelineConfig.cmake"
    INSTALL_DESTINATION "${package_dir}" PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/install/DrivelineConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES
    "${CMAKE_CURRENT_BINARY_DIR}/install/DrivelineConfig.cmake"
    "${CMAKE_CURRENT_BINARY_DIR}/install/DrivelineConfigVersion.cmake"
    cmake/DrivelineComponents.cmake cmake/components.map
    DESTINATION "${package_dir}")

configure_file(cmake/driveline.pc.in "${CMAKE_CURRENT_BINARY_DIR}/driveline.pc" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/driveline.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
