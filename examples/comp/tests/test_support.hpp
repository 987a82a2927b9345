// SPDX-License-Identifier: Apache-2.0
// Common parts of the vision tests: labels, paths of real recordings, scratch folders.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <opencv2/core.hpp>

#include "perception.hpp"

namespace comp::test {

struct LanePoint {
    bool left;
    cv::Point2f at;
};
struct LabelledCar {
    char name;
    cv::Rect2f box;
    bool fully_visible;
};

// Return the labels by frame number. Throw std::runtime_error if the file is missing or a row is
// invalid.
std::map<int, std::vector<LanePoint>> lane_labels();
std::map<int, std::vector<LabelledCar>> car_labels();

// Returns the path of a file in DRIVELINE_DATA, or in the default data folder. Empty if it does not
// exist; then `missing_reason()` returns the text for GTEST_SKIP().
std::optional<std::string> data_file(const std::string& relative);
std::string missing_reason(const std::string& relative);
// The same for a picture in DRIVELINE_CASES, or in the default folder of cases.
std::optional<std::string> case_file(const std::string& relative);
std::string missing_case_reason(const std::string& relative);

// A new folder, which the destructor removes.
class ScratchFolder {
public:
    ScratchFolder();
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    [[nodiscard]] std::string file(const std::string& name) const {
        return (path_ / name).string();
    }
    [[nodiscard]] std::string path() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

// Returns the text of the VisionError that `action` throws. If it throws none, the test fails.
template <typename Action>
std::string vision_error(Action action) {
    try {
        action();
    } catch (const VisionError& e) {
        return e.what();
    }
    ADD_FAILURE() << "no VisionError was thrown";
    return {};
}

// Frames without any object: black, white, grey, a gradient, sensor noise.
std::vector<cv::Mat> blank_frames(cv::Size size);

}  // namespace comp::test
