// SPDX-License-Identifier: Apache-2.0
#include "frame_source.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <future>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>

#include "container.hpp"
#include "perception.hpp"

namespace comp {
namespace {

namespace fs = std::filesystem;

std::string describe(cv::Size size) {
    return std::to_string(size.width) + "x" + std::to_string(size.height);
}

// Base class of the sources, which stores their properties.
class StoredSource : public FrameSource {
public:
    [[nodiscard]] std::string name() const override { return name_; }
    [[nodiscard]] cv::Size size() const override { return size_; }
    [[nodiscard]] double fps() const override { return fps_; }
    [[nodiscard]] std::optional<std::int64_t> frame_count() const override { return frame_count_; }
    [[nodiscard]] const std::string& error() const override { return error_; }

protected:
    StoredSource(std::string name, cv::Size size, double fps,
                 std::optional<std::int64_t> frame_count)
        : name_(std::move(name)), size_(size), fps_(fps), frame_count_(frame_count) {}

    FrameStatus fail(std::string why) {
        error_ = std::move(why);
        return FrameStatus::failed;
    }

    // Moves a decoded frame into the caller's matrix. copyTo writes into the memory that the matrix
    // has, if its size and type are those of the frame.
    FrameStatus deliver(const cv::Mat& decoded, cv::Mat& bgr, std::int64_t index) {
        if (decoded.size() != size_) {
            return fail(name_ + ": frame " + std::to_string(index) + " is " +
                        describe(decoded.size()) + ", the source began with " + describe(size_) +
                        "; all frames must have one size");
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
            return fail(name_ + ": frame " + std::to_string(index) +
                        " has a pixel format other than 8 bits a channel; convert it to 8-bit BGR");
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

    // `first`: the first frame, already rotated; it was read to open the source. `turn`: rotation
    // of all frames.
    CaptureSource(Kind kind, std::string name, const cv::VideoCapture& capture, cv::Mat first,
                  double fps, std::optional<std::int64_t> frames, ContainerFacts container = {},
                  std::optional<int> turn = {})
        : StoredSource(std::move(name), first.size(), fps, frames),
          kind_(kind),
          capture_(capture),
          first_(std::move(first)),
          container_(container),
          turn_(turn),
          start_ms_(capture_.get(cv::CAP_PROP_POS_MSEC)),
          gap_ns_(std::llround(1e9 / fps)) {}

    [[nodiscard]] std::optional<std::int64_t> frame_time_ns() const override {
        return kind_ == Kind::file ? std::optional(time_ns_) : std::nullopt;
    }

    FrameStatus next(cv::Mat& bgr) override {
        if (!first_.empty()) {
            const FrameStatus status = deliver(first_, bgr, 0);
            first_.release();
            index_ = 1;
            return status;
        }
        if (turn_) {
            return turned(bgr);
        }
        // `decoded` shares the memory of the caller's matrix. Some backends decode into it. Others
        // replace its memory by their own, and deliver() copies the frame.
        cv::Mat decoded = bgr;
        try {
            if (!capture_.read(decoded) || decoded.empty()) {
                return stop();
            }
            update_time();
            return deliver(decoded, bgr, index_++);
        } catch (const cv::Exception& e) {
            ++index_;
            return fail(name() + ": frame " + std::to_string(index_ - 1) +
                        " cannot be decoded: " + e.what());
        }
    }

private:
    FrameStatus turned(cv::Mat& bgr) {
        try {
            if (!capture_.read(unturned_) || unturned_.empty()) {
                return stop();
            }
            update_time();
            cv::rotate(unturned_, turned_, *turn_);
            return deliver(turned_, bgr, index_++);
        } catch (const cv::Exception& e) {
            ++index_;
            return fail(name() + ": frame " + std::to_string(index_ - 1) +
                        " cannot be decoded: " + e.what());
        }
    }

    // Updates the time. The decoder reports no time for the last frames of a file: these keep the
    // previous gap.
    void update_time() {
        constexpr std::int64_t kLongestGap = 10'000'000'000;
        const double ms = capture_.get(cv::CAP_PROP_POS_MSEC) - start_ms_;
        const std::int64_t gap =
            std::isfinite(ms) && std::abs(ms) < 1e12 ? std::llround(ms * 1e6) - container_ns_ : 0;
        if (gap > 0) {
            container_ns_ += gap;
        }
        if (gap > 0 && gap <= kLongestGap) {
            gap_ns_ = gap;
        }
        time_ns_ += gap_ns_;
    }

    FrameStatus stop() {
        if (kind_ == Kind::device) {
            return fail(name() +
                        ": the device stopped delivering frames; check its cable and that no other "
                        "program uses it");
        }
        // The number of frames cannot show damage: containers estimate it, and edited files contain
        // frames that no player shows.
        if (container_.is_cut_off() && !std::exchange(reported_short_, true)) {
            return fail(name() + ": ends after " + std::to_string(index_) + " frames; it has " +
                        std::to_string(container_.size) + " of the " +
                        std::to_string(container_.stated_size) +
                        " bytes that its container states, so it is cut off or damaged");
        }
        return FrameStatus::end;
    }

    Kind kind_;
    cv::VideoCapture capture_;
    cv::Mat first_;  // read when opening, to determine the actual size
    ContainerFacts container_;
    std::optional<int> turn_;  // cv::RotateFlags
    cv::Mat unturned_, turned_;
    bool reported_short_ = false;
    std::int64_t index_ = 0;
    double start_ms_;                // time of the first frame in the container
    std::int64_t container_ns_ = 0;  // newest time in the container, relative to the first frame
    std::int64_t time_ns_ = 0;
    std::int64_t gap_ns_;  // between the newest two frames
};

class FolderSource final : public StoredSource {
public:
    FolderSource(std::string name, std::vector<fs::path> files, cv::Size size, double fps)
        : StoredSource(std::move(name), size, fps, static_cast<std::int64_t>(files.size())),
          files_(std::move(files)) {}

    FrameStatus next(cv::Mat& bgr) override {
        if (index_ >= files_.size()) {
            return FrameStatus::end;
        }
        const fs::path& file = files_[index_];
        const auto index = static_cast<std::int64_t>(index_++);
        try {
            const cv::Mat decoded = cv::imread(file.string(), cv::IMREAD_COLOR);
            if (decoded.empty()) {
                return fail(
                    file.string() +
                    ": cannot be read as an image; replace it or take it out of the folder");
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

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Compares names, with numbers in them by value: 2.jpg comes before 10.jpg.
bool comes_before(const std::string& a, const std::string& b) {
    std::size_t i = 0;
    std::size_t j = 0;
    while (i < a.size() && j < b.size()) {
        if (!is_digit(a[i]) || !is_digit(b[j])) {
            if (a[i] != b[j]) {
                return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
            }
            ++i;
            ++j;
            continue;
        }
        const auto number = [](const std::string& text, std::size_t& at) {
            while (at < text.size() && text[at] == '0') {
                ++at;
            }
            const std::size_t begin = at;
            while (at < text.size() && is_digit(text[at])) {
                ++at;
            }
            return std::string_view(text).substr(begin, at - begin);
        };
        const std::string_view x = number(a, i);
        const std::string_view y = number(b, j);
        if (x != y) {
            return x.size() != y.size() ? x.size() < y.size() : x < y;
        }
    }
    const bool a_ends = i == a.size();
    const bool b_ends = j == b.size();
    return a_ends != b_ends ? a_ends : a < b;  // 1.jpg and 01.jpg
}

std::unique_ptr<FrameSource> open_folder(const std::string& spec, double fps) {
    static constexpr std::array<std::string_view, 9> kImages{
        ".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".webp"};
    std::vector<fs::path> files;
    std::error_code trouble;
    for (fs::directory_iterator it(spec, trouble), end; !trouble && it != end;
         it.increment(trouble)) {
        std::string extension = it->path().extension().string();
        std::transform(extension.begin(), extension.end(), extension.begin(),
                       [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        if (std::find(kImages.begin(), kImages.end(), extension) != kImages.end()) {
            files.push_back(it->path());
        }
    }
    if (trouble) {
        throw VisionError(spec + ": the folder cannot be listed: " + trouble.message());
    }
    if (files.empty()) {
        throw VisionError(
            spec +
            ": the folder holds no image (png, jpg, jpeg, bmp, ppm, pgm, tif, tiff or webp)");
    }
    if (!(fps > 0.0)) {
        throw VisionError(spec + ": an image folder needs a frame rate above 0, folder_fps is " +
                          std::to_string(fps));
    }
    std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
        return comes_before(a.filename().string(), b.filename().string());
    });
    cv::Mat first;
    try {
        first = cv::imread(files.front().string(), cv::IMREAD_COLOR);
    } catch (const cv::Exception&) {
        first.release();  // reported with the file's name below
    }
    if (first.empty()) {
        throw VisionError(files.front().string() +
                          ": cannot be read as an image; replace it or take it out of the folder");
    }
    return std::make_unique<FolderSource>(spec, std::move(files), first.size(), fps);
}

std::unique_ptr<FrameSource> open_device(const std::string& spec, int index,
                                         const FrameSourceOptions& options) {
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
        throw VisionError("camera device " + spec +
                          ": cannot be opened or delivers no frame; check that /dev/video" + spec +
                          " exists, that this user may read it and that no other program uses it");
    }
    const double offered = capture.get(cv::CAP_PROP_FPS);
    const double fps = std::isfinite(offered) && offered > 0.0 ? offered : 30.0;
    return std::make_unique<CaptureSource>(CaptureSource::Kind::device, "camera device " + spec,
                                           capture, first, fps, std::nullopt, ContainerFacts{},
                                           std::nullopt);
}

std::unique_ptr<FrameSource> open_video(const std::string& spec) {
    const ContainerFacts container = read_container(spec);
    std::optional<int> turn;
    cv::VideoCapture capture;
    cv::Mat first;
    std::string why;
    try {
        if (capture.open(spec)) {
            // Some releases of OpenCV rotate images in the wrong direction, so rotation is done
            // here. If OpenCV's own rotation cannot be switched off, it is used instead.
            if (container.rotation != 0 && capture.set(cv::CAP_PROP_ORIENTATION_AUTO, 0)) {
                turn = container.rotation == 90    ? cv::ROTATE_90_CLOCKWISE
                       : container.rotation == 180 ? cv::ROTATE_180
                                                   : cv::ROTATE_90_COUNTERCLOCKWISE;
            }
            capture.read(first);
            if (turn && !first.empty()) {
                cv::rotate(first.clone(), first, *turn);
            }
        }
    } catch (const cv::Exception& e) {
        why = std::string(" (") + e.what() + ")";
        first.release();
    }
    if (first.empty()) {
        throw VisionError(
            spec + ": cannot be read as a video, or holds no frame" + why +
            "; check the file with ffprobe, and that OpenCV was built with its codec");
    }
    const double stated = capture.get(cv::CAP_PROP_FPS);
    const double fps = std::isfinite(stated) && stated > 0.0 && stated <= 1000.0 ? stated : 25.0;
    const double frames = capture.get(cv::CAP_PROP_FRAME_COUNT);
    std::optional<std::int64_t> count;
    if (container.counts_frames && std::isfinite(frames) && frames >= 1.0) {
        count = static_cast<std::int64_t>(frames);
    }
    return std::make_unique<CaptureSource>(CaptureSource::Kind::file, spec, capture, first, fps,
                                           count, container, turn);
}

std::unique_ptr<FrameSource> open_once(const std::string& spec, const FrameSourceOptions& options) {
    static constexpr std::string_view kSynthetic = "synthetic";
    if (spec.empty()) {
        throw VisionError(
            "no frame source given; use \"synthetic\", a video file, a folder of images or a "
            "camera index");
    }
    if (spec == kSynthetic) {
        return std::make_unique<SyntheticSource>(options.synthetic, std::nullopt);
    }
    if (spec.starts_with(kSynthetic) && spec[kSynthetic.size()] == ':') {
        const auto frames = parse_count(std::string_view(spec).substr(kSynthetic.size() + 1));
        if (!frames || *frames == 0) {
            throw VisionError(
                spec +
                ": after \"synthetic:\" comes a number of frames above 0, such as synthetic:250");
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
    throw VisionError(
        spec + ": no such file or folder (looked from " + fs::current_path(trouble).string() +
        "); a source is \"synthetic\", a video file, a folder of images or a camera index");
}

// Opens a source again at its end. A pass is never empty: opening reads a frame, and a synthetic
// drive has at least one.
class LoopedSource final : public FrameSource {
public:
    LoopedSource(std::string spec, const FrameSourceOptions& options,
                 std::unique_ptr<FrameSource> source)
        : spec_(std::move(spec)),
          options_(options),
          source_(std::move(source)),
          gap_ns_(std::llround(1e9 / source_->fps())) {}

    [[nodiscard]] std::string name() const override { return source_->name(); }
    [[nodiscard]] cv::Size size() const override { return source_->size(); }
    [[nodiscard]] double fps() const override { return source_->fps(); }
    [[nodiscard]] std::optional<std::int64_t> frame_count() const override { return std::nullopt; }
    [[nodiscard]] const std::string& error() const override {
        return error_.empty() ? source_->error() : error_;
    }
    [[nodiscard]] std::optional<std::int64_t> frame_time_ns() const override {
        return source_->frame_time_ns() ? std::optional(time_ns_) : std::nullopt;
    }

    FrameStatus next(cv::Mat& bgr) override {
        if (!error_.empty()) {
            return FrameStatus::end;
        }
        FrameStatus status = source_->next(bgr);
        if (status == FrameStatus::end) {
            if (!reopen()) {
                return FrameStatus::failed;
            }
            status = source_->next(bgr);
        }
        if (status == FrameStatus::frame) {
            ++frames_;
            open_ahead();
        }
        if (const auto time = source_->frame_time_ns(); status == FrameStatus::frame && time) {
            const std::int64_t now = pass_start_ns_ + *time;
            if (now > time_ns_) {
                gap_ns_ = now - time_ns_;
            }
            time_ns_ = now;
        }
        return status;
    }

private:
    // Opening a video takes longer than a frame lasts. In the last second of a pass, a thread opens
    // it for the next pass.
    void open_ahead() {
        const auto count = source_->frame_count();
        if (ahead_.valid() || !source_->frame_time_ns() || !count ||
            *count - frames_ > std::llround(source_->fps())) {
            return;
        }
        try {
            ahead_ = std::async(std::launch::async, [this] { return open_once(spec_, options_); });
        } catch (const std::system_error&) {
            // Without a thread, reopen() opens it.
        }
    }

    bool reopen() {
        try {
            auto source = ahead_.valid() ? ahead_.get() : open_once(spec_, options_);
            if (source->size() != source_->size()) {
                error_ = spec_ + ": began with " + describe(source_->size()) + ", now it has " +
                         describe(source->size()) + "; do not replace it during the run";
                return false;
            }
            source_ = std::move(source);
        } catch (const VisionError& e) {
            error_ = e.what();
            return false;
        }
        pass_start_ns_ = time_ns_ + gap_ns_;
        frames_ = 0;
        return true;
    }

    std::string spec_;
    FrameSourceOptions options_;
    std::unique_ptr<FrameSource> source_;
    std::string error_;
    std::int64_t pass_start_ns_ = 0;
    std::int64_t time_ns_ = 0;  // of the newest frame, over all passes
    std::int64_t gap_ns_;       // between the newest two frames
    std::int64_t frames_ = 0;   // of this pass
    // The last member: its destructor waits for the thread, which reads the others.
    std::future<std::unique_ptr<FrameSource>> ahead_;
};

}  // namespace

std::unique_ptr<FrameSource> open_frame_source(const std::string& spec,
                                               const FrameSourceOptions& options) {
    auto source = open_once(spec, options);
    // A device has neither a count nor frame times, and its end is a failure.
    if (!options.loop || !(source->frame_count() || source->frame_time_ns())) {
        return source;
    }
    return std::make_unique<LoopedSource>(spec, options, std::move(source));
}

}  // namespace comp
