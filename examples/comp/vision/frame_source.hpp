// SPDX-License-Identifier: Apache-2.0
// Where frames come from: a video file, a folder of images, a
// camera device, or the synthetic drive, behind one interface.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <opencv2/core.hpp>

#include "synthetic_drive.hpp"

namespace comp {

enum class FrameStatus {
    frame,   // a frame was written
    end,     // the source has no more frames
    failed,  // this frame could not be read: see error(); reading on is allowed and bounded by the
             // source's length
};

struct FrameSourceOptions {
    SyntheticDriveOptions synthetic;
    double folder_fps = 25.0;  // image folders carry no rate of their own
    double device_fps = 0.0;   // asked of the camera; 0: what it offers
    cv::Size device_size;      // asked of the camera; empty: what it offers
    bool loop = false;         // start a file, folder or counted synthetic drive again at its end
};

// Not thread-safe: one reader at a time.
class FrameSource {
public:
    virtual ~FrameSource() = default;
    FrameSource(const FrameSource&) = delete;
    FrameSource& operator=(const FrameSource&) = delete;

    // Reads the next frame as BGR, 8 bits a channel. A `bgr` that already has size() and CV_8UC3 is
    // written in place (any row step): hand in a view onto the destination and nothing else is
    // allocated for it. Otherwise `bgr` is reallocated. Files block for the decoder, a device until
    // it delivers a frame. Does not throw.
    virtual FrameStatus next(cv::Mat& bgr) = 0;

    [[nodiscard]] virtual std::string name() const = 0;
    [[nodiscard]] virtual cv::Size size() const = 0;  // the same for all frames
    [[nodiscard]] virtual double fps() const = 0;     // > 0; of a video the mean
    // Time of the frame that next() delivered last, since the first one. Empty: frames are 1/fps()
    // apart. Of a video it never falls; a frame without a time of its own is as far from the one
    // before as that was, and a leap of more than 10 s is taken as one of the clock.
    [[nodiscard]] virtual std::optional<std::int64_t> frame_time_ns() const { return std::nullopt; }
    // As the folder says, or a container that counts; a video may hold a few frames fewer. Empty:
    // endless or unknown.
    [[nodiscard]] virtual std::optional<std::int64_t> frame_count() const = 0;
    // Why the last next() failed, with file and frame.
    [[nodiscard]] virtual const std::string& error() const = 0;

protected:
    FrameSource() = default;
};

// Opens a source from one word:
//   "synthetic"       the synthetic drive, endless
//   "synthetic:250"   its first 250 frames
//   "0", "1", ...     camera device with that index
//   a directory       its images (png, jpg, jpeg, bmp, ppm, pgm, tif, tiff, webp) in name order,
//   numbers by their value, all of one size a file            a video, turned as its metadata say
//   (mp4 and mov), each frame with the time that it has in the file
// With options.loop, frame times go on over the seam: the first frame of a pass follows the last
// one of the pass before at the distance of the last two. A source that cannot be opened again
// fails once, then ends. Endless sources and devices are not changed by it.
// Throws VisionError, naming the word and the remedy, when it cannot be opened or holds no frame.
std::unique_ptr<FrameSource> open_frame_source(const std::string& spec,
                                               const FrameSourceOptions& options = {});

}  // namespace comp
