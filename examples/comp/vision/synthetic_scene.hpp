// SPDX-License-Identifier: Apache-2.0
// The world of the synthetic drive: positions of road, ego vehicle and traffic over time, and their
// projection. Private to synthetic_drive.cpp and synthetic_render.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include <opencv2/core.hpp>

namespace comp::synthetic {

inline constexpr double kLaneWidthM = 3.6;
inline constexpr double kMarkingWidthM = 0.15;
inline constexpr double kDashLengthM = 3.05;
inline constexpr double kDashPeriodM = 12.2;
inline constexpr double kRightLineM = kLaneWidthM / 2;      // solid white
inline constexpr double kLeftLineM = -kLaneWidthM / 2;      // dashed white
inline constexpr double kSecondLineM = -kLaneWidthM * 1.5;  // dashed white
inline constexpr double kLeftEdgeM = -kLaneWidthM * 2.5;    // solid yellow
inline constexpr double kRightVergeM = kRightLineM + 2.6;
inline constexpr double kLeftVergeM = kLeftEdgeM - 1.3;

struct Colour {
    double b, g, r;
};

struct Car {
    int id;
    int lane;
    double x_m;  // centre, right of the lane centre of the ego lane
    double z_m;  // rear bumper ahead of the camera; may be negative
    Colour paint;
};

// All moving objects at one time, and the camera.
struct Scene {
    cv::Size size;
    double focal_px;
    double centre_x_px;
    double horizon_px;
    double camera_height_m;
    double ego_x_m;  // camera to the right of the lane centre
    double curvature_per_m;
    double travelled_m;
    std::vector<Car> cars;  // farthest first

    [[nodiscard]] double depth_at_row(double y) const {
        return focal_px * camera_height_m / (y - horizon_px);
    }
    // Projects ground x (right of the lane centre) and height into the image.
    [[nodiscard]] cv::Point2d project(double x_m, double up_m, double z_m) const {
        const double bend = 0.5 * curvature_per_m * z_m * z_m;
        return {centre_x_px + focal_px * (x_m - ego_x_m + bend) / z_m,
                horizon_px + focal_px * (camera_height_m - up_m) / z_m};
    }
};

Scene scene_at(cv::Size size, double time_s);

// Returns the extent of the car's body in the image, not clipped. Empty if the car is behind the
// camera.
cv::Rect2d body_extent(const Scene& scene, const Car& car);

inline constexpr double kCarLengthM = 4.5;
inline constexpr double kCarWidthM = 1.8;
inline constexpr double kCarHeightM = 1.45;
inline constexpr double kNearestM = 2.0;  // points nearer than this are drawn at this depth

void draw_car(cv::Mat& bgr, const Scene& scene, const Car& car);
void draw_roadside(cv::Mat& bgr, const Scene& scene);  // barrier, posts and trees

}  // namespace comp::synthetic
