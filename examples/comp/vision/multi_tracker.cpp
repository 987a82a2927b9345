// SPDX-License-Identifier: Apache-2.0
#include "multi_tracker.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>

#include <opencv2/imgproc.hpp>

namespace comp {
namespace {

// With this overlap of filter and detection, the filter is kept, and the box moves towards the
// detection by kDetectionWeight. The boxes of a detector jitter, so the weight is below 1.
constexpr float kKeepFilterIou = 0.5F;
constexpr float kDetectionWeight = 0.4F;
// A new filter is trained if the size of the target has changed by this factor since the last
// training.
constexpr float kOutgrown = 1.2F;
// Two tracks are one vehicle with this overlap, or if this share of one box is inside the other.
constexpr float kSameVehicleIou = 0.55F;
constexpr float kContained = 0.75F;
constexpr float kMinInImage = 0.5F;  // share of the box that must be in the image
constexpr float kLostReach = 0.75F;  // search distance for a lost target, divided by its size
constexpr float kLostSizeRatio = 1.6F;

bool outgrown(cv::Size2f was, cv::Size2f now) {
    const auto ratio = [](float a, float b) { return a > b ? a / b : b / a; };
    return ratio(was.width, now.width) > kOutgrown || ratio(was.height, now.height) > kOutgrown;
}

bool same_vehicle(const cv::Rect2f& a, const cv::Rect2f& b) {
    return intersection_over_union(a, b) > kSameVehicleIou ||
           (a & b).area() > kContained * std::min(a.area(), b.area());
}

cv::Rect2f blend(const cv::Rect2f& box, const cv::Rect2f& detection) {
    const auto mix = [](float a, float b) { return a + kDetectionWeight * (b - a); };
    return {mix(box.x, detection.x), mix(box.y, detection.y), mix(box.width, detection.width),
            mix(box.height, detection.height)};
}

// Less strict than overlap, because a lost target has moved in the meantime.
bool could_be(const cv::Rect2f& lost, const cv::Rect2f& found) {
    const float reach = kLostReach * std::max(lost.width, lost.height);
    const float dx = lost.x + lost.width / 2 - found.x - found.width / 2;
    const float dy = lost.y + lost.height / 2 - found.y - found.height / 2;
    const float ratio = found.width / lost.width;
    return std::hypot(dx, dy) < reach && ratio < kLostSizeRatio && ratio > 1.0F / kLostSizeRatio;
}

}  // namespace

void MosseMultiTracker::Target::remember(std::int64_t time_ns) {
    places[place_count % kPlaces] = {time_ns, track.box};
    ++place_count;
}

cv::Rect2f MosseMultiTracker::Target::box_at(std::int64_t time_ns) const {
    const std::size_t known = std::min(place_count, kPlaces);
    cv::Rect2f box = track.box;
    std::int64_t nearest = INT64_MAX;
    for (std::size_t i = 0; i < known; ++i) {
        const std::int64_t off = std::abs(places[i].time_ns - time_ns);
        if (off < nearest) {
            nearest = off;
            box = places[i].box;
        }
    }
    return box;
}

// Moves the past positions, too. Otherwise the next late detection would correct the same error
// again.
void MosseMultiTracker::Target::shift_places(const cv::Rect2f& from, const cv::Rect2f& to) {
    const float dx = to.x + to.width / 2 - from.x - from.width / 2;
    const float dy = to.y + to.height / 2 - from.y - from.height / 2;
    for (Place& place : places) {
        const cv::Point2f centre(place.box.x + place.box.width / 2 + dx,
                                 place.box.y + place.box.height / 2 + dy);
        place.box = {centre.x - to.width / 2, centre.y - to.height / 2, to.width, to.height};
    }
}

MosseMultiTracker::MosseMultiTracker(const MultiTrackerOptions& options) : options_(options) {
    check(options.mosse);
    const auto require = [](bool ok, const char* what) {
        if (!ok) {
            throw VisionError(std::string("tracker: ") + what);
        }
    };
    require(options.match_iou > 0.0F && options.match_iou < 1.0F,
            "match_iou must lie between 0 and 1");
    require(options.confirm_detections >= 1, "confirm_detections must be at least 1");
    require(options.max_tracks >= 1 && options.max_tracks <= kMaxTracks,
            "max_tracks must lie between 1 and 32");
    require(options.max_detection_age_ns > 0, "max_detection_age_ns must be above 0");
    targets_.reserve(options.max_tracks);
    tracks_.reserve(options.max_tracks);
}

const std::vector<Track>& MosseMultiTracker::update(const cv::Mat& image,
                                                    std::int64_t frame_time_ns,
                                                    const DetectionSet* newest) {
    if (image.empty() || (image.type() != CV_8UC3 && image.type() != CV_8UC1)) {
        return tracks_;
    }
    if (image.channels() == 3) {
        cv::cvtColor(image, grey_, cv::COLOR_BGR2GRAY);
    } else {
        grey_ = image;
    }
    if (any_frame_ && frame_time_ns < last_frame_ns_) {
        ++counts_.restarts_of_time;
        targets_.clear();
        any_set_ = false;
    }
    any_frame_ = true;
    last_frame_ns_ = frame_time_ns;

    follow(grey_, frame_time_ns);
    if (newest != nullptr && (!any_set_ || newest->source_time_ns > last_set_ns_)) {
        any_set_ = true;
        last_set_ns_ = newest->source_time_ns;
        if (frame_time_ns - newest->source_time_ns > options_.max_detection_age_ns) {
            ++counts_.refused_old_sets;
        } else {
            apply(grey_, frame_time_ns, *newest);
        }
    }
    end_targets(grey_.size());

    tracks_.clear();
    for (const Target& target : targets_) {
        tracks_.push_back(target.track);
    }
    if (image.channels() == 1) {
        grey_.release();  // it belongs to the caller
    }
    return tracks_;
}

void MosseMultiTracker::follow(const cv::Mat& grey, std::int64_t frame_time_ns) {
    for (Target& target : targets_) {
        const MosseTracker::Result result = target.filter.update(grey);
        Track& track = target.track;
        track.psr = static_cast<float>(result.psr);
        track.box = target.filter.box();
        ++track.age_frames;
        ++track.frames_since_detection;
        target.lost_frames = result.held ? 0 : target.lost_frames + 1;
        if (!result.held) {
            track.state = TrackState::lost;
        } else {
            track.state = target.detections >= options_.confirm_detections ? TrackState::tracking
                                                                           : TrackState::tentative;
        }
        target.remember(frame_time_ns);
    }
}

void MosseMultiTracker::apply(const cv::Mat& grey, std::int64_t frame_time_ns,
                              const DetectionSet& set) {
    const std::size_t detections = std::min(set.detections.size(), kMaxDetections);
    std::vector<char> used(detections, 0);
    std::vector<char> matched(targets_.size(), 0);
    std::vector<cv::Rect2f> then(targets_.size());
    for (std::size_t t = 0; t < targets_.size(); ++t) {
        then[t] = targets_[t].box_at(set.source_time_ns);
    }
    // Greedy, best overlap first; both sides are small and bounded.
    for (;;) {
        float best = options_.match_iou;
        std::size_t best_t = 0;
        std::size_t best_d = 0;
        bool found = false;
        for (std::size_t t = 0; t < then.size(); ++t) {
            for (std::size_t d = 0; d < detections && matched[t] == 0; ++d) {
                const float iou =
                    used[d] != 0 ? 0.0F : intersection_over_union(then[t], set.detections[d].box);
                if (iou >= best) {
                    best = iou;
                    best_t = t;
                    best_d = d;
                    found = true;
                }
            }
        }
        if (!found) {
            break;
        }
        matched[best_t] = used[best_d] = 1;
        take(grey, targets_[best_t], set.detections[best_d], set.source_time_ns);
    }
    for (std::size_t t = 0; t < then.size(); ++t) {
        for (std::size_t d = 0;
             d < detections && matched[t] == 0 && targets_[t].track.state == TrackState::lost;
             ++d) {
            if (used[d] == 0 && could_be(then[t], set.detections[d].box)) {
                matched[t] = used[d] = 1;
                take(grey, targets_[t], set.detections[d], set.source_time_ns);
            }
        }
        targets_[t].missed_by_last_set = matched[t] == 0;
    }
    for (std::size_t d = 0; d < detections; ++d) {
        const bool covered =
            used[d] != 0 ||
            std::any_of(targets_.begin(), targets_.end(), [&](const Target& target) {
                return intersection_over_union(target.track.box, set.detections[d].box) >
                       options_.match_iou;
            });
        if (!covered) {
            begin(grey, set.detections[d], set.source_time_ns, frame_time_ns);
        }
    }
}

void MosseMultiTracker::take(const cv::Mat& grey, Target& target, const Detection& detection,
                             std::int64_t source_time_ns) {
    Track& track = target.track;
    // Present position of the detected vehicle: its position at the time of the detection, moved by
    // the motion of the track since then.
    const cv::Rect2f then = target.box_at(source_time_ns);
    cv::Rect2f now = detection.box;
    now.x += track.box.x + track.box.width / 2 - then.x - then.width / 2;
    now.y += track.box.y + track.box.height / 2 - then.y - then.height / 2;

    const bool agrees = track.state != TrackState::lost &&
                        intersection_over_union(now, track.box) >= kKeepFilterIou;
    const cv::Rect2f blended = agrees ? blend(track.box, now) : now;
    if (agrees && !outgrown(target.filter.started_size(), blended.size())) {
        target.filter.report_as(blended);
    } else if (target.filter.start(grey, blended)) {
        ++counts_.restarted;
    }
    target.shift_places(track.box, target.filter.box());
    track.box = target.filter.box();
    ++target.detections;
    target.lost_frames = 0;
    track.state = target.detections >= options_.confirm_detections ? TrackState::tracking
                                                                   : TrackState::tentative;
    track.kind = detection.kind;
    track.confidence = detection.confidence;
    track.frames_since_detection = 0;
    track.detection_time_ns = source_time_ns;
}

void MosseMultiTracker::begin(const cv::Mat& grey, const Detection& detection,
                              std::int64_t source_time_ns, std::int64_t frame_time_ns) {
    if (targets_.size() >= options_.max_tracks) {
        ++counts_.refused_full;
        return;
    }
    Target target{MosseTracker(options_.mosse), {}, 1, 0, {}, 0, false};
    if (!target.filter.start(grey, detection.box)) {
        ++counts_.refused_small;
        return;
    }
    Track& track = target.track;
    track.id = next_id_++;
    track.box = target.filter.box();
    track.state = options_.confirm_detections <= 1 ? TrackState::tracking : TrackState::tentative;
    track.kind = detection.kind;
    track.confidence = detection.confidence;
    track.detection_time_ns = source_time_ns;
    target.remember(frame_time_ns);
    targets_.push_back(std::move(target));
    ++counts_.started;
}

void MosseMultiTracker::end_targets(cv::Size image) {
    const cv::Rect2f frame(0.0F, 0.0F, static_cast<float>(image.width),
                           static_cast<float>(image.height));
    const auto over = [&](const Target& target) {
        const Track& track = target.track;
        if ((track.box & frame).area() < kMinInImage * track.box.area()) {
            ++counts_.ended_left_image;
        } else if (track.state == TrackState::lost &&
                   target.lost_frames > options_.max_lost_frames) {
            ++counts_.ended_lost;
        } else if (track.frames_since_detection > options_.max_unseen_frames) {
            ++counts_.ended_unseen;
        } else if (target.detections < options_.confirm_detections && target.missed_by_last_set) {
            ++counts_.ended_unconfirmed;
        } else {
            return false;
        }
        return true;
    };
    std::erase_if(targets_, over);
    // If two tracks follow one vehicle, the one with more detections stays, because other
    // components know its id.
    for (std::size_t i = 0; i < targets_.size(); ++i) {
        for (std::size_t j = i + 1; j < targets_.size();) {
            if (!same_vehicle(targets_[i].track.box, targets_[j].track.box)) {
                ++j;
                continue;
            }
            if (targets_[j].detections > targets_[i].detections) {
                std::swap(targets_[i], targets_[j]);
            }
            targets_.erase(targets_.begin() + static_cast<std::ptrdiff_t>(j));
            ++counts_.ended_duplicate;
        }
    }
    std::sort(targets_.begin(), targets_.end(),
              [](const Target& a, const Target& b) { return a.track.id < b.track.id; });
}

}  // namespace comp
