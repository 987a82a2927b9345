// SPDX-License-Identifier: Apache-2.0
// Sources of frames: a video file, a folder of images, a camera device, or the synthetic drive,
// with one interface.
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
    failed,  // this frame could not be read, see error(); a further next() tries the frame after
             // it. A device may fail at every call
};

struct FrameSourceOptions {
    SyntheticDriveOptions synthetic;
    double folder_fps = 25.0;  // image folders contain no rate
    double device_fps = 0.0;   // requested from the camera; 0: the camera's default
    cv::Size device_size;      // requested from the camera; empty: the camera's default
    bool loop = false;         // restarts a file, folder or counted synthetic drive at its end
};

// Not thread-safe.
class FrameSource {
public:
    virtual ~FrameSource() = default;
    FrameSource(const FrameSource&) = delete;
    FrameSource& operator=(const FrameSource&) = delete;

    // Reads the next frame as BGR with 8 bits per channel. If `bgr` already has size() and CV_8UC3,
    // it is written in place (any row step), so a view of the destination avoids an allocation.
    // Otherwise `bgr` is reallocated. Blocks until the decoder or the device delivers the frame.
    // Does not throw.
    virtual FrameStatus next(cv::Mat& bgr) = 0;

    [[nodiscard]] virtual std::string name() const = 0;
    [[nodiscard]] virtual cv::Size size() const = 0;  // the same for all frames
    [[nodiscard]] virtual double fps() const = 0;     // > 0; for a video the mean rate
    // Time of the frame that next() delivered last, relative to the first frame. Empty: frames are
    // 1/fps() apart. The times of a video never decrease. A frame without a time follows after the
    // previous gap. A gap of more than 10 s is treated as a step of the clock.
    [[nodiscard]] virtual std::optional<std::int64_t> frame_time_ns() const { return std::nullopt; }
    // Number of frames of the folder or of "synthetic:N", or as stated by the container; a video
    // may have a few frames less. Empty: endless or unknown.
    [[nodiscard]] virtual std::optional<std::int64_t> frame_count() const = 0;
    // Reason why the last next() failed, with file and frame.
    [[nodiscard]] virtual const std::string& error() const = 0;

protected:
    FrameSource() = default;
};

// Opens a source by its specification:
//   "synthetic"       the synthetic drive, endless
//   "synthetic:250"   its first 250 frames
//   "0", "1", ...     camera device with that index
//   a directory       its images (png, jpg, jpeg, bmp, ppm, pgm, tif, tiff, webp), all of one size,
//                     sorted by name, with numbers in names compared by their value
//   a file            a video, rotated by its metadata (mp4 and mov); each frame has the time
//                     that it has in the file
//
// With options.loop, frame times continue after the end of a pass: the next frame follows after the
// gap between the last two frames. A thread of its own opens a video again during the last second
// of a pass. If the source cannot be opened again, next() fails once and then
// returns the end. The option does not change endless sources and devices.
//
// Throws VisionError if the source cannot be opened or has no frame. The text names the source and
// the remedy.
std::unique_ptr<FrameSource> open_frame_source(const std::string& spec,
                                               const FrameSourceOptions& options = {});

}  // namespace comp
