// SPDX-License-Identifier: Apache-2.0
// Fuses tracks, lanes and detections, inputs in this order, into one scene.
//
// Parameters: `lane_width_m`.
#include "fusion.hpp"

#include "messages.hpp"

namespace {

class Fusion {
public:
    explicit Fusion(const work::Parameters& parameters) {
        options_.lane_width_m = parameters.get("lane_width_m", options_.lane_width_m, 1.0, 10.0);
    }

    std::optional<std::size_t> process(work_call& call) {
        work::Reader followed(work::input(call, 0)), lanes(work::input(call, 1)),
            detected(work::input(call, 2));
        const auto head = followed.value<comp::ResultHead>();
        followed.values(tracks_, head.count);
        comp::FusionInput input;
        input.frame_time_ns = input.tracks_time_ns = head.time_ns;
        input.image_size = {head.width, head.height};
        input.tracks = &tracks_;
        input.lanes_time_ns = lanes.value<comp::ResultHead>().time_ns;
        estimate_.left = comp::read_line(lanes);
        estimate_.right = comp::read_line(lanes);
        input.lanes = &estimate_;
        const auto found = detected.value<comp::ResultHead>();
        detections_.source_time_ns = found.time_ns;
        detected.values(detections_.detections, found.count);
        input.detections = &detections_;
        const auto scene = comp::fuse(input, options_);
        ++scenes_;
        objects_ += scene.objects.size();
        if (scene.in_path) ++in_path_;
        if (call.output == nullptr) return 0;
        work::Writer out(call);
        out.value(comp::ResultHead{head.time_ns, head.width, head.height, scene.objects.size()});
        for (const auto& object : scene.objects) {
            out.value(object.box);
            out.value(object.distance_m.value_or(-1.0F));
        }
        return out.written();
    }

    work::Report report() const {
        return {
            {"scenes", scenes_}, {"objects", objects_}, {"scenes_with_somebody_ahead", in_path_}};
    }

private:
    comp::FusionOptions options_;
    std::vector<comp::Track> tracks_;
    comp::LaneEstimate estimate_;
    comp::DetectionSet detections_;
    std::uint64_t scenes_ = 0;
    std::uint64_t objects_ = 0;
    std::uint64_t in_path_ = 0;
};

}  // namespace

WORK(Fusion)
