// SPDX-License-Identifier: Apache-2.0
#include "lane_detector.hpp"

#include <tuple>
#include <utility>
#include <vector>

#include <opencv2/imgcodecs.hpp>
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
        close += worst_distance(lanes.left, truth.left) <= kTolerancePx &&
                         worst_distance(lanes.right, truth.right) <= kTolerancePx
                     ? 1
                     : 0;
    }
    RecordProperty("found", found);
    RecordProperty("close", close);
    EXPECT_GE(found, 0.98 * frames);
    EXPECT_GE(close, 0.97 * frames);
}

TEST(LaneDetector, BlankFramesYieldNothing) {
    LaneDetector detector;
    // Also after a frame with lanes: the detector keeps no state.
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

// A marking in perspective: a tenth of a column wide for each row below the horizon.
void paint_marking(cv::Mat& road, cv::Point2f far, cv::Point2f near, int grey) {
    const float horizon = 0.55F * static_cast<float>(road.rows);
    std::vector<cv::Point> outline;
    for (const auto& [at, side] :
         {std::pair(far, -1.0F), {far, 1.0F}, {near, 1.0F}, {near, -1.0F}}) {
        outline.emplace_back(cvRound(at.x + side * 0.05F * (at.y - horizon)), cvRound(at.y));
    }
    cv::fillConvexPoly(road, outline, cv::Scalar::all(grey), cv::LINE_AA);
}

cv::Mat with_noise(cv::Mat image, std::uint64_t seed) {
    cv::RNG rng(seed);
    cv::Mat noise(image.size(), CV_16SC3);
    rng.fill(noise, cv::RNG::NORMAL, 0, 4);
    cv::Mat sum;
    image.convertTo(sum, CV_16SC3);
    sum += noise;
    sum.convertTo(image, CV_8UC3);
    return image;
}

// A road of plain concrete under a sky.
cv::Mat concrete(int grey) {
    cv::Mat image(540, 960, CV_8UC3, cv::Scalar(200, 170, 140));
    image.rowRange(290, 540).setTo(cv::Scalar::all(grey));
    return image;
}

TEST(LaneDetector, SeamsBetweenSlabsAreNoMarkings) {
    // Light and dark seams, along and across the road, with a width that does not depend on the
    // distance.
    cv::Mat slabs = concrete(148);
    for (const auto& [from, to, width, grey] :
         {std::tuple(cv::Point(458, 300), cv::Point(170, 540), 12, 75),
          {{480, 300}, {464, 540}, 11, 45},
          {{494, 300}, {658, 540}, 10, 45},
          {{475, 300}, {400, 540}, 9, 175},
          {{500, 300}, {707, 540}, 3, 176}}) {
        cv::line(slabs, from, to, cv::Scalar::all(grey), width);
    }
    for (const auto& [y, width, grey] :
         {std::tuple(342, 2, 170), {404, 3, 172}, {441, 4, 110}, {461, 4, 112}, {481, 9, 172}}) {
        cv::line(slabs, {0, y}, {960, y}, cv::Scalar::all(grey), width);
    }
    LaneDetector detector;
    const LaneEstimate lanes = detector.detect(with_noise(slabs, 1));
    EXPECT_FALSE(lanes.left.valid) << lanes.left.confidence;
    EXPECT_FALSE(lanes.right.valid) << lanes.right.confidence;
}

// A real picture of such slabs, used for every frame.
TEST(RealPicture, SlabsHaveNoLane) {
    const char* const name = "lanes/slabs.png";
    const auto file = test::case_file(name);
    if (!file) {
        GTEST_SKIP() << test::missing_case_reason(name);
    }
    const cv::Mat slabs = cv::imread(*file);
    ASSERT_FALSE(slabs.empty()) << *file;
    LaneDetector detector;
    for (int frame = 0; frame < 60; ++frame) {
        const LaneEstimate lanes = detector.detect(slabs);
        EXPECT_FALSE(lanes.left.valid) << "frame " << frame << ": " << lanes.left.confidence;
        EXPECT_FALSE(lanes.right.valid) << "frame " << frame << ": " << lanes.right.confidence;
    }
}

// Pictures without a road: no line through their edges is a marking.
TEST(LaneDetector, PicturesWithoutARoadHaveNoLane) {
    cv::RNG rng(18);
    LaneDetector detector;
    int lines = 0;
    int pictures = 0;
    const auto look = [&](const cv::Mat& image) {
        const LaneEstimate lanes = detector.detect(image);
        EXPECT_FALSE(lanes.left.valid || lanes.right.valid) << "picture " << pictures;
        lines += (lanes.left.valid ? 1 : 0) + (lanes.right.valid ? 1 : 0);
        ++pictures;
    };
    for (int n = 0; n < 40; ++n) {
        for (const cv::Size size : {cv::Size(960, 540), cv::Size(540, 960)}) {
            cv::Mat clouds(size, CV_32F, cv::Scalar(120));
            for (int scale = 4; scale < 200; scale *= 2) {
                cv::Mat coarse(size.height / scale + 2, size.width / scale + 2, CV_32F);
                rng.fill(coarse, cv::RNG::NORMAL, 0, 10);
                cv::Mat fine;
                cv::resize(coarse, fine, size, 0, 0, cv::INTER_CUBIC);
                clouds += fine;
            }
            cv::Mat grey;
            clouds.convertTo(grey, CV_8U);
            look(grey);
            cv::Mat boxes(size, CV_8UC3, cv::Scalar::all(90));
            for (int i = 0; i < 250; ++i) {
                const cv::Rect box(rng.uniform(0, size.width), rng.uniform(0, size.height),
                                   rng.uniform(4, 120), rng.uniform(4, 120));
                cv::rectangle(boxes, box, cv::Scalar::all(rng.uniform(0, 255)), cv::FILLED);
            }
            look(boxes);
        }
        // Shadows of trees on a road without markings.
        cv::Mat road = concrete(150);
        for (int i = 0; i < 10; ++i) {
            const cv::RotatedRect bar(cv::Point2f(static_cast<float>(rng.uniform(0, 960)),
                                                  static_cast<float>(rng.uniform(300, 540))),
                                      cv::Size2f(static_cast<float>(rng.uniform(60, 500)),
                                                 static_cast<float>(rng.uniform(6, 60))),
                                      static_cast<float>(rng.uniform(0, 180)));
            cv::Mat corners;
            cv::boxPoints(bar, corners);
            corners.convertTo(corners, CV_32S);
            cv::fillConvexPoly(road, corners, cv::Scalar::all(rng.uniform(80, 130)), cv::LINE_AA);
        }
        cv::GaussianBlur(road, road, {5, 5}, 0);
        look(with_noise(road, static_cast<std::uint64_t>(n)));
    }
    RecordProperty("lines", lines);
    EXPECT_EQ(lines, 0) << "of " << pictures << " pictures";
}

// A curved road: a reported line lies on the markings.
TEST(LaneDetector, LinesOfACurveLieOnItsMarkings) {
    const SyntheticDrive drive;
    LaneDetector detector;
    cv::Mat frame;
    cv::Mat bent;
    for (const double bend : {0.0015, -0.0015, 0.004, -0.004, 0.012, -0.012}) {
        for (int i = 0; i < 300; i += 30) {
            drive.render(i, frame);
            const auto shift = [&](float y) {
                return static_cast<float>(bend * (540.0 - y) * (540.0 - y));
            };
            cv::Mat map_x(frame.size(), CV_32F);
            cv::Mat map_y(frame.size(), CV_32F);
            for (int y = 0; y < frame.rows; ++y) {
                for (int x = 0; x < frame.cols; ++x) {
                    map_x.at<float>(y, x) = static_cast<float>(x) - shift(static_cast<float>(y));
                    map_y.at<float>(y, x) = static_cast<float>(y);
                }
            }
            cv::remap(frame, bent, map_x, map_y, cv::INTER_LINEAR, cv::BORDER_REFLECT);
            const LaneEstimate lanes = detector.detect(bent);
            LaneLine left;
            LaneLine right;
            left.valid = right.valid = true;
            left.points = drive.truth(i).left;
            right.points = drive.truth(i).right;
            for (const LaneLine* line : {&lanes.left, &lanes.right}) {
                for (const cv::Point2f& p : line->points) {
                    // The markings of the ego lane, and of the lanes to the left.
                    const float x = p.x - shift(p.y);
                    const float lane = *lane_x_at(right, p.y) - *lane_x_at(left, p.y);
                    float off = 1e6F;
                    for (int marking = 0; marking < 4; ++marking) {
                        off = std::min(off, std::abs(*lane_x_at(right, p.y) -
                                                     static_cast<float>(marking) * lane - x));
                    }
                    EXPECT_LT(off, 20.0F) << "bend " << bend << ", frame " << i << ", row " << p.y;
                }
            }
        }
    }
}

TEST(LaneDetector, LinesBelowTheConfidenceAreNotReported) {
    cv::Mat road(540, 960, CV_8UC3, cv::Scalar::all(90));
    paint_marking(road, {520, 340}, {600, 391}, 230);
    const LaneLine found = LaneDetector().detect(road).right;
    ASSERT_TRUE(found.valid) << "a single dash is not found";
    EXPECT_GE(found.confidence, 0.3F);
    LaneDetectorOptions options;
    options.min_confidence = 0.999;
    const LaneLine hidden = LaneDetector(options).detect(road).right;
    EXPECT_FALSE(hidden.valid);
    EXPECT_EQ(hidden.confidence, 0.0F);
    EXPECT_TRUE(hidden.points.empty());
}

TEST(LaneDetector, OneMarkingGivesOneLine) {
    cv::Mat road(540, 960, CV_8UC3, cv::Scalar::all(90));
    paint_marking(road, {500, 310}, {860, 539}, 230);
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
        EXPECT_NEAR(*lane_x_at(colour.right, 0.8F * size.height),
                    *lane_x_at(mono.right, 0.8F * size.height), 0.5F);
        EXPECT_LT(worst_distance(mono.right, drive.truth(12).right),
                  kTolerancePx * size.width / 960.0F);
    }
}

TEST(LaneDetector, ImagesItCannotReadYieldNothing) {
    LaneDetector detector;
    for (const cv::Mat& image : {cv::Mat(), cv::Mat(20, 20, CV_8UC3, cv::Scalar::all(90)),
                                 cv::Mat(540, 960, CV_32FC1, cv::Scalar::all(1))}) {
        EXPECT_FALSE(detector.detect(image).left.valid);
    }
}

TEST(LaneDetector, RefusesImpossibleOptions) {
    LaneDetectorOptions options;
    options.search_top_fraction = 0.5;
    EXPECT_NE(test::vision_error([&] { LaneDetector{options}; }).find("search_top_fraction"),
              std::string::npos);
    options = {};
    options.canny_high = 1.0;
    EXPECT_NE(test::vision_error([&] { LaneDetector{options}; }).find("canny_low"),
              std::string::npos);
    options = {};
    options.min_confidence = 1.5;
    EXPECT_NE(test::vision_error([&] { LaneDetector{options}; }).find("min_confidence"),
              std::string::npos);
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
