// SPDX-License-Identifier: Apache-2.0
// The size of the pictures that an ONNX model was exported for. OpenCV does not pass it on.
#pragma once

#include <string>

#include <opencv2/core.hpp>

namespace comp {

// Size of the first input of the form [batch, 3, height, width]. Empty: a size that the model
// leaves open, no such input, or no ONNX file. Reads the model's graph and skips its weights. Does
// not throw.
cv::Size onnx_input_size(const std::string& path);

}  // namespace comp
