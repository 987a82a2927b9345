// SPDX-License-Identifier: Apache-2.0
// The detectors behind make_vehicle_detector(). Private to the library.
#pragma once

#include <memory>

#include "vehicle_detector.hpp"

namespace comp::detectors {

std::unique_ptr<VehicleDetector> make_darknet(const DetectorOptions& options);
std::unique_ptr<VehicleDetector> make_onnx(const DetectorOptions& options);
std::unique_ptr<VehicleDetector> make_classical(const DetectorOptions& options);

}  // namespace comp::detectors
