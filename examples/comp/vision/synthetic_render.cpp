// SPDX-License-Identifier: Apache-2.0
// Draws the solid objects of the synthetic drive, traffic and roadside, as projected polygons,
// farthest first.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <opencv2/imgproc.hpp>

#include "synthetic_scene.hpp"

namespace comp::synthetic {
namespace {

constexpr int kSubPixelBits = 4;

cv::Scalar shade(const Colour& c, double light) { return {c.b * light, c.g * light, c.r * light}; }

struct Corner {
    double x_m, up_m, z_m;
};

// A convex polygon in the world.
template <std::size_t N>
void fill(cv::Mat& bgr, const Scene& scene, const std::array<Corner, N>& corners,
          const cv::Scalar& colour) {
    std::array<cv::Point, N> image;
    double left = 1e9;
    double right = -1e9;
    for (std::size_t i = 0; i < N; ++i) {
        const cv::Point2d p =
            scene.project(corners[i].x_m, corners[i].up_m, std::max(corners[i].z_m, kNearestM));
        // Points far outside the image are clamped, which keeps the fixed-point coordinates small.
        const double x = std::clamp(p.x, -8.0 * scene.size.width, 9.0 * scene.size.width);
        const double y = std::clamp(p.y, -8.0 * scene.size.height, 9.0 * scene.size.height);
        left = std::min(left, x);
        right = std::max(right, x);
        image[i] = {static_cast<int>(std::lround(x * (1 << kSubPixelBits))),
                    static_cast<int>(std::lround(y * (1 << kSubPixelBits)))};
    }
    if (right < 0.0 || left > scene.size.width) {
        return;
    }
    cv::fillConvexPoly(bgr, image.data(), static_cast<int>(N), colour, cv::LINE_AA, kSubPixelBits);
}

// A wheel seen from the side: an ellipse of the projected width and height.
void wheel(cv::Mat& bgr, const Scene& scene, double x_m, double z_m) {
    constexpr double kRadiusM = 0.32;
    if (z_m - kRadiusM < kNearestM) {
        return;
    }
    const cv::Point2d centre = scene.project(x_m, kRadiusM, z_m);
    const double half_width = 0.5 * std::abs(scene.project(x_m, kRadiusM, z_m + kRadiusM).x -
                                             scene.project(x_m, kRadiusM, z_m - kRadiusM).x);
    const double half_height = scene.focal_px * kRadiusM / z_m;
    if (centre.x < -200.0 || centre.x > scene.size.width + 200.0) {
        return;
    }
    const auto fixed = [](double v) {
        return static_cast<int>(std::lround(v * (1 << kSubPixelBits)));
    };
    const cv::Point at(fixed(centre.x), fixed(centre.y));
    cv::ellipse(bgr, at, {fixed(half_width), fixed(half_height)}, 0, 0, 360, cv::Scalar(24, 22, 22),
                cv::FILLED, cv::LINE_AA, kSubPixelBits);
    cv::ellipse(bgr, at, {fixed(half_width * 0.55), fixed(half_height * 0.55)}, 0, 0, 360,
                cv::Scalar(120, 118, 116), cv::FILLED, cv::LINE_AA, kSubPixelBits);
}

// Corners of the body. body_extent() returns their bounds, and draw_car() draws inside them.
struct Body {
    double left, right, near, far;
    static constexpr double kFloorM = 0.22;
    static constexpr double kBeltM = 0.92;
    double roof_near = 0.0, roof_far = 0.0, belt_far = 0.0;

