// SPDX-License-Identifier: Apache-2.0
#include "test_support.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace comp::test {
namespace {

// Calls `row` for every line except comments and the header. `row` returns false for an invalid
// line.
template <typename Row>
void read_labels(const std::string& name, Row row) {
    const std::string path = std::string(COMP_LABELS_DIR) + "/" + name;
    std::ifstream file(path);
    if (!file) {
        throw std::runtime_error(path + ": cannot be opened");
    }
    bool header = true;
    for (std::string line; std::getline(file, line);) {
        if (line.empty() || line[0] == '#') {
            continue;
        }
        if (header) {
            header = false;
            continue;
        }
        if (!row(line)) {
            throw std::runtime_error(path + ": cannot read the row \"" + line + "\"");
        }
    }
}

// Returns the path of a file in the folder of the environment variable, or in the default folder.
std::optional<std::string> file_in(const char* variable, const char* default_folder,
                                   const std::string& relative) {
    const char* set = std::getenv(variable);
    const std::filesystem::path path =
        std::filesystem::path(set != nullptr ? set : default_folder) / relative;
    std::error_code trouble;
    return std::filesystem::is_regular_file(path, trouble) ? std::optional(path.string())
                                                           : std::nullopt;
}

}  // namespace

std::map<int, std::vector<LanePoint>> lane_labels() {
    std::map<int, std::vector<LanePoint>> labels;
    read_labels("highway_lanes.csv", [&](const std::string& line) {
        int frame = 0;
        char side[8] = {};
        float x = 0;
        float y = 0;
        if (std::sscanf(line.c_str(), "%d,%7[a-z],%f,%f", &frame, side, &x, &y) != 4) {
            return false;
        }
        labels[frame].push_back({std::string(side) == "left", {x, y}});
        return true;
    });
    return labels;
}

std::map<int, std::vector<LabelledCar>> car_labels() {
    std::map<int, std::vector<LabelledCar>> labels;
    read_labels("highway_cars.csv", [&](const std::string& line) {
        int frame = 0;
        char name = 0;
        float left = 0;
        float top = 0;
        float right = 0;
        float bottom = 0;
        char visible[16] = {};
        if (std::sscanf(line.c_str(), "%d,%c,%f,%f,%f,%f,%15[a-z]", &frame, &name, &left, &top,
                        &right, &bottom, visible) != 7) {
            return false;
        }
        labels[frame].push_back({name, cv::Rect2f(left, top, right - left, bottom - top),
                                 std::string(visible) == "full"});
        return true;
    });
    return labels;
}

std::optional<std::string> data_file(const std::string& relative) {
    return file_in("DRIVELINE_DATA", COMP_DEFAULT_DATA_DIR, relative);
}

std::string missing_reason(const std::string& relative) {
    return "no " + relative + " in the data folder; set DRIVELINE_DATA to the folder that holds it";
}

std::optional<std::string> case_file(const std::string& relative) {
    return file_in("DRIVELINE_CASES", COMP_DEFAULT_CASES_DIR, relative);
}

std::string missing_case_reason(const std::string& relative) {
    return "no " + relative +
           " in the folder of cases; set DRIVELINE_CASES to the folder that holds it";
}

ScratchFolder::ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "comp-vision-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
        throw std::runtime_error("no scratch folder could be made at " + pattern);
    }
    path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
    std::error_code trouble;
    std::filesystem::remove_all(path_, trouble);
}

std::vector<cv::Mat> blank_frames(cv::Size size) {
    std::vector<cv::Mat> frames;
    for (const int level : {0, 90, 255}) {
        frames.emplace_back(size, CV_8UC3, cv::Scalar::all(level));
    }
    cv::Mat gradient(size, CV_8UC3);
    for (int y = 0; y < size.height; ++y) {
        gradient.row(y).setTo(cv::Scalar::all(255.0 * y / size.height));
    }
    frames.push_back(gradient);
    for (const double deviation : {4.0, 25.0}) {
        cv::Mat noise(size, CV_8UC3);
        cv::RNG rng(7);
        rng.fill(noise, cv::RNG::NORMAL, cv::Scalar::all(110), cv::Scalar::all(deviation));
        frames.push_back(noise);
    }
    return frames;
}

}  // namespace comp::test
