// SPDX-License-Identifier: Apache-2.0
// Camera: publishes the frames of a video, a folder of images, a device or the synthetic drive.
// They are rendered, or in most cases decoded, directly into the memory that the other components
// read.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "driveline/driveline.hpp"
#include "driveline/opencv.hpp"
#include "frame_source.hpp"

namespace comp {

class Camera : public driveline::Component {
    driveline::Output<driveline::Image> image_{*this, "image", "frames, bgr8"};
    driveline::Parameter<std::string> source_{
        *this, "source", "synthetic",
        "video file, folder of images, device index, synthetic, or synthetic:FRAMES"};
    driveline::Parameter<double> rate_hz_{
        *this, "rate_hz", 0.0,
        "frames per second; 0: the rate of the source, or the frame times of a video"};
    driveline::Parameter<std::int64_t> frames_{
        *this, "frames", 0,
        "number of frames after which the run ends; 0: all frames of the source"};
    driveline::Parameter<bool> loop_{
        *this, "loop", false,
        "start the source again at its end; sequence numbers and times continue"};
    driveline::Parameter<std::int64_t> blank_{
        *this, "blank_every", 0,
        "replaces every n-th frame by a black one, to test the other components; 0: never"};
    driveline::Parameter<std::string> frame_id_{*this, "frame_id", "camera",
                                                "coordinate frame in the header"};
    driveline::Timer timer_{
        *this, [this](const driveline::TimerTick& tick) { return publish_frame(tick); }};

    driveline::Status init() override {
        FrameSourceOptions options;
        options.loop = *loop_;
        frames_source_ = open_frame_source(*source_, options);
        if (*rate_hz_ < 0 || *rate_hz_ > 10'000)
            return driveline::Error{"rate_hz = " + std::to_string(*rate_hz_) +
                                    " is not between 0 and 10000"};
        if (*frames_ < 0 || *blank_ < 0)
            return driveline::Error{"frames and blank_every cannot be negative"};
        const double rate = *rate_hz_ > 0 ? *rate_hz_ : frames_source_->fps();
        own_times_ = *rate_hz_ == 0 && frames_source_->frame_time_ns().has_value();
        log_info(frames_source_->name(), ": ", frames_source_->size().width, "x",
                 frames_source_->size().height, " at ", rate, " Hz",
                 own_times_ ? " on average, each frame at its time in the file" : "");
        add_run_note("source", frames_source_->name());
        return timer_.start(std::chrono::nanoseconds(std::llround(1e9 / rate)));
    }

    driveline::Status publish_frame(const driveline::TimerTick& tick) {
        if (ended_) return {};
        if (!frame_) {
            if (auto read = read_frame(); !read || ended_) return read;
        }
        // The frame counts as captured now: decoding stands in for the hardware of a real camera.
        const auto now = driveline::now();
        (*frame_)->header.source_time_ns = driveline::to_ns(now);
        frame_->set_source_time(now);
        ++index_;
        auto published = image_.publish(std::move(*frame_));
        frame_.reset();
        if (!published || !own_times_) return published;
        // The time of the next tick is known only after the next frame is read. If decoding is too
        // slow, the video plays slower, and no frame is lost.
        const auto time = *frames_source_->frame_time_ns();
        if (auto read = read_frame(); !read || ended_) return read;
        return timer_.next(tick.scheduled +
                           std::chrono::nanoseconds(*frames_source_->frame_time_ns() - time));
    }

    // Decodes a frame into a loan.
    driveline::Status read_frame() {
        if (*frames_ > 0 && static_cast<std::int64_t>(index_) >= *frames_) return end();
        const auto size = frames_source_->size();
        const auto header = driveline::Header::make(0, *frame_id_, index_);
        if (!header) return header.error();
        auto loan = image_.loan(static_cast<std::uint32_t>(size.width),
                                static_cast<std::uint32_t>(size.height), driveline::Encoding::bgr8,
                                *header);
        if (!loan) return loan.error();
        const cv::Mat place = loan->mat();
        cv::Mat frame = place;
        switch (frames_source_->next(frame)) {
            case FrameStatus::end:
                return end();
            case FrameStatus::failed:
                return driveline::Error{frames_source_->error()};
            case FrameStatus::frame:
                break;
        }
        if (frame.data != place.data) frame.copyTo(place);
        if (*blank_ > 0 && (index_ + 1) % static_cast<std::uint64_t>(*blank_) == 0)
            cv::Mat(place).setTo(0);
        frame_.emplace(std::move(*loan));
        return {};
    }

    driveline::Status end() {
        ended_ = true;
        log_info("end of ", frames_source_->name(), " after ", index_, " frames");
        finish();
        return {};
    }

    std::unique_ptr<FrameSource> frames_source_;
    // Decoded frame that is not published yet.
    std::optional<driveline::ImageLoan> frame_;
    std::uint64_t index_ = 0;
    bool own_times_ = false;
    bool ended_ = false;
};
DRIVELINE_COMPONENT(Camera,
                    "publishes frames of a video, a folder, a device or the synthetic drive");

}  // namespace comp
