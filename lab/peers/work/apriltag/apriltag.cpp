// SPDX-License-Identifier: Apache-2.0
// Finds AprilTags of the family 36h11 in frames, with the library of that name.
//
// Parameters: `decimate` (factor by which the picture is reduced before the search), `threads`.
#include <apriltag/apriltag.h>
#include <apriltag/tag36h11.h>

#include "frame.hpp"

namespace {

class AprilTag {
public:
    explicit AprilTag(const work::Parameters& parameters)
        : family_(tag36h11_create()), detector_(apriltag_detector_create()) {
        apriltag_detector_add_family(detector_, family_);
        detector_->quad_decimate = static_cast<float>(parameters.get("decimate", 2.0, 1.0, 8.0));
        detector_->nthreads = parameters.get<int>("threads", 1, 1, 64);
    }
    AprilTag(const AprilTag&) = delete;
    AprilTag& operator=(const AprilTag&) = delete;
    ~AprilTag() {
        apriltag_detector_destroy(detector_);
        tag36h11_destroy(family_);
    }

    std::optional<std::size_t> process(work_call& call) {
        work::Reader in(work::input(call, 0));
        const auto head = in.value<tags::FrameHead>();
        if (head.channels != 1 && head.channels != 3)
            throw std::runtime_error("a frame has " + std::to_string(head.channels) + " channels");
        if (head.tags > tags::most_tags)
            throw std::runtime_error("a frame says that it shows " + std::to_string(head.tags) +
                                     " tags");
        const auto pixels = in.bytes(std::size_t{head.width} * head.height * head.channels);
        to_grey(head, pixels);
        image_u8_t image{static_cast<int>(head.width), static_cast<int>(head.height),
                         static_cast<int>(head.width), grey_.data()};
        const std::unique_ptr<zarray_t, decltype(&apriltag_detections_destroy)> found(
            apriltag_detector_detect(detector_, &image), apriltag_detections_destroy);

        ++frames_;
        found_.clear();
        for (int i = 0; i < zarray_size(found.get()); ++i) {
            apriltag_detection_t* d = nullptr;
            zarray_get(found.get(), i, &d);
            found_.push_back({static_cast<std::uint32_t>(d->id), static_cast<float>(d->c[0]),
                              static_cast<float>(d->c[1]), d->decision_margin});
        }
        check(head);
        if (call.output == nullptr) return 0;
        work::Writer out(call);
        out.values(std::span<const tags::Detection>(found_));
        return out.written();
    }

    work::Report report() const {
        return {{"frames", frames_},
                {"tags_shown", shown_},
                {"tags_found", right_},
                {"tags_wrong", wrong_}};
    }

private:
    void to_grey(const tags::FrameHead& head, std::span<const unsigned char> pixels) {
        const std::size_t count = std::size_t{head.width} * head.height;
        grey_.resize(count);
        if (head.channels == 1) {
            std::copy(pixels.begin(), pixels.end(), grey_.begin());
            return;
        }
        for (std::size_t i = 0; i < count; ++i) {
            const auto* p = &pixels[3 * i];
            // Rec. 601, in 256ths.
            grey_[i] = static_cast<unsigned char>((29 * p[0] + 150 * p[1] + 77 * p[2]) >> 8);
        }
    }

    void check(const tags::FrameHead& head) {
        std::vector<std::uint32_t> left(head.ids.begin(), head.ids.begin() + head.tags);
        shown_ += left.size();
        for (const auto& d : found_) {
            if (const auto at = std::find(left.begin(), left.end(), d.id); at != left.end()) {
                left.erase(at);
                ++right_;
            } else {
                ++wrong_;
            }
        }
    }

    apriltag_family_t* family_;
    apriltag_detector_t* detector_;
    std::vector<std::uint8_t> grey_;
    std::vector<tags::Detection> found_;
    std::uint64_t frames_ = 0;
    std::uint64_t shown_ = 0;
    std::uint64_t right_ = 0;
    std::uint64_t wrong_ = 0;
};

}  // namespace

WORK(AprilTag)
