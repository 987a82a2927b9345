// SPDX-License-Identifier: Apache-2.0
#include "frame_source.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>

#include "perception.hpp"

namespace comp {
namespace {

namespace fs = std::filesystem;

std::string describe(cv::Size size) { return std::to_string(size.width) + "x" + std::to_string(size.height); }

// Base of the sources that keep their facts in fields.
class StoredSource : public FrameSource {
 public:
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] cv::Size size() const override { return size_; }
  [[nodiscard]] double fps() const override { return fps_; }
  [[nodiscard]] std::optional<std::int64_t> frame_count() const override { return frame_count_; }
  [[nodiscard]] const std::string& error() const override { return error_; }

 protected:
  StoredSource(std::string name, cv::Size size, double fps, std::optional<std::int64_t> frame_count)
      : name_(std::move(name)), size_(size), fps_(fps), frame_count_(frame_count) {}

  FrameStatus fail(std::string why) {
    error_ = std::move(why);
    return FrameStatus::failed;
  }

  // Moves a decoded frame into the caller's matrix. copyTo keeps a matching destination's memory.
  FrameStatus deliver(const cv::Mat& decoded, cv::Mat& bgr, std::int64_t index) {
    if (decoded.size() != size_) {
      return fail(name_ + ": frame " + std::to_string(index) + " is " + describe(decoded.size()) + ", the source began with " +
                  describe(size_) + "; all frames must have one size");
    }
    if (decoded.type() == CV_8UC3) {
      if (decoded.data != bgr.data) {
        decoded.copyTo(bgr);
      }
    } else if (decoded.type() == CV_8UC1) {
      cv::cvtColor(decoded, bgr, cv::COLOR_GRAY2BGR);
    } else if (decoded.type() == CV_8UC4) {
      cv::cvtColor(decoded, bgr, cv::COLOR_BGRA2BGR);
    } else {
      return fail(name_ + ": frame " + std::to_string(index) + " has a pixel format other than 8 bits a channel; convert it to 8-bit BGR");
    }
    return FrameStatus::frame;
  }

 private:
  std::string name_;
  cv::Size size_;
  double fps_;
  std::optional<std::int64_t> frame_count_;
  std::string error_;
};

class SyntheticSource final : public StoredSource {
 public:
  SyntheticSource(const SyntheticDriveOptions& options, std::optional<std::int64_t> frames)
      : StoredSource("synthetic drive", options.size, options.fps, frames), drive_(options) {}

  FrameStatus next(cv::Mat& bgr) override {
    if (frame_count() && index_ >= *frame_count()) {
      return FrameStatus::end;
    }
    drive_.render(index_++, bgr);
    return FrameStatus::frame;
  }

 private:
  SyntheticDrive drive_;
  std::int64_t index_ = 0;
};

class CaptureSource final : public StoredSource {
 public:
  enum class Kind { file, device };

  CaptureSource(Kind kind, std::string name, cv::VideoCapture capture, cv::Mat first, double fps, std::optional<std::int64_t> frames)
      : StoredSource(std::move(name), first.size(), fps, frames), kind_(kind), capture_(std::move(capture)), first_(std::move(first)) {}

  FrameStatus next(cv::Mat& bgr) override {
    if (!first_.empty()) {
      const FrameStatus status = deliver(first_, bgr, 0);
      first_.release();
      index_ = 1;
      return status;
    }
    // Decoding goes through a header of the caller's matrix: a backend that writes in place does, one that hands out its
    // own memory is copied from by deliver().
    cv::Mat decoded = bgr;
    try {
      if (!capture_.read(decoded) || decoded.empty()) {
        return stop();
      }
      return deliver(decoded, bgr, index_++);
    } catch (const cv::Exception& e) {
      ++index_;
      return fail(name() + ": frame " + std::to_string(index_ - 1) + " cannot be decoded: " + e.what());
    }
  }

 private:
  FrameStatus stop() {
    if (kind_ == Kind::device) {
      return fail(name() + ": the device stopped delivering frames; check its cable and that no other program uses it");
    }
    // Containers round their frame count; more than that missing is a damaged file, said once.
    constexpr std::int64_t kCountSlack = 2;
    if (frame_count() && index_ + kCountSlack < *frame_count() && !std::exchange(told_short_, true)) {
      return fail(name() + ": ends after " + std::to_string(index_) + " of " + std::to_string(*frame_count()) +
                  " frames; the file is cut off or damaged");
    }
    return FrameStatus::end;
  }

  Kind kind_;
  cv::VideoCapture capture_;
  cv::Mat first_;  // read while opening, to learn the true size
  bool told_short_ = false;
  std::int64_t index_ = 0;
};

class FolderSource final : public StoredSource {
 public:
  FolderSource(std::string name, std::vector<fs::path> files, cv::Size size, double fps)
      : StoredSource(std::move(name), size, fps, static_cast<std::int64_t>(files.size())), files_(std::move(files)) {}

  FrameStatus next(cv::Mat& bgr) override {
    if (index_ >= files_.size()) {
      return FrameStatus::end;
    }
    const fs::path& file = files_[index_];
    const auto index = static_cast<std::int64_t>(index_++);
    try {
      const cv::Mat decoded = cv::imread(file.string(), cv::IMREAD_COLOR);
      if (decoded.empty()) {
        return fail(file.string() + ": cannot be read as an image; replace it or take it out of the folder");
      }
      return deliver(decoded, bgr, index);
    } catch (const cv::Exception& e) {
      return fail(file.string() + ": cannot be read as an image: " + e.what());
    }
  }

