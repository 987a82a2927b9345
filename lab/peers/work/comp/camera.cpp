// SPDX-License-Identifier: Apache-2.0
// Frames of a video, a folder of images or the synthetic drive, in a loop.
//
// Parameters: `source` (as in ComP's camera: a file, a folder, `synthetic`), `preload` (number of
// frames that are decoded before the run and then only copied; 0: each frame is decoded when it is
// due).
#include "frame_source.hpp"
#include "messages.hpp"

namespace {

class Camera {
public:
    explicit Camera(const work::Parameters& parameters)
        : name_(parameters.get<std::string>("source", "synthetic")),
          source_(comp::open_frame_source(name_, looped())) {
        const auto count = parameters.get<std::size_t>("preload", 0, 0, 2000);
        for (std::size_t i = 0; i < count; ++i) {
            cv::Mat frame;
            next(frame);
            frames_.push_back(std::move(frame));
        }
    }

    std::optional<std::size_t> process(work_call& call) {
        const auto size = source_->size();
        work::Writer out(call);
        out.value(comp::FrameHead{
            static_cast<std::int64_t>(static_cast<double>(call.origin) * 1e9 / source_->fps()),
            size.width, size.height});
        const auto pixels = out.place(std::size_t{3} * static_cast<std::size_t>(size.width) *
                                      static_cast<std::size_t>(size.height));
        const cv::Mat place(size, CV_8UC3, pixels.data());
        if (!frames_.empty()) {
            frames_[call.origin % frames_.size()].copyTo(place);
        } else {
            cv::Mat frame = place;
            next(frame);
            if (frame.data != place.data) frame.copyTo(place);
        }
        ++made_;
        return out.written();
    }

    work::Report report() const { return {{"frames", made_}}; }

private:
    static comp::FrameSourceOptions looped() {
        comp::FrameSourceOptions options;
        options.loop = true;
        return options;
    }

    void next(cv::Mat& frame) {
        if (source_->next(frame) != comp::FrameStatus::frame)
            throw std::runtime_error(name_ + " gives no frame: " + source_->error());
    }

    std::string name_;
    std::unique_ptr<comp::FrameSource> source_;
    std::vector<cv::Mat> frames_;
    std::uint64_t made_ = 0;
};

}  // namespace

WORK(Camera)
