# SPDX-License-Identifier: Apache-2.0
# Driveline::driveline: the C++ SDK, its headers and the core.

add_library(driveline_sdk INTERFACE)
add_library(Driveline::driveline ALIAS driveline_sdk)
target_include_directories(driveline_sdk SYSTEM INTERFACE "${PROJECT_SOURCE_DIR}/sdk/cpp/include")
target_compile_features(driveline_sdk INTERFACE cxx_std_20)
target_link_libraries(driveline_sdk INTERFACE Driveline::core)

# Driveline::opencv: the libraries that driveline/opencv.hpp needs in addition.
find_package(OpenCV QUIET COMPONENTS core)
if(OpenCV_FOUND)
    add_library(driveline_opencv INTERFACE)
    add_library(Driveline::opencv ALIAS driveline_opencv)
    target_include_directories(driveline_opencv SYSTEM INTERFACE ${OpenCV_INCLUDE_DIRS})
    target_link_libraries(driveline_opencv INTERFACE Driveline::driveline opencv_core)
endif()

include(DrivelineComponents)
