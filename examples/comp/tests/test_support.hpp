// SPDX-License-Identifier: Apache-2.0
// What the vision tests share: labels, the place of real recordings, scratch folders.
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

// Labels by frame number. Throw std::runtime_error when the file is missing or a row cannot be
// read.
std::map<int, std::vector<LanePoint>> lane_labels();
std::map<int, std::vector<LabelledCar>> car_labels();

// A file under DRIVELINE_DATA, or the default data folder; empty if it is not there.
// `missing_reason()` says so for GTEST_SKIP().
std::optional<std::string> data_file(const std::string& relative);
std::string missing_reason(const std::string& relative);
// Likewise a picture under DRIVELINE_CASES, or the default folder of cases.
std::optional<std::string> case_file(const std::string& relative);
std::string missing_case_reason(const std::string& relative);

// A folder of its own, gone with the object.
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

// The text of the VisionError that `action` throws; a test failure, and "", if it throws none.
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

// Frames without anything to see in them: black, white, grey, a gradient, sensor noise.
std::vector<cv::Mat> blank_frames(cv::Size size);

}  // namespace comp::test
