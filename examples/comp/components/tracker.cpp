// SPDX-License-Identifier: Apache-2.0
// Tracker: follows vehicles from frame to frame with MOSSE filters, and starts and restarts the
// filters with detections. In the graph, camera frames trigger it, and it reads the newest
// detections, whatever their age.
#include <cstdint>
#include <memory>
#include <optional>

#include "driveline/driveline.hpp"
#include "driveline/opencv.hpp"
#include "messages.hpp"
#include "multi_tracker.hpp"

namespace comp {

class Tracker : public driveline::Component {
    driveline::Input<driveline::Image> image_{*this, "image", "frames, bgr8 or mono8"};
    driveline::Input<msgs::Detections2D> detections_{*this, "detections",
                                                     "vehicles, of this frame or an older one"};
    driveline::Output<msgs::Tracks2D> tracks_{*this, "tracks", "followed vehicles"};
    driveline::Parameter<double> lost_psr_{*this, "lost_psr", MosseOptions{}.lost_psr,
                                           "peak-to-sidelobe ratio below which a target is lost"};
    driveline::Parameter<std::int64_t> threads_{*this, "opencv_threads", 1,
                                                "threads that OpenCV may use in this process"};

    driveline::Status init() override {
        set_opencv_threads(static_cast<int>(*threads_));
        MultiTrackerOptions options;
        options.mosse.lost_psr = *lost_psr_;
        tracker_.emplace(options);
        return {};
    }

    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto image = image_.read();
        if (!image) return {};
        const auto mat = image->mat();
        std::optional<DetectionSet> newest;
        if (const auto detections = detections_.read()) newest = from_message(**detections);
        const auto frame_time_ns = static_cast<std::int64_t>((*image)->header.source_time_ns);
        const auto& tracks = tracker_->update(mat, frame_time_ns, newest ? &*newest : nullptr);
        auto message = std::make_unique<msgs::Tracks2D>();
        describe(*message, **image);
        to_message(tracks, *message);
        return tracks_.publish(std::move(message));
    }

    std::optional<MosseMultiTracker> tracker_;
};
DRIVELINE_COMPONENT(Tracker, "follows vehicles with MOSSE correlation filters");

}  // namespace comp
