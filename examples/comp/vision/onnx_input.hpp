// SPDX-License-Identifier: Apache-2.0
// Reads the image size that an ONNX model was exported for. OpenCV does not provide it.
#pragma once

#include <string>

#include <opencv2/core.hpp>

namespace comp {

// Returns the size of the first input of the form [batch, 3, height, width]. Empty: the model
// leaves the size open, has no such input, or is not an ONNX file. Reads the graph of the model and
// skips its weights. Does not throw.
cv::Size onnx_input_size(const std::string& path);

}  // namespace comp
