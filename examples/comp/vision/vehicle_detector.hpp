// SPDX-License-Identifier: Apache-2.0
// Finds vehicles in one frame, with a neural network from a file. Without a file, it uses a
// classical detector, whose name says so.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <opencv2/core.hpp>

#include "perception.hpp"

namespace comp {

struct DetectorOptions {
    // The network. Empty: the classical detector.
    //   *.cfg or *.weights  darknet (YOLOv3/v4 and kin); the other file of the pair is weights_path
    //   or has the same stem
    //   *.onnx              YOLOv5 layout [1, boxes, 5 + classes] (cx cy w h objectness scores...),
    //                       YOLOv8 layout [1, 4 + classes, boxes] (cx cy w h scores...), each also
    //                       transposed, or with built-in suppression [1, boxes, 6] (x1 y1 x2
    //                       y2 score class); all also with masks, which are not read;
    //                       coordinates in input pixels, scores 0 to 1
    std::string model_path;
    std::string weights_path;  // darknet only; empty: model_path with the other ending
    // File with one class name per line, in upper or lower case. Empty: the model must have the 80
    // classes of COCO. Car, motorbike (motorcycle), bus and truck are reported, other classes are
    // dropped.
    std::string names_path;

    // Part of the image for the network, as fractions of width and height. The default is the band
    // that contains the vehicles in a forward camera. At equal cost, vehicles cover twice as many
    // pixels of the network's input as with the full image.
    cv::Rect2f region{0.0F, 0.3F, 1.0F, 0.5F};
    // Input size of the network. Empty: darknet uses the pixel count of the .cfg with the aspect
    // ratio of the region, in multiples of 32. ONNX uses the size that the model states, or 640x640
    // if it states none (letterboxed).
    cv::Size input_size;

    float min_confidence = 0.4F;
    float max_overlap =
        0.35F;  // non-maximum suppression, across classes: IoU above this is the same vehicle
    std::size_t max_detections = kMaxDetections;

    // Classical detector only: row of the horizon as a fraction of the image height, and width of a
    // car in pixels, divided by the rows from the horizon down to its wheels. The second value is
    // the width of a car divided by the height of the camera above the road.
    double horizon_fraction = 0.54;
    double car_width_per_row = 1.3;
};

// Not thread-safe.
class VehicleDetector {
public:
    virtual ~VehicleDetector() = default;
    VehicleDetector(const VehicleDetector&) = delete;
    VehicleDetector& operator=(const VehicleDetector&) = delete;

    // Replaces `out` by the vehicles in `bgr` (8 bits, three channels): best first, at most
    // max_detections, no two overlapping more than max_overlap, boxes inside the image. An empty
    // image gives none. Returns false, with error() set and `out` empty, when the image has another
    // type or the network fails. Does not throw.
    [[nodiscard]] bool detect(const cv::Mat& bgr, std::vector<Detection>& out);

    [[nodiscard]] const std::string& error() const { return error_; }

    // Name for users: "YOLO darknet yolo-fastest-1.1-xl.cfg 640x160", "classical (no model)".
    [[nodiscard]] virtual std::string name() const = 0;
    // Every output made with a classical detector must be labelled as such.
    [[nodiscard]] virtual bool is_classical() const = 0;

protected:
    explicit VehicleDetector(const DetectorOptions& options) : options_(options) {}

    // Proposes vehicles, in any order and number. They may overlap and extend beyond the image. May
    // throw; detect() converts the exception into error().
    virtual void propose(const cv::Mat& bgr, std::vector<Detection>& out) = 0;

    DetectorOptions options_;

private:
    std::string error_;
    std::vector<Detection> proposals_;
};

// Loads the detector. A network runs once on a blank image, so that unusable models fail here.
// Throws VisionError with file and remedy: missing file, .cfg and .weights that do not belong
// together, damaged model, unknown output layout, class names that do not fit, options out of
// range.
std::unique_ptr<VehicleDetector> make_vehicle_detector(const DetectorOptions& options = {});

}  // namespace comp
