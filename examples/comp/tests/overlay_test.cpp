// SPDX-License-Identifier: Apache-2.0
#include "overlay.hpp"

#include "test_support.hpp"

namespace comp {
namespace {

// Returns the number of pixels within `part` in which two frames of one size differ.
int difference(const cv::Mat& a, const cv::Mat& b, const cv::Rect& part) {
    cv::Mat off;
    cv::absdiff(a(part), b(part), off);
    return cv::countNonZero(off.reshape(1));
}

FusedScene scene_with_car() {
    FusedScene scene;
    scene.lanes.left.valid = scene.lanes.right.valid = true;
    scene.lanes.left.points = {{200, 539}, {460, 330}};
    scene.lanes.right.points = {{800, 539}, {500, 330}};
    FusedObject car;
    car.track_id = 7;
    car.state = TrackState::tracking;
    car.box = {430, 340, 100, 80};
    car.lane = LanePosition::ego;
    car.distance_m = 21.0F;
    scene.objects.push_back(car);
    scene.in_path = 0;
    return scene;
}

TEST(Overlay, DrawsLanesAndObjects) {
    const cv::Mat plain(540, 960, CV_8UC3, cv::Scalar::all(90));
    cv::Mat frame = plain.clone();
    const auto* data = frame.data;
    draw_overlay(frame, scene_with_car(), {"YOLO", false, "frame 1"});
    EXPECT_EQ(frame.data, data) << "drawn in place";
    EXPECT_GT(difference(frame, plain, {300, 480, 60, 40}), 0) << "lane tint";
    EXPECT_GT(difference(frame, plain, {425, 380, 12, 12}), 0) << "box";
    EXPECT_EQ(difference(frame, plain, {850, 100, 100, 100}), 0)
        << "no change where there is no object";
}

TEST(Overlay, ClassicalDetectorHasABanner) {
    const cv::Mat plain(540, 960, CV_8UC3, cv::Scalar::all(90));
    cv::Mat network = plain.clone();
    cv::Mat classical = plain.clone();
    draw_overlay(network, {}, {"x", false, ""});
    draw_overlay(classical, {}, {"x", true, ""});
    const cv::Rect foot(0, 480, 960, 60);
    EXPECT_EQ(difference(network, plain, foot), 0);
    EXPECT_GT(difference(classical, plain, foot), 20'000);
}

TEST(Overlay, StaysInsideSmallFramesAndDoesNotChangeOtherTypes) {
    FusedScene scene = scene_with_car();
    scene.objects[0].box = {-500, -500, 5000, 5000};
    scene.objects.push_back(scene.objects[0]);
    scene.objects[1].box = {900, -20, 30, 10};
    for (const cv::Size size : {cv::Size(960, 540), cv::Size(64, 48), cv::Size(3, 2)}) {
        cv::Mat wide(size.height + 40, size.width + 40, CV_8UC3, cv::Scalar::all(5));
        cv::Mat view = wide(cv::Rect({20, 20}, size));
        draw_overlay(view, scene,
                     {"a detector with a rather long name that does not fit", true, "status"});
        wide(cv::Rect({20, 20}, size)).setTo(cv::Scalar::all(5));
        EXPECT_EQ(cv::norm(wide, cv::Mat(wide.size(), CV_8UC3, cv::Scalar::all(5)), cv::NORM_INF),
                  0.0)
            << "drew outside of a frame of " << size;
    }
    cv::Mat grey(540, 960, CV_8UC1, cv::Scalar(90));
    draw_overlay(grey, scene, {"x", true, ""});
    EXPECT_EQ(cv::norm(grey, cv::Mat(540, 960, CV_8UC1, cv::Scalar(90)), cv::NORM_INF), 0.0);
    cv::Mat empty;
    draw_overlay(empty, scene, {"x", true, ""});
}

}  // namespace
}  // namespace comp
