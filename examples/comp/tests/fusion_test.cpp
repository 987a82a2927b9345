// SPDX-License-Identifier: Apache-2.0
#include "fusion.hpp"

#include <cmath>

#include "synthetic_drive.hpp"
#include "test_support.hpp"

namespace comp {
namespace {

LaneLine line_of(const std::vector<cv::Point2f>& points) {
    LaneLine line;
    line.valid = true;
    line.confidence = 1.0F;
    line.points = points;
    return line;
}

// A lane 400 px wide at row 500 that meets at (480, 300).
LaneEstimate plain_lane() {
    LaneEstimate lanes;
    lanes.left = line_of({{280, 500}, {380, 400}, {470, 310}});
    lanes.right = line_of({{680, 500}, {580, 400}, {490, 310}});
    return lanes;
}

Track track(std::uint32_t id, const cv::Rect2f& box) {
    Track t;
    t.id = id;
    t.state = TrackState::tracking;
    t.box = box;
    t.confidence = 0.8F;
    t.kind = VehicleClass::car;
    return t;
}

FusionInput input_of(const LaneEstimate* lanes, const std::vector<Track>* tracks,
                     const DetectionSet* detections) {
    FusionInput input;
    input.frame_time_ns = 1000;
    input.image_size = {960, 540};
    input.lanes = lanes;
    input.lanes_time_ns = 900;
    input.tracks = tracks;
    input.tracks_time_ns = 1000;
    input.detections = detections;
    return input;
}

TEST(Fusion, AgreesWithTheSyntheticTruth) {
    const SyntheticDrive drive;
    int cars = 0;
    for (int i = 0; i < 500; i += 10) {
        const SyntheticTruth truth = drive.truth(i);
        LaneEstimate lanes;
        lanes.left = line_of(truth.left);
        lanes.right = line_of(truth.right);
        std::vector<Track> tracks;
        std::map<std::uint32_t, TruthCar> by_id;
        for (const TruthCar& car : truth.cars) {
            // Fully visible, and close enough for the assumption of a straight road.
            if (car.visible_fraction > 0.95F && car.distance_m > 6.0F && car.distance_m < 45.0F) {
                tracks.push_back(track(static_cast<std::uint32_t>(car.id), car.box));
                by_id[static_cast<std::uint32_t>(car.id)] = car;
            }
        }
        const FusedScene scene = fuse(input_of(&lanes, &tracks, nullptr));
        ASSERT_TRUE(scene.lane_offset_m);
        EXPECT_NEAR(*scene.lane_offset_m, truth.lane_offset_m, 0.1F) << "frame " << i;
        for (const FusedObject& object : scene.objects) {
            const TruthCar& car = by_id.at(object.track_id);
            ++cars;
            EXPECT_EQ(object.lane, car.lane == 0 ? LanePosition::ego : LanePosition::left)
                << "frame " << i << " car " << car.id;
            ASSERT_TRUE(object.distance_m);
            EXPECT_NEAR(*object.distance_m, car.distance_m, 0.12F * car.distance_m + 0.5F)
                << "frame " << i << " car " << car.id;
        }
        ASSERT_EQ(scene.in_path.has_value(), by_id.contains(1)) << "frame " << i;
        if (scene.in_path) {
            EXPECT_EQ(scene.objects[*scene.in_path].track_id, 1U);
        }
    }
    EXPECT_GT(cars, 80);
}

TEST(Fusion, ClosestObjectInTheEgoLaneIsInPath) {
    const LaneEstimate lanes = plain_lane();
    const std::vector<Track> tracks{track(1, {470, 330, 20, 20}),    // ego, far
                                    track(2, {440, 360, 80, 60}),    // ego, near
                                    track(3, {150, 380, 150, 100}),  // left, nearest
                                    track(4, {700, 350, 60, 50})};   // right
    const FusedScene scene = fuse(input_of(&lanes, &tracks, nullptr));
    ASSERT_EQ(scene.objects.size(), 4U);
    EXPECT_EQ(scene.objects[0].track_id, 3U) << "nearest first";
    EXPECT_EQ(scene.objects[0].lane, LanePosition::left);
    ASSERT_TRUE(scene.in_path);
    EXPECT_EQ(scene.objects[*scene.in_path].track_id, 2U);
    EXPECT_NEAR(*scene.objects[*scene.in_path].lane_offset, 0.0F, 0.01F);
    for (const FusedObject& object : scene.objects) {
        EXPECT_EQ(object.lane == LanePosition::right, object.track_id == 4U);
    }
}

TEST(Fusion, DetectionsWithoutATrackAreAdded) {
    const LaneEstimate lanes = plain_lane();
    const std::vector<Track> tracks{track(1, {440, 360, 80, 60})};
    const DetectionSet detections{700,
                                  {{{444, 362, 80, 60}, 0.9F, VehicleClass::car},
                                   {{100, 360, 60, 50}, 0.6F, VehicleClass::truck}}};
    const FusedScene scene = fuse(input_of(&lanes, &tracks, &detections));
    ASSERT_EQ(scene.objects.size(), 2U);
    EXPECT_EQ(scene.objects[0].track_id, 1U);
    EXPECT_EQ(scene.objects[1].track_id, 0U);
    EXPECT_EQ(scene.objects[1].kind, VehicleClass::truck);
    EXPECT_FLOAT_EQ(scene.objects[1].confidence, 0.6F);
}

TEST(Fusion, AgesAreThoseOfTheInputs) {
    const LaneEstimate lanes = plain_lane();
    const std::vector<Track> tracks;
    const DetectionSet detections{700, {}};
    const FusedScene scene = fuse(input_of(&lanes, &tracks, &detections));
    EXPECT_EQ(scene.lanes_age_ns, 100);
    EXPECT_EQ(scene.tracks_age_ns, 0);
    EXPECT_EQ(scene.detections_age_ns, 300);
    const FusedScene none = fuse(input_of(nullptr, nullptr, nullptr));
    EXPECT_FALSE(none.lanes_age_ns || none.tracks_age_ns || none.detections_age_ns);
    EXPECT_TRUE(none.objects.empty());
    EXPECT_FALSE(none.in_path || none.lane_offset_m);
}

TEST(Fusion, MissingMarkingsLeaveUnknownValuesEmpty) {
    const std::vector<Track> tracks{track(1, {100, 380, 80, 60}), track(2, {440, 360, 80, 60})};
    LaneEstimate lanes = plain_lane();
    lanes.right = {};
    const FusedScene scene = fuse(input_of(&lanes, &tracks, nullptr));
    EXPECT_FALSE(scene.lane_offset_m);
    EXPECT_FALSE(scene.in_path);
    for (const FusedObject& object : scene.objects) {
        EXPECT_FALSE(object.distance_m || object.lane_offset);
        EXPECT_EQ(object.lane, object.track_id == 1 ? LanePosition::left : LanePosition::unknown);
    }
}

TEST(Fusion, ConfidenceFallsWithoutDetectionsAndWhenLost) {
    std::vector<Track> tracks{track(1, {440, 360, 80, 60})};
    const auto confidence = [&] {
        return fuse(input_of(nullptr, &tracks, nullptr)).objects.at(0).confidence;
    };
    EXPECT_FLOAT_EQ(confidence(), 0.8F);
    tracks[0].frames_since_detection = 25;
    EXPECT_FLOAT_EQ(confidence(), 0.4F);
    EXPECT_EQ(fuse(input_of(nullptr, &tracks, nullptr)).objects.at(0).frames_since_detection, 25U);
    tracks[0].state = TrackState::lost;
    EXPECT_FLOAT_EQ(confidence(), 0.2F);
}

TEST(Fusion, InputBeyondTheBoundsIsCut) {
    const std::vector<Track> tracks(100, track(1, {10, 10, 20, 20}));
    DetectionSet detections;
    for (int i = 0; i < 200; ++i) {
        detections.detections.push_back(
            {cv::Rect2f(400.0F + static_cast<float>(i), 300, 5, 5), 0.5F, VehicleClass::car});
    }
    EXPECT_EQ(fuse(input_of(nullptr, &tracks, &detections)).objects.size(),
              kMaxTracks + kMaxDetections);
}

}  // namespace
}  // namespace comp
