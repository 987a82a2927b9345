// SPDX-License-Identifier: Apache-2.0
// Annotate: draws each scene onto its frame, and writes a video or a folder of images. Scene and
// frame are paired by source time.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include <opencv2/imgcodecs.hpp>
#include <opencv2/videoio.hpp>

#include "driveline/driveline.hpp"
#include "driveline/opencv.hpp"
#include "messages.hpp"
#include "overlay.hpp"

namespace comp {

class Annotate : public driveline::Component {
    driveline::Input<driveline::Image> image_{*this, "image", "frames, bgr8"};
    driveline::Input<msgs::FusedScene> scene_{*this, "scene", "objects and lanes of the frames"};
    driveline::Parameter<std::string> output_{*this, "output", "annotated",
                                              "a video (.avi, .mp4), or a folder for .jpg images"};
    driveline::Parameter<double> fps_{*this, "fps", 25.0, "rate written into the video"};

    driveline::Status init() override {
        const std::filesystem::path path(*output_);
        is_video_ = path.extension() == ".avi" || path.extension() == ".mp4";
        const auto folder = is_video_ ? path.parent_path() : path;
        std::error_code error;
        if (!folder.empty()) std::filesystem::create_directories(folder, error);
        if (error)
            return driveline::Error{"cannot create " + folder.string() + ": " + error.message()};
        return {};
    }

    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto image = image_.read();
        const auto scene = scene_.read();
        if (!image || !scene) return {};
        image->mat()->copyTo(frame_);
        OverlayText text;
        text.detector = (*scene)->detector();
        text.detector_is_classical = is_classical(text.detector);
        const auto index = (*image)->header.frame_index;
        text.status = "frame " + std::to_string(index);
        draw_overlay(frame_, from_message(**scene), text);
        if (is_video_) return write_video();
        char name[32];
        std::snprintf(name, sizeof name, "%06llu.jpg", static_cast<unsigned long long>(index));
        const auto path = std::filesystem::path(*output_) / name;
        if (!cv::imwrite(path.string(), frame_))
            return driveline::Error{"cannot write " + path.string() + ": is the disk full?"};
        return {};
    }

    driveline::Status write_video() {
        if (!video_.isOpened()) {
            const bool avi = std::filesystem::path(*output_).extension() == ".avi";
            const int codec = avi ? cv::VideoWriter::fourcc('M', 'J', 'P', 'G')
                                  : cv::VideoWriter::fourcc('m', 'p', '4', 'v');
            if (!video_.open(*output_, codec, *fps_, frame_.size())) {
                return driveline::Error{"cannot open " + *output_ +
                                        " for writing: try a name ending in .avi"};
            }
        }
        video_.write(frame_);
        return {};
    }

    void shutdown() override { video_.release(); }

    cv::Mat frame_;
    cv::VideoWriter video_;
    bool is_video_ = false;
};
DRIVELINE_COMPONENT(Annotate, "draws scenes onto their frames, into a video or a folder");

}  // namespace comp