 private:
  std::vector<fs::path> files_;
  std::size_t index_ = 0;
};

std::optional<std::int64_t> parse_count(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) {
    return std::nullopt;
  }
  return value;
}

std::unique_ptr<FrameSource> open_folder(const std::string& spec, double fps) {
  static constexpr std::array<std::string_view, 9> kImages{".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".webp"};
  std::vector<fs::path> files;
  std::error_code trouble;
  for (fs::directory_iterator it(spec, trouble), end; !trouble && it != end; it.increment(trouble)) {
    std::string extension = it->path().extension().string();
    std::transform(extension.begin(), extension.end(), extension.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (std::find(kImages.begin(), kImages.end(), extension) != kImages.end()) {
      files.push_back(it->path());
    }
  }
  if (trouble) {
    throw VisionError(spec + ": the folder cannot be listed: " + trouble.message());
  }
  if (files.empty()) {
    throw VisionError(spec + ": the folder holds no image (png, jpg, jpeg, bmp, ppm, pgm, tif, tiff or webp)");
  }
  if (!(fps > 0.0)) {
    throw VisionError(spec + ": an image folder needs a frame rate above 0, folder_fps is " + std::to_string(fps));
  }
  std::sort(files.begin(), files.end());
  cv::Mat first;
  try {
    first = cv::imread(files.front().string(), cv::IMREAD_COLOR);
  } catch (const cv::Exception&) {
    first.release();  // reported with the file's name below
  }
  if (first.empty()) {
    throw VisionError(files.front().string() + ": cannot be read as an image; replace it or take it out of the folder");
  }
  return std::make_unique<FolderSource>(spec, std::move(files), first.size(), fps);
}

std::unique_ptr<FrameSource> open_device(const std::string& spec, int index, const FrameSourceOptions& options) {
  cv::VideoCapture capture;
  cv::Mat first;
  try {
    if (capture.open(index)) {
      if (options.device_size.area() > 0) {
        capture.set(cv::CAP_PROP_FRAME_WIDTH, options.device_size.width);
        capture.set(cv::CAP_PROP_FRAME_HEIGHT, options.device_size.height);
      }
      if (options.device_fps > 0.0) {
        capture.set(cv::CAP_PROP_FPS, options.device_fps);
      }
      capture.read(first);
    }
  } catch (const cv::Exception&) {
    first.release();  // reported as a device that cannot be opened
  }
  if (first.empty()) {
    throw VisionError("camera device " + spec + ": cannot be opened or delivers no frame; check that /dev/video" + spec +
                      " exists, that this user may read it and that no other program uses it");
  }
  const double offered = capture.get(cv::CAP_PROP_FPS);
  const double fps = std::isfinite(offered) && offered > 0.0 ? offered : 30.0;
  return std::make_unique<CaptureSource>(CaptureSource::Kind::device, "camera device " + spec, std::move(capture), first, fps, std::nullopt);
}

std::unique_ptr<FrameSource> open_video(const std::string& spec) {
  cv::VideoCapture capture;
  cv::Mat first;
  std::string why;
  try {
    if (capture.open(spec)) {
      capture.read(first);
    }
  } catch (const cv::Exception& e) {
    why = std::string(" (") + e.what() + ")";
    first.release();
  }
  if (first.empty()) {
    throw VisionError(spec + ": cannot be read as a video, or holds no frame" + why +
                      "; check the file with ffprobe, and that OpenCV was built with its codec");
  }
  const double told = capture.get(cv::CAP_PROP_FPS);
  const double fps = std::isfinite(told) && told > 0.0 && told <= 1000.0 ? told : 25.0;
  const double frames = capture.get(cv::CAP_PROP_FRAME_COUNT);
  std::optional<std::int64_t> count;  // a stream file without an index says 0 or less
  if (std::isfinite(frames) && frames >= 1.0) {
    count = static_cast<std::int64_t>(frames);
  }
  return std::make_unique<CaptureSource>(CaptureSource::Kind::file, spec, std::move(capture), first, fps, count);
}

}  // namespace

std::unique_ptr<FrameSource> open_frame_source(const std::string& spec, const FrameSourceOptions& options) {
  static constexpr std::string_view kSynthetic = "synthetic";
  if (spec.empty()) {
    throw VisionError("no frame source given; use \"synthetic\", a video file, a folder of images or a camera index");
  }
  if (spec == kSynthetic) {
    return std::make_unique<SyntheticSource>(options.synthetic, std::nullopt);
  }
  if (spec.starts_with(kSynthetic) && spec[kSynthetic.size()] == ':') {
    const auto frames = parse_count(std::string_view(spec).substr(kSynthetic.size() + 1));
    if (!frames || *frames == 0) {
      throw VisionError(spec + ": after \"synthetic:\" comes a number of frames above 0, such as synthetic:250");
    }
    return std::make_unique<SyntheticSource>(options.synthetic, frames);
  }
  std::error_code trouble;
  const fs::file_status status = fs::status(spec, trouble);
  if (fs::is_directory(status)) {
    return open_folder(spec, options.folder_fps);
  }
  if (fs::exists(status)) {
    return open_video(spec);
  }
  if (const auto index = parse_count(spec); index && *index < 1000) {
    return open_device(spec, static_cast<int>(*index), options);
  }
  throw VisionError(spec + ": no such file or folder (looked from " + fs::current_path(trouble).string() +
                    "); a source is \"synthetic\", a video file, a folder of images or a camera index");
}

}  // namespace comp
