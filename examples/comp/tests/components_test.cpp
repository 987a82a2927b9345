// SPDX-License-Identifier: Apache-2.0
// Unit tests of ComP's components, without processes, on a clock that the tests advance.
#include <driveline/opencv.hpp>
#include <driveline/testing.hpp>
#include <gtest/gtest.h>
#include <opencv2/imgcodecs.hpp>

#include "messages.hpp"
#include "synthetic_drive.hpp"
#include "test_support.hpp"

namespace comp {
namespace {

using driveline::Image;
using driveline::testing::ComponentTest;
using std::chrono::milliseconds;

// Feeds an image of the synthetic drive with the present time of the test.
void feed_frame(ComponentTest& test, const SyntheticDrive& drive, std::int64_t index) {
    cv::Mat frame;
    drive.render(index, frame);
    const auto header = driveline::Header::make(driveline::to_ns(test.now()), "camera",
                                                static_cast<std::uint64_t>(index))
                            .value();
    test.feed_with<Image>(
            "image", [&](const auto& input) { return driveline::publish(input, frame, header); })
        .value();
}

std::vector<Detection> visible_cars(const SyntheticDrive& drive, std::int64_t index) {
    std::vector<Detection> cars;
    for (const TruthCar& car : drive.truth(index).cars) {
        if (car.visible_fraction > 0.8F && car.box.width >= 16.0F)
            cars.push_back({car.box, 0.9F, VehicleClass::car});
    }
    return cars;
}

// As in the graphs: each frame triggers a call, which reads the newest detections.
constexpr const char* kTrackerTrigger = "{kind: all_latest, on: image}";

TEST(TrackerComponent, FollowsVehiclesBetweenRareDetections) {
    const SyntheticDrive drive;
    auto test = ComponentTest::create("Tracker", {.trigger = kTrackerTrigger}).value();
    for (std::int64_t i = 0; i < 10; ++i) {
        if (i < 2) {
            msgs::Detections2D detections;
            to_message(visible_cars(drive, i), detections);
            detections.mutable_header()->set_source_time_ns(driveline::to_ns(test.now()));
            test.feed("detections", std::move(detections)).value();
        }
        feed_frame(test, drive, i);
        EXPECT_EQ(test.run().value(), 1U) << "frame " << i;
        const auto tracks = test.take<msgs::Tracks2D>("tracks").value();
        ASSERT_TRUE(tracks) << "frame " << i;
        EXPECT_EQ((*tracks)->header().source_time_ns(), driveline::to_ns(test.now()));
        EXPECT_EQ((*tracks)->header().frame_index(), static_cast<std::uint64_t>(i));
        if (i > 1) {
            const auto found = from_message(**tracks);
            ASSERT_FALSE(found.empty()) << "frame " << i;
            for (const Detection& car : visible_cars(drive, i)) {
                const auto on = [&](const Track& t) {
                    return intersection_over_union(t.box, car.box) > 0.4F;
                };
                EXPECT_TRUE(std::any_of(found.begin(), found.end(), on)) << "frame " << i;
            }
        }
        test.advance(milliseconds(40)).value();
    }
}

TEST(Messages, ATrackKeepsItsStateAndAges) {
    Track lost;
    lost.state = TrackState::lost;
    lost.age_frames = 12;
    lost.frames_since_detection = 7;
    Track followed = lost;
    followed.state = TrackState::tracking;
    msgs::Tracks2D message;
    to_message({lost, followed}, message);
    EXPECT_EQ(message.tracks(0).state(), msgs::TRACK_STATE_COASTING);
    EXPECT_EQ(message.tracks(1).state(), msgs::TRACK_STATE_TRACKED)
        << "the filter followed it, without a detection in this frame";
    const auto tracks = from_message(message);
    EXPECT_EQ(tracks.at(0).state, TrackState::lost);
    EXPECT_EQ(tracks.at(1).state, TrackState::tracking);
    EXPECT_EQ(tracks.at(0).age_frames, 12U);
    EXPECT_EQ(tracks.at(0).frames_since_detection, 7U);
}

TEST(Messages, AnObjectKeepsTheFramesSinceItsDetection) {
    FusedScene scene;
    scene.objects.emplace_back().frames_since_detection = 7;
    msgs::FusedScene message;
    to_message(scene, message);
    EXPECT_EQ(from_message(message).objects.at(0).frames_since_detection, 7U);
}

TEST(TrackerComponent, WithoutAPictureThereIsNoTrack) {
    auto test = ComponentTest::create("Tracker", {.trigger = kTrackerTrigger}).value();
    test.feed("detections", msgs::Detections2D()).value();
    EXPECT_EQ(test.run().value(), 0U);
    EXPECT_FALSE(test.take<msgs::Tracks2D>("tracks").value());
}

TEST(FusionComponent, ReportsTheInputsOfASceneAndTheirAges) {
    auto test = ComponentTest::create("Fusion", {.trigger = "{kind: any, on: [tracks]}"}).value();
    const SyntheticDrive drive;
    const auto feed_tracks = [&] {
        msgs::Tracks2D tracks;
        tracks.mutable_header()->set_source_time_ns(driveline::to_ns(test.now()));
        tracks.mutable_image_size()->set_width(960);
        tracks.mutable_image_size()->set_height(540);
        test.feed("tracks", std::move(tracks)).value();
    };
    feed_tracks();
    test.run().value();
    auto scene = test.take<msgs::FusedScene>("scene").value();
    ASSERT_TRUE(scene);
    EXPECT_FALSE((*scene)->has_lanes_source_time_ns());
    EXPECT_FALSE((*scene)->ego_lane().valid());
    EXPECT_EQ((*scene)->objects_size(), 0);

    const auto measured = test.now();
    LaneEstimate lanes;
    for (auto* line : {&lanes.left, &lanes.right}) {
        line->points = line == &lanes.left ? drive.truth(0).left : drive.truth(0).right;
        line->confidence = 0.9F;
    }
    msgs::LaneMarkings message;
    to_message(lanes, message);
    message.mutable_header()->set_source_time_ns(driveline::to_ns(measured));
    test.feed("lanes", std::move(message)).value();
    msgs::Detections2D detections;
    to_message(visible_cars(drive, 0), detections);
    detections.set_detector("the test");
    test.feed("detections", std::move(detections)).value();
    EXPECT_EQ(test.run().value(), 0U) << "only tracks trigger";
    test.advance(milliseconds(40)).value();
    feed_tracks();
    test.run().value();
    scene = test.take<msgs::FusedScene>("scene").value();
    ASSERT_TRUE(scene);
    EXPECT_EQ((*scene)->lanes_source_time_ns(), driveline::to_ns(measured));
    EXPECT_EQ((*scene)->header().source_time_ns(), driveline::to_ns(test.now()));
    EXPECT_EQ((*scene)->detector(), "the test");
    EXPECT_EQ(static_cast<std::size_t>((*scene)->objects_size()), visible_cars(drive, 0).size());
}

TEST(CameraComponent, PublishesAtItsRateAndEndsTheRun) {
    auto test = ComponentTest::create(
                    "Camera", {.parameters = {{"source", "synthetic:3"}, {"rate_hz", 10.0}}})
                    .value();
    const auto start = test.now();
    test.advance(milliseconds(500)).value();
    EXPECT_TRUE(test.finished());
    const auto frames = test.outputs<Image>("image").value();
    ASSERT_EQ(frames.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(frames[i]->header.source_time_ns,
                  driveline::to_ns(start + milliseconds(100) * (i + 1)));
        EXPECT_EQ(frames[i]->header.frame_index, i);
    }
}

TEST(CameraComponent, PlaysAVideoAtItsOwnTimes) {
    const std::string video = std::string(COMP_TEST_DATA_DIR) + "/vfr.mkv";
    auto test = ComponentTest::create("Camera", {.parameters = {{"source", video}}}).value();
    test.advance(std::chrono::seconds(3)).value();
    EXPECT_TRUE(test.finished());
    const auto frames = test.outputs<Image>("image").value();
    ASSERT_EQ(frames.size(), 30U);
    for (std::size_t i = 1; i < frames.size(); ++i) {
        const auto gap =
            (frames[i]->header.source_time_ns - frames[i - 1]->header.source_time_ns) / 1'000'000;
        EXPECT_EQ(gap, i < 26 ? 40U : 200U) << "before frame " << i;
    }
}

TEST(CameraComponent, AGivenRateWinsOverTheTimesOfAVideo) {
    const std::string video = std::string(COMP_TEST_DATA_DIR) + "/vfr.mkv";
    auto test = ComponentTest::create(
                    "Camera", {.parameters = {{"source", video}, {"rate_hz", 50}, {"frames", 28}}})
                    .value();
    test.advance(std::chrono::seconds(1)).value();
    EXPECT_TRUE(test.finished());
    const auto frames = test.outputs<Image>("image").value();
    ASSERT_EQ(frames.size(), 28U);
    EXPECT_EQ(frames[27]->header.source_time_ns - frames[0]->header.source_time_ns,
              27U * 20'000'000U);
}

}  // namespace
}  // namespace comp
