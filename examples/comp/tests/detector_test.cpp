// SPDX-License-Identifier: Apache-2.0
#include "vehicle_detector.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <opencv2/imgproc.hpp>

#include "synthetic_drive.hpp"
#include "test_support.hpp"

namespace comp {
namespace {

using test::ScratchFolder;
using test::vision_error;

bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::string load_error(const DetectorOptions& options) {
    return vision_error([&] { (void)make_vehicle_detector(options); });
}

TEST(ClassicalDetector, HasAClassicalName) {
    const auto detector = make_vehicle_detector();
    EXPECT_TRUE(detector->is_classical());
    EXPECT_TRUE(holds(detector->name(), "classical"));
}

TEST(ClassicalDetector, FindsTheSyntheticCars) {
    const SyntheticDrive drive;
    const auto detector = make_vehicle_detector();
    cv::Mat frame;
    std::vector<Detection> found;
    int cars = 0;
    int hits = 0;
    int detections = 0;
    int strays = 0;
    for (int i = 0; i < 1500; i += 5) {
        drive.render(i, frame);
        ASSERT_TRUE(detector->detect(frame, found)) << detector->error();
        const SyntheticTruth truth = drive.truth(i);
        for (const TruthCar& car : truth.cars) {
            if (car.visible_fraction < 0.8F || car.box.width < 20.0F) {
                continue;
            }
            ++cars;
            hits += std::any_of(found.begin(), found.end(),
                                [&](const Detection& d) {
                                    return intersection_over_union(d.box, car.box) >= 0.5F;
                                })
                        ? 1
                        : 0;
        }
        for (const Detection& d : found) {
            ++detections;
            strays += std::none_of(truth.cars.begin(), truth.cars.end(),
                                   [&](const TruthCar& car) {
                                       return intersection_over_union(d.box, car.box) >= 0.3F;
                                   })
                          ? 1
                          : 0;
        }
    }
    RecordProperty("hits_per_mille", 1000 * hits / cars);
    RecordProperty("strays", strays);
    EXPECT_GT(cars, 800);
    EXPECT_GE(hits, 0.95 * cars);
    EXPECT_LE(strays, 0.03 * detections);
}

TEST(ClassicalDetector, BlankFramesYieldNothing) {
    const auto detector = make_vehicle_detector();
    std::vector<Detection> found(3);
    int index = 0;
    for (const cv::Mat& frame : test::blank_frames({960, 540})) {
        ASSERT_TRUE(detector->detect(frame, found));
        EXPECT_TRUE(found.empty()) << "blank frame " << index;
        ++index;
    }
    found.resize(2);
    EXPECT_TRUE(detector->detect(cv::Mat(), found));
    EXPECT_TRUE(found.empty());
}

TEST(VehicleDetector, ResultIsBoundedSortedAndInside) {
    // A road with sixteen shadows of a car's width, each under an object of another height.
    cv::Mat frame(540, 960, CV_8UC3, cv::Scalar::all(100));
    constexpr int kFoot = 330;
    const int width = static_cast<int>(1.3 * (kFoot - 0.54 * 540));
    for (int i = 0; i < 16; ++i) {
        const int x = -10 + 60 * i;
        const cv::Rect image(0, 0, 960, 540);
        cv::rectangle(frame, cv::Rect(x, kFoot - 4, width, 5) & image, cv::Scalar::all(20),
                      cv::FILLED);
        cv::rectangle(frame, cv::Rect(x, kFoot - 12 - i, width, 8 + i) & image,
                      cv::Scalar::all(220), cv::FILLED);
    }
    std::vector<Detection> all;
    ASSERT_TRUE(make_vehicle_detector()->detect(frame, all));
    ASSERT_GE(all.size(), 14U);
    EXPECT_LE(all.size(), kMaxDetections);
    for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(all[i].box & cv::Rect2f(0, 0, 960, 540), all[i].box);
        EXPECT_GT(all[i].box.area(), 0.0F);
        EXPECT_TRUE(all[i].confidence > 0.0F && all[i].confidence <= 1.0F);
        for (std::size_t j = 0; j < i; ++j) {
            EXPECT_GE(all[j].confidence, all[i].confidence);
            EXPECT_LE(intersection_over_union(all[i].box, all[j].box),
                      DetectorOptions{}.max_overlap);
        }
    }
    DetectorOptions few;
    few.max_detections = 3;
    std::vector<Detection> best;
    ASSERT_TRUE(make_vehicle_detector(few)->detect(frame, best));
    ASSERT_EQ(best.size(), 3U);
    EXPECT_EQ(best[0].box, all[0].box);
}

TEST(VehicleDetector, OtherPixelFormatsAreRefused) {
    const auto detector = make_vehicle_detector();
    std::vector<Detection> found(1);
    EXPECT_FALSE(detector->detect(cv::Mat(540, 960, CV_8UC1, cv::Scalar(90)), found));
    EXPECT_TRUE(found.empty());
    EXPECT_TRUE(holds(detector->error(), "BGR"));
}

TEST(VehicleDetector, RefusesImpossibleOptions) {
    DetectorOptions options;
    options.min_confidence = 0.0F;
    EXPECT_TRUE(holds(load_error(options), "min_confidence"));
    options = {};
    options.region = {0.5F, 0.0F, 0.6F, 1.0F};
    EXPECT_TRUE(holds(load_error(options), "region"));
    options = {};
    options.input_size = {320, 330};
    EXPECT_TRUE(holds(load_error(options), "input_size"));
    options = {};
    options.max_detections = 65;
    EXPECT_TRUE(holds(load_error(options), "max_detections"));
    options = {};
    options.weights_path = "a.weights";
    EXPECT_TRUE(holds(load_error(options), "without model_path"));
}

TEST(DarknetDetector, ErrorsNamePlaceAndRemedy) {
    const ScratchFolder scratch;
    DetectorOptions options;
    options.model_path = scratch.file("none.cfg");
    EXPECT_TRUE(
        holds(load_error(options), "none.cfg: darknet network description (.cfg) not found"));
    options.model_path = scratch.path();
    EXPECT_TRUE(holds(load_error(options), "unknown kind of model"));

    std::ofstream(scratch.file("net.cfg"))
        << "[net]\nwidth=64\nheight=64\nchannels=3\n[convolutional]\nfilters=255\nsize=1\nstride="
           "1\nactivation=linear\n"
           "[yolo]\nmask=0,1,2\nanchors=10,14,23,27,37,58\nclasses=80\nnum=3\n";
    options.model_path = scratch.file("net.cfg");
    EXPECT_TRUE(holds(load_error(options), "net.weights: darknet weights not found"));

    // 3 channels x 255 filters of 1x1, 255 biases, 20 bytes of header.
    const std::size_t right = 20 + (3 * 255 + 255) * sizeof(float);
    const auto write = [&](std::size_t bytes) {
        std::string content(bytes, '\0');
        content[4] = 2;  // version 0.2
        std::ofstream(scratch.file("net.weights"), std::ios::binary | std::ios::trunc) << content;
    };
    write(right - 4);
    EXPECT_TRUE(holds(load_error(options), "do not belong together")) << load_error(options);
    write(right + 400);
    EXPECT_TRUE(holds(load_error(options), "do not belong together"));
    write(right);
    const auto detector = make_vehicle_detector(options);
    EXPECT_FALSE(detector->is_classical());
    EXPECT_TRUE(holds(detector->name(), "net.cfg"));

    std::ofstream(scratch.file("people.names")) << "person\nbicycle\n";
    options.names_path = scratch.file("people.names");
    EXPECT_TRUE(holds(load_error(options), "names none of car"));
    std::ofstream(scratch.file("two.names")) << "person\ncar\n";
    options.names_path = scratch.file("two.names");
    EXPECT_TRUE(holds(load_error(options), "has 80 classes")) << load_error(options);
    options.names_path = scratch.file("nowhere.names");
    EXPECT_TRUE(holds(load_error(options), "class names file not found"));

    std::ofstream(scratch.file("net.cfg"), std::ios::trunc) << "hello\n";
    options.names_path.clear();
    EXPECT_TRUE(holds(load_error(options), "not a darknet network description"))
        << load_error(options);
}

}  // namespace
}  // namespace comp
