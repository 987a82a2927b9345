// SPDX-License-Identifier: Apache-2.0
#include "synthetic_drive.hpp"

#include <cmath>
#include <set>

#include <opencv2/imgproc.hpp>

#include "test_support.hpp"

namespace comp {
namespace {

using test::vision_error;

bool same_pixels(const cv::Mat& a, const cv::Mat& b) {
    return a.size() == b.size() && cv::norm(a, b, cv::NORM_INF) == 0.0;
}

TEST(SyntheticDrive, FrameDependsOnItsIndexAlone) {
    const SyntheticDrive drive;
    const SyntheticDrive other;
    cv::Mat first;
    cv::Mat between;
    cv::Mat again;
    drive.render(40, first);
    drive.render(7, between);
    other.render(40, again);
    EXPECT_TRUE(same_pixels(first, again));
    EXPECT_FALSE(same_pixels(first, between));
}

TEST(SyntheticDrive, WritesIntoTheCallersRows) {
    const SyntheticDrive drive;
    cv::Mat plain;
    drive.render(3, plain);
    cv::Mat wide(drive.size().height, drive.size().width + 13, CV_8UC3, cv::Scalar::all(1));
    cv::Mat view = wide.colRange(0, drive.size().width);
    const auto* data = view.data;
    drive.render(3, view);
    EXPECT_EQ(view.data, data);
    EXPECT_TRUE(same_pixels(view, plain));
    EXPECT_EQ(cv::norm(wide.colRange(drive.size().width, wide.cols), cv::NORM_INF), 1.0)
        << "wrote beyond the view";
}

// The ground truth is computed separately from the pixels, so it must match the paint.
TEST(SyntheticDrive, TruthLiesOnThePaint) {
    const SyntheticDrive drive;
    cv::Mat frame;
    cv::Mat grey;
    int solid = 0;
    int dashed = 0;
    int free_points = 0;
    for (int i = 0; i < 200; i += 5) {
        drive.render(i, frame);
        cv::cvtColor(frame, grey, cv::COLOR_BGR2GRAY);
        const SyntheticTruth truth = drive.truth(i);
        const auto hidden = [&](cv::Point2f p) {
            for (const TruthCar& car : truth.cars) {
                const cv::Rect2f grown(car.box.x - 15, car.box.y - 5, car.box.width + 30,
                                       car.box.height + 15);
                if (grown.contains(p)) {
                    return true;
                }
            }
            return p.x < 2 || p.x > grey.cols - 3 || p.y > grey.rows - 2;
        };
        const auto painted = [&](cv::Point2f p) {
            return grey.at<std::uint8_t>(cv::Point(cvRound(p.x), cvRound(p.y))) > 150;
        };
        for (std::size_t k = 0; k < truth.right.size(); ++k) {
            if (!hidden(truth.right[k])) {
                ++free_points;
                solid += painted(truth.right[k]) ? 1 : 0;
                dashed += !hidden(truth.left[k]) && painted(truth.left[k]) ? 1 : 0;
            }
        }
    }
    ASSERT_GT(free_points, 300);
    EXPECT_GT(solid, 0.97 * free_points);
    // A quarter of the dashed line is paint.
    EXPECT_GT(dashed, 0.15 * free_points);
    EXPECT_LT(dashed, 0.35 * free_points);
}

// Two frames cannot be compared to find a car: frames of different times differ everywhere, and a
// frame cannot be rendered without cars. So the test checks the tyres: the lower edge of the box
// must lie between dark rubber and road.
TEST(SyntheticDrive, TruthBoxesStandOnTheirTyres) {
    const SyntheticDrive drive;
    cv::Mat frame;
    cv::Mat grey;
    int cars = 0;
    for (int i = 0; i < 300; i += 10) {
        drive.render(i, frame);
        cv::cvtColor(frame, grey, cv::COLOR_BGR2GRAY);
        for (const TruthCar& car : drive.truth(i).cars) {
            if (car.lane != 0 || car.visible_fraction < 0.95F || car.box.width < 40) {
                continue;
            }
            ++cars;
            const int y = cvRound(car.box.y + car.box.height);
            const cv::Rect tyre(cvRound(car.box.x + 0.06F * car.box.width), y - 4, 3, 3);
            const cv::Rect road(cvRound(car.box.x + 0.4F * car.box.width), y + 12, 8, 6);
            EXPECT_LT(cv::mean(grey(tyre))[0], 45.0) << "frame " << i;
            EXPECT_GT(cv::mean(grey(road))[0], 75.0) << "frame " << i;
        }
    }
    EXPECT_GT(cars, 20);
}

TEST(SyntheticDrive, CarsMoveSmoothlyUnderTheirIds) {
    const SyntheticDrive drive;
    std::map<int, cv::Rect2f> before;
    std::set<int> ids;
    for (int i = 0; i < 250; ++i) {
        std::map<int, cv::Rect2f> now;
        for (const TruthCar& car : drive.truth(i).cars) {
            EXPECT_TRUE(now.emplace(car.id, car.box).second) << "two cars with id " << car.id;
            ids.insert(car.id);
            if (before.contains(car.id) && car.distance_m > 8.0F) {
                EXPECT_GT(intersection_over_union(before[car.id], car.box), 0.6F)
                    << "car " << car.id << " jumps at frame " << i;
            }
        }
        before = now;
    }
    EXPECT_GE(ids.size(), 6U);
}

TEST(SyntheticDrive, RefusesImpossibleOptions) {
    EXPECT_NE(vision_error([] {
                  SyntheticDrive({cv::Size(10, 10), 25.0});
              }).find("10x10"),
              std::string::npos);
    EXPECT_NE(vision_error([] {
                  SyntheticDrive({cv::Size(960, 540), 0.0});
              }).find("fps"),
              std::string::npos);
    EXPECT_NE(vision_error([] {
                  SyntheticDrive({cv::Size(960, 540), std::nan("")});
              }).find("fps"),
              std::string::npos);
}

TEST(SyntheticDrive, OtherSizesRender) {
    for (const cv::Size size : {cv::Size(160, 90), cv::Size(641, 479), cv::Size(1920, 1200)}) {
        const SyntheticDrive drive({size, 50.0});
        cv::Mat frame;
        for (const std::int64_t i : {0, 1, 777, 1'000'000}) {
            drive.render(i, frame);
            EXPECT_EQ(frame.size(), size);
        }
    }
}

}  // namespace
}  // namespace comp
