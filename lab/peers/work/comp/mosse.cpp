// SPDX-License-Identifier: Apache-2.0
// Tracks vehicles with MOSSE filters, which the newest detections start and restart. Inputs:
// frames, detections.
//
// Parameters: `lost_psr`, `opencv_threads`.
#include "messages.hpp"
#include "multi_tracker.hpp"

namespace {

class Mosse {
public:
    explicit Mosse(const work::Parameters& parameters) {
        comp::set_opencv_threads(parameters.get("opencv_threads", 1, 0, 256));
        comp::MultiTrackerOptions options;
        options.mosse.lost_psr = parameters.get("lost_psr", options.mosse.lost_psr);
        tracker_.emplace(options);
    }

    std::optional<std::size_t> process(work_call& call) {
        work::Reader in(work::input(call, 0)), detected(work::input(call, 1));
        const auto head = in.value<comp::FrameHead>();
        const auto newest_head = detected.value<comp::ResultHead>();
        newest_.source_time_ns = newest_head.time_ns;
        detected.values(newest_.detections, newest_head.count);
        const auto& tracks = tracker_->update(comp::frame_of(in, head), head.time_ns, &newest_);
        ++frames_;
        followed_ += tracks.size();
        work::Writer out(call);
        out.value(comp::ResultHead{head.time_ns, head.width, head.height, tracks.size()});
        out.values(std::span<const comp::Track>(tracks));
        return out.written();
    }

    work::Report report() const {
        return {{"frames", frames_},
                {"tracks", followed_},
                {"started", tracker_->counts().started},
                {"restarted", tracker_->counts().restarted}};
    }

private:
    std::optional<comp::MosseMultiTracker> tracker_;
    comp::DetectionSet newest_;
    std::uint64_t frames_ = 0;
    std::uint64_t followed_ = 0;
};

}  // namespace

WORK(Mosse)
