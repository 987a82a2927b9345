// SPDX-License-Identifier: Apache-2.0
/// The core of Driveline for C++20. Include separately: `driveline/protobuf.hpp` (protobuf
/// messages), `driveline/opencv.hpp` (`cv::Mat` views of images), `driveline/points.hpp` (clouds of
/// a point type of your own), `driveline/pcl.hpp` (clouds of PCL), `driveline/testing.hpp`.
///
/// Functions that can fail return a `Result`. Only `Result::value()` throws, if the result is an
/// error. API tour: `docs/cpp.md`.
#pragma once

#if __cplusplus < 202002L
#error "Driveline needs C++20: compile with -std=c++20"
#endif

#include "driveline/component.hpp"
#include "driveline/compressed_image.hpp"
#include "driveline/context.hpp"
#include "driveline/conversion.hpp"
#include "driveline/image.hpp"
#include "driveline/imu.hpp"
#include "driveline/link.hpp"
#include "driveline/point_cloud.hpp"
#include "driveline/publisher.hpp"
#include "driveline/radar.hpp"
#include "driveline/service.hpp"
#include "driveline/subscription.hpp"
