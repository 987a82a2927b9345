// SPDX-License-Identifier: Apache-2.0
#include "lane_detector.hpp"

#include <opencv2/imgproc.hpp>

#include "synthetic_drive.hpp"
#include "test_support.hpp"

namespace comp {
namespace {

constexpr float kTolerancePx = 12.0F;  // at 960x540

float worst_distance(const LaneLine& line, const std::vector<cv::Point2f>& truth) {
  float worst = 0.0F;
  for (const cv::Point2f& p : truth) {
    const auto x = lane_x_at(line, p.y);
    worst = std::max(worst, x ? std::abs(*x - p.x) : 1e6F);
  }
  return worst;
}

TEST(LaneDetector, FollowsTheSyntheticLane) {
  const SyntheticDrive drive;
  LaneDetector detector;
  cv::Mat frame;
  int frames = 0;
  int found = 0;
  int close = 0;
  for (int i = 0; i < 1500; i += 5) {
    drive.render(i, frame);
    const LaneEstimate lanes = detector.detect(frame);
    const SyntheticTruth truth = drive.truth(i);
    ++frames;
    found += lanes.left.valid && lanes.right.valid ? 1 : 0;
    close += worst_distance(lanes.left, truth.left) <= kTolerancePx && worst_distance(lanes.right, truth.right) <= kTolerancePx ? 1 : 0;
  }
  RecordProperty("found", found);
  RecordProperty("close", close);
  EXPECT_GE(found, 0.98 * frames);
  EXPECT_GE(close, 0.97 * frames);
}

TEST(LaneDetector, BlankFramesYieldNothing) {
  LaneDetector detector;
  // After a frame with lanes, too: nothing may linger.
  cv::Mat road;
  SyntheticDrive().render(0, road);
  ASSERT_TRUE(detector.detect(road).right.valid);
  int index = 0;
  for (const cv::Mat& frame : test::blank_frames({960, 540})) {
    const LaneEstimate lanes = detector.detect(frame);
    EXPECT_FALSE(lanes.left.valid) << "blank frame " << index;
    EXPECT_FALSE(lanes.right.valid) << "blank frame " << index;
    EXPECT_TRUE(lanes.left.points.empty());
    EXPECT_EQ(lanes.left.confidence, 0.0F);
    ++index;
  }
}

TEST(LaneDetector, OneMarkingGivesOneLine) {
  cv::Mat road(540, 960, CV_8UC3, cv::Scalar::all(90));
  cv::line(road, {500, 310}, {860, 539}, cv::Scalar::all(230), 12, cv::LINE_AA);
  LaneDetector detector;
  const LaneEstimate lanes = detector.detect(road);
  EXPECT_FALSE(lanes.left.valid);
  ASSERT_TRUE(lanes.right.valid);
  EXPECT_NEAR(*lane_x_at(lanes.right, 450.0F), 500.0 + 360.0 * 140.0 / 229.0, 3.0);
  EXPECT_GT(lanes.right.confidence, 0.8F);
}

TEST(LaneDetector, LinesThatNoLaneHasAreIgnored) {
  LaneDetector detector;
  cv::Mat upright(540, 960, CV_8UC3, cv::Scalar::all(90));
  for (const int x : {200, 430, 520, 700}) {
    cv::line(upright, {x, 300}, {x, 539}, cv::Scalar::all(230), 8);
  }
  cv::Mat level(540, 960, CV_8UC3, cv::Scalar::all(90));
  for (const int y : {350, 420, 500}) {
    cv::line(level, {0, y}, {959, y}, cv::Scalar::all(230), 8);
  }
  for (const cv::Mat& frame : {upright, level}) {
    const LaneEstimate lanes = detector.detect(frame);
    EXPECT_FALSE(lanes.left.valid);
    EXPECT_FALSE(lanes.right.valid);
  }
}

TEST(LaneDetector, DarkStripesAreNotPaint) {
  cv::Mat road(540, 960, CV_8UC3, cv::Scalar::all(120));
  cv::line(road, {500, 310}, {860, 539}, cv::Scalar::all(40), 12, cv::LINE_AA);
  cv::line(road, {460, 310}, {100, 539}, cv::Scalar::all(40), 12, cv::LINE_AA);
  LaneDetector detector;
  const LaneEstimate lanes = detector.detect(road);
  EXPECT_FALSE(lanes.left.valid);
  EXPECT_FALSE(lanes.right.valid);
}

TEST(LaneDetector, GreyImagesAndOtherSizesWork) {
  for (const cv::Size size : {cv::Size(640, 360), cv::Size(1280, 720)}) {
    const SyntheticDrive drive({size, 25.0});
    cv::Mat frame;
    cv::Mat grey;
    drive.render(12, frame);
    cv::cvtColor(frame, grey, cv::COLOR_BGR2GRAY);
    LaneDetector detector;
    const LaneEstimate colour = detector.detect(frame);
    const LaneEstimate mono = detector.detect(grey);
    ASSERT_TRUE(colour.right.valid && mono.right.valid) << size;
    EXPECT_NEAR(*lane_x_at(colour.right, 0.8F * size.height), *lane_x_at(mono.right, 0.8F * size.height), 0.5F);
    EXPECT_LT(worst_distance(mono.right, drive.truth(12).right), kTolerancePx * size.width / 960.0F);
  }
}

TEST(LaneDetector, ImagesItCannotReadYieldNothing) {
  LaneDetector detector;
  for (const cv::Mat& image : {cv::Mat(), cv::Mat(20, 20, CV_8UC3, cv::Scalar::all(90)), cv::Mat(540, 960, CV_32FC1, cv::Scalar::all(1))}) {
    EXPECT_FALSE(detector.detect(image).left.valid);
  }
}

TEST(LaneDetector, RefusesImpossibleOptions) {
  LaneDetectorOptions options;
  options.search_top_fraction = 0.5;
  EXPECT_NE(test::vision_error([&] { LaneDetector{options}; }).find("search_top_fraction"), std::string::npos);
  options = {};
  options.canny_high = 1.0;
  EXPECT_NE(test::vision_error([&] { LaneDetector{options}; }).find("canny_low"), std::string::npos);
}

TEST(LaneLineGeometry, InterpolatesAndExtends) {
  LaneLine line;
  EXPECT_FALSE(lane_x_at(line, 1.0F).has_value());
  line.valid = true;
  line.points = {{100, 400}, {200, 300}, {220, 200}};
  EXPECT_FLOAT_EQ(*lane_x_at(line, 350), 150);
  EXPECT_FLOAT_EQ(*lane_x_at(line, 250), 210);
  EXPECT_FLOAT_EQ(*lane_x_at(line, 450), 50);
  EXPECT_FLOAT_EQ(*lane_x_at(line, 100), 240);
}

}  // namespace
}  // namespace comp