    explicit Body(const Car& car)
        : left(car.x_m - kCarWidthM / 2),
          right(car.x_m + kCarWidthM / 2),
          near(car.z_m),
          far(car.z_m + kCarLengthM) {
        roof_near = near + 0.75;
        roof_far = near + 2.5;
        belt_far = near + 3.4;
    }
};

}  // namespace

cv::Rect2d body_extent(const Scene& scene, const Car& car) {
    const Body b(car);
    if (b.far <= kNearestM + 0.5) {
        return {};
    }
    double x0 = 1e9;
    double y0 = 1e9;
    double x1 = -1e9;
    double y1 = -1e9;
    const auto reach = [&](double x_m, double up_m, double z_m) {
        const cv::Point2d p = scene.project(x_m, up_m, std::max(z_m, kNearestM));
        x0 = std::min(x0, p.x);
        x1 = std::max(x1, p.x);
        y0 = std::min(y0, p.y);
        y1 = std::max(y1, p.y);
    };
    for (const double x : {b.left, b.right}) {
        reach(x, 0.0, b.near + 0.1);  // rear tyres
        reach(x, Body::kBeltM, b.near);
        reach(x, Body::kBeltM, b.far);
        reach(x * 0.78 + car.x_m * 0.22, kCarHeightM, b.roof_near);
        reach(x * 0.78 + car.x_m * 0.22, kCarHeightM, b.roof_far);
    }
    return {x0, y0, x1 - x0, y1 - y0};
}

void draw_car(cv::Mat& bgr, const Scene& scene, const Car& car) {
    const Body b(car);
    if (body_extent(scene, car).empty()) {
        return;
    }
    const double x = car.x_m;
    const double roof_left = b.left * 0.78 + x * 0.22;
    const double roof_right = b.right * 0.78 + x * 0.22;
    constexpr double kTop = kCarHeightM;
    constexpr double kBelt = Body::kBeltM;
    constexpr double kFloor = Body::kFloorM;
    const cv::Scalar glass(58, 50, 44);

    fill<4>(bgr, scene,
            {{{b.left - 0.12, 0, b.near - 0.25},
              {b.right + 0.12, 0, b.near - 0.25},
              {b.right + 0.12, 0, b.far},
              {b.left - 0.12, 0, b.far}}},
            {40, 37, 36});

    // The flank that faces the camera, for a car to the side.
    const bool see_right = b.right < scene.ego_x_m;
    if (see_right || b.left > scene.ego_x_m) {
        const double flank = see_right ? b.right : b.left;
        const double roof = see_right ? roof_right : roof_left;
        fill<4>(bgr, scene,
                {{{flank, kFloor, b.near},
                  {flank, kFloor, b.far},
                  {flank, 0.72, b.far},
                  {flank, kBelt, b.near}}},
                shade(car.paint, 0.72));
        fill<4>(bgr, scene,
                {{{flank, kBelt, b.near + 0.2},
                  {roof, kTop, b.roof_near},
                  {roof, kTop, b.roof_far},
                  {flank, 0.86, b.belt_far}}},
                shade(car.paint, 0.66));
        fill<4>(bgr, scene,
                {{{flank, kBelt + 0.04, b.near + 0.6},
                  {roof, kTop - 0.08, b.roof_near + 0.2},
                  {roof, kTop - 0.08, b.roof_far - 0.1},
                  {flank, 0.92, b.belt_far - 0.4}}},
                glass);
        wheel(bgr, scene, flank, b.near + 0.85);
        wheel(bgr, scene, flank, b.far - 0.85);
    }
    fill<4>(bgr, scene,
            {{{roof_left, kTop, b.roof_near},
              {roof_right, kTop, b.roof_near},
              {roof_right, kTop, b.roof_far},
              {roof_left, kTop, b.roof_far}}},
            shade(car.paint, 1.05));

    if (b.near < kNearestM) {
        return;  // the rear is next to or behind the camera
    }
    for (const double side : {-1.0, 1.0}) {
        const double outer = x + side * 0.84;
        const double inner = x + side * 0.60;
        fill<4>(bgr, scene,
                {{{outer, 0, b.near + 0.1},
                  {inner, 0, b.near + 0.1},
                  {inner, 0.34, b.near + 0.1},
                  {outer, 0.34, b.near + 0.1}}},
                {22, 20, 20});
    }
    fill<4>(bgr, scene,
            {{{b.left, kFloor, b.near},
              {b.right, kFloor, b.near},
              {b.right, kBelt, b.near},
              {b.left, kBelt, b.near}}},
            shade(car.paint, 0.9));
    fill<4>(bgr, scene,
            {{{b.left, kFloor, b.near},
              {b.right, kFloor, b.near},
              {b.right, 0.44, b.near},
              {b.left, 0.44, b.near}}},
            shade(car.paint, 0.62));
    fill<4>(bgr, scene,
            {{{b.left + 0.06, kBelt, b.near},
              {b.right - 0.06, kBelt, b.near},
              {roof_right, kTop, b.roof_near},
              {roof_left, kTop, b.roof_near}}},
            shade(car.paint, 0.82));
    fill<4>(bgr, scene,
            {{{b.left + 0.2, kBelt + 0.03, b.near},
              {b.right - 0.2, kBelt + 0.03, b.near},
              {roof_right - 0.08, kTop - 0.07, b.roof_near},
              {roof_left + 0.08, kTop - 0.07, b.roof_near}}},
            glass);
    for (const double side : {-1.0, 1.0}) {
        const double outer = x + side * 0.87;
        const double inner = x + side * 0.60;
        fill<4>(bgr, scene,
                {{{outer, 0.64, b.near},
                  {inner, 0.64, b.near},
                  {inner, 0.83, b.near},
                  {outer, 0.83, b.near}}},
                {40, 34, 190});
    }
    fill<4>(bgr, scene,
            {{{x - 0.26, 0.5, b.near},
              {x + 0.26, 0.5, b.near},
              {x + 0.26, 0.63, b.near},
              {x - 0.26, 0.63, b.near}}},
            {206, 210, 212});
}

void draw_roadside(cv::Mat& bgr, const Scene& scene) {
    // A concrete barrier along the left verge, in segments so that it follows the bend.
    constexpr double kBarrierM = kLeftVergeM;
    constexpr double kBarrierHeightM = 0.85;
    for (double z = 150.0; z > 3.0;) {
        const double near = std::max(3.0, z * 0.72);
        fill<4>(bgr, scene,
                {{{kBarrierM, 0, near},
                  {kBarrierM, 0, z},
                  {kBarrierM, kBarrierHeightM, z},
                  {kBarrierM, kBarrierHeightM, near}}},
                {128, 134, 136});
        fill<4>(bgr, scene,
                {{{kBarrierM, 0, near},
                  {kBarrierM, 0, z},
                  {kBarrierM, 0.18, z},
                  {kBarrierM, 0.18, near}}},
                {84, 88, 90});
        z = near > 3.0 ? near : 0.0;
    }
    // Trees every few metres on both sides, each with its own appearance, and delineator posts on
    // the right.
    constexpr double kTreeStepM = 11.0;
    const double first = std::floor(scene.travelled_m / kTreeStepM);
    for (int i = 14; i >= 0; --i) {
        const double place = first + i;
        const double z = place * kTreeStepM - scene.travelled_m;
        if (z < 7.0) {
            continue;
        }
        const double mark = std::fmod(place * 0.61803398875, 1.0);
        for (const double side : {-1.0, 1.0}) {
            const double vary = std::fmod(mark * 7.3 + side * 0.31 + 1.0, 1.0);
            const double x = side > 0.0 ? 11.0 + 9.0 * vary : -17.0 - 12.0 * vary;
            const double height = 4.0 + 4.5 * std::fmod(vary * 3.7, 1.0);
            const cv::Point2d foot = scene.project(x, 0.0, z);
            const cv::Point2d top = scene.project(x, height, z);
            const double h = foot.y - top.y;
            if (foot.x < -h || foot.x > scene.size.width + h) {
                continue;
            }
            const double trunk = 0.12;
            fill<4>(bgr, scene,
                    {{{x - trunk, 0, z},
                      {x + trunk, 0, z},
                      {x + trunk, height * 0.5, z},
                      {x - trunk, height * 0.5, z}}},
                    {50, 62, 72});
            constexpr std::array<std::array<double, 4>, 4> kBlobs{{{0.0, 0.52, 0.27, 0.85},
                                                                   {-0.16, 0.62, 0.2, 1.0},
                                                                   {0.17, 0.66, 0.19, 0.92},
                                                                   {0.02, 0.8, 0.2, 1.12}}};
            for (const auto& blob : kBlobs) {
                const cv::Point at(static_cast<int>(foot.x + blob[0] * h),
                                   static_cast<int>(foot.y - blob[1] * h));
                const double light = blob[3] * (0.85 + 0.3 * vary);
                cv::circle(bgr, at, std::max(1, static_cast<int>(blob[2] * h)),
                           {44 * light, 84 * light, 60 * light}, cv::FILLED);
            }
        }
        if (z < 90.0) {
            constexpr double kPostM = kRightVergeM + 0.6;
            fill<4>(bgr, scene,
                    {{{kPostM - 0.06, 0, z},
                      {kPostM + 0.06, 0, z},
                      {kPostM + 0.06, 1.0, z},
                      {kPostM - 0.06, 1.0, z}}},
                    {214, 216, 216});
        }
    }
}

}  // namespace comp::synthetic
