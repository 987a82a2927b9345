// SPDX-License-Identifier: Apache-2.0
#include "frame_source.hpp"

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <opencv2/imgcodecs.hpp>
#include <opencv2/videoio.hpp>

#include "test_support.hpp"

namespace comp {
namespace {

using test::ScratchFolder;
using test::vision_error;

bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

int count_frames(FrameSource& source) {
    cv::Mat frame;
    int frames = 0;
    while (source.next(frame) == FrameStatus::frame) {
        ++frames;
    }
    return frames;
}

void write_video(const std::string& path, int frames) {
    cv::VideoWriter writer(path, cv::VideoWriter::fourcc('M', 'J', 'P', 'G'), 20.0, {320, 180});
    ASSERT_TRUE(writer.isOpened());
    for (int i = 0; i < frames; ++i) {
        writer.write(cv::Mat(180, 320, CV_8UC3, cv::Scalar::all(10 * i)));
    }
}

TEST(FrameSource, SyntheticEndsAfterItsCount) {
    const auto source = open_frame_source("synthetic:4");
    EXPECT_EQ(source->frame_count(), 4);
    EXPECT_EQ(source->size(), cv::Size(960, 540));
    EXPECT_EQ(source->fps(), 25.0);
    EXPECT_EQ(count_frames(*source), 4);
    cv::Mat frame;
    EXPECT_EQ(source->next(frame), FrameStatus::end) << "the end is final";
}

TEST(FrameSource, SyntheticWithoutCountIsEndless) {
    EXPECT_FALSE(open_frame_source("synthetic")->frame_count().has_value());
}

TEST(FrameSource, VideoIsReadIntoTheCallersMemory) {
    const ScratchFolder scratch;
    write_video(scratch.file("clip.avi"), 9);
    const auto source = open_frame_source(scratch.file("clip.avi"));
    EXPECT_EQ(source->size(), cv::Size(320, 180));
    EXPECT_DOUBLE_EQ(source->fps(), 20.0);
    EXPECT_EQ(source->frame_count(), 9);
    cv::Mat memory(180, 350, CV_8UC3);
    cv::Mat view = memory.colRange(0, 320);
    const auto* data = view.data;
    for (int i = 0; i < 9; ++i) {
        ASSERT_EQ(source->next(view), FrameStatus::frame) << source->error();
        EXPECT_EQ(view.data, data) << "frame " << i << " was put elsewhere";
        EXPECT_NEAR(cv::mean(view)[0], 10.0 * i, 6.0) << "frame " << i;
    }
    EXPECT_EQ(source->next(view), FrameStatus::end);
}

TEST(FrameSource, CutOffVideoIsReported) {
    const ScratchFolder scratch;
    write_video(scratch.file("whole.avi"), 60);
    std::ifstream in(scratch.file("whole.avi"), std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    bytes.resize(bytes.size() / 3);
    std::ofstream(scratch.file("cut.avi"), std::ios::binary) << bytes;
    std::unique_ptr<FrameSource> source;
    try {
        source = open_frame_source(scratch.file("cut.avi"));
    } catch (const VisionError& e) {
        // Refusing the file when it is opened is correct, too.
        EXPECT_TRUE(holds(e.what(), "cut.avi"));
        return;
    }
    const int frames = count_frames(*source);
    EXPECT_LT(frames, 60);
    EXPECT_TRUE(holds(source->error(), "cut off")) << source->error();
    cv::Mat frame;
    EXPECT_EQ(source->next(frame), FrameStatus::end) << "reported once, then the end";
}

std::string test_video(const std::string& name) {
    return std::string(COMP_TEST_DATA_DIR) + "/" + name;
}

// 26 frames 40 ms apart, then 4 frames 200 ms apart. The Matroska container estimates 46 frames,
// the mp4 container a rate of 19.7 Hz.
TEST(FrameSource, FramesHaveTheTimesOfTheFileAndAWrongEstimatedCountIsNoError) {
    for (const char* name : {"vfr.mkv", "vfr.mp4"}) {
        const auto source = open_frame_source(test_video(name));
        cv::Mat frame;
        std::vector<std::int64_t> gaps_ms;
        std::int64_t before = 0;
        int frames = 0;
        for (; source->next(frame) == FrameStatus::frame; ++frames) {
            ASSERT_TRUE(source->frame_time_ns().has_value()) << name;
            if (frames > 0) gaps_ms.push_back((*source->frame_time_ns() - before) / 1'000'000);
            before = *source->frame_time_ns();
        }
        EXPECT_EQ(source->error(), "") << name;
        EXPECT_EQ(frames, 30) << name;
        std::vector<std::int64_t> wanted(25, 40);
        wanted.insert(wanted.end(), 4, 200);
        EXPECT_EQ(gaps_ms, wanted) << name;
    }
    EXPECT_FALSE(open_frame_source(test_video("vfr.mkv"))->frame_count().has_value());
    EXPECT_EQ(open_frame_source(test_video("vfr.mp4"))->frame_count(), 30);
}

std::unique_ptr<FrameSource> open_looped(const std::string& spec) {
    FrameSourceOptions options;
    options.loop = true;
    return open_frame_source(spec, options);
}

TEST(FrameSource, LoopedVideoStartsAgainAndItsTimesContinue) {
    const auto once = open_frame_source(test_video("vfr.mp4"));
    const auto source = open_looped(test_video("vfr.mp4"));
    EXPECT_FALSE(source->frame_count().has_value());
    EXPECT_EQ(source->size(), once->size());
    cv::Mat frame;
    std::vector<cv::Mat> pass;
    while (once->next(frame) == FrameStatus::frame) {
        pass.push_back(frame.clone());
    }
    std::vector<std::int64_t> gaps_ms;
    std::int64_t before = 0;
    for (std::size_t i = 0; i < 3 * pass.size(); ++i) {
        ASSERT_EQ(source->next(frame), FrameStatus::frame) << source->error();
        EXPECT_EQ(cv::norm(frame, pass[i % pass.size()], cv::NORM_INF), 0.0) << "frame " << i;
        ASSERT_TRUE(source->frame_time_ns().has_value());
        if (i > 0) gaps_ms.push_back((*source->frame_time_ns() - before) / 1'000'000);
        before = *source->frame_time_ns();
    }
    std::vector<std::int64_t> wanted;
    for (int i = 0; i < 3; ++i) {
        wanted.insert(wanted.end(), 25, 40);
        wanted.insert(wanted.end(), i == 2 ? 4 : 5, 200);  // the fifth gap is between two passes
    }
    EXPECT_EQ(gaps_ms, wanted);
}

TEST(FrameSource, LoopedSyntheticAndFolderStartAgain) {
    const ScratchFolder scratch;
    for (int i = 0; i < 3; ++i) {
        cv::imwrite(scratch.file(std::to_string(i) + ".png"),
                    cv::Mat(48, 64, CV_8UC3, cv::Scalar::all(100 + 20 * i)));
    }
    for (const std::string& spec : {std::string("synthetic:3"), scratch.path()}) {
        const auto source = open_looped(spec);
        EXPECT_FALSE(source->frame_count().has_value()) << spec;
        EXPECT_FALSE(source->frame_time_ns().has_value()) << spec;
        std::vector<cv::Mat> pass(3);
        for (auto& first : pass) {
            ASSERT_EQ(source->next(first), FrameStatus::frame) << spec;
        }
        cv::Mat frame;
        for (std::size_t i = 0; i < 7; ++i) {
            ASSERT_EQ(source->next(frame), FrameStatus::frame) << spec;
            EXPECT_EQ(cv::norm(frame, pass[i % 3], cv::NORM_INF), 0.0) << spec << ' ' << i;
        }
    }
}

TEST(FrameSource, LoopedSourceThatWasRemovedFailsOnceThenEnds) {
    const ScratchFolder scratch;
    cv::imwrite(scratch.file("only.png"), cv::Mat(48, 64, CV_8UC3, cv::Scalar::all(9)));
    const auto source = open_looped(scratch.path());
    cv::Mat frame;
    ASSERT_EQ(source->next(frame), FrameStatus::frame);
    ASSERT_EQ(source->next(frame), FrameStatus::frame);
    std::filesystem::remove(scratch.file("only.png"));
    ASSERT_EQ(source->next(frame), FrameStatus::failed);
    EXPECT_TRUE(holds(source->error(), "holds no image")) << source->error();
    EXPECT_EQ(source->next(frame), FrameStatus::end);
}

TEST(FrameSource, CutOffMatroskaIsReported) {
    const ScratchFolder scratch;
    std::ifstream in(test_video("vfr.mkv"), std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    std::ofstream(scratch.file("cut.mkv"), std::ios::binary)
        << bytes.substr(0, bytes.size() * 2 / 3);
    const auto source = open_frame_source(scratch.file("cut.mkv"));
    EXPECT_LT(count_frames(*source), 30);
    EXPECT_TRUE(holds(source->error(), "cut off")) << source->error();
}

TEST(FrameSource, ImagesAreRotatedByTheMetadataOfTheirFile) {
    const auto source = open_frame_source(test_video("portrait.mp4"));
    EXPECT_EQ(source->size(), cv::Size(240, 320));
    cv::Mat frame;
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(source->next(frame), FrameStatus::frame);
        const auto is = [&](int x, int y, const cv::Vec3i& bgr) {
            return cv::norm(cv::Vec3i(frame.at<cv::Vec3b>(y, x)) - bgr) < 30;
        };
        EXPECT_TRUE(is(40, 40, {0, 255, 0})) << "lime above left in frame " << i;
        EXPECT_TRUE(is(200, 40, {255, 255, 255})) << "white above right";
        EXPECT_TRUE(is(40, 280, {0, 0, 255})) << "red below left";
        EXPECT_TRUE(is(200, 280, {255, 0, 0})) << "blue below right";
    }
}

// The matrix of a track's header is (a b u; c d v; x y w), with a, b, c and d in 16.16 bits.
std::string with_matrix(std::string mp4, const std::array<int, 4>& abcd) {
    const std::size_t matrix = mp4.find("tkhd") + 4 + 40;
    const std::array<std::size_t, 4> entries{0, 1, 3, 4};
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const std::string value{static_cast<char>(abcd[i] < 0 ? -1 : 0), static_cast<char>(abcd[i]),
                                '\0', '\0'};
        mp4.replace(matrix + 4 * entries[i], 4, value);
    }
    return mp4;
}

// The stored picture has red and lime above, blue and white below.
TEST(FrameSource, ImagesAreRotatedByEachRightAngle) {
    std::ifstream in(test_video("portrait.mp4"), std::ios::binary);
    const std::string portrait((std::istreambuf_iterator<char>(in)), {});
    const ScratchFolder scratch;
    const cv::Vec3i red(0, 0, 255);
    const cv::Vec3i lime(0, 255, 0);
    const cv::Vec3i blue(255, 0, 0);
    const cv::Vec3i white(255, 255, 255);
    struct Case {
        int degrees;  // clockwise
        std::array<int, 4> matrix;
        std::array<cv::Vec3i, 4> corners;  // above left and right, below left and right
    };
    for (const auto& [degrees, matrix, corners] :
         {Case{0, {1, 0, 0, 1}, {red, lime, blue, white}},
          {90, {0, 1, -1, 0}, {blue, red, white, lime}},
          {180, {-1, 0, 0, -1}, {white, blue, lime, red}},
          {270, {0, -1, 1, 0}, {lime, white, red, blue}}}) {
        std::ofstream(scratch.file("turned.mp4"), std::ios::binary | std::ios::trunc)
            << with_matrix(portrait, matrix);
        const auto source = open_frame_source(scratch.file("turned.mp4"));
        const cv::Size size = degrees % 180 == 0 ? cv::Size(320, 240) : cv::Size(240, 320);
        ASSERT_EQ(source->size(), size) << degrees;
        cv::Mat frame;
        for (int i = 0; i < 3; ++i) {
            ASSERT_EQ(source->next(frame), FrameStatus::frame) << degrees;
            for (std::size_t corner = 0; corner < 4; ++corner) {
                const int x = corner % 2 == 0 ? 40 : size.width - 40;
                const int y = corner < 2 ? 40 : size.height - 40;
                const cv::Vec3i seen(frame.at<cv::Vec3b>(y, x));
                EXPECT_LT(cv::norm(seen - corners[corner]), 30.0)
                    << degrees << " degrees, corner " << corner << " of frame " << i;
            }
        }
    }
}

// The duration in the container is that of the audio track, not of the frames.
TEST(FrameSource, ALongerAudioTrackIsNoError) {
    for (const char* name : {"longer_audio.mkv", "longer_audio.ts"}) {
        const auto source = open_frame_source(test_video(name));
        EXPECT_EQ(source->size(), cv::Size(160, 120)) << name;
        EXPECT_EQ(count_frames(*source), 25) << name;
        EXPECT_EQ(source->error(), "") << name;
        EXPECT_EQ(source->frame_time_ns(), 24 * 40'000'000) << name;
    }
}

TEST(FrameSource, NumbersInNamesAreSortedByValue) {
    const ScratchFolder scratch;
    const std::vector<std::string> order{"0.png",    "1.png",     "02.png",  "3.png",
                                         "9.png",    "10.png",    "11.png",  "100.png",
                                         "a2b1.png", "a2b10.png", "a10.png", "b.png"};
    for (std::size_t i = 0; i < order.size(); ++i) {
        cv::imwrite(scratch.file(order[i]),
                    cv::Mat(48, 64, CV_8UC3, cv::Scalar::all(10.0 * static_cast<double>(i))));
    }
    const auto source = open_frame_source(scratch.path());
    EXPECT_FALSE(source->frame_time_ns().has_value());
    cv::Mat frame;
    for (std::size_t i = 0; i < order.size(); ++i) {
        ASSERT_EQ(source->next(frame), FrameStatus::frame);
        EXPECT_EQ(frame.at<cv::Vec3b>(5, 5)[1], 10 * i) << order[i];
    }
}

TEST(FrameSource, FolderInNameOrderIntoTheCallersMemory) {
    const ScratchFolder scratch;
    for (int i = 0; i < 3; ++i) {
        cv::imwrite(scratch.file("img_" + std::to_string(2 - i) + ".png"),
                    cv::Mat(48, 64, CV_8UC3, cv::Scalar::all(100 + 20 * (2 - i))));
    }
    std::ofstream(scratch.file("notes.txt")) << "not an image";
    FrameSourceOptions options;
    options.folder_fps = 10.0;
    const auto source = open_frame_source(scratch.path(), options);
    EXPECT_EQ(source->frame_count(), 3);
    EXPECT_EQ(source->fps(), 10.0);
    cv::Mat frame(48, 64, CV_8UC3);
    const auto* data = frame.data;
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(source->next(frame), FrameStatus::frame);
        EXPECT_EQ(frame.data, data);
        EXPECT_EQ(frame.at<cv::Vec3b>(5, 5)[1], 100 + 20 * i);
    }
    EXPECT_EQ(source->next(frame), FrameStatus::end);
}

TEST(FrameSource, BadImagesInAFolderAreReportedAndSkipped) {
    const ScratchFolder scratch;
    cv::imwrite(scratch.file("a.png"), cv::Mat(48, 64, CV_8UC3, cv::Scalar::all(9)));
    std::ofstream(scratch.file("b.png")) << "garbage";
    cv::imwrite(scratch.file("c.png"), cv::Mat(24, 64, CV_8UC3, cv::Scalar::all(9)));
    cv::imwrite(scratch.file("d.png"), cv::Mat(48, 64, CV_8UC1, cv::Scalar::all(7)));
    const auto source = open_frame_source(scratch.path());
    cv::Mat frame;
    EXPECT_EQ(source->next(frame), FrameStatus::frame);
    EXPECT_EQ(source->next(frame), FrameStatus::failed);
    EXPECT_TRUE(holds(source->error(), "b.png")) << source->error();
    EXPECT_EQ(source->next(frame), FrameStatus::failed);
    EXPECT_TRUE(holds(source->error(), "64x24")) << source->error();
    EXPECT_EQ(source->next(frame), FrameStatus::frame) << "a grey image becomes BGR";
    EXPECT_EQ(frame.at<cv::Vec3b>(1, 1), cv::Vec3b(7, 7, 7));
    EXPECT_EQ(source->next(frame), FrameStatus::end);
}

TEST(FrameSource, ErrorsNamePlaceAndRemedy) {
    const ScratchFolder scratch;
    const auto error = [](const std::string& spec) {
        return vision_error([&] { (void)open_frame_source(spec); });
    };

    EXPECT_TRUE(holds(error(scratch.file("none.mp4")), "none.mp4: no such file or folder"));
    EXPECT_TRUE(holds(error(scratch.path()), "holds no image"));
    std::ofstream(scratch.file("text.mp4")) << "this is not a video";
    EXPECT_TRUE(holds(error(scratch.file("text.mp4")), "cannot be read as a video"));
    std::ofstream(scratch.file("empty.mp4")).close();
    EXPECT_TRUE(holds(error(scratch.file("empty.mp4")), "empty.mp4"));
    EXPECT_TRUE(holds(error("synthetic:"), "number of frames"));
    EXPECT_TRUE(holds(error("synthetic:-3"), "number of frames"));
    EXPECT_TRUE(holds(error("synthetic:0"), "number of frames"));
    EXPECT_TRUE(holds(error("synthetic:12x"), "number of frames"));
    EXPECT_TRUE(holds(error(""), "no frame source given"));

    const ScratchFolder broken;
    std::ofstream(broken.file("only.jpg")) << "garbage";
    EXPECT_TRUE(holds(error(broken.path()), "only.jpg"));
}

TEST(FrameSource, MissingCameraIsReported) {
    if (std::filesystem::exists("/dev/video987")) {
        GTEST_SKIP() << "this machine has a camera 987";
    }
    EXPECT_TRUE(holds(vision_error([] { (void)open_frame_source("987"); }), "/dev/video987"));
}

}  // namespace
}  // namespace comp
