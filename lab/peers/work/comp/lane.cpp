// SPDX-License-Identifier: Apache-2.0
// The markings of the ego lane.
//
// Parameters: `opencv_threads`, `horizon_fraction`.
#include "lane_detector.hpp"
#include "messages.hpp"

namespace {

class Lane {
public:
    explicit Lane(const work::Parameters& parameters) {
        comp::set_opencv_threads(parameters.get("opencv_threads", 1, 0, 256));
        comp::LaneDetectorOptions options;
        options.horizon_fraction = parameters.get("horizon_fraction", options.horizon_fraction);
        detector_.emplace(options);
    }

    std::optional<std::size_t> process(work_call& call) {
        work::Reader in(work::input(call, 0));
        const auto head = in.value<comp::FrameHead>();
        const auto lanes = detector_->detect(comp::frame_of(in, head));
        ++frames_;
        lines_ += (lanes.left.valid ? 1U : 0U) + (lanes.right.valid ? 1U : 0U);
        work::Writer out(call);
        out.value(comp::ResultHead{head.time_ns, head.width, head.height, 2});
        comp::write_line(out, lanes.left);
        comp::write_line(out, lanes.right);
        return out.written();
    }

    work::Report report() const { return {{"frames", frames_}, {"lines_found", lines_}}; }

private:
    std::optional<comp::LaneDetector> detector_;
    std::uint64_t frames_ = 0;
    std::uint64_t lines_ = 0;
};

}  // namespace

WORK(Lane)
