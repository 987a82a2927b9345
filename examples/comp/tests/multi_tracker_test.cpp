// SPDX-License-Identifier: Apache-2.0
#include "multi_tracker.hpp"

#include <algorithm>
#include <set>

#include <opencv2/imgproc.hpp>

#include "synthetic_drive.hpp"
#include "test_support.hpp"

namespace comp {
namespace {

constexpr std::int64_t kFrameNs = 40'000'000;

// Perfect detections of the synthetic drive, so that only the tracker is under test.
DetectionSet detections_of(const SyntheticDrive& drive, int frame) {
    DetectionSet set;
    set.source_time_ns = frame * kFrameNs;
    for (const TruthCar& car : drive.truth(frame).cars) {
        if (car.visible_fraction > 0.8F && car.box.width >= 16.0F) {
            set.detections.push_back({car.box, 0.9F, VehicleClass::car});
        }
    }
    return set;
}

const Track* track_on(const std::vector<Track>& tracks, const cv::Rect2f& box, float iou) {
    const auto found = std::find_if(tracks.begin(), tracks.end(), [&](const Track& t) {
        return intersection_over_union(t.box, box) >= iou;
    });
    return found == tracks.end() ? nullptr : &*found;
}

// Draws a textured tile on a plain road.
cv::Mat tile_at(cv::Point2f centre, int seed = 3) {
    cv::Mat frame(540, 960, CV_8UC1, cv::Scalar(95));
    cv::Mat tile(40, 50, CV_8UC1);
    cv::RNG rng(static_cast<std::uint64_t>(seed));
    rng.fill(tile, cv::RNG::UNIFORM, 0, 255);
    cv::GaussianBlur(tile, tile, {}, 1.5);
    tile.copyTo(frame(cv::Rect(cvRound(centre.x) - 25, cvRound(centre.y) - 20, 50, 40)));
    return frame;
}
cv::Rect2f tile_box(cv::Point2f centre) { return {centre.x - 25, centre.y - 20, 50, 40}; }
DetectionSet one(cv::Rect2f box, std::int64_t time_ns) {
    return {time_ns, {{box, 0.8F, VehicleClass::car}}};
}

// Detections on two frames, then none for fifteen: every car that stays well visible must still be
// held, under its id.
TEST(MosseMultiTracker, BridgesFifteenFramesWithoutDetections) {
    constexpr int kBridge = 15;
    const SyntheticDrive drive;
    cv::Mat frame;
    int cars = 0;
    int held = 0;
    int same_id = 0;
    for (int first = 0; first < 1000; first += 25) {
        MosseMultiTracker tracker;
        std::map<int, std::uint32_t> ids;
        for (int i = first; i <= first + 1 + kBridge; ++i) {
            drive.render(i, frame);
            const DetectionSet set = detections_of(drive, i);
            const auto& tracks =
                tracker.update(frame, i * kFrameNs, i <= first + 1 ? &set : nullptr);
            for (const TruthCar& car : drive.truth(i).cars) {
                if (i == first + 1 && car.visible_fraction > 0.8F && car.box.width >= 16.0F) {
                    const Track* track = track_on(tracks, car.box, 0.7F);
                    ASSERT_NE(track, nullptr);
                    ids[car.id] = track->id;
                }
                if (i == first + 1 + kBridge && ids.contains(car.id) &&
                    car.visible_fraction > 0.9F && car.distance_m > 10.0F) {
                    ++cars;
                    const Track* track = track_on(tracks, car.box, 0.5F);
                    held += track != nullptr ? 1 : 0;
                    same_id += track != nullptr && track->id == ids[car.id] &&
                                       track->state == TrackState::tracking
                                   ? 1
                                   : 0;
                }
            }
        }
    }
    RecordProperty("cars", cars);
    RecordProperty("held", held);
    EXPECT_GT(cars, 70);
    EXPECT_GE(held, 0.95 * cars);
    EXPECT_GE(same_id, 0.95 * cars);
}

TEST(MosseMultiTracker, IdsStayOverALongDriveWithRareDetections) {
    const SyntheticDrive drive;
    MosseMultiTracker tracker;
    cv::Mat frame;
    std::map<int, std::set<std::uint32_t>> ids;
    for (int i = 0; i < 300; ++i) {
        drive.render(i, frame);
        const DetectionSet set = detections_of(drive, i);
        const auto& tracks = tracker.update(frame, i * kFrameNs, i % 10 == 0 ? &set : nullptr);
        for (const TruthCar& car : drive.truth(i).cars) {
            const Track* track = track_on(tracks, car.box, 0.5F);
            if (car.lane == 0 && car.id == 1 && track != nullptr && i > 10) {
                ids[car.id].insert(track->id);
            }
        }
    }
    EXPECT_EQ(ids[1].size(), 1U) << "the car ahead got another id";
}

TEST(MosseMultiTracker, NewTargetsAreTentativeUntilSeenTwice) {
    MosseMultiTracker tracker;
    const cv::Point2f at(400, 300);
    const DetectionSet first = one(tile_box(at), 0);
    ASSERT_EQ(tracker.update(tile_at(at), 0, &first).size(), 1U);
    EXPECT_EQ(tracker.tracks()[0].state, TrackState::tentative);
    const DetectionSet second = one(tile_box(at), kFrameNs);
    tracker.update(tile_at(at), kFrameNs, &second);
    EXPECT_EQ(tracker.tracks()[0].state, TrackState::tracking);
    EXPECT_EQ(tracker.tracks()[0].id, 1U);

    // A second set without the target ends a tentative target.
    MosseMultiTracker other;
    other.update(tile_at(at), 0, &first);
    const DetectionSet nothing{kFrameNs, {}};
    EXPECT_TRUE(other.update(tile_at(at), kFrameNs, &nothing).empty());
    EXPECT_EQ(other.counts().ended_unconfirmed, 1U);
}

TEST(MosseMultiTracker, OneSetIsAppliedOnce) {
    MosseMultiTracker tracker;
    const cv::Point2f at(400, 300);
    const DetectionSet set = one(tile_box(at), 0);
    for (int i = 0; i < 10; ++i) {
        tracker.update(tile_at(at), i * kFrameNs, &set);
    }
    ASSERT_EQ(tracker.tracks().size(), 1U);
    EXPECT_EQ(tracker.tracks()[0].state, TrackState::tentative)
        << "the same set again confirms nothing";
    EXPECT_EQ(tracker.tracks()[0].frames_since_detection, 9U);
    EXPECT_EQ(tracker.tracks()[0].age_frames, 9U);
}

// The detections are three frames late, and the target moves 5 px per frame. Without correction,
// each detection would move the track back by 15 px.
TEST(MosseMultiTracker, LateDetectionsDoNotDragTheTrackBack) {
    constexpr int kLate = 3;
    MosseMultiTracker tracker;
    const auto place = [](int i) {
        return cv::Point2f(200.0F + 5.0F * static_cast<float>(i), 300.0F);
    };
    for (int i = 0; i < 60; ++i) {
        const DetectionSet set = one(tile_box(place(i - kLate)), (i - kLate) * kFrameNs);
        const auto& tracks =
            tracker.update(tile_at(place(i)), i * kFrameNs, i >= kLate ? &set : nullptr);
        if (i >= 2 * kLate + 2) {
            ASSERT_EQ(tracks.size(), 1U) << "frame " << i;
            EXPECT_EQ(tracks[0].id, tracker.tracks()[0].id);
            EXPECT_NEAR(tracks[0].box.x, tile_box(place(i)).x, 4.0F) << "frame " << i;
        }
    }
    EXPECT_EQ(tracker.tracks()[0].id, 1U);
}

TEST(MosseMultiTracker, LostTargetIsStartedAgainUnderItsId) {
    MosseMultiTracker tracker;
    const cv::Point2f at(400, 300);
    int i = 0;
    for (; i < 3; ++i) {
        const DetectionSet set = one(tile_box(at), i * kFrameNs);
        tracker.update(tile_at(at), i * kFrameNs, &set);
    }
    const cv::Mat hidden(540, 960, CV_8UC1, cv::Scalar(95));
    for (; i < 8; ++i) {
        tracker.update(hidden, i * kFrameNs, nullptr);
    }
    ASSERT_EQ(tracker.tracks().size(), 1U);
    EXPECT_EQ(tracker.tracks()[0].state, TrackState::lost);
    // It appears again 30 px further with another texture, so only the detector finds it.
    const cv::Point2f again(430, 305);
    const std::uint64_t restarts = tracker.counts().restarted;
    const DetectionSet set = one(tile_box(again), i * kFrameNs);
    tracker.update(tile_at(again, 99), i * kFrameNs, &set);
    ASSERT_EQ(tracker.tracks().size(), 1U);
    EXPECT_EQ(tracker.tracks()[0].id, 1U);
    EXPECT_EQ(tracker.tracks()[0].state, TrackState::tracking);
    EXPECT_GT(tracker.counts().restarted, restarts);
    EXPECT_GT(intersection_over_union(tracker.tracks()[0].box, tile_box(again)), 0.9F);
    // Afterwards the filter holds the new texture without detections.
    for (int k = 1; k <= 10; ++k) {
        const cv::Point2f moved = again + cv::Point2f(3.0F * static_cast<float>(k), 0);
        tracker.update(tile_at(moved, 99), (i + k) * kFrameNs, nullptr);
        ASSERT_EQ(tracker.tracks().size(), 1U);
        EXPECT_GT(intersection_over_union(tracker.tracks()[0].box, tile_box(moved)), 0.8F);
    }
}

TEST(MosseMultiTracker, LostTargetsEndAfterABoundedTime) {
    MultiTrackerOptions options;
    options.max_lost_frames = 5;
    MosseMultiTracker tracker(options);
    const cv::Point2f at(400, 300);
    for (int i = 0; i < 2; ++i) {
        const DetectionSet set = one(tile_box(at), i * kFrameNs);
        tracker.update(tile_at(at), i * kFrameNs, &set);
    }
    const cv::Mat hidden(540, 960, CV_8UC1, cv::Scalar(95));
    for (int i = 2; i < 7; ++i) {
        EXPECT_EQ(tracker.update(hidden, i * kFrameNs, nullptr).size(), 1U) << "frame " << i;
    }
    EXPECT_TRUE(tracker.update(hidden, 7 * kFrameNs, nullptr).empty());
    EXPECT_EQ(tracker.counts().ended_lost, 1U);
}

TEST(MosseMultiTracker, UnseenTargetsEndAfterABoundedTime) {
    MultiTrackerOptions options;
    options.max_unseen_frames = 12;
    MosseMultiTracker tracker(options);
    const cv::Point2f at(400, 300);
    for (int i = 0; i < 30; ++i) {
        const DetectionSet set = one(tile_box(at), i * kFrameNs);
        tracker.update(tile_at(at), i * kFrameNs, i < 2 ? &set : nullptr);
        EXPECT_EQ(tracker.tracks().size(), i <= 1 + 12 ? 1U : 0U) << "frame " << i;
    }
    EXPECT_EQ(tracker.counts().ended_unseen, 1U);
}

TEST(MosseMultiTracker, TracksAndDetectionsAreBounded) {
    MosseMultiTracker tracker;
    cv::Mat frame(540, 960, CV_8UC1);
    cv::RNG(5).fill(frame, cv::RNG::UNIFORM, 0, 255);
    DetectionSet many;
    for (int i = 0; i < 48; ++i) {
        const int column = i % 8;
        const int row = i / 8;
        many.detections.push_back({cv::Rect2f(20.0F + 110.0F * static_cast<float>(column),
                                              20.0F + 80.0F * static_cast<float>(row), 50, 40),
                                   0.5F, VehicleClass::car});
    }
    many.detections.push_back({cv::Rect2f(930, 500, 6, 6), 0.5F, VehicleClass::car});
    EXPECT_EQ(tracker.update(frame, 0, &many).size(), kMaxTracks);
    EXPECT_EQ(tracker.counts().started, kMaxTracks);
    EXPECT_EQ(tracker.counts().refused_full, 49U - kMaxTracks);
}

TEST(MosseMultiTracker, SmallDetectionsAreCounted) {
    MosseMultiTracker tracker;
    const DetectionSet set = one({400, 300, 6, 20}, 0);
    EXPECT_TRUE(tracker.update(tile_at({400, 300}), 0, &set).empty());
    EXPECT_EQ(tracker.counts().refused_small, 1U);
}

TEST(MosseMultiTracker, OldSetsAreRefusedAndCounted) {
    MosseMultiTracker tracker;
    const DetectionSet set = one(tile_box({400, 300}), 0);
    EXPECT_TRUE(tracker.update(tile_at({400, 300}), 2'000'000'000, &set).empty());
    EXPECT_TRUE(tracker.update(tile_at({400, 300}), 2'000'000'000 + kFrameNs, &set).empty());
    EXPECT_EQ(tracker.counts().refused_old_sets, 1U) << "one set, counted once";
}

TEST(MosseMultiTracker, TimeGoingBackStartsAnew) {
    MosseMultiTracker tracker;
    const cv::Point2f at(400, 300);
    for (int i = 0; i < 2; ++i) {
        const DetectionSet set = one(tile_box(at), i * kFrameNs);
        tracker.update(tile_at(at), i * kFrameNs, &set);
    }
    const DetectionSet set = one(tile_box(at), 0);
    const auto& tracks = tracker.update(tile_at(at), 0, &set);
    ASSERT_EQ(tracks.size(), 1U);
    EXPECT_EQ(tracks[0].id, 2U) << "ids are not used twice";
    EXPECT_EQ(tracker.counts().restarts_of_time, 1U);
}

TEST(MosseMultiTracker, BlankFramesYieldNothingAndBadImagesChangeNothing) {
    MosseMultiTracker tracker;
    for (const cv::Mat& frame : test::blank_frames({960, 540})) {
        EXPECT_TRUE(tracker.update(frame, 0, nullptr).empty());
    }
    const DetectionSet set = one(tile_box({400, 300}), 1);
    tracker.update(tile_at({400, 300}), 1, &set);
    EXPECT_EQ(tracker.update(cv::Mat(), 2, nullptr).size(), 1U);
    EXPECT_EQ(tracker.update(cv::Mat(540, 960, CV_32FC1), 3, nullptr).size(), 1U);
}

TEST(MosseMultiTracker, TargetsThatLeaveTheImageEnd) {
    MosseMultiTracker tracker;
    // The tile leaves the image at the right border.
    const auto frame_at = [](float x) {
        cv::Mat wide(540, 1100, CV_8UC1, cv::Scalar(95));
        const cv::Mat tile = tile_at({100, 300})(cv::Rect(75, 280, 50, 40));
        tile.copyTo(wide(cv::Rect(cvRound(x) - 25, 280, 50, 40)));
        return cv::Mat(wide.colRange(0, 960));
    };
    for (int i = 0; i < 60 && (i < 5 || !tracker.tracks().empty()); ++i) {
        const float x = 850.0F + 4.0F * static_cast<float>(i);
        ASSERT_LT(x, 1060.0F) << "the track does not end when the tile has left the image";
        const DetectionSet set = one(tile_box({x, 300}), i * kFrameNs);
        tracker.update(frame_at(x), i * kFrameNs, i < 2 ? &set : nullptr);
    }
    EXPECT_EQ(tracker.counts().ended_left_image + tracker.counts().ended_lost, 1U);
}

TEST(MosseMultiTracker, RefusesImpossibleOptions) {
    MultiTrackerOptions options;
    options.max_tracks = kMaxTracks + 1;
    EXPECT_NE(test::vision_error([&] { MosseMultiTracker{options}; }).find("max_tracks"),
              std::string::npos);
}

}  // namespace
}  // namespace comp
