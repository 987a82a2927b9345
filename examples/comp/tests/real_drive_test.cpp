// SPDX-License-Identifier: Apache-2.0
// Accuracy on a real highway drive, against hand labels
// (labels/*.csv). The recording and the YOLO are not part of the project: without them these tests
// are reported as skipped.
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <opencv2/core.hpp>

#include "frame_source.hpp"
#include "lane_detector.hpp"
#include "multi_tracker.hpp"
#include "test_support.hpp"
#include "vehicle_detector.hpp"

namespace comp {
namespace {

const char* const kVideo = "drive/highway_960x540.mp4";
const char* const kModel = "yolo/yolo-fastest-1.1-xl.cfg";
const char* const kNames = "yolo/coco.names";

std::size_t found_of(const std::vector<test::LabelledCar>& cars,
                     const std::vector<cv::Rect2f>& boxes) {
    return static_cast<std::size_t>(
        std::count_if(cars.begin(), cars.end(), [&](const test::LabelledCar& car) {
            return car.fully_visible &&
                   std::any_of(boxes.begin(), boxes.end(), [&](const cv::Rect2f& b) {
                       return intersection_over_union(b, car.box) >= 0.5F;
                   });
        }));
}

std::size_t visible_of(const std::vector<test::LabelledCar>& cars) {
    return static_cast<std::size_t>(std::count_if(
        cars.begin(), cars.end(), [](const test::LabelledCar& car) { return car.fully_visible; }));
}

TEST(RealDrive, LanesOnEveryFrameAndOnTheLabels) {
    const auto video = test::data_file(kVideo);
    if (!video) {
        GTEST_SKIP() << test::missing_reason(kVideo);
    }
    const auto labels = test::lane_labels();
    ASSERT_GE(labels.size(), 30U);
    const auto source = open_frame_source(*video);
    LaneDetector detector;
    cv::Mat frame;
    int frames = 0;
    int with_lanes = 0;
    std::size_t labelled = 0;
    std::size_t close = 0;
    float worst = 0.0F;
    for (; source->next(frame) == FrameStatus::frame; ++frames) {
        const LaneEstimate lanes = detector.detect(frame);
        with_lanes += lanes.left.valid && lanes.right.valid ? 1 : 0;
        const auto points = labels.find(frames);
        if (points == labels.end()) {
            continue;
        }
        ++labelled;
        float off = 0.0F;
        for (const test::LanePoint& p : points->second) {
            const auto x = lane_x_at(p.left ? lanes.left : lanes.right, p.at.y);
            off = std::max(off, x ? std::abs(*x - p.at.x) : 1e6F);
        }
        close += off <= 12.0F ? 1 : 0;
        worst = std::max(worst, off);
    }
    std::printf(
        "lanes: both markings on %d of %d frames; %zu of %zu labelled frames within 12 px at every "
        "point, worst %.1f px\n",
        with_lanes, frames, close, labelled, static_cast<double>(worst));
    EXPECT_EQ(frames, 221);
    EXPECT_EQ(labelled, labels.size());
    EXPECT_GE(with_lanes, 0.95 * frames);
    EXPECT_GE(static_cast<double>(close), 0.95 * static_cast<double>(labelled));
}

TEST(RealDrive, YoloFindsTheLabelledCars) {
    const auto video = test::data_file(kVideo);
    const auto model = test::data_file(kModel);
    if (!video || !model) {
        GTEST_SKIP() << test::missing_reason(video ? kModel : kVideo);
    }
    const auto labels = test::car_labels();
    ASSERT_GE(labels.size(), 30U);
    DetectorOptions options;
    options.model_path = *model;
    options.names_path = test::data_file(kNames).value_or("");
    const auto detector = make_vehicle_detector(options);
    EXPECT_FALSE(detector->is_classical());
    const auto source = open_frame_source(*video);
    cv::Mat frame;
    std::vector<Detection> found;
    std::size_t cars = 0;
    std::size_t hits = 0;
    int frames_with_all_but_one = 0;
    int strays = 0;
    for (int i = 0; source->next(frame) == FrameStatus::frame; ++i) {
        const auto truth = labels.find(i);
        if (truth == labels.end()) {
            continue;
        }
        ASSERT_TRUE(detector->detect(frame, found)) << detector->error();
        std::vector<cv::Rect2f> boxes;
        for (const Detection& d : found) {
            boxes.push_back(d.box);
            // There is never a vehicle on the right verge, on the empty road directly ahead, or in
            // the sky.
            const cv::Point2f foot(d.box.x + d.box.width / 2, d.box.y + d.box.height);
            strays +=
                foot.x > 620.0F || foot.y < 290.0F || (foot.x > 250.0F && foot.y > 400.0F) ? 1 : 0;
        }
        const std::size_t here = found_of(truth->second, boxes);
        const std::size_t visible = visible_of(truth->second);
        hits += here;
        cars += visible;
        frames_with_all_but_one += here + 1 >= visible ? 1 : 0;
    }
    std::printf("YOLO: %zu of %zu labelled cars with IoU >= 0.5 on %zu frames\n", hits, cars,
                labels.size());
    EXPECT_GE(cars, 140U);
    EXPECT_GE(static_cast<double>(hits), 0.95 * static_cast<double>(cars));
    EXPECT_GE(frames_with_all_but_one, 30);
    EXPECT_EQ(strays, 0);
}

// The detector runs on every 11th frame, and its result arrives two frames later. For the ten
// frames and more in between, there is only the tracker.
TEST(RealDrive, TrackerHoldsTheLabelledCarsBetweenRareDetections) {
    const auto video = test::data_file(kVideo);
    const auto model = test::data_file(kModel);
    if (!video || !model) {
        GTEST_SKIP() << test::missing_reason(video ? kModel : kVideo);
    }
    constexpr int kEvery = 11;
    constexpr int kLate = 2;
    const auto labels = test::car_labels();
    DetectorOptions options;
    options.model_path = *model;
    const auto detector = make_vehicle_detector(options);
    const auto source = open_frame_source(*video);
    MosseMultiTracker tracker;
    cv::Mat frame;
    DetectionSet running;
    DetectionSet ready;
    bool any = false;
    std::size_t cars = 0;
    std::size_t hits = 0;
    std::map<char, std::set<std::uint32_t>> ids;
    for (int i = 0; source->next(frame) == FrameStatus::frame; ++i) {
        const std::int64_t now = i * std::int64_t{40'000'000};
        if (i % kEvery == 0) {
            running.source_time_ns = now;
            ASSERT_TRUE(detector->detect(frame, running.detections)) << detector->error();
        }
        if (i % kEvery == kLate) {
            ready = running;
            any = true;
        }
        const auto& tracks = tracker.update(frame, now, any ? &ready : nullptr);
        const auto truth = labels.find(i);
        // A new car is confirmed after two detections, so after at most 2 * kEvery + kLate frames.
        if (truth == labels.end() || i < 2 * kEvery + kLate) {
            continue;
        }
        std::vector<cv::Rect2f> boxes;
        for (const Track& t : tracks) {
            if (t.state == TrackState::tracking) {
                boxes.push_back(t.box);
                for (const auto& car : truth->second) {
                    if (car.fully_visible && intersection_over_union(t.box, car.box) >= 0.5F) {
                        ids[car.name].insert(t.id);
                    }
                }
            }
        }
        hits += found_of(truth->second, boxes);
        cars += visible_of(truth->second);
    }
    std::size_t most_ids = 0;
    for (const auto& [name, seen] : ids) {
        most_ids = std::max(most_ids, seen.size());
    }
    std::printf(
        "MOSSE, detections on every %dth frame, %d late: %zu of %zu labelled cars with IoU >= 0.5, "
        "at most %zu ids for one car\n",
        kEvery, kLate, hits, cars, most_ids);
    EXPECT_GE(static_cast<double>(hits), 0.9 * static_cast<double>(cars));
    EXPECT_EQ(ids.size(), 6U);
    EXPECT_LE(most_ids, 2U);
}

TEST(RealDrive, BlankFramesYieldNothingFromTheYolo) {
    const auto model = test::data_file(kModel);
    if (!model) {
        GTEST_SKIP() << test::missing_reason(kModel);
    }
    DetectorOptions options;
    options.model_path = *model;
    const auto detector = make_vehicle_detector(options);
    std::vector<Detection> found;
    for (const cv::Mat& frame : test::blank_frames({960, 540})) {
        ASSERT_TRUE(detector->detect(frame, found)) << detector->error();
        EXPECT_TRUE(found.empty());
    }
}

}  // namespace
}  // namespace comp
