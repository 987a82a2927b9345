// SPDX-License-Identifier: Apache-2.0
// Follows many targets with MOSSE filters that run on every camera frame. A detector, which may run
// less often, starts, confirms and restarts them.
//
// A detection set is older than the frame that it arrives with. Each track stores its past
// positions, so a detection is compared with the track at the time of the detection, and then moved
// by the motion of the track since then. A set is applied once, even if it is passed several times.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <opencv2/core.hpp>

#include "mosse_tracker.hpp"
#include "perception.hpp"

namespace comp {

struct MultiTrackerOptions {
    MosseOptions mosse;
    float match_iou = 0.3F;  // detection and track with at least this overlap are the same vehicle
    std::uint32_t confirm_detections =
        2;  // consecutive sets with a new target before it leaves TrackState::tentative
    std::uint32_t max_lost_frames = 15;  // a target that is lost for more frames ends
    std::uint32_t max_unseen_frames =
        40;  // a target without a detection for more frames ends, even if the filter follows it
    std::int64_t max_detection_age_ns = 1'000'000'000;  // older sets are refused
    std::size_t max_tracks = kMaxTracks;
};

// Totals since construction.
struct TrackerCounts {
    std::uint64_t started = 0;
    std::uint64_t restarted = 0;  // filter trained anew on a detection, same id
    std::uint64_t ended_lost = 0;
    std::uint64_t ended_unseen = 0;
    std::uint64_t ended_unconfirmed = 0;
    std::uint64_t ended_left_image = 0;
    std::uint64_t ended_duplicate =
        0;                            // tracks that ended because another follows the same vehicle
    std::uint64_t refused_full = 0;   // detections without a track because max_tracks are in use
    std::uint64_t refused_small = 0;  // detections under 8x8 pixels, which the filter cannot hold
    std::uint64_t refused_old_sets = 0;  // sets beyond max_detection_age_ns
    std::uint64_t restarts_of_time = 0;  // the frame time went back, and all tracks were dropped
};

// Not thread-safe.
class MosseMultiTracker {
public:
    // Throws VisionError on options out of range.
    explicit MosseMultiTracker(const MultiTrackerOptions& options = {});

    // Advances all tracks to this frame, and returns tracks(). `image` is BGR or grey with 8 bits
    // per channel; another type or an empty image does not change the tracks. `newest` is the
    // newest detection set, or null. It is ignored unless it is newer than the last applied set. If
    // the time goes back (a recording starts again), all tracks are dropped; ids are not reused.
    const std::vector<Track>& update(const cv::Mat& image, std::int64_t frame_time_ns,
                                     const DetectionSet* newest);

    // Tracks after the last update, oldest first. Valid until the next update.
    [[nodiscard]] const std::vector<Track>& tracks() const { return tracks_; }
    [[nodiscard]] const TrackerCounts& counts() const { return counts_; }

private:
    struct Place {
        std::int64_t time_ns = 0;
        cv::Rect2f box;
    };
    static constexpr std::size_t kPlaces =
        32;  // number of past frames that a detection set can be matched with
    struct Target {
        MosseTracker filter;
        Track track;
        std::uint32_t detections = 0;
        std::uint32_t lost_frames = 0;
        std::array<Place, kPlaces> places{};  // ring
        std::size_t place_count = 0;
        bool missed_by_last_set = false;

        void remember(std::int64_t time_ns);
        void shift_places(const cv::Rect2f& from, const cv::Rect2f& to);
        [[nodiscard]] cv::Rect2f box_at(std::int64_t time_ns) const;
    };

    void follow(const cv::Mat& grey, std::int64_t frame_time_ns);
    void apply(const cv::Mat& grey, std::int64_t frame_time_ns, const DetectionSet& set);
    void take(const cv::Mat& grey, Target& target, const Detection& detection,
              std::int64_t source_time_ns);
    void begin(const cv::Mat& grey, const Detection& detection, std::int64_t source_time_ns,
               std::int64_t frame_time_ns);
    void end_targets(cv::Size image);

    MultiTrackerOptions options_;
    std::vector<Target> targets_;
    std::vector<Track> tracks_;
    TrackerCounts counts_;
    cv::Mat grey_;
    std::uint32_t next_id_ = 1;
    bool any_frame_ = false;
    bool any_set_ = false;
    std::int64_t last_frame_ns_ = 0;
    std::int64_t last_set_ns_ = 0;
};

}  // namespace comp
