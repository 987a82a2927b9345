// SPDX-License-Identifier: Apache-2.0
// Frames with AprilTags of the family 36h11, rendered before the run: turned, tilted, of different
// sizes, on a noisy background. Sample n is frame n modulo `frames`, so that a sample costs only a
// copy, as from a camera's memory.
//
// Parameters: `frames`, `width`, `height`, `channels` (1 grey, 3 BGR), `tags` (in each frame, at
// most 12), `noise` (grey levels in both directions).
#include <apriltag/apriltag.h>
#include <apriltag/tag36h11.h>

#include <cmath>
#include <cstdlib>
#include <numbers>
#include <random>

#include "frame.hpp"

namespace {

struct Family {
    Family() : family(tag36h11_create()) {}
    ~Family() { tag36h11_destroy(family); }
    Family(const Family&) = delete;
    Family& operator=(const Family&) = delete;
    apriltag_family_t* family;
};

/// Debian's library does not export its own image_u8_destroy().
struct Freed {
    void operator()(image_u8_t* image) const {
        std::free(image->buf);
        std::free(image);
    }
};

struct Picture {
    std::unique_ptr<image_u8_t, Freed> image;
    /// Returns the grey value of the tag at a place in [0, 1)², without interpolation.
    int at(double u, double v) const {
        const int x = static_cast<int>(u * image->width), y = static_cast<int>(v * image->height);
        return image->buf[y * image->stride + x];
    }
};

class TagSource {
public:
    explicit TagSource(const work::Parameters& parameters)
        : width_(parameters.get<std::uint32_t>("width", 640, 64, 8192)),
          height_(parameters.get<std::uint32_t>("height", 480, 64, 8192)),
          channels_(parameters.get<std::uint32_t>("channels", 3, 1, 3)),
          tags_(parameters.get<std::uint32_t>("tags", 4, 0, tags::most_tags)),
          noise_(parameters.get<int>("noise", 8, 0, 100)) {
        if (channels_ == 2)
            throw std::runtime_error(
                "the parameter 'channels' is 2: frames are grey (1) or BGR (3)");
        const auto count = parameters.get<std::size_t>("frames", 16, 1, 1000);
        for (std::size_t i = 0; i < count; ++i) render();
    }

    std::optional<std::size_t> process(work_call& call) {
        const auto& frame = frames_[call.origin % frames_.size()];
        work::Writer out(call);
        out.value(frame.head);
        out.values(std::span<const unsigned char>(frame.pixels));
        return out.written();
    }

    work::Report report() const { return {{"frames", frames_.size()}}; }

private:
    struct Frame {
        tags::FrameHead head;
        std::vector<unsigned char> pixels;
    };

    // Distributions differ between standard libraries; this function does not.
    double share() { return static_cast<double>(random_()) / 4294967296.0; }

    void render() {
        std::vector<double> grey(std::size_t{width_} * height_);
        for (std::uint32_t y = 0; y < height_; ++y) {
            for (std::uint32_t x = 0; x < width_; ++x)
                grey[y * width_ + x] = 110 + 60.0 * x / width_ - 40.0 * y / height_;
        }
        Frame frame{{width_, height_, channels_, tags_, {}},
                    std::vector<unsigned char>(grey.size() * channels_)};
        for (std::uint32_t i = 0; i < tags_; ++i) frame.head.ids[i] = draw_tag(grey, i);
        for (std::size_t p = 0; p < grey.size(); ++p) {
            for (std::uint32_t c = 0; c < channels_; ++c) {
                const double level = grey[p] + noise_ * (2 * share() - 1);
                frame.pixels[p * channels_ + c] =
                    static_cast<unsigned char>(std::clamp(level, 0.0, 255.0));
            }
        }
        frames_.push_back(std::move(frame));
    }

    /// Draws a tag, turned and tilted, in its own cell of a grid. Returns the number of the tag in
    /// its family.
    std::uint32_t draw_tag(std::vector<double>& grey, std::uint32_t index) {
        const auto columns = static_cast<std::uint32_t>(std::ceil(std::sqrt(tags_)));
        const auto rows = (tags_ + columns - 1) / columns;
        const double cell = std::min(width_ / columns, height_ / rows);
        const double size = cell * (0.42 + 0.2 * share()), angle = 2 * std::numbers::pi * share(),
                     tilt = 0.7 + 0.3 * share();
        const double cx =
            (index % columns + 0.5) * width_ / columns + 0.08 * cell * (share() - 0.5);
        const double cy = (index / columns + 0.5) * height_ / rows + 0.08 * cell * (share() - 0.5);
        const auto id = static_cast<std::uint32_t>(share() * family_.family->ncodes);
        const Picture tag{std::unique_ptr<image_u8_t, Freed>(
            apriltag_to_image(family_.family, static_cast<int>(id)))};
        const double c = std::cos(angle), s = std::sin(angle);
        const double reach = size * 0.75;
        const auto low = [](double v) { return static_cast<std::uint32_t>(std::max(0.0, v)); };
        constexpr int sub = 3;
        for (auto y = low(cy - reach); y < std::min(static_cast<double>(height_), cy + reach);
             ++y) {
            for (auto x = low(cx - reach); x < std::min(static_cast<double>(width_), cx + reach);
                 ++x) {
                double sum = 0;
                int covered = 0;
                for (int k = 0; k < sub * sub; ++k) {
                    const double dx = x + (k % sub + 0.5) / sub - cx,
                                 dy = y + (k / sub + 0.5) / sub - cy;
                    const double u = (c * dx + s * dy) / size + 0.5,
                                 v = (-s * dx + c * dy) / (size * tilt) + 0.5;
                    if (u < 0 || u >= 1 || v < 0 || v >= 1) continue;
                    // Neither black nor white, as if printed on paper.
                    sum += 20 + 200.0 * tag.at(u, v) / 255;
                    ++covered;
                }
                auto& pixel = grey[y * width_ + x];
                pixel = (sum + pixel * (sub * sub - covered)) / (sub * sub);
            }
        }
        return id;
    }

    Family family_;
    std::mt19937 random_{36};
    std::uint32_t width_, height_, channels_, tags_;
    int noise_;
    std::vector<Frame> frames_;
};

}  // namespace

WORK(TagSource)
